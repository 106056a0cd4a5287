"""What follows for the values of an expression from types, declared bounds and conditions, before any row
is read: where no NULL is, and where the values lie.

**Which values are never NULL**: columns that the owner declared without NULL, and what a WHERE or CASE
asks of a value that a NULL does not meet. An average of such values divides by the number of all rows, so
that no count of its own is measured for it. Privacy does not rest on this: were a NULL there all the
same, other rows of the same people would be counted.

**Where values lie**, by exact interval arithmetic over Fractions. With the bounds that the owner declared
for columns it gives the bounds that an aggregate clamps to (a value outside is clamped, so nothing rests
on the data keeping to them). With `physical`, the ranges that the types themselves enforce, it proves
that an operation cannot overflow, and `sql.write.expressions` then leaves the guard out.

Assumes:   every expression is NULL or a number of its interval; NULLs are not counted.

>>> from deniable.sql.types import INTEGER
>>> x = Column("x", INTEGER)
>>> twice = Call("multiply", (x, Literal(-2, INTEGER)), INTEGER)
>>> str(interval(twice, lambda column: Interval.of(0, 10)))
'[-20, 0]'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from deniable.sql.functions import FUNCTIONS
from deniable.sql.functions.conditions import not_missing
from deniable.sql.functions.function import Connective
from deniable.sql.intervals import EVERYTHING, Interval, physical
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import (
    Aggregate,
    AggregateRef,
    Call,
    Column,
    Expr,
    Filter,
    Join,
    JoinKind,
    KeyRef,
    Listed,
    Literal,
    PerUnit,
    Project,
    Query,
    Relation,
    Scan,
    Statistic,
    Tied,
    Union,
    Value,
)

Names = frozenset[str]
NOTHING: Names = frozenset()

_COUNTS = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS)


def marked(query: Query, schema: Schema) -> Query:
    """The query with the aggregates marked whose values are never NULL."""
    names = columns(query.relation, schema)
    return replace(query, aggregates=tuple(_marked(each, names) for each in query.aggregates))


def _marked(of: Aggregate, names: Names) -> Aggregate:
    present_names = names if of.where is None else names | implied(of.where)
    if of.of is not None and present(of.of, present_names):
        return replace(of, present=True)
    return of


def columns(relation: Relation, schema: Schema) -> Names:
    """The columns of a relation without NULLs."""
    match relation:
        case Scan():
            return _declared(relation, schema)
        case Listed(column=column, values=values):
            if None in values:
                return NOTHING
            return frozenset({column.name})
        case Project(of=of, columns=pairs):
            return _named(pairs, columns(of, schema))
        case Filter(of=of, where=where):
            return columns(of, schema) | implied(where)
        case Join():
            return _joined(relation, schema)
        case Union(parts=parts):
            return frozenset.intersection(*(columns(part, schema) for part in parts))
        case PerUnit(of=of, keys=keys, aggregates=aggregates):
            counts = frozenset(name for name, each in aggregates if each.statistic in _COUNTS)
            return counts | _named(keys, columns(of, schema))


def _named(pairs: Sequence[tuple[str, Expr]], names: Names) -> Names:
    return frozenset(name for name, expr in pairs if present(expr, names))


def _declared(scan: Scan, schema: Schema) -> Names:
    table = schema.table(scan.table)
    if table is None:
        return NOTHING
    declared_names = frozenset(info.name for info in table.columns if not info.nulls)
    # Rows whose unit is NULL do not exist.
    if scan.unit is None or scan.path:
        return declared_names
    return declared_names | {scan.unit}


def _joined(join: Join, schema: Schema) -> Names:
    """A side whose rows may be missing has NULLs in their place."""
    left, right = columns(join.left, schema), columns(join.right, schema)
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        left = NOTHING
    if join.kind in (JoinKind.LEFT, JoinKind.FULL):
        right = NOTHING
    return left | right


def present(expr: Expr, names: Names) -> bool:
    """Whether an expression over columns is never NULL, given those that never are."""
    match expr:
        case Literal(value=value):
            return value is not None
        case Column(name=name):
            return name in names
        case Call(op=op, args=args):
            return FUNCTIONS[op].laws.present(expr, [present(arg, names) for arg in args])
    return False


def implied(where: Expr) -> Names:
    """The columns that are not NULL where a condition holds."""
    if not isinstance(where, Call):
        return NOTHING
    laws = FUNCTIONS[where.op].laws
    if laws.connective is Connective.EVERY:
        return frozenset().union(*map(implied, where.args))
    if laws.connective is Connective.SOME:
        return frozenset.intersection(*map(implied, where.args))
    if laws.compares:
        return _read(where.args[: laws.nulls])
    of = not_missing(where)
    return NOTHING if of is None else _read([of])


def _read(args: Sequence[Expr]) -> Names:
    return frozenset(arg.name for arg in args if isinstance(arg, Column))


# ------------------------------------------------------------------------------------ where values lie

Bounds = Callable[[Column], Interval]


def interval(expr: Expr, bounds: Bounds) -> Interval:
    match expr:
        case Literal(value=value):
            return _point(value)
        case Column():
            return bounds(expr)
        case KeyRef() | AggregateRef():
            return EVERYTHING
        case Tied(value=value):
            return interval(value, lambda column: EVERYTHING)
        case Call(op=op, args=args) if op in FUNCTIONS:
            return FUNCTIONS[op].range([interval(arg, bounds) for arg in args], expr)
    return EVERYTHING


def _point(value: Value) -> Interval:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Interval.of(value, value)
    return EVERYTHING


def cannot_overflow(call: Call) -> bool:
    """By the ranges of the types alone; declared bounds are not relied on, since the
    data may not keep to them."""
    limits = physical(call.type).bounds
    return limits is not None and interval(call, lambda column: physical(column.type)).within(*limits)
