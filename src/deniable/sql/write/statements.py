"""Statements over one query's rows, in one engine's dialect: what measures are written with. No sum can
overflow (see `weights`), and sums come back as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.tree import Expr, Query
from deniable.sql.write import contributions
from deniable.sql.write.contributions import Limit


class Valued(Protocol):
    """What a statement reads of a measure: its value, if it has one, and its FILTER."""

    @property
    def of(self) -> Expr | None: ...

    @property
    def where(self) -> Expr | None: ...


@dataclass(frozen=True)
class Writer:
    """The rows of a query as columns k0, … of keys, x0, … of values and f0, … of filters, with one bound on
    contributions.

    Values of the measures `present` are known not to be NULL, those of the measures `inside` to need no
    clamping. The measures `beside` one are those of the same statement, itself among them: they say which
    column is whose."""

    query: Query
    limit: Limit
    dialect: Dialect
    present: frozenset[Valued] = frozenset()
    inside: frozenset[Valued] = frozenset()

    # --------------------------------------------------------------------------------------- whole statements

    def grouped(self, group: Sequence[int], totals: Sequence[str], source: str) -> Statement:
        """The keys of `group`, then `totals` of the rows of `source` in it."""
        keys = self.key_names(group)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return Statement((), f"SELECT {', '.join([*keys, *totals])} FROM {source}{by}")

    def by_size(self, group: Sequence[int], measures: Sequence[Valued], totals: Sequence[str]) -> Statement:
        """The keys of `group`, a number of rows of a unit, then the rows of such units and `totals` of them,
        each row counting in full. Where there are no keys, each unit is summed by itself first: no row need
        know then how many others its unit has."""
        text, condition = self._limited(group, measures)
        if group:
            source, size = contributions.sized(text, condition, self.dialect)
            sums = ["COUNT(*)", *totals]
        else:
            names = [self.quoted(f"_t{i}") for i in range(len(totals))]
            source, size = contributions.summed(text, dict(zip(names, totals, strict=True)), self.dialect)
            sums = [self.sum(name) for name in (size, *names)]
        keys = ", ".join([*self.key_names(group), size])
        columns = ", ".join([keys, *map(self.text, sums)])
        return Statement((), f"SELECT {columns} FROM {source} GROUP BY {keys}")

    def parted(self, group: Sequence[int], measures: Sequence[Valued], totals: Sequence[str]) -> Statement:
        """The same of units above the bound, of all rows, and how many units are not above
        (`contributions.parted`)."""
        text, condition = self._limited(group, measures)
        sums, bound = ["COUNT(*)", *totals], self.limit.rows
        common, select = contributions.parted(
            text, self.key_names(group), sums, bound, condition, self.dialect
        )
        return Statement((common,), select)

    def histogram(self, group: Sequence[int], label: str, of: Valued, source: str, weight: str) -> Statement:
        """The keys of `group`, a cell by its `label`, and the weight of the rows in it."""
        cell, mass = self.quoted("_cell"), self.quoted("_v")
        columns = ", ".join([*self.key_names(group), f"{label} AS {cell}", f"{weight} AS {mass}"])
        rows = f"(SELECT {columns} FROM {source} WHERE {' AND '.join(self.met(of, [of]))})"
        by = ", ".join([*self.key_names(group), cell])
        total = self.text(self.sum(mass))
        return Statement((), f"SELECT {by}, {total} FROM {rows} AS {self.quoted('_cells')} GROUP BY {by}")

    def keys(self, group: Sequence[int], salt: str) -> Statement:
        """The keys of `group`, and how many units have them after each unit's keys are cut to its bound."""
        rows, names = self.strictly(self.rows([])), [f"k{i}" for i in group]
        if self.limit.by_unit and self.limit.bounded:
            pair = ", ".join(self.quoted(name) for name in ("_unit", *names))
            rows = f"SELECT DISTINCT {pair} FROM ({rows}) AS {self.quoted('_present')}"
        cut = self.cut(rows, names, self.limit.groups, salt)
        return self.grouped(group, ["COUNT(*)"], f"({cut}) AS {self.quoted('_kept')}")

    # -------------------------------------------------------------------------------------------- rows

    def rows(self, measures: Sequence[Valued]) -> str:
        columns: list[tuple[str, Expr]] = [(f"k{i}", key.of) for i, key in enumerate(self.query.keys)]
        columns += [(f"x{i}", of) for i, of in enumerate(_values(measures))]
        columns += [(f"f{i}", where) for i, where in enumerate(_filters(measures))]
        by_unit, is_stored = self.limit.by_unit, self.limit.stored
        return contributions.rows(
            self.query.relation, columns, self.dialect, by_unit=by_unit, stored=is_stored
        )

    def strictly(self, text: str) -> str:
        """Those of the rows whose keys are on their public lists."""
        return contributions.meeting(text, self._condition(), self.dialect)

    def meeting(self, of: Valued) -> str:
        """The rows on the public lists that count for a measure."""
        conditions = " AND ".join(self.met(of, [of]))
        return self.strictly(contributions.meeting(self.rows([of]), conditions, self.dialect))

    def weighted(self, group: Sequence[int], measures: Sequence[Valued]) -> tuple[str, str]:
        """The rows with their weights, for FROM, and the name of the weight there."""
        text, condition = self._limited(group, measures)
        return contributions.weighted(text, self.limit, condition, self.dialect)

    def by_units(self, measures: Sequence[Valued]) -> tuple[str, str]:
        """The rows on the public lists, with weights by which each unit counts as one."""
        return contributions.by_units(self.strictly(self.rows(measures)), self.limit, self.dialect)

    def _limited(self, group: Sequence[int], measures: Sequence[Valued]) -> tuple[str, str]:
        """The rows, and which of them count towards a unit's bound. Groups outside the public lists are
        dropped by the reader where every listed key is a key of the group."""
        text, condition = self.rows(measures), self._condition()
        public_keys = {i for i, key in enumerate(self.query.keys) if key.domain is not None}
        if public_keys <= set(group):
            return (text, condition)
        return (self.strictly(text), "")

    @property
    def excess(self) -> str:
        """What the bound leaves out of a row of `weighted`, as a weight."""
        return contributions.excess_weight(self.limit, self.dialect)

    def weighted_by(self, limit: Limit, text: str) -> tuple[str, str]:
        """The rows of `text` with weights by a bound of its own."""
        return contributions.weighted(text, limit, "", self.dialect)

    def cut(self, text: str, names: Sequence[str], most: int, salt: str) -> str:
        """The rows of at most `most` different values per unit; a row that is a unit brings one each time it
        reaches the aggregate."""
        if self.limit.by_unit and self.limit.bounded:
            return contributions.chosen(text, names, most, salt, self.dialect)
        return (
            f"SELECT {', '.join(self.quoted(name) for name in names)} FROM ({text}) AS {self.quoted('_all')}"
        )

    def _condition(self) -> str:
        return contributions.inside([(f"k{i}", key) for i, key in enumerate(self.query.keys)], self.dialect)

    # -------------------------------------------------------------------------------------------- columns

    def key_names(self, group: Sequence[int]) -> list[str]:
        return [self.quoted(f"k{i}") for i in group]

    def value_name(self, of: Valued, beside: Sequence[Valued]) -> str:
        if of.of is not None:
            return f"x{_values(beside).index(of.of)}"
        return ""

    def value(self, of: Valued, beside: Sequence[Valued]) -> str:
        return self.quoted(self.value_name(of, beside))

    def met(self, of: Valued, beside: Sequence[Valued]) -> list[str]:
        """The conditions under which a row counts: its FILTER holds, its value is not NULL."""
        there = of.of is None or of in self.present
        tests = [] if there else [f"{self.value(of, beside)} IS NOT NULL"]
        return tests + self.filter(of, beside)

    def filter(self, of: Valued, beside: Sequence[Valued]) -> list[str]:
        if of.where is not None:
            return [self.quoted(f"f{_filters(beside).index(of.where)}")]
        return []

    # -------------------------------------------------------------------------------------------- numbers

    def unit(self, of: Valued, grid: Grid, beside: Sequence[Valued]) -> str:
        """The grid unit of a value, NULL of NULL. A NaN, should there be one, is above all numbers on every
        engine."""
        column = self.value(of, beside)
        if grid.exact:
            inside = column
            if of not in self.inside:
                inside = _between(column, str(int(grid.lower)), str(int(grid.upper)))
            if grid.centre:
                return f"{inside} - ({int(grid.centre)})"
            return inside
        lower, upper, centre, half = (
            self.number(float(x)) for x in (grid.lower, grid.upper, grid.centre, 0.5)
        )
        offset = f"({_between(self.dialect.as_double(column), lower, upper)} - {centre})"
        unit = f"CAST(FLOOR({offset} * {self.number(float(1 / grid.step))} + {half}) AS BIGINT)"
        # What is below a quarter of a step is in unit 0.
        return self.dialect.unless_tiny(offset, self.number(float(grid.step / 4)), unit)

    def weighted_sum(self, of: Valued, value: str, weight: str, beside: Sequence[Valued]) -> str:
        """The sum of weight times value over the rows that meet the FILTER."""
        product = value if weight == "1" else f"{weight} * ({value})"
        where = self.filter(of, beside)
        if where:
            product = f"CASE WHEN {where[0]} THEN {product} END"
        return self.sum(product)

    def sum(self, text: str) -> str:
        return self.dialect.total(text)

    def quotient(self, text: str, by: int) -> str:
        return self.dialect.quotient(text, str(by))

    def number(self, x: float) -> str:
        return self.dialect.double(x)

    def text(self, text: str) -> str:
        return self.dialect.as_text(text)

    def quoted(self, name: str) -> str:
        return self.dialect.quote(name)


def _between(value: str, lower: str, upper: str) -> str:
    """Clamped; NULL stays NULL. Comparisons are faster than GREATEST and LEAST, and agree about NULL on all
    engines. Where an engine knows from its statistics that all values lie inside, the first test is all that
    is left, and costs nothing."""
    outside = f"WHEN {value} < {lower} THEN {lower} WHEN {value} > {upper} THEN {upper}"
    return f"CASE WHEN {value} BETWEEN {lower} AND {upper} THEN {value} {outside} ELSE {value} END"


def _values(measures: Sequence[Valued]) -> list[Expr]:
    return list(dict.fromkeys(measure.of for measure in measures if measure.of is not None))


def _filters(measures: Sequence[Valued]) -> list[Expr]:
    return list(dict.fromkeys(measure.where for measure in measures if measure.where is not None))
