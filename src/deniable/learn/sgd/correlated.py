"""Noise that is correlated over steps, made as it is needed: row t of C⁻¹·Z for a banded C.

The rows of the last steps stay in memory and are never saved: with them the noise could be taken off what was
released. A run that is taken up after a kill therefore begins with fresh noise, as if C were two blocks. That
costs nothing more: coefficients are not negative, so every inner product of columns is as large in C as in
the blocks (docs/theory/matrices.md).
"""

from __future__ import annotations

from collections import deque

from torch import Tensor

from deniable.learn.sgd.noise import gaussians
from deniable.mechanism import Random


class CorrelatedNoise:
    """The noise of one run. Each group of parameters has rows of its own, all of one size and deviation, and
    so has what counts usable rows, which is no group."""

    def __init__(self, coefficients: tuple[float, ...]) -> None:
        first, *self._later = coefficients
        assert first == 1, "fresh noise then has the deviation that the loss states"
        self._rows: dict[str | None, deque[Tensor]] = {}

    def draw(self, group: str | None, size: int, deviation: float, rng: Random) -> Tensor:
        """The next row: fresh noise less what earlier rows have put in already."""
        rows = self._rows.setdefault(group, deque(maxlen=len(self._later)))
        row = gaussians(rng, size).mul_(deviation)
        for coefficient, earlier in zip(self._later, reversed(rows), strict=False):
            row.sub_(earlier, alpha=coefficient)
        rows.append(row)
        return row

    def noisy_mean(self, group: str, total: Tensor, deviation: float, lot: float, rng: Random) -> Tensor:
        """(total + noise)/lot in the memory of `total`, added in double precision and rounded once."""
        wide = self.draw(group, len(total), deviation, rng) + total
        return total.copy_(wide).div_(lot)
