"""Statements over prepared tables: rows with their stored weights, and sums that were
made of them beforehand.

A relation that keeps each row of one prepared table at most once is measured by stored weights. Every integer
that a statement asks for is then Σ w or Σ w·(v − c) over the rows of a group that pass the query's
conditions. If the conditions and the keys of the groups read nothing but the columns that the summary is put
together by, each of its rows belongs to one group as a whole, so its sums are added: Σ w·(v − c) = Σ w·(v −
l) + (l − c)·Σ w, exactly, in 128 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Measure, StoredTerms, Total
from deniable.sql.tree import Column, Expr, Filter, Kind, Project, Query, Relation, Scan, Type
from deniable.sql.types_relations import prune, read
from deniable.sql.write import contributions
from deniable.sql.write.contributions import WEIGHT
from deniable.sql.write.summaries import Summary

STORED = Column(WEIGHT, Type(Kind.INTEGER))
"""The stored weight of a row of a prepared table."""


def table(relation: Relation) -> str | None:
    """The one table that is read, row by row; None where rows are joined, put together or counted per
    unit."""
    match relation:
        case Scan(name, _, _, path):
            return None if path else name
        case Project(of, _) | Filter(of, _):
            return table(of)
        case _:
            return None


def carrying(relation: Relation, *more: Column) -> Relation:
    """The same rows, with their stored weight, or with `more` stored columns."""
    extra = more or (STORED,)
    match relation:
        case Scan(_, columns, _, _):
            return replace(relation, columns=(*columns, *extra))
        case Project(of, columns):
            return Project(carrying(of, *extra), (*columns, *((column.name, column) for column in extra)))
        case Filter(of, where):
            return Filter(carrying(of, *extra), where)
        case _:
            return relation


def summarised(
    relation: Relation, name: str, keys: frozenset[str], exprs: Iterable[Expr | None]
) -> Relation | None:
    """The same rows put together by `keys` in the table `name`; None where they must be told apart by more
    than `keys`, by `exprs` or by what decides about rows."""
    base = prune(relation, frozenset(column for expr in exprs for column in read(expr)))
    scan = base
    while isinstance(scan, Project | Filter):
        scan = scan.of
    if not isinstance(scan, Scan) or not keys.issuperset(column.name for column in scan.columns):
        return None
    return _onto(base, replace(scan, table=name, unit=None))


def _onto(relation: Relation, scan: Scan) -> Relation:
    match relation:
        case Project(of, columns):
            return Project(_onto(of, scan), columns)
        case Filter(of, where):
            return Filter(_onto(of, scan), where)
        case _:
            return scan


def source(relation: Relation, of: Expr | None) -> str | None:
    """The column of the table that an expression is, under whatever name; None for anything else."""
    match relation, of:
        case Scan(_, _, _, _), Column(name, _):
            return name
        case Filter(inner, _), Column(_, _):
            return source(inner, of)
        case Project(inner, columns), Column(name, _):
            return source(inner, dict(columns).get(name))
        case _:
            return None


# --------------------------------------------------------------------------------------- sums made beforehand


def summed(
    query: Query,
    group: Sequence[int],
    parts: Sequence[Total],
    grids: Mapping[Measure, Grid],
    summary: Summary,
    dialect: Dialect,
) -> Statement | None:
    """The keys of `group`, then one sum for each part; None where the summary does not hold them."""
    if summary.table is None:
        return None
    totals = [part.stored(source(query.relation, part.of), grids.get(part), summary) for part in parts]
    wheres = list(dict.fromkeys(part.where for part in parts if part.where is not None))
    read = [*(key.of for key in query.keys), *wheres]
    relation = summarised(query.relation, summary.table, summary.keys, read)
    if relation is None or None in totals:
        return None
    return _Writer(query, dialect).statement(
        relation, group, wheres, list(zip(parts, filter(None, totals), strict=True))
    )


def whole(
    query: Query, parts: Sequence[Total], grids: Mapping[Measure, Grid], summary: Summary
) -> frozenset[Total]:
    """The parts whose value is a stored column without a NULL, and without a value that
    their grid would clamp."""
    names = {part: source(query.relation, part.of) for part in parts}
    return frozenset(
        part
        for part, name in names.items()
        if name in summary.whole and part.untouched(grids.get(part), summary.bounds[name])
    )


@dataclass(frozen=True)
class _Writer:
    query: Query
    dialect: Dialect

    def statement(
        self,
        relation: Relation,
        group: Sequence[int],
        wheres: list[Expr],
        totals: list[tuple[Total, StoredTerms]],
    ) -> Statement:
        names = list(dict.fromkeys(name for _, terms in totals for name, _ in terms))
        sum_columns = [Column(name, STORED.type) for name in names]
        columns: list[tuple[str, Expr]] = [(f"k{i}", key.of) for i, key in enumerate(self.query.keys)]
        columns += [(f"f{i}", where) for i, where in enumerate(wheres)] + [
            (column.name, column) for column in sum_columns
        ]
        rows = contributions.rows(carrying(relation, *sum_columns), columns, self.dialect, by_unit=False)
        inside = contributions.inside([(f"k{i}", key) for i, key in enumerate(self.query.keys)], self.dialect)
        sums = [
            self._sum(total, f"f{wheres.index(part.where)}" if part.where else None) for part, total in totals
        ]
        keys = [self._q(f"k{i}") for i in group]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        source = f"({contributions.meeting(rows, inside, self.dialect)}) AS {self._q('_rows')}"
        return Statement((), f"SELECT {', '.join([*keys, *sums])} FROM {source}{by}")

    def _sum(self, stored: StoredTerms, where: str | None) -> str:
        terms = " + ".join(self._term(name, times) for name, times in stored)
        summand = terms
        if where:
            summand = f"CASE WHEN {self._q(where)} THEN {terms} END"
        return self.dialect.as_text(f"SUM({summand})")

    def _term(self, name: str, times: int) -> str:
        if times == 1:
            return self._q(name)
        return f"{self._q(name)} * ({times})"

    def _q(self, name: str) -> str:
        return self.dialect.quote(name)
