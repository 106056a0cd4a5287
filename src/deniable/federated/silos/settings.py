"""A run over silos in a few values: how large they are, what is private, how a silo computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deniable import checks
from deniable.errors import DataError, InvalidParameter
from deniable.federated.noise.placement import Central, OnClient, Shared
from deniable.loss import Number
from deniable.units import Relation, Unit, UnitKind

SiloPlacement: TypeAlias = Central | OnClient | Shared


@dataclass(frozen=True)
class Silos:
    """What is drawn: in each of `rounds` rounds every silo takes part, and in each step of a round every row
    (or patient) of a silo is drawn by its own coin of probability `rate`.

    `sizes` declares about how many rows (or patients) each silo has, and so how many silos there are. Sums
    are divided by these numbers and silos are weighted by them. A silo's true number of rows is private: if
    it differs from the declared one, the model is worse and the guarantee is the same.
    """

    sizes: tuple[int, ...]
    rate: Number = 0.1
    rounds: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if len(self.sizes) < 2:
            raise InvalidParameter(
                f"Expected the declared sizes of at least two silos, got {len(self.sizes)}. Nothing was "
                "charged. For one table use learn.DPSGD."
            )
        for size in self.sizes:
            checks.whole("sizes", size, at_least=1)
        checks.whole("rounds", self.rounds, at_least=1)
        if not 0 < checks.number("rate", self.rate, above=0) <= 1:
            raise InvalidParameter(f"Expected rate={self.rate} in (0, 1].")

    @property
    def total(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class RowPrivacy:
    """What is private: where the noise is added, how much of it, the clip of one row (or patient), and who is
    protected.

    `unit` is `Unit.row()` or `Unit.column("patient_id", max_rows=k)`: of a patient at most k rows count in
    each silo. `most_silos` declares in how many silos a patient has rows at most. The loss is charged for
    that many.
    """

    noise: SiloPlacement = Central()
    clip: float = 1.0
    unit: Unit = checks.ROW
    most_silos: int = 1
    epsilon: Number | None = None
    delta: Number | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Central | OnClient | Shared):
            raise InvalidParameter(
                f"Expected noise=Central(…), OnClient(…) or Shared(…), got {self.noise!r}. Nothing was "
                "charged."
            )
        checks.number("clip", self.clip, above=0)
        checks.whole("most_silos", self.most_silos, at_least=1)
        unit = checks.unit(self.unit)
        if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN):
            raise InvalidParameter(
                f"Expected Unit.row() or Unit.column(…, max_rows=…), got {unit}. To protect all that a "
                "client holds, use FedAvg. Nothing was charged."
            )
        if unit.kind is UnitKind.COLUMN and unit.max_rows is None:
            raise InvalidParameter(
                f'Expected Unit.column("{unit.column_name}", max_rows=…): how many rows of one '
                f"{unit.column_name} shall count in a silo at most? Nothing was charged."
            )
        if unit.relation is not Relation.ADDED:
            raise InvalidParameter(
                f"Expected a row or a person that is added or removed, got {unit}. Nothing was charged."
            )
        if unit.kind is UnitKind.ROW and self.most_silos > 1:
            raise InvalidParameter(
                "Expected most_silos=1 with Unit.row(): a row is in one silo. If the same person is in "
                "several silos, protect the person with Unit.column(…, max_rows=…). Nothing was charged."
            )
        if getattr(self.noise, "coins", 1) != 1:
            raise InvalidParameter(
                "Expected coins=1: here the coins are those of rows, Silos(rate=…). Nothing was charged."
            )


@dataclass(frozen=True)
class LocalSteps:
    """What a silo computes in a round: one sum of clipped gradients (`steps=1`, FedSGD), or `steps` noisy
    steps of its own at `learning_rate` (FedAvg)."""

    steps: int = 1
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        checks.whole("local_steps", self.steps, at_least=1)
        checks.number("learning_rate", self.learning_rate, above=0)


@dataclass(frozen=True)
class SiloRows:
    """The rows of one silo. `ids` names the person of each row, where persons are protected; a row without an
    id (None, NaN) is left out."""

    x: Any
    y: Any
    ids: Any = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.ids is not None and len(self.ids) != len(self.x)):
            raise DataError("Expected as many labels (and ids) as rows. Nothing was charged.")


def check_silos(data: Any, count: int, unit: Unit) -> Sequence[SiloRows]:
    """Data of the kind that a run reads. Nothing of a row is looked at."""
    if not isinstance(data, Sequence) or not all(isinstance(silo, SiloRows) for silo in data):
        raise DataError("Expected a list of SiloRows(x, y, ids), one for each silo. Nothing was charged.")
    if len(data) != count:
        raise DataError(f"Expected {count} silos, as declared, got {len(data)}. Nothing was charged.")
    for silo in data:
        check_ids(silo, unit)
    return data


def check_ids(silo: SiloRows, unit: Unit) -> None:
    if unit.kind is UnitKind.COLUMN and silo.ids is None:
        raise DataError(
            f"Expected SiloRows(x, y, ids) with the {unit.column_name} of each row: persons are protected. "
            "Nothing was charged."
        )
