"""What may be said over released tables: nodes and functions by name, and nothing else.

The connection that runs it has no file, extension or setting to reach. This list is the first door: no table
but a released one is named, no function is called that reads anything else than its arguments, draws at
random or reads a clock, so that the same text over the same release always says the same.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import whole, whole_number
from deniable.sql.functions import refused
from deniable.sql.read import hints
from deniable.sql.read.parse import PARTS, name_of
from deniable.sql.read.relations.series import series
from deniable.sql.refusals import refuse, shown

RESERVED = "deniable_"
"""How names begin that an analyst may not use: those of released tables and of intervals."""

# fmt: off
NODES: frozenset[type[exp.Expr]] = frozenset({
    exp.Select, exp.Union, exp.Intersect, exp.Except, exp.Subquery, exp.With, exp.CTE, exp.TableAlias,
    exp.From, exp.Table, exp.Join, exp.Where, exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Having,
    exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch, exp.Distinct, exp.Alias,
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Star, exp.Var, exp.Paren, exp.Tuple,
    exp.DataType, exp.DataTypeParam, exp.Interval, exp.Window, exp.WindowSpec, exp.IgnoreNulls,
    exp.RespectNulls, exp.Filter, exp.WithinGroup, exp.Pivot, exp.PivotAlias, exp.PivotAny, exp.In,
    exp.Between, exp.Exists, exp.Any, exp.All, exp.Values,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.EQ, exp.NEQ, exp.LT, exp.LTE,
    exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Not, exp.Is, exp.Like, exp.ILike,
    exp.Escape, exp.DPipe, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Coalesce, exp.Anonymous, exp.Kwarg,
    exp.Array,
})

NAMES: frozenset[str] = frozenset({
    "COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX", "MEDIAN", "MODE", "COUNT_IF", "COUNTIF", "PRODUCT",
    "FIRST", "LAST", "ANY_VALUE", "ARG_MAX", "ARG_MIN", "MAX_BY", "MIN_BY", "STRING_AGG", "GROUP_CONCAT",
    "LISTAGG", "BOOL_AND", "BOOL_OR", "LOGICAL_AND", "LOGICAL_OR", "STDDEV", "STDDEV_POP", "STDDEV_SAMP",
    "VARIANCE", "VAR_POP", "VAR_SAMP", "VARIANCE_POP", "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC",
    "PERCENTILE_CONT", "PERCENTILE_DISC", "APPROX_QUANTILE", "APPROX_DISTINCT", "APPROX_COUNT_DISTINCT",
    "CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_COUNT",
    "REGR_AVGX", "REGR_AVGY", "SKEWNESS", "KURTOSIS", "ENTROPY", "MAD", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE",
    "NTH_VALUE", "ABS", "SIGN", "ROUND", "FLOOR", "CEIL", "CEILING", "TRUNC", "SQRT", "CBRT", "LN", "LOG",
    "LOG2", "LOG10", "EXP", "POW", "POWER", "MOD", "GREATEST", "LEAST", "COALESCE", "IFNULL", "NULLIF",
    "IF", "CASE", "CAST", "TRY_CAST", "ISNAN", "ISINF", "FDIV", "DIVIDE", "BETWEEN", "LOWER", "UPPER",
    "LCASE", "UCASE", "LENGTH", "LEN", "SUBSTRING", "SUBSTR", "LEFT", "RIGHT", "TRIM", "LTRIM", "RTRIM",
    "CONCAT", "CONCAT_WS", "REPLACE", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "STRPOS", "STR_POSITION",
    "INSTR", "SPLIT_PART", "LPAD", "RPAD", "PAD", "FORMAT_NUMBER", "REGEXP_MATCHES", "REGEXP_LIKE",
    "REGEXP_FULL_MATCH", "REGEXP_EXTRACT", "REGEXP_REPLACE", "REVERSE", "INITCAP", "DATE_TRUNC",
    "TIMESTAMP_TRUNC", "DATE_PART", "EXTRACT", "DATE_DIFF", "DATEDIFF", "DATE_ADD", "DATE_SUB",
    "TS_OR_DS_ADD", "DATESUB", "DATEADD", "STRFTIME", "TIME_TO_STR", "STRPTIME", "STR_TO_TIME", "TO_CHAR",
    "DAYNAME", "MONTHNAME", "YEAR", "QUARTER", "MONTH", "WEEK", "WEEK_OF_YEAR", "WEEKOFYEAR", "DAY",
    "DAY_OF_MONTH", "DAYOFMONTH", "DAY_OF_WEEK", "DAYOFWEEK", "DAY_OF_WEEK_ISO", "DAYOFWEEK_ISO",
    "ISODOW", "DAY_OF_YEAR", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND", "LAST_DAY", "MAKE_DATE",
    "DATE_FROM_PARTS", "DATE", "TIMESTAMP", "TO_DAYS", "TO_MONTHS", "TO_YEARS", "TS_OR_DS_TO_DATE", "AGE",
    "WIDTH_BUCKET", "CLAMP",
})
# fmt: on

SERIES = 10_000
"""How many values a series may have."""


def check_after(tree: exp.Expr, released: Collection[str]) -> None:
    """Every node and function is on the lists, every table is one of `released` or named in WITH."""
    names = {str(cte.alias).lower() for cte in tree.find_all(exp.CTE)} | {name.lower() for name in released}
    for node in tree.walk():
        _check_node(node)
        if isinstance(node, exp.Table):
            _check_table(node, names)


def check_reserved(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Identifier):
        if str(node.this).lower().startswith(RESERVED):
            refuse(f"Names that begin with {RESERVED} are not free: {shown(str(node.this))}.", "Use another.")


def _check_node(node: exp.Expr) -> None:
    if isinstance(node, exp.With) and node.args.get("recursive"):
        refuse("A recursive WITH is not answered.", "Write the steps out.")
    if isinstance(node, exp.Pivot):
        _check_pivot(node)
    _check_width(node)
    for part in ("into", "locks", "sample", "hint", "settings", "laterals", "match", "connect", "cluster"):
        if node.args.get(part):
            what, way_out = PARTS.get(part, (part.upper(), "Leave it out."))
            refuse(f"{what} is not answered.", way_out)
    if type(node) in NODES and not isinstance(node, exp.Anonymous):
        return
    name = name_of(node).upper()
    if isinstance(node, exp.Func) and name in NAMES:
        return
    if isinstance(node, exp.GenerateSeries):
        _check_series(node)
        return
    refuse(f"{name} is not answered over released results.", _way_out(name))


def _way_out(name: str) -> str:
    suggestion = hints.similar(name, NAMES, hints.ALIKE_FUNCTIONS)
    return (f"Did you mean {suggestion}? " if suggestion else "") + refused.UNKNOWN


def _check_pivot(node: exp.Pivot) -> None:
    """Its columns are known before it is run: they are named and typed for whoever asked, rows or not."""
    fields = node.args.get("fields") or node.expressions
    has_values = all(isinstance(each, exp.In) and each.expressions for each in fields)
    if not node.args.get("unpivot") and not has_values:
        refuse("PIVOT needs the values that become columns.", "Write them out: ON x IN ('a', 'b').")


def _check_table(node: exp.Table, named: Collection[str]) -> None:
    if isinstance(node.this, exp.GenerateSeries):
        return
    if not isinstance(node.this, exp.Identifier) or node.args.get("db") or node.args.get("catalog"):
        refuse("Only declared tables and names of WITH stand after FROM.", refused.FILE)
    if str(node.name).lower() not in named:
        refuse(f"There is no released result {shown(str(node.name))} here.", "Name it by WITH.")


def _check_width(node: exp.Expr) -> None:
    """As on private rows: no literal is longer, and no text is filled up to more characters. (What a text
    becomes by being joined with itself again and again is limited where it is run.)"""
    if isinstance(node, exp.Literal) and node.is_string and len(str(node.this)) > types.MAX_TEXT:
        refuse(
            f"Expected texts of at most {types.MAX_TEXT:,} characters, got one of {len(str(node.this)):,}."
        )
    if isinstance(node, exp.Pad):
        whole(node.args.get("expression"), name_of(node).upper(), 0, types.MAX_TEXT)
    if isinstance(node, exp.DataType) and (node.args.get("nested") or node.args.get("values")):
        refuse("A type of lists or structs is not answered over released results.", "Leave it out.")


def _check_series(node: exp.GenerateSeries) -> None:
    """Of literals, and short: a longer one would be worked on for nothing but its length. Of whole numbers it
    may be longer than beside private rows."""
    if any(part.find(exp.Column, exp.Query) for part in node.iter_expressions()):
        refuse("A series has ends that are written out.", "Write generate_series(1, 12).")
    first, last, step = (whole_number(node.args.get(part)) for part in ("start", "end", "step"))
    if first is None or last is None or (step is None and node.args.get("step") is not None):
        series(node)
    elif abs(last - first) // abs(step or 1) > SERIES:
        refuse(f"Expected a series of at most {SERIES:,} values.", "Make it shorter.")
