"""Texts that would fill memory or work without an end, if nothing limited what follows a release: 120 of them, made
from a few dozen ideas. Each reads the result `t` of one count by group."""

from __future__ import annotations

from collections.abc import Iterator

T = "WITH t AS (SELECT sex AS g, COUNT(*) AS n FROM visits GROUP BY sex)"
"""Two released rows: all that is large about a bomb it makes itself."""
S = "generate_series(1, 10000)"
LONG = "x" * 1000


def bombs() -> dict[str, str]:
    """By what they do."""
    ideas = (*_texts(), *_rows(), *_functions(), *_shapes())
    return {name: f"{T}{body}" for name, body in ideas}


def _chain(first: str, step: str, many: int, last: str) -> str:
    """`last` over the end of a chain of results, each made from the one before."""
    names = ", ".join(f"c{i + 1} AS ({step.format(before=f'c{i}')})" for i in range(many))
    return f", c0 AS ({first}), {names} {last.format(end=f'c{many}')}"


def _texts() -> Iterator[tuple[str, str]]:
    """Texts that grow: by themselves, by what replaces their letters, by being put together."""
    growing = {
        "doubled": "SELECT s || s AS s FROM {before}",
        "concatenated": "SELECT CONCAT(s, s, s, s) AS s FROM {before}",
        "joined": "SELECT CONCAT_WS(s, s, s) AS s FROM {before}",
        "replaced": "SELECT REPLACE(s, 'x', s) AS s FROM {before}",
        "replaced by pattern": "SELECT REGEXP_REPLACE(s, 'x', s, 'g') AS s FROM {before}",
        "aggregated": "SELECT STRING_AGG(s, '') AS s FROM (SELECT s FROM {before} UNION ALL SELECT s FROM {before})",
    }
    for name, step in growing.items():
        for many in (8, 24, 40):
            for what in ("LENGTH(s)", "s"):
                yield (
                    f"{name} {many} times, {what}",
                    _chain("SELECT g || 'x' AS s FROM t", step, many, f"SELECT {what} AS l FROM {{end}}"),
                )
    yield (
        "of literals",
        " SELECT LENGTH(" + "REPLACE(" * 4 + f"'{LONG}'" + f", 'x', '{LONG}')" * 4 + ") AS l FROM t",
    )
    for many in (2, 3):
        product = ", ".join(f"{S} s{i}" for i in range(many))
        yield (
            f"aggregated over {many} series",
            f" SELECT LENGTH(STRING_AGG(LPAD(g, 1000, 'x'), '')) AS l FROM t, {product}",
        )
        yield f"padded over {many} series", f" SELECT LPAD(g, 1000, 'x') AS l FROM t, {product}"
        yield (
            f"told apart over {many} series",
            f" SELECT COUNT(DISTINCT g || CAST(s0.generate_series * s1.generate_series AS TEXT)) AS l FROM t, {product}",
        )


def _rows() -> Iterator[tuple[str, str]]:
    """Rows by the million: counted, sorted, ranked, told apart, set against one another."""
    for many in (2, 3):
        rows = "t, " + ", ".join(f"{S} AS s{i}(v{i})" for i in range(many))
        value = "+".join(f"v{i}*{i + 7}" for i in range(many))
        keys = ", ".join(f"v{i}" for i in range(many))
        exists = f"EXISTS (SELECT 1 FROM t AS u, {S} AS z(w) WHERE u.n + w * w < t.n + {value})"
        for name, text in {
            "sum": f"SELECT SUM(n * ({value})) AS x FROM {rows}",
            "sort": f"SELECT n FROM {rows} ORDER BY {value} DESC LIMIT 5 OFFSET 900000",
            "rank": f"SELECT SUM(r) AS x FROM (SELECT RANK() OVER (ORDER BY {value}) AS r FROM {rows}) AS q",
            "groups": f"SELECT COUNT(*) AS x FROM (SELECT {value} AS k, SUM(n) AS m FROM {rows} GROUP BY k) AS q",
            "median": f"SELECT MEDIAN({value}) AS x, MODE({value}) AS y, ENTROPY({value}) AS z FROM {rows}",
            "distinct": f"SELECT COUNT(*) AS x FROM (SELECT DISTINCT {keys} FROM {rows}) AS q",
            "moving median": f"SELECT MAX(m) AS x FROM (SELECT MEDIAN({value}) OVER (ORDER BY {value}) AS m FROM {rows}) AS q",
            "moving text": f"SELECT MAX(LENGTH(m)) AS x FROM (SELECT STRING_AGG(g) OVER (ORDER BY {value}) AS m FROM {rows})",
            "all rows": f"SELECT n, {value} AS x FROM {rows}",
            "set apart": f"SELECT {value} AS x FROM {rows} EXCEPT SELECT n FROM t",
            "in common": f"SELECT {value} AS x FROM {rows} INTERSECT SELECT {value} FROM {rows}",
            "united": f"SELECT {value} AS x FROM {rows} UNION SELECT n FROM t",
            "cube": f"SELECT COUNT(*) AS x FROM (SELECT SUM(n) AS m FROM {rows} GROUP BY CUBE (g, n, {keys})) AS q",
            "exists": f"SELECT COUNT(*) AS x FROM {rows} WHERE {exists}",
            "any": f"SELECT COUNT(*) AS x FROM {rows} WHERE {value} > ANY (SELECT w FROM {S} AS z(w), t AS u)",
        }.items():
            yield f"{name} of {many} series", f" {text}"
    for many in (5, 7, 9):
        yield (
            f"squared {many} times",
            _chain(
                "SELECT n FROM t",
                "SELECT a.n FROM {before} AS a, {before} AS b",
                many,
                "SELECT SUM(n) AS x FROM {end}",
            ),
        )
        yield (
            f"united {many + 20} times",
            _chain(
                "SELECT n FROM t",
                "SELECT n FROM {before} UNION ALL SELECT n FROM {before}",
                many + 20,
                "SELECT SUM(n) AS x FROM {end}",
            ),
        )


