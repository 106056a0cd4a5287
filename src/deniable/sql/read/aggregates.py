"""Aggregates: what each measures, the type it wants, and the bounds its argument has by
the schema or by its own form."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.functions import NUMERIC
from deniable.sql.read.coercion import condition, convert, text_way_out
from deniable.sql.read.names import Scope
from deniable.sql.read.parse import refuse, refuse_node
from deniable.sql.tree import Aggregate, Call, Expr, Kind, Statistic

# For each unit alone these are exact on every engine; the others depend on the order in which rows come.
_INNER = {
    Statistic.COUNT,
    Statistic.COUNT_DISTINCT,
    Statistic.SUM,
    Statistic.AVG,
    Statistic.MIN,
    Statistic.MAX,
}


def aggregate(node: exp.Expr, scope: Scope, *, inner: bool = False) -> Aggregate | None:
    """The aggregate that this node is, or None. `inner`: computed for each unit in a
    subquery, without noise."""
    if isinstance(node, exp.Filter):
        made = aggregate(node.this, scope, inner=inner)
        if made is None:
            refuse_node(node)
        return _also(made, condition(scope.rows, node.args["expression"].this, "FILTER"))
    made = _aggregate(node, scope)
    if made is not None and inner:
        _check_inner(made)
    return made


def _aggregate(node: exp.Expr, scope: Scope) -> Aggregate | None:
    if isinstance(node, exp.Count):
        return _count(node, scope)
    if isinstance(node, exp.CountIf):
        return Aggregate(Statistic.COUNT, where=condition(scope.rows, node.this, "COUNT_IF"))
    if isinstance(node, exp.Median):
        return _quantile(node.this, Fraction(1, 2), scope)
    if isinstance(node, exp.WithinGroup):
        return _within(node, scope)
    if isinstance(node, (exp.PercentileCont, exp.PercentileDisc)):
        return _quantile(node.this, _level(node.args.get("expression")), scope)
    if type(node) in NUMERIC:
        return _numeric(NUMERIC[type(node)], node.this, scope)
    return None


def _also(made: Aggregate, where: Expr) -> Aggregate:
    both = where if made.where is None else Call("and", (made.where, where), types.BOOLEAN)
    return replace(made, where=both)


def _count(node: exp.Count, scope: Scope) -> Aggregate:
    of = node.this
    if of is None or isinstance(of, exp.Star):
        return Aggregate(Statistic.COUNT)
    if not isinstance(of, exp.Distinct):
        return Aggregate(Statistic.COUNT, scope.rows(of))
    if len(of.expressions) != 1:
        refuse(
            "COUNT(DISTINCT …) of several columns is not answered.", "Count one column, or join texts by ||."
        )
    inside = of.expressions[0]
    if isinstance(inside, exp.Column) and scope.find(inside).unit:
        return Aggregate(Statistic.COUNT_UNITS)
    return Aggregate(Statistic.COUNT_DISTINCT, scope.rows(inside))


def _numeric(statistic: Statistic, node: exp.Expr, scope: Scope) -> Aggregate:
    if isinstance(node, exp.Distinct):
        refuse(f"{statistic.upper()}(DISTINCT …) is not answered.", "Use COUNT(DISTINCT x), or a subquery.")
    return _measured(statistic, scope.rows(node), scope)


def _measured(statistic: Statistic, of: Expr, scope: Scope, level: Fraction | None = None) -> Aggregate:
    if of.type.kind is Kind.BOOLEAN:
        of = convert(of, types.INTEGER)
    if of.type.kind not in types.NUMBERS:
        refuse(
            f"{statistic.upper()} expects a number, got {types.name(of.type)}.",
            text_way_out(of) or "Count it, or use date_diff('day', DATE '2000-01-01', x) for dates.",
        )
    grid = None if of.type.kind is Kind.FLOAT else Fraction(1, 10**of.type.scale)
    return Aggregate(statistic, of, None, level, scope.interval(of).bounds, grid)


def _quantile(node: exp.Expr, level: Fraction, scope: Scope) -> Aggregate:
    return _measured(Statistic.QUANTILE, scope.rows(node), scope, level)


def _within(node: exp.WithinGroup, scope: Scope) -> Aggregate:
    of, order = node.this, node.args["expression"].expressions
    if (
        not isinstance(of, (exp.PercentileCont, exp.PercentileDisc))
        or len(order) != 1
        or of.args.get("expression")
    ):
        refuse(
            "WITHIN GROUP is answered for PERCENTILE_CONT and PERCENTILE_DISC of one column.",
            "Use QUANTILE_CONT.",
        )
    level = _level(of.this)
    return _quantile(order[0].this, 1 - level if order[0].args.get("desc") else level, scope)


def _level(node: exp.Expr | None) -> Fraction:
    try:
        level = Fraction(str(node.this)) if isinstance(node, exp.Literal) and not node.is_string else None
    except ValueError:
        level = None
    if level is None or not 0 <= level <= 1 or level.denominator > 10**9:
        refuse(
            "A quantile expects one level from 0 to 1, written as a literal.", "Ask for several one by one."
        )
    return level


def _check_inner(made: Aggregate) -> None:
    if made.statistic not in _INNER:
        refuse(
            f"{made.statistic.upper()} inside a subquery is not answered.",
            "Use COUNT, COUNT(DISTINCT x), SUM, AVG, MIN or MAX there.",
        )
    summed = made.statistic in (Statistic.SUM, Statistic.AVG)
    if summed and made.of is not None and made.of.type.kind is Kind.FLOAT:
        refuse(
            f"{made.statistic.upper()} of floats inside a subquery is not answered: it depends on the order "
            "of rows.",
            f"Use {made.statistic.upper()}(CAST(x AS DECIMAL(18, 4))).",
        )
