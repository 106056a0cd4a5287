"""Aggregates: what each measures, the type it wants, and the bounds its argument has by
the schema or by its own form."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import condition, convert, text_way_out
from deniable.sql.functions.aggregates import NUMERIC
from deniable.sql.functions.arithmetic import product_of
from deniable.sql.functions.conditions import conjunction, disjunction, equality
from deniable.sql.functions.times.dates import difference
from deniable.sql.functions.times.periods import days_later, micros_later
from deniable.sql.read.names import Scope
from deniable.sql.read.parse import refuse_node
from deniable.sql.refusals import refuse
from deniable.sql.tree import Aggregate, Expr, Kind, Literal, Statistic, Type

EPOCH = date(1970, 1, 1)

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
        reading = aggregate(node.this, scope, inner=inner)
        if reading is None:
            refuse_node(node)
        return _add_condition(reading, condition(scope.rows, node.args["expression"].this, "FILTER"))
    if not inner:
        return _aggregate(node, scope)
    reading = _times(node, scope) or _aggregate(node, scope)
    return reading and _exact(reading)


def _times(node: exp.Expr, scope: Scope) -> Aggregate | None:
    """MIN and MAX of dates and timestamps, for each unit."""
    if not isinstance(node, (exp.Min, exp.Max)) or isinstance(node.this, exp.Distinct):
        return None
    of = scope.rows(node.this)
    if of.type.kind in types.TIMES:
        return Aggregate(NUMERIC[type(node)], of)
    return None


def extreme_time(node: exp.Expr, scope: Scope) -> tuple[Aggregate, Type] | None:
    """MIN, MAX and MEDIAN of dates, in days since 1970, or of timestamps, in seconds; with the type that they
    are of."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(inner, (exp.Min, exp.Max, exp.Median)) or isinstance(inner.this, exp.Distinct):
        return None
    of = scope.attempt(inner.this)
    if of is None or of.type.kind not in types.TIMES:
        return None
    unit, length, start = "second", 86_400, Literal(datetime.combine(EPOCH, time()), of.type)
    if of.type.kind is Kind.DATE:
        unit, length, start = "day", 1, Literal(EPOCH, of.type)
    number = difference(unit, start, of)
    first, last = ((end - EPOCH).days * length for end in (date.min, date.max))
    statistic = NUMERIC.get(type(inner), Statistic.QUANTILE)
    level = None
    if isinstance(inner, exp.Median):
        level = Fraction(1, 2)
    bounds = Fraction(first), Fraction(last + length - 1)
    extreme = Aggregate(statistic, number, None, level, bounds, Fraction(1))
    if isinstance(node, exp.Filter):
        extreme = _add_condition(extreme, condition(scope.rows, node.args["expression"].this, "FILTER"))
    return extreme, of.type


def time_of(number: Expr, of: Type) -> Expr:
    """The date or timestamp so many days or seconds after 1970."""
    if of.kind is Kind.DATE:
        return days_later(Literal(EPOCH, of), number)
    micros = product_of(number, Literal(1_000_000, types.INTEGER))
    return micros_later(Literal(datetime.combine(EPOCH, time()), of), micros)


def holding(node: exp.Expr, scope: Scope) -> Aggregate:
    """BOOL_OR and BOOL_AND, for each unit: the largest or smallest of 0 and 1."""
    name, statistic = "BOOL_AND", Statistic.MIN
    if isinstance(node, exp.LogicalOr):
        name, statistic = "BOOL_OR", Statistic.MAX
    of = convert(condition(scope.rows, node.this, name), types.INTEGER)
    return Aggregate(statistic, of, bounds=(Fraction(0), Fraction(1)), granularity=Fraction(1))


def held(number: Expr) -> Expr:
    """Whether 0 or 1 is 1."""
    return equality(number, Literal(1, types.INTEGER))


def _aggregate(node: exp.Expr, scope: Scope) -> Aggregate | None:
    if isinstance(node, exp.Count):
        return _count(node, scope)
    if isinstance(node, exp.CountIf):
        return Aggregate(Statistic.COUNT, where=condition(scope.rows, node.this, "COUNT_IF"))
    if isinstance(node, exp.ApproxDistinct):
        return _distinct(node.this, scope)
    if isinstance(node, exp.ApproxQuantile):
        return _quantile(node.this, _level(node.args.get("quantile")), scope)
    if isinstance(node, exp.Median):
        return _quantile(node.this, Fraction(1, 2), scope)
    if isinstance(node, exp.WithinGroup):
        return _read_within_group(node, scope)
    if isinstance(node, (exp.PercentileCont, exp.PercentileDisc)):
        return _quantile(node.this, _level(node.args.get("expression")), scope)
    if type(node) in NUMERIC:
        return _numeric(NUMERIC[type(node)], node.this, scope)
    return None


