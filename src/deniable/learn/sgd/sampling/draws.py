"""Which rows are in a lot: by a coin each, with a cap, or by one draw for a whole pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deniable.learn.sgd.data.rows import Positions, Rows
from deniable.learn.sgd.sampling.lots import LotPlan
from deniable.mechanism import Random


@dataclass(frozen=True)
class Allocation:
    """For each row the step of the pass with this number that it falls into."""

    number: int
    steps: Positions


def draw_lot(plan: LotPlan, rows: int, rng: Random) -> Positions:
    """A Poisson sample: every row by its own coin. Of more than the cap, the first in a
    random order are kept."""
    positions = rng.poisson_sample(rows, plan.rate)
    if plan.cap is None or len(positions) <= plan.cap.most:
        return positions
    return np.sort(positions[rng.permutation(len(positions))[: plan.cap.most]])


def allocate(previous: Allocation | None, plan: LotPlan, number: int, rows: Rows, rng: Random) -> Allocation:
    """The lots of a pass, at its first step. Where noise is correlated rows stay where they are."""
    if plan.correlation is not None and previous is not None:
        return Allocation(number, previous.steps)
    return Allocation(number, rows.places(plan.pass_length, rng))


def positions_in(allocation: Allocation | None, number: int, step: int) -> Positions:
    """The rows that fall into a step of the pass `number`; none where its draws are not known any more."""
    if allocation is None or allocation.number != number:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(allocation.steps == step)
