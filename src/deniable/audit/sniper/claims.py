"""What is claimed, as an ε at each δ that is compared, and the neighbours that it is compared on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deniable import accounting
from deniable.audit.runs.pairs import Pair, default_pairs
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import Approximate, Loss, Pure
from deniable.units import Unit

Claim = Loss | Budget | float | tuple[float, float]

DELTAS = (0.0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.5)
"""Where the curve of a claimed loss is compared."""


@dataclass(frozen=True)
class ClaimLimit:
    """The claim at one δ: no more than this ε."""

    delta: float
    epsilon: float


def limits_of(claim: Claim | None) -> list[ClaimLimit]:
    """The points at which a claim is compared. A loss claims its whole curve."""
    match claim:
        case None:
            raise InvalidParameter("Expected a claim to audit: an ε, (ε, δ), a Budget or a Loss.")
        case Pure(epsilon):
            return [ClaimLimit(0.0, float(epsilon))]
        case Approximate(epsilon, delta) | Budget(epsilon, delta):
            return [ClaimLimit(float(delta), float(epsilon))]
        case Loss():
            return list(_curve_of(claim))
        case tuple():
            return limits_of(Budget(*map(float, claim)))
        case _:
            return limits_of(Budget(float(claim)))


def _curve_of(loss: Loss) -> Iterable[ClaimLimit]:
    for delta in DELTAS:
        try:
            epsilon = accounting.epsilon(loss, delta).upper
        except Unaccountable:
            if delta == DELTAS[-1]:
                raise
            continue
        if math.isfinite(epsilon):
            yield ClaimLimit(delta, epsilon)


def pairs_of(pair: Pair | tuple[Any, Any] | Sequence[Pair] | None, unit: Unit | None) -> list[Pair]:
    """The neighbours to run on: those given, or patterns for the unit. With a unit, all are checked."""
    if pair is None:
        if unit is None:
            raise InvalidParameter(
                "Expected a pair of neighbours, or a unit to search pairs for. Nothing was run."
            )
        return default_pairs(unit)
    pairs = _list_pairs(pair)
    if not pairs:
        raise InvalidParameter("Expected at least one pair of neighbours. Nothing was run.")
    if unit is None:
        return pairs
    return [each.check(unit) for each in pairs]


def _list_pairs(pair: Pair | tuple[Any, Any] | Sequence[Pair]) -> list[Pair]:
    if isinstance(pair, Pair):
        return [pair]
    if len(pair) == 2 and not all(isinstance(each, Pair) for each in pair):
        return [Pair(pair[0], pair[1])]
    return [each for each in pair if isinstance(each, Pair)]
