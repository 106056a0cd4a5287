"""What is said over released tables, as the text that DuckDB runs."""

from __future__ import annotations

from functools import reduce
from itertools import groupby

from sqlglot import ErrorLevel
from sqlglot import expressions as exp
from sqlglot.errors import UnsupportedError

from deniable.sql.functions.times.formats import by_to_char, pieces
from deniable.sql.refusals import refuse


def duckdb_text(tree: exp.Expr) -> str:
    """What DuckDB runs over released tables. What has no words there is refused, not left out."""
    try:
        return tree.transform(_said).sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        refuse(
            "A function of this query has an argument that is not read over released results.",
            "Leave it out.",
        )


def _said(node: exp.Expr) -> exp.Expr:
    """to_char(x, 'YYYY-"Q"Q') by what DuckDB has: strftime(x, '%Y-Q') || quarter(x)."""
    form = node.args.get("format")
    if not isinstance(node, exp.ToChar) or not isinstance(form, exp.Literal):
        return node
    runs = groupby(pieces(by_to_char(str(form.this))), key=lambda piece: piece if _is_foreign(piece) else "")
    texts = [_piece(node.this, foreign or "".join(run)) for foreign, run in runs]
    text = reduce(lambda a, b: exp.DPipe(this=a, expression=b), texts)
    return exp.Paren(this=text)


def _is_foreign(piece: str) -> bool:
    """Whether it is a code of ours that DuckDB does not know."""
    return piece == "%q" or piece.startswith("%^")


def _piece(of: exp.Expr, form: str) -> exp.Expr:
    if form == "%q":
        return exp.cast(exp.Anonymous(this="quarter", expressions=[of.copy()]), "text")
    if _is_foreign(form):
        return exp.Upper(this=_piece(of, form.replace("^", "")))
    return exp.Anonymous(this="strftime", expressions=[of.copy(), exp.Literal.string(form)])
