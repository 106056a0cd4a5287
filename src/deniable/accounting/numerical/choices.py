"""How closely many unlike choices of bounded range are looked at, each of which takes its seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from deniable.accounting.numerical import leaves
from deniable.accounting.numerical.classes import MANY
from deniable.accounting.numerical.pairs import bounded_range, finite
from deniable.loss import BoundedRange, Loss

FEW, FAR = 2, 5.0
"""Mechanisms looked at for many unlike choices, and how many deviations from the mean they are compared
at."""
MOST_WORK = 150_000
"""Cells of all recursions for many unlike choices: some seconds."""


@dataclass(frozen=True)
class ChoicePlan:
    """How closely choices are looked at: which mechanisms below (`shares`), and above how fine a lattice
    their recursion has (`parts`; 0: as it likes; None: there is no recursion, each choice is dominated by
    itself)."""

    shares: Sequence[float] = leaves.SHARES
    parts: int | None = 0


CLOSEST = ChoicePlan()


def plan_choices(nodes: Mapping[Loss, int]) -> ChoicePlan:
    """Of many unlike choices the few mechanisms that seem to reveal most, by mean and deviation of all
    losses: each composition takes its seconds, and any is valid. A rougher lattice is valid too, and so is
    none."""
    choices = [(float(node.epsilon), times) for node, times in nodes.items() if is_choice(node)]
    if len(nodes) <= MANY:
        return CLOSEST

    def rank(share: float) -> float:
        mean = variance = 0.0
        for epsilon, times in choices:
            losses, p, _ = finite.choice(epsilon, share).atoms
            single = float(losses @ p)
            mean, variance = mean + times * single, variance + times * float((losses - single) ** 2 @ p)
        return mean + FAR * math.sqrt(variance)

    work = sum(bounded_range.block_work(times) for _, times in choices if times > 1)
    parts = bounded_range.PARTS if work <= MOST_WORK else None
    return ChoicePlan(sorted(leaves.SHARES, key=rank)[-FEW:], parts)


def is_choice(node: Loss) -> TypeGuard[BoundedRange]:
    return isinstance(node, BoundedRange) and node.epsilon > 0
