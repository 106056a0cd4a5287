"""One form for ways to write the same rows: `COUNT(1)` is COUNT(*), `WHERE TRUE` says nothing, and `FROM (SELECT
* FROM v)` is v. So they release the same, under the same key, and are paid once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deniable.sql.tree import (
    Aggregate,
    Call,
    Column,
    Expr,
    Filter,
    Key,
    Literal,
    Project,
    Relation,
    Scan,
    Statistic,
)

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
    """Whether it is rows of a declared table. What is made of others keeps its form: it has keys in ledgers."""
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
