"""δ(ε) on many points: a few compositions, each good around its own ε; every point takes the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deniable.accounting.numerical.lattice.bracket import Steering, curves, plan
from deniable.accounting.numerical.lattice.search import (
    GOAL_DELTA,
    CaseSide,
    TermCase,
    attempt,
    directions,
    read_delta,
    start_delta,
)
from deniable.accounting.numerical.rounding import Array

COMPOSITIONS = 16


def profile_bounds(
    cases: Sequence[TermCase], epsilons: Array, count: int = COMPOSITIONS
) -> tuple[Array, Array]:
    """Lower and upper bounds on δ at each ε: the largest over all cases and directions."""
    lower, upper = np.zeros(len(epsilons)), np.zeros(len(epsilons))
    if not len(epsilons):
        return lower, upper
    for direction in directions(cases, 1.0):
        sides = attempt(direction, lambda side: _sweep(side, epsilons, count))
        if sides is None:
            continue
        if direction.is_upper:
            upper = np.maximum(upper, [side.upper for side in sides])
        if direction.is_lower:
            lower = np.maximum(lower, [side.lower for side in sides])
    # Both sides are proved, so rounding alone can cross them.
    return np.minimum(lower, upper), upper


def _sweep(direction: CaseSide, epsilons: Array, count: int) -> list[CaseSide]:
    """One composition for each of `count` centres, read at the points between the neighbouring centres."""
    sides = [replace(direction, upper=1.0) for _ in epsilons]
    centres = np.unique(np.quantile(epsilons, np.linspace(0, 1, count)))
    for i, centre in enumerate(centres):
        state = Steering(1.0, float(centre))
        probe = replace(direction, state=state)
        # There is no second look, so tail and window are those of a second pass at once.
        state.passes = 2
        low, high = centres[max(i - 1, 0)], centres[min(i + 1, len(centres) - 1)]
        # Each composition bounds δ at every ε: a point takes the best of those around it.
        near = [k for k, epsilon in enumerate(epsilons) if low <= epsilon <= high]
        if start_delta(probe, float(centre)):
            for k in near:
                _alone(sides[k], float(epsilons[k]))
            continue
        above, below = curves(
            probe.terms, plan(probe.terms, state, 0.5 * GOAL_DELTA / (state.theta or 1.0), 0.0)
        )
        for k in near:
            read_delta(sides[k], above, below, float(epsilons[k]))
    return sides


def _alone(side: CaseSide, epsilon: float) -> None:
    """A point near a centre that needed no composition: where it needs none either, its value is exact."""
    probe = replace(side, state=Steering(1.0, epsilon))
    if start_delta(probe, epsilon):
        side.lower, side.upper = max(side.lower, probe.lower), min(side.upper, probe.upper)
