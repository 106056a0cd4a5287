"""What a checked query is: a small typed tree that holds nothing of the analyst's text
but literals and declared names.

`sql.read` makes it from a parsed statement and the owner's schema; `sql.write` writes it
in an engine's dialect, every expression total; `sql.plan` turns it into a Mechanism.
Nothing else of the analyst's text reaches an engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

Value: TypeAlias = "bool | int | Decimal | float | str | date | datetime | None"


FOLLOWS = {"follows": True}
"""Of a field that follows from the others and the schema: it is no part of the key of a stored answer."""

LENGTH = 256
"""The characters of a text that are kept where its column does not say how many."""


class Kind(StrEnum):
    """The types of columns and expressions. A decimal is an integer number of 10^-scale in every engine."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Type:
    """A kind, with the number of decimal places of a decimal and the length that texts are cut to."""

    kind: Kind
    scale: int = 0
    length: int = LENGTH


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True)
class Literal:
    value: Value
    type: Type


@dataclass(frozen=True)
class Column:
    """A column of the relation that the expression is evaluated on, by its name there."""

    name: str
    type: Type


@dataclass(frozen=True)
class Call:
    """An operator or function of the allow-list (`sql.functions`), total on every engine."""

    op: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True)
class Scalar:
    """One value of public tables: `value` over `aggregates` of all rows of `relation`,
    which is one row whatever they hold."""

    relation: Relation
    aggregates: tuple[tuple[str, Aggregate], ...]
    value: Expr
    type: Type


@dataclass(frozen=True)
class Among:
    """Whether `of` is a value of the one column of a public `relation`; NULL where SQL says so."""

    of: Expr
    relation: Relation
    column: Column
    type: Type = Type(Kind.BOOLEAN)


@dataclass(frozen=True)
class Tied:
    """A value of the rows of `relation` that belong to the row around it: those whose columns equal the row's
    as `on` says (column here, column there), and whose unit is the row's (`on_unit`).

    `relation` has at most one such row. `value` is computed from its columns, which are NULL where there is
    none.
    """

    relation: Relation
    on: tuple[tuple[Column, str], ...]
    on_unit: bool
    value: Expr
    type: Type


@dataclass(frozen=True)
class OwnWindow:
    """What a window function says of a row among the rows of its own unit that have the same `keys`: numbers
    of rows, a value of another row (`args`: the value, and what stands where there is no such row; `offset`
    rows away), or an aggregate. `ties` follow `order` where rows that are equal in it are told apart: all
    columns of the relation. `frame` is one of those in `sql.read.relations.own_windows`."""

    op: str
    args: tuple[Expr, ...] = ()
    offset: int = 1
    aggregate: Aggregate | None = None
    keys: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    ties: tuple[Order, ...] = ()
    frame: str = ""
    type: Type = Type(Kind.INTEGER)


@dataclass(frozen=True)
class KeyRef:
    """In an output: the group key at this position of `Query.keys`."""

    index: int
    type: Type


@dataclass(frozen=True)
class AggregateRef:
    """In an output: the noisy aggregate at this position of `Query.aggregates`."""

    index: int
    type: Type


Expr: TypeAlias = "Literal | Column | Call | Scalar | Among | Tied | OwnWindow | KeyRef | AggregateRef"


# ------------------------------------------------------------------------------------------------ relations


@dataclass(frozen=True)
class Scan:
    """A declared table with the columns read from it. `unit` is the column of the table
    that holds the unit of privacy: None for a public table and where the unit is a row.
    `path` are the joins from the table to the one that holds the unit: (column here,
    next table, column there), in order; the unit column is then that of the last table.

    Rows whose unit is NULL do not exist.
    """

    table: str
    columns: tuple[Column, ...]
    unit: str | None = None
    path: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Listed:
    """A public table of one column, whose different values a query lists."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Project:
    """New columns computed from `of`; the unit is kept beside them."""

    of: Relation
    columns: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Filter:
    """The rows that meet a condition; `first` of all, before an engine joins them with anything."""

    of: Relation
    where: Expr
    first: bool = False


class JoinKind(StrEnum):
    """Whose rows stay without a match. RIGHT is written down as LEFT with the sides changed."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


