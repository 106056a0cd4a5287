"""Values that break engines, as one table `t`: extremes, NULLs, empty and long texts,
odd signs, the first and the last day."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any

from deniable.sql.dialects import Dialect
from deniable.sql.read.names import Field, Scope
from deniable.sql.read.parse import parse
from deniable.sql.tree import Column, Expr, Scan, Type
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, TEXT, TIMESTAMP, decimal

COLUMNS: dict[str, Type] = {
    "row": INTEGER,
    "i": INTEGER,
    "j": INTEGER,
    "d": decimal(2),
    "e": decimal(4),
    "f": FLOAT,
    "g": FLOAT,
    "s": TEXT,
    "z": TEXT,
    "p": DATE,
    "q": DATE,
    "u": TIMESTAMP,
    "b": BOOLEAN,
    "c": BOOLEAN,
}
WHOLE = [0, 1, -1, 2, 3, -7, 10, 100, 10**9, -(10**9), 10**18, 2**63 - 1, -(2**63), 2**62, 709, None]
REALS = [
    0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.5,
    1e-320,
    -5e-324,
    1e-200,
    1e150,
    1.79e308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    1e16,
]
REALS += [2.0**53, 709.5, -745.0, 0.1, 9.223372036854775e18, -0.0, 123456.785]
TEXTS = [
    "",
    " ",
    "a",
    "Ab c",
    "12",
    "-7",
    "+3",
    " 12",
    "12 ",
    "12\n",
    "1.5",
    "-0.005",
    "1e5",
    "1E-30",
    "99999999999999999999",
]
TEXTS += [
    "nan",
    "inf",
    "2024-02-29",
    "2023-02-29",
    "0000-01-01",
    "9999-12-31",
    "2024-02-29 23:59:60",
    "2024-1-1",
    "true",
    "F",
]
TEXTS += [
    "2024-02-29 12:34:56",
    "2024-02-29T12:34:56.5",
    "ÄÖß",
    "İı",
    "x" * 256,
    "a%b_c!",
    "\\",
    "'",
    "${x}",
    "日本語👍",
    "٣",
    "0x1F",
]
DAYS = [
    date(1, 1, 1),
    date(9999, 12, 31),
    date(2024, 2, 29),
    date(1970, 1, 1),
    date(2000, 12, 31),
    date(1582, 10, 10),
]
TIMES = [
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29, 12, 34, 56, 789000),
]
TIMES += [datetime(1969, 12, 31, 23, 59, 59), datetime(2021, 1, 3, 0, 0, 0)]
POOLS: dict[str, list[Any]] = {
    **{name: list(WHOLE) for name in "ijde"},
    **{name: [*REALS, None] for name in "fg"},
    **{name: [*TEXTS, None] for name in "sz"},
    **{name: [*DAYS, None] for name in "pq"},
    "u": [*TIMES, None],
    **{name: [True, False, None] for name in "bc"},
}


def _rows() -> list[tuple[Any, ...]]:
    """Every number meets every other of its pair, then some everyday rows."""
    rng = random.Random(5)
    made = []
    for i in range(500):
        row = []
        for name, pool in POOLS.items():
            second = name in ("j", "e", "g", "z", "q", "c")
            row.append(pool[(i // len(pool) if second else i) % len(pool)])
        made.append((i, *row))
    for i in range(500, 560):
        day = date(2020, 1, 1) + timedelta(days=rng.randrange(2000))
        moment = datetime(2020, 1, 1) + timedelta(seconds=rng.randrange(10**8))
        whole = [rng.randrange(-200, 200) for _ in range(4)]
        real = [rng.uniform(-100, 100), rng.uniform(0, 5)]
        texts = [rng.choice(["north", "South", "east "]), str(rng.randrange(1000))]
        later = day + timedelta(days=rng.randrange(90))
        made.append((i, *whole, *real, *texts, day, later, moment, rng.random() < 0.5, True))
    return made


ROWS = _rows()


def _cell(value: Any, of: Type, dialect: Dialect) -> str:
    return dialect.literal(value, INTEGER if of.scale else of)


def create(dialect: Dialect) -> str:
    columns = ", ".join(f"{dialect.quote(name)} {dialect.type_name(of)}" for name, of in COLUMNS.items())
    return f"CREATE TABLE t ({columns})"


def insert(dialect: Dialect) -> str:
    kinds = list(COLUMNS.values())
    rows = (f"({', '.join(_cell(v, k, dialect) for v, k in zip(row, kinds, strict=True))})" for row in ROWS)
    return f"INSERT INTO t VALUES {', '.join(rows)}"


def scope() -> Scope:
    columns = [Column(name, of) for name, of in COLUMNS.items()]
    return Scope(Scan("t", tuple(columns)), tuple(Field(c.name, "t", c) for c in columns))


def expression(text: str) -> Expr:
    """What an analyst's expression over `t` becomes."""
    return scope().rows(parse(f"SELECT {text} FROM t").expressions[0])
