"""Bounds and contribution bounds found privately, from a small part of ε, where the owner declared none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.sql.engines import Statement
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Rank
from deniable.sql.write.contributions import TOTAL, Limit
from deniable.sql.write.statements import Valued, Writer

SHARE = Fraction(1, 20)
"""The part of ε that each private choice of a bound takes."""
LEVEL = Fraction(19, 20)
"""Units with more rows than this share of all units count less than in full."""
ROW_CLASSES = 9
"""Units with up to 1, 2, 4, …, 128 and with more rows."""
MOST_ROWS = 1 << (ROW_CLASSES - 1)
"""The largest contribution bound that may be chosen."""
EXPONENTS = range(-20, 62)
"""Powers of two between which bounds of values are looked for."""
_MISTAKE = 0.001
_LOG2_E = 1.4426950408889634


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

    def statement(self, writer: Writer) -> Statement:
        """Classes of rows per unit, and the number of units in each."""
        rows = f"({writer.strictly(writer.rows([]))}) AS {writer.quoted('_r')}"
        size, label = writer.quoted("_n"), writer.quoted("_class")
        sizes = f"SELECT COUNT(*) AS {size} FROM {rows} GROUP BY {writer.quoted('_unit')}"
        steps = " ".join(f"WHEN {size} <= {1 << i} THEN {i}" for i in range(ROW_CLASSES - 1))
        classes = f"SELECT CASE {steps} ELSE {ROW_CLASSES - 1} END AS {label} FROM ({sizes}) AS {writer.quoted('_s')}"
        return Statement(
            (), f"SELECT {label}, COUNT(*) FROM ({classes}) AS {writer.quoted('_c')} GROUP BY {label}"
        )

    def limit(self, before: Limit, rows: int) -> Limit:
        """What counts of a unit where `rows` was chosen: its rows weigh TOTAL together whatever that is, so
        the loss does not depend on the choice."""
        return replace(before, rows=rows, one=TOTAL // rows)

    def __call__(self, units: Mapping[int, int], *, rng: Random) -> int:
        return 1 << self._rank(units, rng=rng)


@dataclass(frozen=True)
class ValueBounds:
    """Powers of two around the values of a measure: the outermost cells of a noisy histogram that stand out
    of the noise.

    Guarantee: that of `noise`, on the weights in the cells: a unit's weights are non-negative and sum to at
    most the limit.
    Assumes:   what `noise` assumes.
    Error:     a cell whose weight is below twice the threshold may be missed, and its values are clamped;
               with probability 0.999 no empty cell is taken.
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
        source, weight = writer.weighted((), [self.measure])
        value = writer.dialect.as_double(writer.value(self.measure, [self.measure]))
        power = f"FLOOR(LN(ABS({value})) * {writer.number(_LOG2_E)})"
        size = f"LEAST(GREATEST({power}, {EXPONENTS[0]}), {EXPONENTS[-1]})"
        place = f"CAST({size} AS BIGINT) + {1 - EXPONENTS[0]}"
        label = f"CASE WHEN {value} > 0 THEN {place} WHEN {value} < 0 THEN -({place}) ELSE 0 END"
        return writer.histogram((), label, self.measure, source, weight)

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> tuple[Fraction, Fraction]:
        cells = range(-len(EXPONENTS), len(EXPONENTS) + 1)
        threshold = self.noise.within(_MISTAKE / len(cells))
        noisy = zip(cells, self.noise.draw(len(cells), rng), strict=True)
        heavy = [cell for cell, noise in noisy if weights.get(cell, 0) + noise > threshold]
        if not heavy:
            return Fraction(-1), Fraction(1)
        return _edges(heavy[0])[0], _edges(heavy[-1])[1]


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
