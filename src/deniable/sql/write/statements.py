"""The statements of a plan: each measures integers per group, exactly, in one engine's dialect. No sum can overflow (see
`weights`), and sums come back as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement
from deniable.sql.plan.statistics import Grid, Measure, Part
from deniable.sql.tree import Expr, Query
from deniable.sql.write import contributions as bounding
from deniable.sql.write.contributions import Limit
from deniable.sql.write.weights import ONE

ROW_CLASSES = 9
"""Units with up to 1, 2, 4, …, 128 and with more rows: a private contribution bound is one of 1 to 256."""
EXPONENTS = range(-20, 62)
"""Powers of two between which private bounds are looked for."""


@dataclass(frozen=True)
class Writer:
    """Statements over one query's rows, with one bound on contributions. Values of the parts `present` are known not to be NULL,
    those of the parts `inside` to need no clamping, so that `sums` need not ask."""

    query: Query
    limit: Limit
    dialect: Dialect
    present: frozenset[Part] = frozenset()
    inside: frozenset[Part] = frozenset()

    # -------------------------------------------------------------------------------------------- the statements

    def sums(self, group: Sequence[int], parts: Sequence[Part], grids: Mapping[Part, Grid]) -> Statement:
        """The keys of `group`, then one sum for each part."""
        source, weight = self._weighted(group, parts)
        sums = [self._sum(part, grids.get(part), weight, parts) for part in parts]
        return self._grouped(group, [self._text(total) for total in sums], source)

    def ranks(self, group: Sequence[int], part: Part, grid: Grid) -> Statement:
        """The keys of `group`, a cell of the grid, and the weight in it."""
        source, weight = self._weighted(group, [part])
        cell = f"{self._unit(part, grid, [part])} AS {self._q('_cell')}"
        met = " AND ".join(self._met(part, [part]))
        rows = f"(SELECT {', '.join([*self._keys(group), cell, weight + ' AS ' + self._q('_v')])} FROM {source} WHERE {met})"
        total = self._text(self.dialect.total(self._q("_v")))
        by = ", ".join([*self._keys(group), self._q("_cell")])
        return Statement((), f"SELECT {by}, {total} FROM {rows} AS {self._q('_cells')} GROUP BY {by}")

    def units(self, group: Sequence[int], part: Part) -> Statement:
        """The keys of `group`, and the weighted number of units in it: one row per unit and group, weights by groups."""
        keys = ", ".join([self._q("_unit"), *self._keys(group)])
        met = bounding.meeting(self._rows([part]), " AND ".join(self._met(part, [part])), self.dialect)
        pairs = f"SELECT DISTINCT {keys} FROM ({self._strictly(met)}) AS {self._q('_present')}"
        by_group = Limit(True, self.limit.groups if group else 1, 1, ONE, bounded=self.limit.bounded)
        source, weight = bounding.weighted(pairs, by_group, "", self.dialect)
        return self._grouped(group, [self._text(self.dialect.total(weight))], source)

    def distinct(self, group: Sequence[int], part: Part, salt: str) -> Statement:
        """The keys of `group`, and how many different values are there after each unit's share is cut to its bound."""
        values = [f"k{i}" for i in group] + [self._x(part, [part])]
        met = bounding.meeting(self._rows([part]), " AND ".join(self._met(part, [part])), self.dialect)
        kept = self._cut(self._strictly(met), values, self.limit.rows, salt)
        names = ", ".join(self._q(name) for name in values)
        return self._grouped(
            group, ["COUNT(*)"], f"(SELECT DISTINCT {names} FROM ({kept}) AS {self._q('_kept')}) AS {self._q('_d')}"
        )

    def keys(self, group: Sequence[int], salt: str) -> Statement:
        """The keys of `group`, and how many units have them after each unit's keys are cut to its bound."""
        kept = self._cut(self._strictly(self._rows([])), [f"k{i}" for i in group], self.limit.groups, salt)
        return self._grouped(group, ["COUNT(*)"], f"({kept}) AS {self._q('_kept')}")

    def rows_per_unit(self) -> Statement:
        """Classes of rows per unit, and the number of units in each."""
        rows = f"({self._strictly(self._rows([]))}) AS {self._q('_r')}"
        sizes = f"SELECT COUNT(*) AS {self._q('_n')} FROM {rows} GROUP BY {self._q('_unit')}"
        steps = " ".join(f"WHEN {self._q('_n')} <= {1 << i} THEN {i}" for i in range(ROW_CLASSES - 1))
        label = f"CASE {steps} ELSE {ROW_CLASSES - 1} END"
        classes = f"(SELECT {label} AS {self._q('_class')} FROM ({sizes}) AS {self._q('_s')})"
        return Statement(
            (), f"SELECT {self._q('_class')}, COUNT(*) FROM {classes} AS {self._q('_c')} GROUP BY {self._q('_class')}"
        )

    def magnitudes(self, part: Part) -> Statement:
        """Signed powers of two (0 for 0, ±(1 + position in EXPONENTS)) and the weight of the values there."""
        source, weight = self._weighted((), [part])
        value = self.dialect.as_double(self._q(self._x(part, [part])))
        size = f"LEAST(GREATEST(FLOOR(LN(ABS({value})) * {self._number(1.4426950408889634)}), {EXPONENTS[0]}), {EXPONENTS[-1]})"
        place = f"CAST({size} AS BIGINT) + {1 - EXPONENTS[0]}"
        label = f"CASE WHEN {value} > 0 THEN {place} WHEN {value} < 0 THEN -({place}) ELSE 0 END"
        met = " AND ".join(self._met(part, [part]))
        rows = f"(SELECT {label} AS {self._q('_cell')}, {weight} AS {self._q('_v')} FROM {source} WHERE {met})"
        total = self._text(self.dialect.total(self._q("_v")))
        return Statement(
            (), f"SELECT {self._q('_cell')}, {total} FROM {rows} AS {self._q('_c')} GROUP BY {self._q('_cell')}"
        )

    # -------------------------------------------------------------------------------------------- rows and columns

    def _weighted(self, group: Sequence[int], parts: Sequence[Part]) -> tuple[str, str]:
        """Groups outside the public lists are dropped by the reader where every listed key is a key of the group."""
        text, condition = self._rows(parts), self._condition()
        listed = {i for i, key in enumerate(self.query.keys) if key.domain is not None}
        if not listed <= set(group):
            text, condition = self._strictly(text), ""
        return bounding.weighted(text, self.limit, condition, self.dialect)

    def _rows(self, parts: Sequence[Part]) -> str:
        columns: list[tuple[str, Expr]] = [(f"k{i}", key.of) for i, key in enumerate(self.query.keys)]
        columns += [(f"x{i}", of) for i, of in enumerate(_values(parts))]
        columns += [(f"f{i}", where) for i, where in enumerate(_filters(parts))]
        return bounding.rows(
            self.query.relation, columns, self.dialect, by_unit=self.limit.by_unit, stored=self.limit.stored
        )

    def _condition(self) -> str:
        return bounding.inside([(f"k{i}", key) for i, key in enumerate(self.query.keys)], self.dialect)

    def _strictly(self, text: str) -> str:
        return bounding.meeting(text, self._condition(), self.dialect)

    def _cut(self, text: str, names: Sequence[str], most: int, salt: str) -> str:
        """At most `most` values per unit; a row that is a unit brings one each time it reaches the aggregate."""
        if self.limit.by_unit and self.limit.bounded:
            return bounding.chosen(text, names, most, salt, self.dialect)
        return f"SELECT {', '.join(self._q(name) for name in names)} FROM ({text}) AS {self._q('_all')}"

    def _grouped(self, group: Sequence[int], totals: Sequence[str], source: str) -> Statement:
        keys = self._keys(group)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return Statement((), f"SELECT {', '.join([*keys, *totals])} FROM {source}{by}")

    def _keys(self, group: Sequence[int]) -> list[str]:
        return [self._q(f"k{i}") for i in group]

    # -------------------------------------------------------------------------------------------- expressions

    def _sum(self, part: Part, grid: Grid | None, weight: str, parts: Sequence[Part]) -> str:
        """NULL values make NULL products, which sums leave out; a row of weight 1 is counted, which is faster."""
        if grid is None:
            return self._count(part, weight, self._met(part, parts), parts)
        value = self._times(weight, (self._unit if part.measure is Measure.SUM else self._square)(part, grid, parts))
        where = self._filter(part, parts)
        return self.dialect.total(f"CASE WHEN {where[0]} THEN {value} END" if where else value)

    def _count(self, part: Part, weight: str, tests: Sequence[str], parts: Sequence[Part]) -> str:
        met = " AND ".join(tests)
        if weight != "1":
            return self.dialect.total(f"CASE WHEN {met} THEN {weight} END" if met else weight)
        if part.where is None:
            return f"COUNT({self._q(self._x(part, parts)) if part.of is not None else '*'})"
        return f"COUNT(CASE WHEN {met} THEN 1 END)"

    def _times(self, weight: str, value: str) -> str:
        return value if weight == "1" else f"{weight} * ({value})"

    def _met(self, part: Part, parts: Sequence[Part]) -> list[str]:
        """The conditions under which a row counts: its FILTER holds, its value is not NULL."""
        there = part.of is None or part in self.present
        tests = [] if there else [f"{self._q(self._x(part, parts))} IS NOT NULL"]
        return tests + self._filter(part, parts)

    def _filter(self, part: Part, parts: Sequence[Part]) -> list[str]:
        return [self._q(f"f{_filters(parts).index(part.where)}")] if part.where is not None else []

    def _x(self, part: Part, parts: Sequence[Part]) -> str:
        return f"x{_values(parts).index(part.of)}" if part.of is not None else ""

    def _unit(self, part: Part, grid: Grid, parts: Sequence[Part]) -> str:
        """The grid unit of a value, NULL of NULL. A NaN, should there be one, is above all numbers on every engine."""
        column = self._q(self._x(part, parts))
        if grid.exact:
            inside = column if part in self.inside else _between(column, str(int(grid.lower)), str(int(grid.upper)))
            return f"{inside} - ({int(grid.centre)})" if grid.centre else inside
        lower, upper, centre, half = (self._number(float(x)) for x in (grid.lower, grid.upper, grid.centre, 0.5))
        moved = f"({_between(self.dialect.as_double(column), lower, upper)} - {centre})"
        unit = f"CAST(FLOOR({moved} * {self._number(float(1 / grid.step))} + {half}) AS BIGINT)"
        # What is below a quarter of a step is in unit 0.
        return self.dialect.unless_tiny(moved, self._number(float(grid.step / 4)), unit)

    def _square(self, part: Part, grid: Grid, parts: Sequence[Part]) -> str:
        unit = self._unit(part, grid, parts)
        square = f"(({unit}) * ({unit}))"
        cut = self.dialect.quotient(square, str(1 << grid.shift)) if grid.shift else square
        return f"{cut} - {grid.square_centre}"

    def _number(self, x: float) -> str:
        return self.dialect.double(x)

    def _text(self, text: str) -> str:
        return self.dialect.as_text(text)

    def _q(self, name: str) -> str:
        return self.dialect.quote(name)


def _between(value: str, lower: str, upper: str) -> str:
    """Clamped; NULL stays NULL. Comparisons are faster than GREATEST and LEAST, and agree about NULL on all engines. Where an
    engine knows from its statistics that all values lie inside, the first test is all that is left, and costs nothing."""
    outside = f"WHEN {value} < {lower} THEN {lower} WHEN {value} > {upper} THEN {upper}"
    return f"CASE WHEN {value} BETWEEN {lower} AND {upper} THEN {value} {outside} ELSE {value} END"


def _values(parts: Sequence[Part]) -> list[Expr]:
    return list(dict.fromkeys(part.of for part in parts if part.of is not None))


def _filters(parts: Sequence[Part]) -> list[Expr]:
    return list(dict.fromkeys(part.where for part in parts if part.where is not None))
