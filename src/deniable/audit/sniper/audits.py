"""`audit`, and `replay` of what it found."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deniable.audit.finding import Finding, Witness
from deniable.audit.rules.classify import OutputView, model_from_dict
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.independence import LOOKED_AT
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import Source
from deniable.audit.runs.target import Called, as_target
from deniable.audit.sniper.attack import Attack
from deniable.audit.sniper.campaign import Campaign, Progress
from deniable.audit.sniper.certificate import COUPLED, certify
from deniable.audit.sniper.claims import Claim, ClaimLimit, limits_of, pairs_of
from deniable.audit.sniper.repetition import confirmed, refused
from deniable.audit.sniper.search import search
from deniable.errors import InvalidParameter
from deniable.units import Unit

MOST_SAMPLES = 84_000_000
LEAST_SAMPLES = 250
REPLAY_PHASE = 9000
"""A stream of random numbers of its own."""


def audit(
    target: Any,
    pair: Pair | tuple[Any, Any] | Sequence[Pair] | None = None,
    claim: Claim | None = None,
    *,
    time: float = 60.0,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    unit: Unit | None = None,
    name: str | None = None,
    workers: int | None = None,
    coupled: bool | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Try to refute a claimed guarantee from the outside.

    `target` is a `Mechanism`, a batch sampler or any callable on a data set; `pair` one pair of
    neighbours, several, or None to search; `claim` an ε, (ε, δ), a `Budget` or a `Loss`, by
    default the mechanism's own. With `unit`, pairs that are not neighbours are refused. About
    `time` seconds are spent, or `samples` runs. The finding reproduces from `seed`, for targets
    that take their randomness from outside. `coupled` runs both neighbours on the same random
    numbers (only for claims without δ): by default where that needs no assumption (a callable that
    takes `seed`) or the target's attribute `coupled` says that a batch serves each row alike.
    """
    start = clock.monotonic()
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    # A mechanism takes an answer of known sensitivity, not the data that its unit speaks of: only samplers
    # check by themselves.
    own = getattr(target, "unit", None)
    pairs = pairs_of(pair, unit or (own if pair is None or hasattr(target, "draw") else None))
    limits = limits_of(claim if claim is not None else getattr(target, "loss", None))
    subject = as_target(target, name)
    couples = _couples(target, subject) if coupled is None else coupled
    couples = couples and not any(limit.delta for limit in limits)
    with Source(subject, seed, workers, coupled=couples) as source:
        total = samples or source.affordable(pairs[0], time, MOST_SAMPLES)
        if total < LEAST_SAMPLES:
            raise InvalidParameter(
                f"Expected samples={total} to be at least {LEAST_SAMPLES}. Nothing was certified."
            )
        source.chunk = min(source.chunk, max(20, total // 8))
        campaign = Campaign(source, limits, 1 - confidence, total, progress or _silent)
        finding = _found(campaign, search(campaign, pairs))
    return replace(finding, seconds=clock.monotonic() - start)


def replay(finding: Finding, target: Any, *, seed: int | None = None, workers: int | None = None) -> Finding:
    """Run the decisive part of a finding again: the same pair, attack set and number of
    samples, nothing learnt or chosen.

    With the seed of the finding (the default) a target that takes its randomness from outside gives the same
    counts. With another one this is an independent confirmation.
    """
    witness, start = finding.witness, clock.monotonic()
    if witness is None or not witness.model:
        raise InvalidParameter(
            f'The finding on "{finding.target}" has no attack to run again (method: {finding.method}). One '
            "from scores is computed again from the same scores."
        )
    subject = as_target(target, finding.target)
    if isinstance(subject, Called) and witness.columns is not None:
        subject.columns[:] = witness.columns
    is_coupled = finding.method == COUPLED
    attack = _witnessed(witness, finding.delta, is_coupled)
    limit = ClaimLimit(finding.delta, float(finding.claim.epsilon))
    replay_seed = witness.seed if seed is None else seed
    with Source(subject, replay_seed, workers, chunk=witness.chunk, coupled=is_coupled) as source:
        campaign = Campaign(source, [limit], 1 - finding.confidence, witness.trials, _silent)
        looked_at = min(2 * LOOKED_AT, max(40, witness.trials // 4))
        campaign.choosing[attack.pair.name] = source.record(attack.pair, looked_at, REPLAY_PHASE)
        again = _found(campaign, attack, chunks=witness.chunks)
    return replace(again, seconds=clock.monotonic() - start, options=finding.options)


def _found(campaign: Campaign, attack: Attack, chunks: int | None = None) -> Finding:
    return refused(campaign, attack) or confirmed(campaign, attack, certify(campaign, attack, chunks))


def _witnessed(witness: Witness, delta: float, is_coupled: bool) -> Attack:
    pair = Pair(_input(witness.first), _input(witness.second), witness.pair)
    model, rule = model_from_dict(witness.model), Rule(witness.high, witness.low)
    return Attack(pair, OutputView(witness.view), model, rule, delta, 0.0, witness.cuts, is_coupled)


def _couples(target: Any, subject: Any) -> bool:
    """Whether both neighbours can be run on the same random numbers: each call has a
    seed, or the target says so."""
    return bool(getattr(target, "coupled", False)) or (isinstance(subject, Called) and subject.seeded)


def _input(value: Any) -> Any:
    """What JSON made of an input: a list of numbers was an array or a list of rows, and serves as either."""
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return np.array(value)
    return value


def _silent(share: float, text: str) -> None:
    """Progress that nobody watches."""
