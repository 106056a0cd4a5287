"""REGR_SLOPE(y, x) and its like, COVAR_SAMP and GEOMEAN: as averages, spreads and counts of rows that have
both values. Each is a function from tree to tree; what is combined was released before."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import expressions as exp

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


def expanded(tree: exp.Expr) -> None:
    """Write them out, where nothing is said of them that would have to be said of each part."""
    for node in list(tree.find_all(*_FORMS, exp.Anonymous)):
        if isinstance(node.parent, (exp.Filter, exp.Window)):
            continue
        if type(node) in _FORMS and node.expression:
            node.replace(_filled(_FORMS[type(node)], node.this, node.expression))
        elif str(node.this).lower() in _MEANS and len(node.expressions) == 1:
            node.replace(_filled(_MEANS[str(node.this).lower()], node.expressions[0], exp.Null()))


def _filled(text: str, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    values = {"_y": y, "_x": x}
    fill: Callable[[exp.Expr], exp.Expr] = lambda node: (  # noqa: E731
        exp.Paren(this=values[node.name].copy())
        if isinstance(node, exp.Column) and node.name in values
        else node
    )
    return _PARSED[text].copy().transform(fill)