def _functions() -> Iterator[tuple[str, str]]:
    """Functions that have a hard case."""
    product = f"{S} AS s0(v0), {S} AS s1(v1)"
    patterns = (
        r"^((((x*)*)*)*)*y$",
        r"(x?){200}x{200}",
        r"(x{1,100}){9}y",
        r"(.*)(.*)(.*)(.*)(.*)y",
        r"\\p{L}{500}",
    )
    for pattern in patterns:
        yield (
            f"pattern {pattern}",
            f" SELECT COUNT_IF(REGEXP_MATCHES(LPAD(g, 1000, 'x') || CAST(v0 * v1 AS TEXT), '{pattern}')) AS c FROM t, {product}",
        )
        yield (
            f"pattern {pattern} cut",
            f" SELECT MAX(REGEXP_EXTRACT(LPAD(g, 1000, 'x'), '{pattern}', 0)) AS c FROM t, {product}",
        )
    for text in (
        "PRODUCT(v0 * 1e300)",
        "SUM(POWER(CAST(v0 AS DOUBLE), v1))",
        "SUM(CAST(CAST(v0 AS DECIMAL(38, 30)) / 7 AS DECIMAL(38, 37)))",
        "QUANTILE_CONT(v0 * v1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])",
        "MAX(STRFTIME(DATE '2020-01-01' + CAST(v0 AS INTEGER), '%A %B %c %A %B %c %A %B %c'))",
        "APPROX_QUANTILE(v0 * v1, 0.5)",
        "MAD(v0 * v1)",
        "CORR(v0, v1) + KURTOSIS(v0) + SKEWNESS(v1)",
        "ARG_MAX(LPAD(g, 1000, 'x') || CAST(v1 AS TEXT), v0 * v1)",
    ):
        yield text[:30], f" SELECT {text} AS x FROM t, {product}"


def _shapes() -> Iterator[tuple[str, str]]:
    """Texts that are short, and long when they are written out."""
    for many in (7, 20, 60):
        yield f"{many} factors", f" SELECT {'*'.join(['n'] * many)} AS x FROM t"
        yield f"{many} divisors", f" SELECT {'/'.join(['n'] * many)} AS x FROM t"
        yield (
            f"{many} unions",
            " " + " UNION ALL ".join(["SELECT n, n * n AS m FROM t", "SELECT n, 1 FROM t"] * many),
        )
    for many in (5, 9):
        nested = "n"
        for _ in range(many):
            nested = f"(SELECT SUM({nested}) FROM t)"
        yield f"{many} queries in one another", f" SELECT {nested} AS x FROM t"
    sums = _chain("SELECT n FROM t", "SELECT n + n AS n FROM {before}", 60, "SELECT n FROM {end}")
    yield "60 sums", sums
    yield "all columns again and again", " SELECT " + ", ".join(["*"] * 900) + " FROM t AS a, t AS b, t AS c"
    yield (
        "many shares",
        " SELECT " + ", ".join(f"n * n * n / SUM(n) OVER () AS c{i}" for i in range(250)) + " FROM t",
    )
    yield "choices", " SELECT " + "CASE WHEN g = 'F' THEN n ELSE " * 35 + "n" + " END" * 35 + " AS x FROM t"
