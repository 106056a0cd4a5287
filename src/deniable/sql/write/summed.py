"""Sums of a prepared table's rows, read from those that `prepare` stored: the same integers, without the rows.

Every integer that `Writer.sums` asks for is Σ w or Σ w·(v − c) over the rows of a group that pass the query's conditions. If the
conditions and the keys of the groups read nothing but the columns that the summary is put together by, each of its rows belongs
to one group as a whole, so its sums are added: Σ w·(v − c) = Σ w·(v − l) + (l − c)·Σ w, exactly, in 128 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement, Summary
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Measure, StoredTerms, Total
from deniable.sql.tree import Column, Expr, Query, Relation
from deniable.sql.write import contributions, prepared


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
    totals = [part.stored(prepared.source(query.relation, part.of), grids.get(part), summary) for part in parts]
    wheres = list(dict.fromkeys(part.where for part in parts if part.where is not None))
    read = [*(key.of for key in query.keys), *wheres]
    relation = prepared.summarised(query.relation, summary.table, summary.keys, read)
    if relation is None or None in totals:
        return None
    return _Writer(query, dialect).statement(
        relation, group, wheres, list(zip(parts, filter(None, totals), strict=True))
    )


def whole(query: Query, parts: Sequence[Total], grids: Mapping[Measure, Grid], summary: Summary) -> frozenset[Total]:
    """The parts whose value is a stored column without a NULL, and without a value that their grid would clamp."""
    names = {part: prepared.source(query.relation, part.of) for part in parts}
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
        self, relation: Relation, group: Sequence[int], wheres: list[Expr], totals: list[tuple[Total, StoredTerms]]
    ) -> Statement:
        held = list(dict.fromkeys(name for _, stored in totals for name, _ in stored))
        kept = [Column(name, prepared.STORED.type) for name in held]
        columns: list[tuple[str, Expr]] = [(f"k{i}", key.of) for i, key in enumerate(self.query.keys)]
        columns += [(f"f{i}", where) for i, where in enumerate(wheres)] + [(column.name, column) for column in kept]
        rows = contributions.rows(prepared.carrying(relation, *kept), columns, self.dialect, by_unit=False)
        inside = contributions.inside([(f"k{i}", key) for i, key in enumerate(self.query.keys)], self.dialect)
        sums = [self._sum(total, f"f{wheres.index(part.where)}" if part.where else None) for part, total in totals]
        keys = [self._q(f"k{i}") for i in group]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        source = f"({contributions.meeting(rows, inside, self.dialect)}) AS {self._q('_rows')}"
        return Statement((), f"SELECT {', '.join([*keys, *sums])} FROM {source}{by}")

    def _sum(self, stored: StoredTerms, where: str | None) -> str:
        terms = " + ".join(self._q(name) if times == 1 else f"{self._q(name)} * ({times})" for name, times in stored)
        met = f"CASE WHEN {self._q(where)} THEN {terms} END" if where else terms
        return self.dialect.as_text(f"SUM({met})")

    def _q(self, name: str) -> str:
        return self.dialect.quote(name)
