"""Words that are short for others, as the others. Each is a function from tree to tree.

CORR(x, y) is written as averages; REGR_SLOPE(y, x) and its like, COVAR_SAMP and GEOMEAN as averages,
spreads and counts of rows that have both values. What is combined was released before."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot
from sqlglot import expressions as exp

MOST_NODES = 20_000
"""How much a text may grow where a word is short for many."""


def rewritten(tree: exp.Expr) -> exp.Expr:
    """The same query in fewer words."""
    expand_regressions(tree)
    _since_midnight(tree)
    for node in list(tree.find_all(exp.Corr, exp.CovarPop)):
        if not isinstance(node.parent, (exp.Filter, exp.Window)):
            node.replace(_expand_correlation(node))
    for cast in list(tree.find_all(exp.Cast)):
        if cast.to.is_type("interval") and isinstance(cast.this, exp.Literal):
            cast.replace(exp.Interval(this=cast.this.copy()))
    for fetch in list(tree.find_all(exp.Fetch)):
        _without_fetch(fetch)
    for select in list(tree.find_all(exp.Select)):
        _without_names(select)
        _without_unnest(select)
        _without_lateral(select)
    _name_series(tree)
    return tree


def _without_fetch(fetch: exp.Fetch) -> None:
    """FETCH NEXT 5 ROWS ONLY is LIMIT 5; with ties or in percent it is something else."""
    options, count = fetch.args.get("limit_options"), fetch.args.get("count")
    if count is not None and options is not None and not any(map(options.args.get, ("percent", "with_ties"))):
        fetch.replace(exp.Limit(expression=count.copy()))


def _without_names(select: exp.Select) -> None:
    """SUM(x) OVER w … WINDOW w AS (PARTITION BY a ORDER BY b): each window in full."""
    by_name = {str(window.this.name).lower(): window for window in select.args.get("windows") or []}
    definitions = list(by_name.values())
    for window in select.find_all(exp.Window):
        base = by_name.get(str(window.args.get("alias") or "").strip('"').lower())
        if base is not None and not base.args.get("alias") and window not in definitions:
            _write_out(window, base)
    if not any(window.args.get("alias") for window in select.find_all(exp.Window)):
        select.set("windows", None)


def _write_out(window: exp.Window, base: exp.Window) -> None:
    """What a window does not say itself is what the one that it names says."""
    parts = base.copy().args
    for part in ("partition_by", "order", "spec"):
        if parts.get(part) and not window.args.get(part):
            window.set(part, parts[part])
    window.set("alias", None)


def _without_unnest(select: exp.Select) -> None:
    """SELECT unnest(generate_series(…)) AS m is SELECT m FROM generate_series(…) AS g(m)."""
    series = None
    if len(select.expressions) == 1:
        series = select.find(exp.GenerateSeries)
    if select.args.get("from_") is not None or series is None or not isinstance(series.parent, exp.Explode):
        return
    alias = exp.TableAlias(this=exp.to_identifier("_s"), columns=[exp.to_identifier("_m")])
    source = exp.Table(this=series.copy(), alias=alias)
    series.parent.replace(exp.column("_m", table="_s"))
    select.set("from_", exp.From(this=source))


def _name_series(tree: exp.Expr) -> None:
    """FROM generate_series(…) d: its column is d too, as in PostgreSQL, where nothing names it as DuckDB
    does."""
    if any(str(column.name).lower() == "generate_series" for column in tree.find_all(exp.Column)):
        return
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        if isinstance(table.this, exp.GenerateSeries) and alias is not None and not alias.args.get("columns"):
            alias.set("columns", [alias.this.copy()])


def _without_lateral(select: exp.Select) -> None:
    """FROM p, LATERAL (SELECT COUNT(*) AS n FROM v WHERE …) l: it has one row, so that l.n is (SELECT
    COUNT(*) …)."""
    joins = select.args.get("joins") or []
    for join in list(joins):
        values = _one_row(join)
        if values is None:
            continue
        name = str(join.this.alias).lower()
        columns = [c for c in select.find_all(exp.Column) if str(c.table).lower() == name]
        if len(columns) * max(len(list(value.walk())) for value in values.values()) > MOST_NODES:
            continue
        joins.remove(join)
        for column in columns:
            value = values.get(str(column.name).lower())
            if value is not None:
                column.replace(value.copy())
    select.set("joins", joins)


def _one_row(join: exp.Join) -> dict[str, exp.Expr] | None:
    """The columns of LATERAL (SELECT aggregates …), each as a subquery; None where it may have other than one
    row."""
    inner = _lateral(join)
    if inner is None or not _on_true(join) or not _is_one_row(inner):
        return None
    values: dict[str, exp.Expr] = {}
    for item in inner.expressions:
        query = inner.copy()
        query.set("expressions", [item.this.copy()])
        values[str(item.alias).lower()] = exp.Subquery(this=query)
    return values


def _lateral(join: exp.Join) -> exp.Select | None:
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or not isinstance(lateral.this, exp.Subquery):
        return None
    inner = lateral.this.this
    if isinstance(inner, exp.Select):
        return inner
    return None


def _on_true(join: exp.Join) -> bool:
    on = join.args.get("on")
    if join.args.get("using"):
        return False
    return on is None or (isinstance(on, exp.Boolean) and bool(on.this))


def _is_one_row(select: exp.Select) -> bool:
    """Aggregates with names and nothing else, so that there is one row, whatever the table."""
    parts = ("group", "having", "distinct", "limit", "offset", "order", "with_", "joins")
    if select.find(exp.Lateral) or any(select.args.get(part) for part in parts):
        return False
    return all(isinstance(item, exp.Alias) and item.find(exp.AggFunc) for item in select.expressions)


def _expand_correlation(node: exp.Expr) -> exp.Expr:
    """CORR and COVAR_POP from averages, over rows that have both values. A noisy correlation is kept
    between -1 and 1."""
    x, y = _keep_where_both(node.this, node.expression), _keep_where_both(node.expression, node.this)
    product = exp.Mul(this=x.copy(), expression=y.copy())
    means = exp.Mul(this=exp.Avg(this=x.copy()), expression=exp.Avg(this=y.copy()))
    covariance = exp.Paren(this=exp.Sub(this=exp.Avg(this=product), expression=means))
    if isinstance(node, exp.CovarPop):
        return covariance
    spread = exp.Mul(this=exp.StddevPop(this=x.copy()), expression=exp.StddevPop(this=y.copy()))
    ratio = exp.Div(
        this=covariance, expression=exp.Nullif(this=exp.Paren(this=spread), expression=exp.Literal.number(0))
    )
    below = exp.Least(this=ratio, expressions=[exp.Literal.number(1)])
    return exp.Greatest(this=below, expressions=[exp.Neg(this=exp.Literal.number(1))])


def _keep_where_both(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    there = exp.Not(this=exp.Is(this=exp.Paren(this=other.copy()), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=there, true=exp.Paren(this=value.copy()))])


# ----------------------------------------------------------------------------------------------- times of day


_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?")
_SINCE_MIDNIGHT = sqlglot.parse_one("date_diff('microsecond', date_trunc('day', _x), _x)", read="duckdb")
_SIDES = ("this", "expression", "low", "high")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)


def _since_midnight(tree: exp.Expr) -> None:
    """seen::time BETWEEN '07:00' AND '09:30': in microseconds since midnight. All but one are literals; other
    comparisons are left to be refused."""
    for node in list(tree.find_all(*_COMPARISONS)):
        sides = [side for part in _SIDES if (side := node.args.get(part)) is not None]
        numbers = [_microseconds(side) for side in sides]
        if numbers.count(None) == 1 and _is_time(sides[numbers.index(None)]):
            for side, number in zip(sides, numbers, strict=True):
                side.replace(_write_since(side, number))


def _write_since(side: exp.Expr, number: int | None) -> exp.Expr:
    if number is not None:
        return exp.Literal.number(number)
    since = _SINCE_MIDNIGHT.copy()
    for column in list(since.find_all(exp.Column)):
        column.replace(side.this.copy())
    return since


def _is_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("time")


def _microseconds(node: exp.Expr) -> int | None:
    literal = node.this if _is_time(node) else node
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    clock = _CLOCK.fullmatch(str(literal.this))
    if clock is None:
        return None
    hours, minutes, seconds, fraction = (part or "0" for part in clock.groups())
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10**6 + int(fraction.ljust(6, "0"))


_BOTH = "CASE WHEN NOT (({other}) IS NULL) THEN ({value}) END"
_Y, _X = _BOTH.format(value="_y", other="_x"), _BOTH.format(value="_x", other="_y")
_SLOPE = f"(COVAR_POP(_y, _x) / NULLIF(VAR_POP({_X}), 0))"
_COUNT = f"COUNT({_X})"
_FORMS: dict[type[exp.Expr], str] = {
    exp.CovarSamp: f"(COVAR_POP(_y, _x) * ({_COUNT} / NULLIF({_COUNT} - 1, 0)))",
    exp.RegrSlope: _SLOPE,
    exp.RegrIntercept: f"(AVG({_Y}) - {_SLOPE} * AVG({_X}))",
    exp.RegrR2: "(CORR(_y, _x) * CORR(_y, _x))",
    exp.RegrCount: _COUNT,
    exp.RegrAvgx: f"AVG({_X})",
    exp.RegrAvgy: f"AVG({_Y})",
}
_MEANS = {"geomean": "EXP(AVG(LN(_y)))", "geometric_mean": "EXP(AVG(LN(_y)))"}
_PARSED: dict[str, exp.Expr] = {
    text: sqlglot.parse_one(text, read="duckdb") for text in {*_FORMS.values(), *_MEANS.values()}
}


def expand_regressions(tree: exp.Expr) -> None:
    """Write them out, where nothing is said of them that would have to be said of each part."""
    for node in list(tree.find_all(*_FORMS, exp.Anonymous)):
        if isinstance(node.parent, (exp.Filter, exp.Window)):
            continue
        if type(node) in _FORMS and node.expression:
            node.replace(_fill_in(_FORMS[type(node)], node.this, node.expression))
        elif str(node.this).lower() in _MEANS and len(node.expressions) == 1:
            node.replace(_fill_in(_MEANS[str(node.this).lower()], node.expressions[0], exp.Null()))


def _fill_in(text: str, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    values = {"_y": y, "_x": x}
    fill: Callable[[exp.Expr], exp.Expr] = lambda node: (  # noqa: E731
        exp.Paren(this=values[node.name].copy())
        if isinstance(node, exp.Column) and node.name in values
        else node
    )
    return _PARSED[text].copy().transform(fill)
