"""What a secret sample does to an (ε, δ) guarantee: which pairs of scheme and neighbour
relation are covered, exactly.

With q the rate, for a mechanism that is (ε, δ)-private on the sample:

| scheme              | neighbours | `of` is stated for | ε′                               | δ′             |
|---------------------|------------|--------------------|----------------------------------|----------------|
| Poisson             | add/remove | add/remove         | ln(1 + q(e^ε − 1))               | qδ             |
| without replacement | replace    | replace            | ln(1 + q(e^ε − 1))               | qδ             |
| without replacement | add/remove | replace            | ln(1 + q(e^ε − 1))               | qδ             |
| Poisson             | replace    | add/remove         | ln R, R = (1−q+qe^ε)/(1−q+qe^−ε) | qδ(1 + R·e^−ε) |
| shuffled batches    | any        |                    | refused                          |                |

Rows 1–2: Balle, Barthe, Gaboardi 2018, Theorems 8 and 9. Row 3: the sample of D + x holds
x with probability q and is then a sample of D with one record replaced; for that coupling
P′ = (1−q)A + qB against A is row 1. Row 4: with A, B, C the answers without the record,
with the old and with the new one, B ≤ e^ε·A + δ and A ≤ e^ε·C + δ on every event, hence
(1−q)A + qB ≤ (1−q+qe^ε)·A + qδ and (1−q)A + qC ≥ (1−q+qe^−ε)·A − qe^−ε·δ; eliminate A.

First-order amplification q·ε is no valid bound: ln(1 + q(e^ε − 1)) > qε for every ε > 0, q < 1.
"""

from __future__ import annotations

from fractions import Fraction

from deniable.accounting.rounding import exp_wide, log_ratio_up, shorten_up
from deniable.errors import Unaccountable
from deniable.loss import (
    POISSON,
    SHUFFLED,
    Loss,
    Sampled,
    exact,
)

LARGE = 10_000
"""Beyond this ε (where e^ε has thousands of digits) the sample is not credited for anything."""


def amplify_pair(loss: Sampled, epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """(ε′, δ′) of `loss`, given that `loss.of` is (epsilon, delta)-private; both rounded up."""
    refuse_shuffled(loss)
    rate, twice = exact(loss.rate), loss.scheme is POISSON and loss.replace
    if epsilon > LARGE:
        if twice:
            return (2 * epsilon, Fraction(delta > 0))
        return (epsilon, delta)
    grown = 1 + rate * (exp_wide(epsilon) - 1)
    if not twice:
        return log_ratio_up(grown), rate * delta
    shrunk = 1 - rate + rate / exp_wide(epsilon)
    ratio = grown / shrunk
    return log_ratio_up(ratio), shorten_up(rate * delta * (1 + ratio / exp_wide(epsilon)))


def has_sample(loss: Loss) -> bool:
    """Whether any part of `loss` runs on a sample."""
    return any(isinstance(part, Sampled) for part in loss.walk())


def refuse_shuffled(loss: Loss) -> None:
    """Batches of a shuffled pass are no independent samples, and no bound is known that
    credits them as such."""
    for part in loss.walk():
        if isinstance(part, Sampled) and part.scheme is SHUFFLED:
            raise Unaccountable(shuffled_refusal(part))


def shuffled_refusal(loss: Sampled) -> str:
    """Why a pass of shuffled batches has no bound of its own, and what to state instead."""
    return (
        "No amplification is known for shuffled batches: they are not Poisson samples, and never accounted "
        f"as Poisson samples ({loss}). Nothing was computed. Replacing one unit changes one batch of a pass, "
        "so a pass costs its mechanism, stated for a replaced record, once: write Repeated(epochs, of). Or "
        "draw Poisson samples."
    )