def _add_condition(made: Aggregate, where: Expr) -> Aggregate:
    both = where
    if made.where is not None:
        both = conjunction(made.where, where)
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
    return _distinct(of.expressions[0], scope)


def _distinct(of: exp.Expr, scope: Scope) -> Aggregate:
    while isinstance(of, exp.Paren):
        of = of.this
    if _is_unit(of, scope):
        return Aggregate(Statistic.COUNT_UNITS)
    tests = _units_where(of, scope)
    if tests:
        where = [condition(scope.rows, test, "CASE WHEN") for test in tests]
        if len(where) > 1:
            where = [disjunction(*where)]
        return Aggregate(Statistic.COUNT_UNITS, where=where[0])
    return Aggregate(Statistic.COUNT_DISTINCT, scope.rows(of))


def _is_unit(node: exp.Expr, scope: Scope) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) and scope.find(node).unit


def _units_where(node: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The conditions of CASE WHEN c THEN unit END, which is the unit where one of them holds."""
    if not isinstance(node, (exp.Case, exp.If)) or (isinstance(node, exp.Case) and node.this is not None):
        return []
    whens = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    otherwise = node.args.get("default") or node.args.get("false")
    if otherwise is not None and not isinstance(otherwise, exp.Null):
        return []
    if all(_is_unit(when.args["true"], scope) for when in whens):
        return [when.this for when in whens]
    return []


def _numeric(statistic: Statistic, node: exp.Expr, scope: Scope) -> Aggregate:
    if isinstance(node, exp.Distinct):
        refuse(f"{statistic.upper()}(DISTINCT …) is not answered.", "Use COUNT(DISTINCT x), or a subquery.")
    return _measure_values(statistic, scope.rows(node), scope)


def _measure_values(statistic: Statistic, of: Expr, scope: Scope, level: Fraction | None = None) -> Aggregate:
    if of.type.kind is Kind.BOOLEAN:
        of = convert(of, types.INTEGER)
    if of.type.kind is Kind.TEXT and statistic in (Statistic.MIN, Statistic.MAX):
        refuse(
            f"{statistic.upper()} expects a number, got TEXT: the first or last text would be one person's.",
            text_way_out(of) or "Group by it, or write CAST(x AS DOUBLE).",
        )
    if of.type.kind not in types.NUMBERS:
        refuse(
            f"{statistic.upper()} expects a number, got {types.name(of.type)}.",
            text_way_out(of) or "Count it, or use date_diff('day', DATE '2000-01-01', x) for dates.",
        )
    grid = None
    if of.type.kind is not Kind.FLOAT:
        grid = Fraction(1, 10**of.type.scale)
    return Aggregate(statistic, of, None, level, scope.interval(of).bounds, grid)


def _quantile(node: exp.Expr, level: Fraction, scope: Scope) -> Aggregate:
    return _measure_values(Statistic.QUANTILE, scope.rows(node), scope, level)


def _read_within_group(node: exp.WithinGroup, scope: Scope) -> Aggregate:
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
        level = None
        if isinstance(node, exp.Literal) and not node.is_string:
            level = Fraction(str(node.this))
    except ValueError:
        level = None
    if level is None or not 0 <= level <= 1 or level.denominator > 10**9:
        refuse(
            "A quantile expects one level from 0 to 1, written as a literal.", "Ask for several one by one."
        )
    return level


def _exact(made: Aggregate) -> Aggregate:
    """A unit's own aggregate, which no order of rows changes: floats are summed as decimals."""
    if made.statistic not in _INNER:
        refuse(
            f"{made.statistic.upper()} inside a subquery is not answered.",
            "Use COUNT, COUNT(DISTINCT x), SUM, AVG, MIN or MAX there.",
        )
    is_sum = made.statistic in (Statistic.SUM, Statistic.AVG)
    if not is_sum or made.of is None or made.of.type.kind is not Kind.FLOAT:
        return made
    places = _places(made.bounds)
    return replace(made, of=convert(made.of, types.decimal(places)), granularity=Fraction(1, 10**places))


def _places(bounds: tuple[Fraction, Fraction] | None) -> int:
    """The decimal places of floats that are summed: of small numbers more, of large ones fewer."""
    size = max(abs(bound) for bound in bounds) if bounds is not None else Fraction(10**6)
    return next((places for places in range(9, 0, -1) if size * 10**places <= 10**12), 0)
