"""Bounds and contribution bounds found privately, from a small part of ε, where the owner declared none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.statistics import Part
from deniable.sql.write.statements import EXPONENTS, ROW_CLASSES

SHARE = Fraction(1, 20)
"""The part of ε that each private choice of a bound takes."""
LEVEL = Fraction(19, 20)
"""Units with more rows than this share of all units count less than in full."""
MOST_ROWS = 1 << (ROW_CLASSES - 1)
_MISTAKE = 0.001


@dataclass(frozen=True)
class RowBound:
    """A contribution bound of 1, 2, 4, …, 256 rows: about the LEVEL quantile of rows per unit.

    Guarantee: a choice of range ε: each unit lies in one class (two where it is replaced by another).
    Assumes:   nothing.
    Error:     see `quantiles.Rank`. A bad choice costs accuracy, never privacy.
    """

    epsilon: Fraction
    replace: bool = False

    @property
    def _rank(self) -> Rank:
        return Rank(LEVEL, self.epsilon, 1, ROW_CLASSES, self.replace)

    @property
    def loss(self) -> Loss:
        return self._rank.loss

    def __call__(self, units: Mapping[int, int], *, rng: Random) -> int:
        return 1 << self._rank(units, rng=rng)


@dataclass(frozen=True)
class ValueBounds:
    """Powers of two around the values of `part`: the outermost cells of a noisy histogram that stand out of the noise.

    Guarantee: that of `noise`, on the weights in the cells: a unit's weights are non-negative and sum to at most the limit.
    Assumes:   what `noise` assumes.
    Error:     a cell whose weight is below twice the threshold may be missed, and its values are clamped; with probability
               0.999 no empty cell is taken.
    Reference: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, §5.1 (arXiv 1909.01917).
    """

    part: Part
    noise: Noise

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> tuple[Fraction, Fraction]:
        cells = range(-len(EXPONENTS), len(EXPONENTS) + 1)
        threshold = self.noise.within(_MISTAKE / len(cells))
        noisy = zip(cells, self.noise.draw(len(cells), rng), strict=True)
        found = [cell for cell, noise in noisy if weights.get(cell, 0) + noise > threshold]
        if not found:
            return Fraction(-1), Fraction(1)
        return _edges(found[0])[0], _edges(found[-1])[1]


def _edges(cell: int) -> tuple[Fraction, Fraction]:
    """Cell 0 holds 0; cell c > 0 holds [2^e, 2^(e + 1)), e = EXPONENTS[c − 1], the first of them all below; c < 0 mirrors."""
    if cell < 0:
        low, high = _edges(-cell)
        return -high, -low
    if cell == 0:
        return Fraction(0), Fraction(0)
    exponent = EXPONENTS[cell - 1]
    return (Fraction(0) if cell == 1 else Fraction(2) ** exponent), Fraction(2) ** (exponent + 1)
