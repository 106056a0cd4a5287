"""From rows to people: group privacy with a bound that is enforced, not declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from deniable.errors import InvalidParameter, UnitMismatch
from deniable.loss import Grouped, Loss
from deniable.mechanism import Error, Mechanism, Random
from deniable.units import Unit, UnitKind

if TYPE_CHECKING:
    import pyarrow as pa

Value = TypeVar("Value")


@dataclass(frozen=True)
class Bounded(Generic[Value]):
    """A mechanism of rows, run on at most `unit.max_rows` rows of each person: a mechanism of people.

    Guarantee: `Grouped(max_rows, loss)` for `unit`. Which of a person's rows are kept (the first, in the
               order of the table) depends on that person's rows alone, so adding or removing a person adds or
               removes at most `max_rows` rows.
    Assumes:   data is an Arrow table with the unit's column; rows without a value there are one person.
    Error:     that of the mechanism on the rows kept; what was left out is not in it.
    Reference: Vadhan 2017, Lemma 2.2 (group privacy); Wilson et al. 2020 (bounding contributions).
    """

    mechanism: Mechanism[Value]
    unit: Unit

    def __post_init__(self) -> None:
        if self.unit.kind is not UnitKind.COLUMN or self.unit.max_rows is None or self.unit.replace:
            raise InvalidParameter(
                "Expected a unit like Unit.column('patient_id', max_rows=4), added or removed; got "
                f"{self.unit}."
            )
        if self.mechanism.unit != Unit.row():
            raise UnitMismatch(f"Expected a mechanism for {Unit.row()}, got one for {self.mechanism.unit}.")

    @property
    def loss(self) -> Loss:
        return Grouped(self.unit.max_rows or 1, self.mechanism.loss)

    def error(self, confidence: float = 0.95) -> Error | None:
        return self.mechanism.error(confidence)

    def __call__(self, data: pa.Table, *, rng: Random) -> Value:
        return self.mechanism(_first_rows(data, str(self.unit.column_name), self.unit.max_rows or 1), rng=rng)


def _first_rows(table: pa.Table, column: str, limit: int) -> Any:
    """The first `limit` rows of each value of `column`, in the order of the table."""
    codes = table.column(column).combine_chunks().dictionary_encode(null_encoding="encode")
    people = codes.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(people, kind="stable")
    place = np.arange(len(people))
    begins = (
        np.concatenate(([True], people[order][1:] != people[order][:-1]))
        if len(people)
        else np.zeros(0, bool)
    )
    rank = place - np.maximum.accumulate(np.where(begins, place, 0))
    return table.take(np.sort(order[rank < limit]))
