"""Many unlike steps of one kind as few: multipliers rounded to a geometric grid, down
for the upper side, up for the lower.

Less noise dominates more noise of the same kind, under any sample too, so each side
stays certified. The grid is fine enough that the two sides differ by less than a
hundredth of ε (docs/theory/numerical.md, "Many unlike steps").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from deniable.loss import GaussianNoise, LaplaceNoise, Loss, Sampled, exact

MANY = 150
"""Unlike steps up to which each is composed as it is."""


class Ratios(NamedTuple):
    """Between one multiplier of the grid and the next.

    ε moves by about as much, for Gaussian noise on a sample by twice as much.
    """

    laplace: float
    gaussian: float


FINE, ROUGH = Ratios(1.006, 1.003), Ratios(1.02, 1.02)


def coarse(steps: Mapping[Loss, int]) -> tuple[dict[Loss, int], dict[Loss, int]] | None:
    """Steps that reveal no less, and steps that reveal no more; None where there are
    few, or nothing to round."""
    if len(steps) <= MANY:
        return None
    above, below = _rounded(steps, 0, FINE), _rounded(steps, 1, FINE)
    return (above, below) if len(above) < len(steps) else None


def less_revealing(steps: Mapping[Loss, int]) -> dict[Loss, int] | None:
    """Far fewer steps that reveal no more, for a first look at what a slow method could
    come to; None where there are few."""
    if len(steps) <= MANY:
        return None
    below = _rounded(steps, 1, ROUGH)
    return below if 3 * len(below) < len(steps) else None


def _rounded(steps: Mapping[Loss, int], up: int, ratios: Ratios) -> dict[Loss, int]:
    total: dict[Loss, int] = {}
    for node, times in steps.items():
        near = _moved(node, up, ratios)
        total[near] = total.get(near, 0) + times
    return total


def _moved(node: Loss, up: int, ratios: Ratios) -> Loss:
    match node:
        case GaussianNoise(multiplier):
            return GaussianNoise(_grid(exact(multiplier), ratios.gaussian, up))
        case LaplaceNoise(multiplier):
            return LaplaceNoise(_grid(exact(multiplier), ratios.laplace, up))
        case Sampled(_, GaussianNoise() | LaplaceNoise() as of):
            return replace(node, of=_moved(of, up, ratios))
        case _:
            return node


def _grid(x: Fraction, ratio: float, up: int) -> float:
    """The grid's number at or below x, or the one above; by comparison with x itself, so
    that no rounding can cross it."""
    step = math.floor(math.log(float(x)) / math.log(ratio))
    while exact(ratio**step) > x:
        step -= 1
    while exact(ratio ** (step + 1)) <= x:
        step += 1
    return float(ratio ** (step + up))
