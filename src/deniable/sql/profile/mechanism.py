"""What all parts of a profile are: one statement over the rows of a table, one histogram, one noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import checks
from deniable.loss import Loss
from deniable.mechanism import Error, Random
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.noise import IntegerSensitivity, Noise, laplace
from deniable.sql.profile.histogram import NoisyCells, release
from deniable.sql.tree import Query, Relation
from deniable.sql.write.contributions import TOTAL, Limit
from deniable.sql.write.statements import Writer
from deniable.units import Unit, UnitKind


@dataclass(frozen=True)
class ProfileMechanism(ABC):
    """A histogram over the rows of one table, for the unit `unit`, with Laplace noise of `epsilon` in all.

    Guarantee: `epsilon`-DP for `unit`: one unit moves the cells by at most `sensitivity` in L1, whatever its
               rows are (docs/theory/curator.md, "The profile").
    Assumes:   the engine computes the statement exactly; fewer than 2^40 rows.
    Error:     each cell by itself is off by the noise.
    """

    relation: Relation
    unit: Unit
    epsilon: Fraction

    @property
    @abstractmethod
    def sensitivity(self) -> IntegerSensitivity:
        """How far one unit moves all cells together."""

    @property
    @abstractmethod
    def cells(self) -> Sequence[int]:
        """The labels of all cells, in order: public, whatever the data."""

    @abstractmethod
    def statement(self, dialect: Dialect) -> Statement:
        """The label of each cell that has rows, and the integer in it."""

    @property
    def noise(self) -> Noise:
        return laplace(self.sensitivity, self.epsilon)

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def error(self, confidence: float = 0.95) -> Error | None:
        """Of one cell."""
        return Error(float(self.noise.within(float(checks.failure(confidence)))), float(confidence))

    def fits(self, data: object) -> None:
        """Raise before the charge where the run could not begin."""
        if isinstance(data, Engine):
            data.check_process()

    def measure(self, engine: Engine) -> dict[int, int]:
        """The cells before noise. It is private data: only a release and an audit call this."""
        return read_cells(engine.run(self.statement(engine.dialect)))

    def __call__(self, data: Engine, *, rng: Random) -> Any:
        return self.read(release(self.cells, self.measure(data), self.noise, rng))

    @abstractmethod
    def read(self, cells: NoisyCells) -> Any:
        """What the released numbers say."""

    @property
    def limit(self) -> Limit:
        """A person's rows weigh TOTAL together, each of n rows ⌊TOTAL/n⌋; a row that is a unit weighs 1."""
        if self.unit.kind is UnitKind.ROW:
            return Limit(False)
        return Limit(True, 1, 1, TOTAL)

    def writer(self, dialect: Dialect) -> Writer:
        return Writer(Query(self.relation, (), (), (), ((),)), self.limit, dialect)


def one_cell(unit: Unit) -> IntegerSensitivity:
    """A unit is in one cell: coming or going moves one number by one, being replaced two numbers."""
    if unit.replace:
        return IntegerSensitivity(2, 2)
    return IntegerSensitivity(1, 1)
