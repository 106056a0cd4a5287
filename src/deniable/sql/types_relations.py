"""What a relation's columns are, whether it carries the unit of privacy, and the columns
that an expression reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from types import NoneType
from typing import Any

from deniable.sql import types
from deniable.sql.tree import (
    Aggregate,
    Among,
    Call,
    Column,
    Expr,
    Filter,
    Join,
    JoinKind,
    JoinSide,
    Key,
    Listed,
    Literal,
    OwnWindow,
    PerUnit,
    Project,
    Relation,
    Scalar,
    Scan,
    Statistic,
    Tied,
    Type,
    Union,
)


def children(relation: Relation) -> tuple[Relation, ...]:
    """The relations that one is made of; none of a table."""
    # Every kind is named: how often a row counts rests on this, so a new kind must not pass for a table.
    match relation:
        case Scan() | Listed():
            return ()
        case Project() | Filter() | PerUnit():
            return (relation.of,)
        case Join():
            return (relation.left, relation.right)
        case Union():
            return relation.parts


def columns(relation: Relation) -> tuple[Column, ...]:
    match relation:
        case Scan():
            return relation.columns
        case Listed():
            return (relation.column,)
        case Project():
            return tuple(Column(name, expr.type) for name, expr in relation.columns)
        case Filter() | Join():
            return tuple(column for part in children(relation) for column in columns(part))
        case Union():
            return columns(relation.parts[0])
        case PerUnit():
            keys = tuple(Column(name, expr.type) for name, expr in relation.keys)
            return keys + tuple(Column(name, aggregate_type(a)) for name, a in relation.aggregates)


def readings(relation: Relation) -> int:
    """How many times tables are read."""
    return sum(map(readings, children(relation))) or 1


def several(relation: Relation) -> bool:
    """Whether a unit may have more than one row."""
    match relation:
        case PerUnit():
            return bool(relation.keys)
        case Project() | Filter() | Join():
            return any(map(several, children(relation)))
    return True


def has_unit(relation: Relation) -> bool:
    """Whether `_unit` stands beside its columns: not where the unit is a row, and not in public relations."""
    match relation:
        case Scan():
            return relation.unit is not None
        case Union():
            return all(map(has_unit, relation.parts))
        case PerUnit():
            return True
    return any(map(has_unit, children(relation)))


def aggregate_type(aggregate: Aggregate) -> Type:
    match aggregate.statistic:
        case Statistic.COUNT | Statistic.COUNT_DISTINCT | Statistic.COUNT_UNITS:
            return types.INTEGER
        case Statistic.SUM | Statistic.MIN | Statistic.MAX | Statistic.QUANTILE if aggregate.of is not None:
            return aggregate.of.type
    return types.FLOAT


def read(expr: Expr | None) -> Iterator[str]:
    """The names of the columns that an expression reads."""
    if isinstance(expr, Column):
        yield expr.name
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from read(arg)
    elif isinstance(expr, Among):
        yield from read(expr.of)
    elif isinstance(expr, Tied):
        yield from (column.name for column, _ in expr.on)
    elif isinstance(expr, OwnWindow):
        parts = [*expr.args, *expr.keys, *(each.by for each in (*expr.order, *expr.ties))]
        if expr.aggregate is not None:
            yield from read(expr.aggregate.of)
            yield from read(expr.aggregate.where)
        for part in parts:
            yield from read(part)


def asks(of: object) -> bool:
    """Whether an expression or relation holds a subquery in an expression."""
    if isinstance(of, (Scalar, Among, Tied)):
        return True
    if isinstance(of, tuple):
        return any(asks(part) for part in of)
    return is_dataclass(of) and any(asks(getattr(of, f.name)) for f in fields(of))


_LEAVES = (str, int, NoneType, Fraction, Type)
"""Most of what a tree holds, and reads no table."""


def scans(of: object) -> Iterator[Scan]:
    """The tables that a query, a relation or an expression reads, subqueries included."""
    if isinstance(of, Scan):
        yield of
    elif isinstance(of, tuple):
        for part in of:
            yield from scans(part)
    elif not isinstance(of, _LEAVES) and is_dataclass(of):
        for field in fields(of):
            yield from scans(getattr(of, field.name))


def hoisted(relation: Relation, exprs: Sequence[Expr | None]) -> tuple[Relation, list[Expr | None]]:
    """The same, with every subquery in an expression as a column of its own: Spark takes
    none inside a higher-order function."""
    relation, exprs = _with_tied(relation, exprs)
    lookups = list(dict.fromkeys(lookup for expr in exprs for lookup in _lookups(expr)))
    if not lookups:
        return relation, list(exprs)
    base = columns(relation)
    names = {lookup: Column(f"_q{len(base) + i}", lookup.type) for i, lookup in enumerate(lookups)}
    items = [*((c.name, c) for c in base), *((column.name, lookup) for lookup, column in names.items())]
    return Project(relation, tuple(items)), [_replaced(expr, names) for expr in exprs]


def _with_tied(relation: Relation, exprs: Sequence[Expr | None]) -> tuple[Relation, list[Expr | None]]:
    """The same, with what the rows of a unit tell about one of them joined to it."""
    values: dict[Expr, Expr | None] = {}
    sides: dict[Tied, dict[Column, Column]] = {}
    for tie in dict.fromkeys(tie for expr in exprs for tie in _tied(expr)):
        rows = replace(tie, value=Literal(None, types.BOOLEAN), type=types.BOOLEAN)
        if rows not in sides:
            at, theirs = len(columns(relation)), columns(tie.relation)
            sides[rows] = {column: Column(f"_t{at}_{i}", column.type) for i, column in enumerate(theirs)}
            relation = _beside(relation, tie, sides[rows])
        values[tie] = _replaced(tie.value, sides[rows])
    return relation, [_replaced(expr, values) for expr in exprs]


def _beside(relation: Relation, tied: Tied, fresh: Mapping[Column, Column]) -> Join:
    side = Project(tied.relation, tuple((new.name, old) for old, new in fresh.items()))
    names = {old.name: new.name for old, new in fresh.items()}
    on = tuple((here.name, names[there]) for here, there in tied.on)
    return Join(relation, side, on, tied.on_unit, JoinKind.LEFT, JoinSide.RIGHT)


def _tied(expr: Expr | None) -> Iterator[Tied]:
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _tied(arg)
    elif isinstance(expr, Tied):
        yield expr


def _lookups(expr: Expr | None) -> Iterator[Scalar | Among]:
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _lookups(arg)
    elif isinstance(expr, (Scalar, Among)):
        yield expr


def _replaced(expr: Expr | None, by: Mapping[Any, Any]) -> Expr | None:
    """The expression with others in the place of some of its parts."""
    if isinstance(expr, Call):
        args = (_replaced(arg, by) for arg in expr.args)
        return replace(expr, args=tuple(arg for arg in args if arg is not None))
    substitute: Expr | None = by.get(expr, expr)
    return substitute


def prune(relation: Relation, needed: frozenset[str]) -> Relation:
    """The same relation with only the columns that are needed; what decides about rows stays."""
    match relation:
        case Scan():
            return replace(relation, columns=tuple(c for c in relation.columns if c.name in needed))
        case Listed():
            return relation
        case Project():
            return _pruned_projection(relation, needed)
        case Filter():
            return replace(relation, of=prune(relation.of, needed | _reads([relation.where])))
        case Join():
            both = needed.union(*relation.on)
            return replace(relation, left=prune(relation.left, both), right=prune(relation.right, both))
        case Union():
            return Union(tuple(prune(part, needed) for part in relation.parts))
        case PerUnit():
            return _pruned_groups(relation, needed)


def _pruned_projection(relation: Project, needed: frozenset[str]) -> Project:
    items = tuple((name, expr) for name, expr in relation.columns if name in needed)
    return Project(prune(relation.of, _reads(expr for _, expr in items)), items)


def _pruned_groups(relation: PerUnit, needed: frozenset[str]) -> PerUnit:
    """Keys decide about rows, so all of them stay."""
    aggregates = tuple((name, a) for name, a in relation.aggregates if name in needed)
    keys = _reads(expr for _, expr in relation.keys)
    inside = _reads(expr for _, a in aggregates for expr in (a.of, a.where))
    return PerUnit(prune(relation.of, keys | inside), relation.keys, aggregates)


def _reads(exprs: Iterable[Expr | None]) -> frozenset[str]:
    return frozenset(name for expr in exprs for name in read(expr))


# ------------------------------------------------------------------------------------------------ one form
#
# COUNT(1) is COUNT(*), WHERE TRUE says nothing, and FROM (SELECT * FROM v) is v: they release the same, under
# one key, and are paid once.

Names = Mapping[str, Expr]


def simplify(
    relation: Relation, keys: Sequence[Key], aggregates: Sequence[Aggregate]
) -> tuple[Relation, tuple[Key, ...], tuple[Aggregate, ...]]:
    """The same rows, keys and aggregates without what says nothing."""
    inputs = [*(key.of for key in keys), *(x for each in aggregates for x in (each.of, each.where))]
    names: Names = {}
    if _is_one_table(relation):
        relation, names = _without_names(relation)
    if not all(map(_can_rename, inputs)):
        relation = _with_names(relation, names)
        names = {}
    own_keys = (replace(key, of=_rename(key.of, names)) for key in keys)
    own_aggregates = (_simplify_aggregate(each, names) for each in aggregates)
    return relation, tuple(own_keys), tuple(own_aggregates)


def _simplify_aggregate(made: Aggregate, names: Names) -> Aggregate:
    of = None if made.of is None else _rename(made.of, names)
    where = None if made.where is None else _without_truths(_rename(made.where, names))
    if made.statistic is Statistic.COUNT and isinstance(of, Literal) and of.value is not None:
        of = None
    return replace(made, of=of, where=None if _is_true(where) else where)


def _is_one_table(relation: Relation) -> bool:
    """Whether it is rows of a declared table. All else keeps its form: ledgers hold its keys."""
    while isinstance(relation, (Project, Filter)):
        relation = relation.of
    return isinstance(relation, Scan)


def _without_names(relation: Relation) -> tuple[Relation, Names]:
    """Without projections that only name columns, as far as they lie outermost; with what their names stand
    for."""
    match relation:
        case Project(of, items) if all(isinstance(expr, Column) for _, expr in items):
            inner, names = _without_names(of)
            return inner, {name: _rename(expr, names) for name, expr in items}
        case Filter(of, where) if _can_rename(where):
            inner, names = _without_names(of)
            test = _without_truths(_rename(where, names))
            if _is_true(test):
                return inner, names
            return replace(relation, of=inner, where=test), names
    return relation, {}


def _with_names(relation: Relation, names: Names) -> Relation:
    if names:
        return Project(relation, tuple(names.items()))
    return relation


def _can_rename(expr: Expr | None) -> bool:
    """Whether an expression reads columns in no other way than by their names."""
    if isinstance(expr, Call):
        return all(map(_can_rename, expr.args))
    return expr is None or isinstance(expr, (Column, Literal))


def _rename(expr: Expr, names: Names) -> Expr:
    match expr:
        case Column(name):
            return names.get(name, expr)
        case Call():
            return replace(expr, args=tuple(_rename(arg, names) for arg in expr.args))
    return expr


def _without_truths(expr: Expr) -> Expr:
    """A AND TRUE is A."""
    if not isinstance(expr, Call) or expr.op != "and":
        return expr
    args = tuple(arg for arg in map(_without_truths, expr.args) if not _is_true(arg))
    if not args:
        return Literal(True, expr.type)
    if len(args) == 1:
        return args[0]
    return replace(expr, args=args)


def _is_true(expr: Expr | None) -> bool:
    return isinstance(expr, Literal) and expr.value is True