class JoinSide(StrEnum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Join:
    """A join on equal columns. If both sides are private, on the unit as well (`on_unit`). Of the side that
    is `matched`, each row of the other finds few rows, whoever's it is."""

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...]
    on_unit: bool
    kind: JoinKind = JoinKind.INNER
    matched: JoinSide | None = None


@dataclass(frozen=True)
class Union:
    """UNION ALL of relations with the same columns."""

    parts: tuple[Relation, ...]


@dataclass(frozen=True)
class PerUnit:
    """One row for each unit and value of `keys`: a function of that unit's own rows.
    Never for the unit `row`."""

    of: Relation
    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[tuple[str, Aggregate], ...]


Relation: TypeAlias = "Scan | Listed | Project | Filter | Join | Union | PerUnit"


# ------------------------------------------------------------------------------------------------ the query


class Statistic(StrEnum):
    """What an aggregate measures. NULLs do not count, except in COUNT(*) (`of` is None)."""

    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    COUNT_UNITS = "count units"
    SUM = "sum"
    AVG = "avg"
    VARIANCE = "var_samp"
    VARIANCE_POP = "var_pop"
    STDDEV = "stddev_samp"
    STDDEV_POP = "stddev_pop"
    MIN = "min"
    MAX = "max"
    QUANTILE = "quantile"


@dataclass(frozen=True)
class Aggregate:
    """`bounds` are those of `of`, from the schema and the expression by interval
    arithmetic, or a literal clamp in the query; None where they are not known (then they
    are discovered privately, or the query is refused). `granularity` is the grid that
    values lie on by their type (1 for integers, 10^-scale for decimals), None for floats.
    `present`: `of` is never NULL (`sql.deductions`), so all rows count."""

    statistic: Statistic
    of: Expr | None = None
    where: Expr | None = None
    level: Fraction | None = None
    bounds: tuple[Fraction, Fraction] | None = None
    granularity: Fraction | None = None
    present: bool = field(default=False, metadata=FOLLOWS)


@dataclass(frozen=True)
class Key:
    """A group key. `domain` is its public list of values in order (declared, or implied by a boolean, CASE of
    literals, bucket, date part, small integer range), which may hold None; None where keys are private."""

    name: str
    of: Expr
    domain: tuple[Value, ...] | None = None


@dataclass(frozen=True)
class Output:
    """A column of the answer: an expression over `KeyRef` and `AggregateRef`."""

    name: str
    of: Expr


@dataclass(frozen=True)
class Order:
    by: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Query:
    """A checked query. `sets` are the grouping sets, as positions in `keys`: one with
    all of them unless ROLLUP or GROUPING SETS asks for totals beside groups. `having`,
    `order`, `limit`, `offset` act on noisy results."""

    relation: Relation
    keys: tuple[Key, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    sets: tuple[tuple[int, ...], ...]
    having: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


# ------------------------------------------------------------------------------------------------ the result


@dataclass(frozen=True)
class Bounding:
    """What a bound on the rows of a unit leaves out: `rows` of each count, `people` have more, give or take
    `within` (None where they were not counted), and it is told under the assumption that nobody has more than
    `most`.

    Where the bound is from the profile, fewer than `hidden_people` people have more rows (0: nobody can), and
    numbers are either `covers_all` rows or of people with no more; `values` are the columns whose sums were
    clamped by it, with their ends."""

    rows: int
    most: int
    people: int | None = None
    within: int | None = None
    hidden_people: int | None = None
    covers_all: bool = True
    values: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class Result:
    """What a plan releases: the answer's columns, and for every number how far noise and
    rounding may have moved it.

    `low` and `high` have the columns of `table` that are numbers made from aggregates, cell by cell: the
    interval holds the answer without noise with probability `confidence`, each cell by itself; infinite where
    nothing can be said. `bounds` are those discovered privately, by the text of the expression.

    Where it is told what the bound on a unit's rows leaves out, `bounding` says under which assumption,
    intervals of counts, sums and averages hold the answer of all rows, and `left_out` has, for columns of
    counts and sums, how much of each cell stands for rows that do not count.
    """

    table: pa.Table
    low: dict[str, Any]
    high: dict[str, Any]
    confidence: float
    bounds: dict[str, tuple[float, float]]
    left_out: dict[str, Any] = field(default_factory=dict)
    bounding: Bounding | None = None
