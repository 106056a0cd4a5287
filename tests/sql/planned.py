"""Small tables in a real DuckDB, and queries on them as trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from deniable.sql.dialects import DUCKDB, Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import (
    Aggregate,
    AggregateRef,
    Column,
    Key,
    KeyRef,
    Kind,
    Output,
    Query,
    Relation,
    Scan,
    Type,
)
from deniable.sql.tree import Statistic as S
from deniable.units import Unit

INTEGER, FLOAT, TEXT, BOOLEAN = Type(Kind.INTEGER), Type(Kind.FLOAT), Type(Kind.TEXT), Type(Kind.BOOLEAN)
PERSON = "person"
REGION, X, N, FLAG = Column("region", TEXT), Column("x", FLOAT), Column("n", INTEGER), Column("flag", BOOLEAN)
REGIONS = ("a", "b", None)
X_BOUNDS = (Fraction(-3), Fraction(10))
N_BOUNDS = (Fraction(0), Fraction(7))
PEOPLE = Unit.column(PERSON, max_rows=2)

SALT = "5a17"

Line = tuple[Any, ...]


@dataclass(frozen=True)
class Duck(Engine):
    """A real DuckDB without anything around it, so that NaN and infinities arrive too."""

    connection: duckdb.DuckDBPyConnection
    dialect: Dialect = DUCKDB
    prepared: Mapping[str, int] = field(default_factory=dict)

    def run(self, statement: Statement) -> pa.Table:
        assert not statement.ctes
        return self.connection.sql(statement.select).to_arrow_table()

    @property
    def overran(self) -> bool:
        return False

    def cancel(self) -> None:
        self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()

    def fill(self, rows: Sequence[Line]) -> Duck:
        self.connection.execute("DELETE FROM visits")
        kinds = (pa.int64(), pa.string(), pa.float64(), pa.int64(), pa.bool_())
        arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        self.connection.register("lines", pa.table(arrays, names=["person", "region", "x", "n", "flag"]))
        self.connection.execute("INSERT INTO visits SELECT * FROM lines")
        return self


class Around(Engine):
    """An engine around another, which answers for it; made to be changed in one answer."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dialect, self.prepared, self.summaries = engine.dialect, engine.prepared, engine.summaries

    def run(self, statement: Statement) -> pa.Table:
        return self.engine.run(statement)

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        return self.engine.present(table, columns)

    @property
    def overran(self) -> bool:
        return self.engine.overran

    def cancel(self) -> None:
        self.engine.cancel()

    def close(self) -> None:
        self.engine.close()


@contextmanager
def duck(rows: Sequence[Line] = ()) -> Iterator[Duck]:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute(
        "CREATE TABLE visits (person BIGINT, region VARCHAR, x DOUBLE, n BIGINT, flag BOOLEAN)"
    )
    yield Duck(connection).fill(rows)
    connection.close()


def scan(unit: Unit) -> Scan:
    return Scan("visits", (REGION, X, N, FLAG), unit.column_name)


def query(
    aggregates: Sequence[Aggregate],
    unit: Unit = PEOPLE,
    *,
    keys: Sequence[Key] = (),
    sets: Sequence[Sequence[int]] | None = None,
    relation: Relation | None = None,
    **rest: Any,
) -> Query:
    """All keys and all aggregates as outputs, named k0, … and a0, …"""
    whole = (S.COUNT, S.COUNT_DISTINCT, S.COUNT_UNITS)
    outputs = [Output(f"k{i}", KeyRef(i, key.of.type)) for i, key in enumerate(keys)]
    for i, aggregate in enumerate(aggregates):
        outputs.append(Output(f"a{i}", AggregateRef(i, INTEGER if aggregate.statistic in whole else FLOAT)))
    groups = (tuple(range(len(keys))),) if sets is None else tuple(map(tuple, sets))
    return Query(relation or scan(unit), tuple(keys), tuple(aggregates), tuple(outputs), groups, **rest)


PUBLIC = (Key("region", REGION, REGIONS),)
PRIVATE = (Key("region", REGION),)


def measured(
    plan: Plan, engine: Engine, run: Settled | None = None
) -> list[tuple[list[dict[Any, Any]], dict[Any, int]]]:
    """All that a run sees before noise: for each grouping set its parts, and the units behind private
    keys."""
    exact = (run or plan.start).measure(engine, SALT)
    return [([dict(part) for part in each.parts], dict(each.supports or {})) for each in exact.integers()]
