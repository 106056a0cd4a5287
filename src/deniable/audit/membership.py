"""From the scores of a membership attack on one model to a certified ε, in one call."""

from __future__ import annotations

from typing import Any

from deniable.audit.finding import Finding
from deniable.audit.one_run import Family, one_run
from deniable.audit.sniper.claims import Claim


def membership(
    scores: Any,
    members: Any,
    claim: Claim,
    *,
    family: Family = "distribution-free",
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "membership attack",
    confirms: Finding | None = None,
) -> Finding:
    """Certify an ε from what an attack says about each candidate of one training run,
    and whether it was a member.

    `scores` are larger where a row seems to be in (a loss has its sign turned round), `members` says which
    were. Every candidate must have been put in or left out by a fair coin of its own before training: members
    and non-members that were split any other way (by time, by source) differ without the model, and prove
    nothing. Coins that cannot have been fair are refused.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> inside = rng.random(4000) < 0.5
    >>> finding = membership(rng.normal(3.0 * inside), inside, (1.0, 1e-5))
    >>> finding.verdict.value, finding.epsilon > 2
    ('violation', True)
    """
    return one_run(
        scores, members, claim, family=family, confidence=confidence, seed=seed, name=name, confirms=confirms
    )
