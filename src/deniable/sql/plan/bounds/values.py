"""Bounds of values found privately, from a small part of ε, where the owner declared none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.sql.engines import Statement
from deniable.sql.plan.noise import Noise
from deniable.sql.write.statements import Valued, Writer

SHARE = Fraction(1, 20)
"""The part of ε that each private choice of bounds takes."""
EXPONENTS = range(-20, 62)
"""Powers of two between which bounds of values are looked for."""
_MISTAKE = 0.001
_NEXT_MISTAKE = 0.01
_LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class ValueBounds:
    """Powers of two around the values of a measure: the outermost cells of a noisy histogram of units that
    stand out of the noise, and those next to them that nearly do.

    Guarantee: that of `noise`, on the weights in the cells: those of a unit are non-negative and sum to at
               most `Limit.total`, whether it has few rows or many.
    Assumes:   what `noise` assumes.
    Error:     a cell of fewer units than twice the threshold may be missed, and its values are clamped; with
               probability 0.999 no empty cell is taken but one next to the others, in 1 of 100 runs.
    Reference: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, §5.1 (arXiv 1909.01917).
    """

    measure: Valued
    noise: Noise

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def concerns(self, measure: Valued) -> bool:
        """Whether these are the bounds of its values too."""
        return (measure.of, measure.where) == (self.measure.of, self.measure.where)

    def statement(self, writer: Writer) -> Statement:
        """Signed powers of two (0 for 0, ±(1 + position in EXPONENTS)) and the weight of the values there."""
        source, weight = writer.by_units([self.measure])
        value = writer.dialect.as_double(writer.value(self.measure, [self.measure]))
        power = f"FLOOR(LN(ABS({value})) * {writer.number(_LOG2_E)})"
        size = f"LEAST(GREATEST({power}, {EXPONENTS[0]}), {EXPONENTS[-1]})"
        place = f"CAST({size} AS BIGINT) + {1 - EXPONENTS[0]}"
        label = f"CASE WHEN {value} > 0 THEN {place} WHEN {value} < 0 THEN -({place}) ELSE 0 END"
        return writer.histogram((), label, self.measure, source, weight)

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> tuple[Fraction, Fraction]:
        cells = range(-len(EXPONENTS), len(EXPONENTS) + 1)
        noises = zip(cells, self.noise.draw(len(cells), rng), strict=True)
        noisy = {cell: weights.get(cell, 0) + noise for cell, noise in noises}
        threshold = self.noise.within(_MISTAKE / len(cells))
        heavy = [cell for cell, weight in noisy.items() if weight > threshold]
        if not heavy:
            return Fraction(-1), Fraction(1)
        # One cell more doubles the noise of a sum; not taking it cuts each of its values by a third or more.
        # So what stands next to others need not be as sure as what stands alone.
        near = self.noise.within(_NEXT_MISTAKE)
        first, last = heavy[0], heavy[-1]
        while noisy.get(first - 1, 0) > near:
            first -= 1
        while noisy.get(last + 1, 0) > near:
            last += 1
        return _edges(first)[0], _edges(last)[1]


def _edges(cell: int) -> tuple[Fraction, Fraction]:
    """Cell 0 holds 0; cell c > 0 holds [2^e, 2^(e + 1)), e = EXPONENTS[c − 1], the first of them all below; c
    < 0 mirrors."""
    if cell < 0:
        low, high = _edges(-cell)
        return -high, -low
    if cell == 0:
        return Fraction(0), Fraction(0)
    exponent = EXPONENTS[cell - 1]
    return (Fraction(0) if cell == 1 else Fraction(2) ** exponent), Fraction(2) ** (exponent + 1)
