"""What is refused by name, and what to do instead."""

from __future__ import annotations

TIME = (
    "Each moment would be a new question with a new charge; write CURRENT_DATE or a literal, such as "
    "DATE '2026-01-31'."
)
CHANCE = "Answers depend on the query and the data alone; leave chance to the noise."
PATTERN = (
    "Use LIKE or ILIKE with a literal pattern, starts_with, ends_with or contains; a part is split_part(x, "
    "'/', 3) or "
    "regexp_extract(x, '@([a-z]+)', 1)."
)
LIST = "Use plain columns; for groups of numbers use bucket(x, [0, 10, 20])."
FILE = "Ask the owner to declare the table in the schema, and use its name."
SIZE = "Its result is not bounded by the length of its input; use concat, replace, left or right."
BITS = "Use arithmetic: //, % and *."
WINDOW = (
    "Aggregate first, and say it over the result: SELECT a, COUNT(*) AS n, RANK() OVER (ORDER BY n) … "
    "GROUP BY a."
)
LATEST = (
    "Within the rows of one person it is answered in a subquery: SELECT ward, COUNT(*) FROM (SELECT ward, "
    "ROW_NUMBER() OVER "
    "(PARTITION BY patient_id ORDER BY day) AS r FROM visits) v WHERE r = 1 GROUP BY ward."
)
LATERAL = "Write the value where it is used: AVG((SELECT COUNT(*) FROM visits v WHERE v.patient_id = p.id))."
RECURSIVE = (
    "Write the steps out; an axis is generate_series(DATE '2026-01-01', DATE '2026-12-01', INTERVAL 1 MONTH) "
    "AS g(m)."
)
ONE = (
    "It would release one person's value; use MIN, MAX, MEDIAN or QUANTILE_CONT. Of each person, in a "
    "subquery: FIRST_VALUE(x) "
    "OVER (PARTITION BY person ORDER BY day)."
)
JSON = "Take a field out of it: x ->> 'a' or x ->> '$.a.b'."
CAST = (
    "Use CAST(x AS DATE) with texts such as '2026-01-31': what cannot be read is NULL. Of '31.01.2026' make "
    "it first: concat(substring(x, 7, 4), '-', substring(x, 4, 2), '-', substring(x, 1, 2))."
)
MIX = "Release COUNT, SUM and AVG of the products, and combine those."

# Refused by name: what to do instead. A name that is neither here nor allowed gets `UNKNOWN`.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("current_time", "localtime", "localtimestamp"),
        TIME,
    ),
    **dict.fromkeys(
        ("random", "rand", "uuid", "gen_random_uuid", "setseed", "nextval", "hash", "md5", "sha256"), CHANCE
    ),
    **dict.fromkeys(("glob", "regexp_split", "string_split", "split"), PATTERN),
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
        LIST,
    ),
    **dict.fromkeys(("lambda", "comprehension", "bracket", "array_agg", "struct_pack", "list_value"), LIST),
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
        FILE,
    ),
    **dict.fromkeys(("repeat", "printf", "format", "chr", "string_agg", "group_concat", "space"), SIZE),
    **dict.fromkeys(("<<", ">>", "&", "|", "~", "xor"), BITS),
    **dict.fromkeys(("factorial", "gamma", "lgamma"), "Use power or exp."),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "ntile"), WINDOW
    ),
    **dict.fromkeys(("any_value", "first", "last", "arg_max", "arg_min", "max_by", "min_by"), ONE),
    "mode": "Write SELECT x, COUNT(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 1.",
    **dict.fromkeys(("uniq", "uniqexact"), "Write COUNT(DISTINCT x)."),
    **dict.fromkeys(
        ("tostartofhour", "tostartofday", "tostartofweek", "tostartofmonth"), "Write date_trunc('hour', x)."
    ),
    "todate": "Write CAST(x AS DATE).",
    **dict.fromkeys(
        ("json", "parse_json", "to_json", "json_array_length", "json_keys", "json_extract_path_text"), JSON
    ),
    **dict.fromkeys(("strptime", "try_strptime"), CAST),
    **dict.fromkeys(("skewness", "kurtosis", "product"), MIX),
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
