"""The allow-list: every operator, function and aggregate that a query may use, and what
to say about the others.

Each scalar function is total on every engine (NULL where it is not defined), deterministic, and its cost is
bounded by the length of its input. What is not listed here is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import expressions as exp

from deniable.sql.tree import Statistic


@dataclass(frozen=True)
class Function:
    """`op` is its name in the tree; `form` how an analyst writes it; `meaning` what it
    gives, NULL and edges included."""

    op: str
    form: str
    meaning: str


SCALARS: tuple[Function, ...] = (
    Function("add", "a + b", "sum; NULL where 64 bits or a float's range do not hold it; DATE + whole days"),
    Function("subtract", "a - b", "difference; NULL as for +; DATE - DATE is a number of days"),
    Function("multiply", "a * b", "product; the decimal places of decimals add up; NULL as for +"),
    Function("divide", "a / b", "quotient as a float; NULL where b = 0"),
    Function("int_divide", "a // b", "quotient rounded towards zero; NULL where b = 0; not for floats"),
    Function("modulo", "a % b, mod(a, b)", "remainder with the sign of a; NULL where b = 0; not for floats"),
    Function("negate", "-a", "the number with the other sign"),
    Function("abs", "abs(a), @a", "the size of a number"),
    Function("sign", "sign(a)", "-1, 0 or 1"),
    Function(
        "round", "round(a [, digits])", "rounded, halves away from zero; digits is a literal from -15 to 15"
    ),
    Function("floor", "floor(a)", "the whole number below"),
    Function("ceil", "ceil(a), ceiling(a)", "the whole number above"),
    Function("sqrt", "sqrt(a)", "square root; NULL where a < 0"),
    Function("ln", "ln(a)", "natural logarithm; NULL where a <= 0"),
    Function("log10", "log10(a), log(a)", "decimal logarithm; NULL where a <= 0"),
    Function("exp", "exp(a)", "e to the power a; NULL above 709; below -700 as at -700"),
    Function(
        "power",
        "power(a, b), pow(a, b), a ** b",
        "a to the power b; NULL where it is not a finite real number",
    ),
    Function(
        "greatest", "greatest(a, b, …)", "the largest; NULL if any is NULL (DuckDB would leave NULLs out)"
    ),
    Function("least", "least(a, b, …)", "the smallest; NULL if any is NULL (DuckDB would leave NULLs out)"),
    Function("least", "clamp(a, low, high)", "least(greatest(a, low), high)"),
    Function("coalesce", "coalesce(a, b, …), ifnull(a, b)", "the first that is not NULL"),
    Function("nullif", "nullif(a, b)", "NULL where a = b, else a"),
    Function("case", "CASE … END, if(c, a, b)", "the value of the first condition that holds"),
    Function("eq", "a = b", "equal"),
    Function("ne", "a <> b", "not equal"),
    Function("lt", "a < b", "less; texts by their bytes"),
    Function("le", "a <= b, a BETWEEN b AND c", "less or equal"),
    Function("gt", "a > b", "greater"),
    Function("ge", "a >= b", "greater or equal"),
    Function("and", "a AND b", "both"),
    Function("or", "a OR b", "one of them"),
    Function("not", "NOT a", "not"),
    Function("is_null", "a IS NULL, a IS TRUE, a IS FALSE", "never NULL itself"),
    Function("in", "a IN (1, 2, …)", "one of the values"),
    Function(
        "like",
        "a LIKE 'p%', a ILIKE 'p%'",
        "a literal pattern with at most 3 runs of %; ILIKE folds ASCII letters",
    ),
    Function(
        "regexp",
        "regexp_matches(a, 'p'), a ~ 'p', a ~* 'p', a SIMILAR TO 'p'",
        "a literal pattern without going back: characters, `[a-z]`, `\\d`, `\\w`, `\\s`, "
        "`.`, `*`, `+`, `?`, `{2,3}`, alternatives, `^`, `$`",
    ),
    Function(
        "regexp_extract",
        "regexp_extract(a, 'p' [, 1])",
        "the first match of a literal pattern that matches in one way only, or what its n-th bracket "
        "holds; '' where "
        "there is none",
    ),
    Function(
        "regexp_replace",
        "regexp_replace(a, 'p', 'b' [, 'g'])",
        "the first match of such a pattern (with 'g' every one) replaced, `\\\\1` being what its first "
        "bracket holds, then cut to 1,024 characters; 'i' folds ASCII letters",
    ),
    Function("lower", "lower(a)", "ASCII letters made small"),
    Function("upper", "upper(a)", "ASCII letters made large"),
    Function("length", "length(a), len(a)", "number of characters (code points)"),
    Function("byte_length", "strlen(a)", "number of bytes in UTF-8"),
    Function("substring", "substring(a, from [, count]), left(a, n)", "literal positions from 1"),
    Function("right", "right(a, n)", "the last n characters; n a literal"),
    Function("trim", "trim(a), ltrim(a), rtrim(a)", "spaces removed at the ends"),
    Function(
        "concat", "a || b, concat(a, b, …)", "joined and cut to 1,024 characters; concat takes NULL as ''"
    ),
    Function("replace", "replace(a, 'x', 'y')", "literals replaced, then cut to 1,024 characters"),
    Function("split_part", "split_part(a, '/', 3)", "the literal n-th part, from 1; '' where there is none"),
    Function(
        "position", "strpos(a, 'x'), instr(a, 'x')", "where a literal begins, from 1; 0 where it is not in a"
    ),
    Function("pad", "lpad(a, 5, '0'), rpad(a, 5, ' ')", "filled up or cut to a literal number of characters"),
    Function(
        "case", "width_bucket(a, 0, 100, 10)", "the number of the part of equal width; 0 below, 11 above"
    ),
    Function("case", "trunc(a)", "rounded towards zero"),
    Function("coalesce", "a IS NOT DISTINCT FROM b", "equal, NULL being equal to NULL"),
    Function("divide", "log2(a), log(b, a)", "logarithm to a literal base; NULL where a <= 0"),
    Function(
        "json_field",
        "a ->> 'x', a ->> '$.x.y', json_extract_string(a, '$.x'), json_value(a, '$.x'), "
        "get_json_object(a, '$.x')",
        "a string, boolean or whole number of a JSON text, by a literal path of keys; other numbers by "
        "CAST(a ->> 'x' AS DOUBLE); NULL where the text is not JSON",
    ),
    Function("starts_with", "starts_with(a, b)", "whether a begins with b"),
    Function("ends_with", "ends_with(a, b)", "whether a ends with b"),
    Function("contains", "contains(a, b)", "whether b is in a"),
    Function(
        "date_trunc",
        "date_trunc('month', a)",
        "start of the year, quarter, month, week, day, hour, minute, second",
    ),
    Function(
        "date_part",
        "extract(year FROM a), date_part('year', a), year(a)",
        "year, quarter, month, week (ISO), day, dow (Sunday 0), isodow (Monday 1), doy, hour, minute, second",
    ),
    Function(
        "date_diff",
        "date_diff('day', a, b)",
        "boundaries of year, quarter, month, week, day, hour, minute, second, … between a and b",
    ),
    Function(
        "add_months",
        "a + INTERVAL '3 months', dateadd('day', 3, a)",
        "later by a literal period, of a month without such a day its last; NULL outside the years 1 to 9999",
    ),
    Function(
        "full_months",
        "extract(year FROM age(a, b))",
        "full years (or months) from the day of b to that of a",
    ),
    Function(
        "date_format",
        "strftime(a, '%Y-%m'), to_char(a, 'YYYY-MM'), dayname(a), monthname(a)",
        "as text, by a literal format of numbers and English names",
    ),
    Function(
        "time_bin",
        "time_bucket(INTERVAL '15 minutes', a), date_bin('15 minutes', a, origin)",
        "start of the literal period that a lies in, counted from 2000-01-03 or the origin",
    ),
    Function(
        "cast", "CAST(a AS type), a::type, TRY_CAST(a AS type)", "NULL where the value is not one of the type"
    ),
    Function("bucket", "bucket(a, [0, 10, 20])", "the lower edge of [0, 10) or [10, 20]; NULL outside"),
)

OPS: frozenset[str] = frozenset(f.op for f in SCALARS) | {"add_days", "add_micros", "epoch"}

# What may be computed from released numbers: `sql.answer.evaluate` evaluates these, and nothing else.
# fmt: off
POST: frozenset[str] = frozenset({
    "add", "subtract", "multiply", "divide", "int_divide", "modulo", "negate", "abs", "sign", "round",
    "floor", "ceil", "sqrt", "ln", "log10", "exp", "power", "greatest", "least", "coalesce", "nullif", "case",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "in", "cast", "add_days", "add_micros",
})
# fmt: on

AGGREGATES: dict[str, str] = {
    Statistic.COUNT: "COUNT(*), COUNT(x), COUNT_IF(c)",
    Statistic.COUNT_DISTINCT: "COUNT(DISTINCT x), APPROX_COUNT_DISTINCT(x)",
    Statistic.COUNT_UNITS: "COUNT(DISTINCT unit)",
    Statistic.SUM: "SUM(x)",
    Statistic.AVG: "AVG(x), MEAN(x)",
    Statistic.VARIANCE: "VARIANCE(x), VAR_SAMP(x)",
    Statistic.VARIANCE_POP: "VAR_POP(x)",
    Statistic.STDDEV: "STDDEV(x), STDDEV_SAMP(x)",
    Statistic.STDDEV_POP: "STDDEV_POP(x)",
    Statistic.MIN: "MIN(x)",
    Statistic.MAX: "MAX(x)",
    Statistic.QUANTILE: (
        "MEDIAN(x), QUANTILE_CONT(x, 0.9), QUANTILE_DISC(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP "
        "(ORDER BY x)"
    ),
}

NUMERIC: dict[type[exp.Expr], Statistic] = {
    exp.Sum: Statistic.SUM,
    exp.Avg: Statistic.AVG,
    exp.Variance: Statistic.VARIANCE,
    exp.VariancePop: Statistic.VARIANCE_POP,
    exp.Stddev: Statistic.STDDEV,
    exp.StddevSamp: Statistic.STDDEV,
    exp.StddevPop: Statistic.STDDEV_POP,
    exp.Min: Statistic.MIN,
    exp.Max: Statistic.MAX,
}
"""Aggregates of one number, by the node that the parser makes of them."""

_TIME = (
    "Each moment would be a new question with a new charge; write CURRENT_DATE or a literal, such as "
    "DATE '2026-01-31'."
)
_CHANCE = "Answers depend on the query and the data alone; leave chance to the noise."
_PATTERN = (
    "Use LIKE or ILIKE with a literal pattern, starts_with, ends_with or contains; a part is split_part(x, "
    "'/', 3) or "
    "regexp_extract(x, '@([a-z]+)', 1)."
)
_LIST = "Use plain columns; for groups of numbers use bucket(x, [0, 10, 20])."
_FILE = "Ask the owner to declare the table in the schema, and use its name."
_SIZE = "Its result is not bounded by the length of its input; use concat, replace, left or right."
_BITS = "Use arithmetic: //, % and *."
_WINDOW = (
    "Aggregate first, and say it over the result: SELECT a, COUNT(*) AS n, RANK() OVER (ORDER BY n) … "
    "GROUP BY a."
)
_LATEST = (
    "Within the rows of one person it is answered in a subquery: SELECT ward, COUNT(*) FROM (SELECT ward, "
    "ROW_NUMBER() OVER "
    "(PARTITION BY patient_id ORDER BY day) AS r FROM visits) v WHERE r = 1 GROUP BY ward."
)
_LATERAL = "Write the value where it is used: AVG((SELECT COUNT(*) FROM visits v WHERE v.patient_id = p.id))."
_RECURSIVE = (
    "Write the steps out; an axis is generate_series(DATE '2026-01-01', DATE '2026-12-01', INTERVAL 1 MONTH) "
    "AS g(m)."
)
_HASH = "Use the column itself."
_ONE = (
    "It would release one person's value; use MIN, MAX, MEDIAN or QUANTILE_CONT. Of each person, in a "
    "subquery: FIRST_VALUE(x) "
    "OVER (PARTITION BY person ORDER BY day)."
)
_JSON = "Take a field out of it: x ->> 'a' or x ->> '$.a.b'."
_CAST = (
    "Use CAST(x AS DATE) with texts such as '2026-01-31': what cannot be read is NULL. Of '31.01.2026' make "
    "it first: concat(substring(x, 7, 4), '-', substring(x, 4, 2), '-', substring(x, 1, 2))."
)
_MIX = "Release COUNT, SUM and AVG of the products, and combine those."

# Refused by name: what to do instead. A name that is neither here nor allowed gets `UNKNOWN`.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("current_time", "localtime", "localtimestamp"),
        _TIME,
    ),
    **dict.fromkeys(
        ("random", "rand", "uuid", "gen_random_uuid", "setseed", "nextval", "hash", "md5", "sha256"), _CHANCE
    ),
    **dict.fromkeys(("glob", "regexp_split", "string_split", "split"), _PATTERN),
    **dict.fromkeys(
        (
            "unnest",
            "list",
            "list_sum",
            "list_transform",
            "array",
            "struct",
            "map",
        ),
        _LIST,
    ),
    **dict.fromkeys(("lambda", "comprehension", "bracket", "array_agg", "struct_pack", "list_value"), _LIST),
    **dict.fromkeys(
        (
            "read_csv",
            "read_csv_auto",
            "read_parquet",
            "read_text",
            "read_blob",
            "read_json",
            "glob",
            "parquet_scan",
        ),
        _FILE,
    ),
    **dict.fromkeys(("repeat", "printf", "format", "chr", "string_agg", "group_concat", "space"), _SIZE),
    **dict.fromkeys(("<<", ">>", "&", "|", "~", "xor"), _BITS),
    **dict.fromkeys(("factorial", "gamma", "lgamma"), "Use power or exp."),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "ntile"), _WINDOW
    ),
    **dict.fromkeys(("any_value", "first", "last", "arg_max", "arg_min", "max_by", "min_by"), _ONE),
    "mode": "Write SELECT x, COUNT(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 1.",
    **dict.fromkeys(("uniq", "uniqexact"), "Write COUNT(DISTINCT x)."),
    **dict.fromkeys(
        ("tostartofhour", "tostartofday", "tostartofweek", "tostartofmonth"), "Write date_trunc('hour', x)."
    ),
    "todate": "Write CAST(x AS DATE).",
    **dict.fromkeys(
        ("json", "parse_json", "to_json", "json_array_length", "json_keys", "json_extract_path_text"), _JSON
    ),
    **dict.fromkeys(("strptime", "try_strptime"), _CAST),
    "make_date": "Write CAST(date_trunc('month', x) AS DATE), or a literal such as DATE '2026-01-31'.",
    **dict.fromkeys(("skewness", "kurtosis", "product"), _MIX),
    **dict.fromkeys(("reservoir_quantile", "quantile"), "Use QUANTILE_CONT(x, 0.9)."),
    "histogram": "Write SELECT bucket(x, [0, 10, 20]), COUNT(*) … GROUP BY 1.",
    "error": "An error would tell of the data; every expression must have a value.",
    **dict.fromkeys(
        ("bool_and", "bool_or", "logical_and", "logical_or"),
        "Of all people it would turn on one; use COUNT(*) FILTER (WHERE …). For each person it is answered "
        "in a subquery.",
    ),
    "collate": "Texts compare by their bytes; use lower(x) to fold case.",
}
UNKNOWN = "See the list of functions in the reference for SQL."
