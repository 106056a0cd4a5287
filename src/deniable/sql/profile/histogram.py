"""A histogram with integer Laplace noise in every cell, and how a released one is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.loss import exact
from deniable.mechanism import Random
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise

ALONE = 1e-3
"""How often noise alone makes any of the cells that stand by themselves look as if somebody were there."""
BESIDE = 2.5
"""A cell beside one where somebody is seen stands out from so many times the scale of the noise: noise does
that in 1 of 24 cells."""
BESIDE_A_GAP = 4.0
"""The same where the cell between the two does not stand out: 1 of 109."""


@dataclass(frozen=True)
class NoisyCells:
    """Released numbers of the cells of a histogram, in order, with the noise that each of them has."""

    sizes: tuple[int, ...]
    noise: Noise

    @property
    def scale(self) -> float:
        return float(Fraction(self.noise.scale))

    def last_seen(self) -> int | None:
        """The last cell that stands out of the noise; None where none does."""
        alone = self.noise.within(2 * ALONE / len(self.sizes))
        last: int | None = None
        for i, size in enumerate(self.sizes):
            if size > self._threshold(i, last, alone):
                last = i
        return last

    def _threshold(self, cell: int, seen: int | None, alone: int) -> float:
        """A cell far from any that was seen must be as large as no noise is among all cells together."""
        if seen is None or cell - seen > 2:
            return alone
        return self.scale * (BESIDE if cell - seen == 1 else BESIDE_A_GAP)

    def most_in(self, cells: range, beta: float) -> float:
        """What all these cells hold together is at most this, but with probability `beta`."""
        total = sum(self.sizes[i] for i in cells)
        return max(0.0, total + sum_reach(self.scale, len(cells), beta))

    def to_dict(self) -> dict[str, Any]:
        sensitivity = self.noise.sensitivity
        return {
            "sizes": list(self.sizes),
            "family": self.noise.family.value,
            "scale": str(exact(self.noise.scale)),
            "sensitivity": [sensitivity.l1, sensitivity.l2_squared],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> NoisyCells:
        sensitivity = IntegerSensitivity(*content["sensitivity"])
        noise = Noise(Family(content["family"]), Fraction(content["scale"]), sensitivity)
        return cls(tuple(content["sizes"]), noise)


def sum_reach(scale: float, many: int, beta: float) -> float:
    """A t that the sum of so many integer Laplace noises is below with probability 1 − beta at least: of
    Chernoff's bounds (many·ln M(λ) + ln 1/β)/λ the least of a list. M is the noise's moment generating
    function, (1 − q)²/((1 − q·e^λ)(1 − q·e^−λ)) with q = e^(−1/scale)."""
    if not many:
        return 0.0
    q = math.exp(-1 / scale)
    reaches = []
    for part in range(1, 100):
        rate = part / (100 * scale)
        moment = (1 - q) ** 2 / ((1 - q * math.exp(rate)) * (1 - q * math.exp(-rate)))
        reaches.append((many * math.log(moment) - math.log(beta)) / rate)
    return min(reaches)


def release(cells: Sequence[int], counts: Mapping[int, int], noise: Noise, rng: Random) -> NoisyCells:
    """The counts of all `cells` in their order, each with its own noise; an empty cell has noise too."""
    noises = noise.draw(len(cells), rng)
    return NoisyCells(tuple(counts.get(c, 0) + n for c, n in zip(cells, noises, strict=True)), noise)
