"""An answer: a released table with an interval for every number, what it cost, and what
the intervals leave out."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deniable.curator.answers import words
from deniable.errors import InvalidParameter, MissingExtra
from deniable.loss import Loss
from deniable.mechanism import Release
from deniable.numbers import short_up
from deniable.sql import arrays
from deniable.sql.tree import Bounding, Result
from deniable.units import Unit

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure
    from rich.table import Table

    from deniable.ledger.releases import Kept

FORMAT = 1
NOT_FOUND = (-1.0, 1.0)
"""What `sql.plan.bounds.values` says where it found no bounds."""
NOTHING = pa.table({})
TABLES = ("value", "low", "high", "left_out")

LEFT_OUT = (
    "It counts noise and rounding; it leaves out what clamping to bounds and the bound on rows per person "
    "took away."
)
NO_GROUP = (
    "No group is shown: where keys are private, a group appears only if enough people share its key, and "
    "fewer are enough with more ε. Ask with more ε or for larger groups; or let the owner declare keys that "
    "are public (keys=, --keys)."
)
CLAMPED = "It counts noise and rounding; it leaves out what clamping to bounds took away."


@dataclass(frozen=True)
class Answer(Release[pa.Table]):
    """A release whose `value` is the table that was asked for. `low` and `high` hold,
    for each column of numbers, an interval around every cell: the answer without noise
    lies in it with probability `confidence`, each cell by itself.

    `epsilon` at `delta` is what the query cost. `bounds` were discovered privately, and paid for. `again`
    says that this is an answer given before. `computed` are numbers that were computed from released ones and
    for which no interval follows. Where it was told what the bound on a person's rows leaves out, `bounding`
    says under which assumption, and `left_out` how much of each count and sum stands for that. `remarks` say
    how it is to be read.
    """

    low: pa.Table = field(default_factory=lambda: NOTHING)
    high: pa.Table = field(default_factory=lambda: NOTHING)
    confidence: float = 0.95
    epsilon: float = 0.0
    delta: float = 0.0
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    again: bool = False
    computed: tuple[str, ...] = ()
    left_out: pa.Table = field(default_factory=lambda: NOTHING)
    bounding: Bounding | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_release(cls, release: Release[Result], *, epsilon: float, delta: float) -> Answer:
        """The answer in what a plan released."""
        result = release.value
        release_fields = {f.name: getattr(release, f.name) for f in fields(Release)} | {"value": result.table}
        low, high = (_limit_table(side) for side in (result.low, result.high))
        return cls(
            **release_fields,
            low=low,
            high=high,
            confidence=result.confidence,
            epsilon=epsilon,
            delta=delta,
            bounds=dict(result.bounds),
            left_out=_limit_table(result.left_out),
            bounding=result.bounding,
        )

    # -------------------------------------------------------------------------------------------- as a table

    @property
    def table(self) -> pa.Table:
        """The answer with two more columns beside each column of numbers: `x_low` and `x_high`; and
        `x_left_out` where some of it stands for rows that the bound on a person's rows leaves out."""
        columns: dict[str, Any] = {}
        for name, column in zip(self.value.column_names, self.value.columns, strict=True):
            columns[name] = column
            if name in self.low.column_names:
                sides = {"low": self.low, "high": self.high, "left_out": self.left_out}
                for side, limits in sides.items():
                    if name in limits.column_names:
                        free = _free(f"{name}_{side}", {*self.value.column_names, *columns})
                        columns[free] = limits.column(name)
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """`table` as a data frame of pandas, if that is installed."""
        _import_package("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """`table` as a data frame of polars, if that is installed."""
        frame: pl.DataFrame = _import_package("polars").DataFrame(self.table)
        return frame

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Every row as it is printed: "1,234 ± 12"."""
        for i in range(self.value.num_rows):
            yield tuple(self._cell(name, i) for name in self.value.column_names)

    def _cell(self, name: str, i: int) -> str:
        value = self.value.column(name)[i].as_py()
        if name not in self.low.column_names:
            return words.write_value(value)
        return words.number(value, self.low.column(name)[i].as_py(), self.high.column(name)[i].as_py())

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are right-aligned: those with an interval."""
        return tuple(name for name in self.value.column_names if name in self.low.column_names)

    # -------------------------------------------------------------------------------------------- in words

    @property
    def cost(self) -> str:
        """What the query cost, and the entry of the ledger that paid."""
        at = f" at δ = {self.delta:.4g}" if self.delta else ""
        seq = (self.entry or "").partition(":")[0]
        return f"ε = {short_up(self.epsilon)}{at}, paid by entry {seq} of the ledger"

    @property
    def _has_margins(self) -> bool:
        """Whether a ± is said of any number."""
        ends = (
            end for table in (self.low, self.high) for column in table.columns for end in column.to_pylist()
        )
        return any(end is not None and math.isfinite(end) for end in ends)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before quoting a number."""
        notes = []
        if self._has_margins:
            notes.append(
                f"± holds with probability {self.confidence:.6g} for each number by itself. "
                f"{LEFT_OUT if self.bounding is None else CLAMPED}"
            )
        if self.delta and not self.value.num_rows:
            notes.append(NO_GROUP)
        if self.bounding is not None and (line := words.bounding(self.bounding, self.left_out.column_names)):
            notes.append(line)
        for name, (lower, upper) in self.bounds.items():
            notes.append(
                f"The bounds of {name} were discovered privately, and paid for: {lower:.6g} to {upper:.6g}."
            )
            if (lower, upper) == NOT_FOUND:
                notes.append(
                    f"That is what is taken where no value of {name} stands out of the noise: ask with more "
                    "ε."
                )
        notes += self.remarks
        notes += words.rows_of_nobody(self.unit)
        if self.computed:
            notes.append(f"Computed from released numbers, without an interval: {', '.join(self.computed)}.")
        if self.again:
            notes.append(
                "This is the answer that was given before; it tells nothing new, so the data set was not "
                "charged."
            )
        if not self.private:
            notes.append("The noise was drawn from a seed: this answer protects nobody.")
        return tuple(notes)

    def __str__(self) -> str:
        body = words.text_table(self.value.column_names, list(self.rows()), set(self.numbers))
        return "\n".join([body, "", f"Cost: {self.cost}.", *self.notes])

    def __rich__(self) -> Table:
        return words.rich_table(
            self.value.column_names, list(self.rows()), set(self.numbers), f"Cost: {self.cost}."
        )

    def _repr_html_(self) -> str:
        footer = (f"Cost: {self.cost}.", *self.notes)
        return words.html_table(self.value.column_names, list(self.rows()), set(self.numbers), footer)

    def plot(self, column: str | None = None, *, path: str | Path | None = None) -> Figure:
        """Bars with error bars, one for each row; of `column`, or of every column of numbers, one panel each.
        Two keys are drawn as facets, or where both have many values as a heat map. A notebook shows it. Needs
        `deniable[plot]`."""
        from deniable.plots import answers

        names = self.numbers if column is None else (column,)
        if not names or any(name not in self.numbers for name in names):
            choices = ", ".join(self.numbers) or "none"
            raise InvalidParameter(
                f"Expected a column of numbers to draw, got {column!r}. There are: {choices}."
            )
        numbers = {name: self._sides(name) for name in names}
        keys = [c for c in self.value.column_names if c not in self.numbers and c not in self.computed]
        title = f"{', '.join(names)}: {100 * self.confidence:.6g} % intervals, ε = {short_up(self.epsilon)}"
        labels = {
            key: [words.write_value(cell) for cell in self.value.column(key).to_pylist()] for key in keys
        }
        return answers.picture(labels, numbers, title=title, path=path)

    def _sides(self, name: str) -> tuple[list[Any], list[Any], list[Any]]:
        value, low, high = (side.column(name).to_pylist() for side in (self.value, self.low, self.high))
        return value, low, high

    # -------------------------------------------------------------------------------------------- as values

    def to_dict(self, *, arrow: bool = False) -> dict[str, Any]:
        """All that is released, as plain values: what a service sends and the shell prints as JSON. `arrow`
        adds the tables as texts, from which `from_dict` makes the same answer."""
        columns = (column.to_pylist() for column in self.value.columns)
        content = {
            "columns": [{"name": field.name, "type": str(field.type)} for field in self.value.schema],
            "rows": [list(row) for row in zip(*columns, strict=True)],
            "low": self.low.to_pydict(),
            "high": self.high.to_pydict(),
            "left_out": self.left_out.to_pydict(),
            "confidence": self.confidence,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "entry": self.entry,
            "again": self.again,
            "private": self.private,
            "bounds": {name: list(pair) for name, pair in self.bounds.items()},
            "bounding": None if self.bounding is None else dict(vars(self.bounding)),
            "computed": list(self.computed),
            "remarks": list(self.remarks),
            "cost": self.cost,
            "notes": list(self.notes),
            "loss": self.loss.to_dict(),
            "unit": self.unit.to_dict(),
        }
        if arrow:
            content["arrow"] = {name: arrays.pack_table(getattr(self, name)) for name in TABLES}
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Answer:
        """The answer that `to_dict(arrow=True)` wrote, here or in an earlier version, which said less."""
        tables = {name: arrays.unpack_table(text) for name, text in content["arrow"].items()}
        bounding = content.get("bounding")
        return cls(
            **tables,
            loss=Loss.from_dict(content["loss"]),
            unit=Unit.from_dict(content["unit"]),
            entry=content["entry"],
            private=content.get("private", True),
            confidence=content["confidence"],
            epsilon=float(content["epsilon"]),
            delta=float(content["delta"]),
            bounds={name: (float(low), float(high)) for name, (low, high) in content["bounds"].items()},
            again=content["again"],
            computed=tuple(content.get("computed", ())),
            bounding=None if bounding is None else _read_bounding(bounding),
            remarks=tuple(content.get("remarks", ())),
        )

    # -------------------------------------------------------------------------------------------- kept

    def to_text(self, seconds: float = 0.0) -> str:
        """All that the ledger does not hold of this answer, as one text, and what
        whoever asked has waited for it."""
        return json.dumps(
            {
                "format": FORMAT,
                "unit": self.unit.to_dict(),
                "value": arrays.pack_table(self.value),
                "low": arrays.pack_table(self.low),
                "high": arrays.pack_table(self.high),
                "confidence": self.confidence,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "bounds": {name: list(pair) for name, pair in self.bounds.items()},
                "left_out": arrays.pack_table(self.left_out),
                "bounding": None if self.bounding is None else vars(self.bounding),
                "seconds": seconds,
            }
        )

    @classmethod
    def from_record(cls, content: Mapping[str, Any], record: Kept, entry: str | None) -> Answer:
        """The answer that `to_text` wrote, as `record` of a ledger kept it, to whom paid for it by
        `entry`."""
        left_out, bounding = NOTHING, None
        if "left_out" in content:
            left_out = arrays.unpack_table(content["left_out"])
        if content.get("bounding"):
            bounding = _read_bounding(content["bounding"])
        return cls(
            value=arrays.unpack_table(content["value"]),
            loss=record.loss,
            unit=Unit.from_dict(content["unit"]),
            entry=entry,
            private=record.private,
            low=arrays.unpack_table(content["low"]),
            high=arrays.unpack_table(content["high"]),
            confidence=content["confidence"],
            epsilon=content["epsilon"],
            delta=content["delta"],
            bounds={name: (pair[0], pair[1]) for name, pair in content["bounds"].items()},
            left_out=left_out,
            bounding=bounding,
        )


def _read_bounding(content: Mapping[str, Any]) -> Bounding:
    return Bounding(**{**content, "values": tuple(map(tuple, content.get("values", ())))})


def _import_package(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise MissingExtra(
            f"A data frame of {package} needs it installed: pip install {package}. The answer is in .table "
            "as an Arrow table."
        ) from None


def _limit_table(side: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: arrays.column(_floats(cells), pa.float64()) for name, cells in side.items()})


def _floats(cells: Any) -> list[float | None]:
    values = cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)
    return [None if cell is None else float(cell) for cell in values]


def _free(name: str, taken: set[str]) -> str:
    """A name that no other column has."""
    if name not in taken:
        return name
    return _free(f"{name}_", taken)
