"""Every engine goes through this: the same rows, declared alike, mean the same, and no
value makes a statement fail."""

from __future__ import annotations

import hashlib
import math
import os
import re
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from tests.sql.engines.real import ENGINES, ingest, opened, rows, session

TEXTS = [
    *[
        "",
        " ",
        "0",
        "1",
        "-1",
        "+5",
        " 7 ",
        "\t8\r\n",
        "007",
        "1_000",
        "1,000",
        "0x10",
        "1e3",
        "1.5e-3",
        "1E400",
        "-1e400",
    ],
    *[
        "1e-400",
        "1.005",
        "-1.005",
        "2.5",
        "-2.5",
        ".5",
        "5.",
        ".",
        "-",
        "+",
        "--1",
        "1.2.3",
        "NaN",
        "nan",
        "Infinity",
        "inf",
    ],
    *[
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "9" * 38,
        "9" * 39,
    ],
    *[
        "92233720368547758.07",
        "92233720368547758.08",
        "92233720368547758.074",
        "0." + "0" * 29 + "1",
        "1" + "0" * 59,
        "9" * 61,
    ],
    *["true", "TRUE", "t", "Yes", "n", "off", "F", "no", "y", "unknown", "NULL", "null"],
    *[
        "2024-02-29",
        "2023-02-29",
        "2024-02-30",
        "2024-13-01",
        "2024-00-10",
        "2024-1-1",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31",
    ],
    *[
        "10000-01-01",
        "2024-04-31",
        "1900-02-29",
        "2000-02-29",
        "epoch",
        "now",
        "today",
        "infinity",
        "20240229",
        "2024-060",
    ],
    *[
        "2024-02-29 10:30",
        "2024-02-29T10:30:59",
        "2024-02-29 10:30:59.5",
        "2024-02-29 10:30:59.123456",
        "2024-02-29 24:00",
    ],
    *[
        "2024-02-29 10:30Z",
        "2024-02-29 10:30:00+02:00",
        "2024-02-29 10:30:00-13:30",
        "2024-02-29 10:30 CET",
        "2024-02-29 10:60",
    ],
    *[
        "0001-01-01 00:00:00+13:00",
        "9999-12-31 23:59:59-13:00",
        "9999-12-31 23:59:59.999999",
        "2023-02-29 10:00",
    ],
    *["1\u2028", "1\n2", "١٢", "１２", "a'b", 'a"b', "a\\b", "$x", "%", "é" * 9, "𝄞𝄞𝄞𝄞𝄞𝄞", "x" * 5000, None],
]
LONG = 6


def _trimmed(text: str | None) -> str:
    return "\0" if text is None else text.strip(" \t\r\n")


def _scaled(number: Decimal, scale: int) -> int | None:
    exact = Context(prec=200, rounding=ROUND_HALF_UP)
    units = exact.quantize(exact.multiply(number, Decimal(10**scale)), Decimal(1))
    return int(units) if -(2**63) <= units < 2**63 else None


def _boolean(text: str | None) -> bool | None:
    word = _trimmed(text).lower()
    return (
        True
        if word in {"true", "t", "yes", "y", "1"}
        else False
        if word in {"false", "f", "no", "n", "0"}
        else None
    )


def _integer(text: str | None) -> int | None:
    found = re.fullmatch(r"[+-]?[0-9]{1,38}", _trimmed(text))
    return _scaled(Decimal(found[0]), 0) if found else None


def _decimal(text: str | None) -> int | None:
    found = re.fullmatch(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})", _trimmed(text))
    return _scaled(Decimal(found[0]), 2) if found else None


def _float(text: str | None) -> float | None:
    pattern = r"[+-]?([0-9]{1,60}(\.[0-9]{0,60})?|\.[0-9]{1,60})([eE][+-]?[0-9]{1,3})?"
    found = re.fullmatch(pattern, _trimmed(text))
    return float(found[0]) if found and math.isfinite(float(found[0])) else None


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", _trimmed(text))[0])  # type: ignore[index]
    except (TypeError, ValueError):
        return None


def _moment(text: str | None) -> datetime | None:
    clock = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-9]{2})?)?)?"
    found = re.fullmatch(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{clock}", _trimmed(text))
    try:
        moment = datetime.fromisoformat(found[0] if found else "")
        return (
            moment - (moment.utcoffset() or timedelta())
            if moment.tzinfo is None
            else moment.astimezone(UTC).replace(tzinfo=None)
        )
    except (ValueError, OverflowError):
        return None


READ: dict[str, tuple[Type, Any]] = {
    "as_boolean": (Type(Kind.BOOLEAN), _boolean),
    "as_integer": (Type(Kind.INTEGER), _integer),
    "as_decimal": (Type(Kind.DECIMAL, scale=2), _decimal),
    "as_float": (Type(Kind.FLOAT), _float),
    "as_text": (Type(Kind.TEXT, length=LONG), lambda text: None if text is None else text[:LONG]),
    "as_date": (Type(Kind.DATE), _day),
    "as_timestamp": (Type(Kind.TIMESTAMP), _moment),
}

INTEGERS = [0, 1, -1, 2, 2**53 + 1, 2**63 - 1, -(2**63), None]
FLOATS = [
    0.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    1e300,
    1.7e308,
    math.nan,
    math.inf,
    -math.inf,
    2.0**63,
    -(2.0**63),
    1e-320,
    None,
]
DECIMALS = [
    Decimal(text)
    for text in ("0.0000", "1.0050", "-1.0050", "2.5000", "-2.5000", "9" * 16 + ".9999", "0.9999")
]
DATES = [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31), None]
MOMENTS = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12), None]


def _even(number: float | None, scale: int = 0) -> int | None:
    if number is None or not abs(number) < 1e19:
        return None
    return whole if -(2**63) <= (whole := round(number * 10**scale)) < 2**63 else None


CAST: dict[str, tuple[pa.DataType, list[Any], Type, Any]] = {
    "integer_as_integer": (pa.int64(), INTEGERS, Type(Kind.INTEGER), lambda x: x),
    "small_as_integer": (pa.int16(), [1, -2, None], Type(Kind.INTEGER), lambda x: x),
    "integer_as_decimal": (
        pa.int64(),
        INTEGERS,
        Type(Kind.DECIMAL, scale=3),
        lambda x: _scaled(Decimal(x), 3),
    ),
    "integer_as_float": (pa.int64(), INTEGERS, Type(Kind.FLOAT), float),
    "integer_as_text": (pa.int64(), INTEGERS, Type(Kind.TEXT), str),
    "integer_as_boolean": (
        pa.int64(),
        INTEGERS,
        Type(Kind.BOOLEAN),
        lambda x: bool(x) if x in (0, 1) else None,
    ),
    "decimal_as_integer": (pa.decimal128(20, 4), DECIMALS, Type(Kind.INTEGER), lambda x: _scaled(x, 0)),
    "decimal_as_decimal": (
        pa.decimal128(20, 4),
        DECIMALS,
        Type(Kind.DECIMAL, scale=2),
        lambda x: _scaled(x, 2),
    ),
    "decimal_as_finer": (
        pa.decimal128(20, 4),
        DECIMALS,
        Type(Kind.DECIMAL, scale=18),
        lambda x: _scaled(x, 18),
    ),
    "decimal_as_float": (pa.decimal128(20, 4), DECIMALS, Type(Kind.FLOAT), float),
    "decimal_as_boolean": (
        pa.decimal128(20, 4),
        DECIMALS,
        Type(Kind.BOOLEAN),
        lambda x: False if x == 0 else None,
    ),
    "float_as_float": (pa.float64(), FLOATS, Type(Kind.FLOAT), lambda x: x if math.isfinite(x) else None),
    "single_as_float": (
        pa.float32(),
        [0.5, math.nan, math.inf],
        Type(Kind.FLOAT),
        lambda x: x if math.isfinite(x) else None,
    ),
    "float_as_integer": (pa.float64(), FLOATS, Type(Kind.INTEGER), _even),
    "float_as_decimal": (pa.float64(), FLOATS, Type(Kind.DECIMAL, scale=2), lambda x: _even(x, 2)),
    "boolean_as_boolean": (pa.bool_(), [True, False, None], Type(Kind.BOOLEAN), lambda x: x),
    "boolean_as_integer": (pa.bool_(), [True, False, None], Type(Kind.INTEGER), int),
    "boolean_as_text": (pa.bool_(), [True, False, None], Type(Kind.TEXT), lambda x: str(x).lower()),
    "date_as_date": (pa.date32(), DATES, Type(Kind.DATE), lambda x: x),
    "date_as_timestamp": (
        pa.date32(),
        DATES,
        Type(Kind.TIMESTAMP),
        lambda x: datetime(x.year, x.month, x.day),
    ),
    "date_as_text": (pa.date32(), DATES, Type(Kind.TEXT), lambda x: x.isoformat()),
    "clock_as_timestamp": (pa.timestamp("us"), MOMENTS, Type(Kind.TIMESTAMP), lambda x: x),
    "clock_as_date": (pa.timestamp("us"), MOMENTS, Type(Kind.DATE), lambda x: x.date()),
    "instant_as_timestamp": (pa.timestamp("us", "Asia/Tokyo"), MOMENTS, Type(Kind.TIMESTAMP), lambda x: x),
    "instant_as_date": (pa.timestamp("us", "UTC"), MOMENTS, Type(Kind.DATE), lambda x: x.date()),
}
"""Column → (stored type, stored values, declared type, what each non-null value then is)."""
HEIGHT = max(len(values) for _, values, _, _ in CAST.values())


def _instants(kind: pa.DataType, values: list[Any]) -> pa.Array:
    full = values + [None] * (HEIGHT - len(values))
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.array([x.replace(tzinfo=UTC) if zoned and x else x for x in full], kind, from_pandas=False)


def _tables() -> dict[str, pa.Table]:
    texts = {name: pa.array(TEXTS, pa.string()) for name in READ}
    casts = {name: _instants(kind, values) for name, (kind, values, _, _) in CAST.items()}
    return {
        "texts": pa.table({"id": pa.array(range(len(TEXTS)), pa.int64())} | texts),
        "casts": pa.table({"id": pa.array(range(HEIGHT), pa.int64())} | casts),
    }


SCHEMA = Schema(
    tuple(
        TableInfo(
            name,
            (ColumnInfo("id", Type(Kind.INTEGER)), *(ColumnInfo(column, kind) for column, kind in columns)),
        )
        for name, columns in (
            ("texts", [(column, kind) for column, (kind, _) in READ.items()]),
            ("casts", [(column, kind) for column, (_, _, kind, _) in CAST.items()]),
        )
    )
)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    opened_once = opened(request.param, _tables(), SCHEMA)
    yield opened_once
    opened_once.close()


def _column(engine: Engine, table: str, column: str) -> list[Any]:
    names = ", ".join(engine.dialect.quote(name) for name in ("id", column))
    return [value for _, value in sorted(rows(engine, f"SELECT {names} FROM {engine.dialect.quote(table)}"))]


def _sorted_rows(engine: Engine, table: str) -> list[dict[str, Any]]:
    found = engine.run(Statement((), f"SELECT * FROM {engine.dialect.quote(table)}"))
    return sorted(found.to_pylist(), key=lambda row: int(row["id"]))


def test_text_is_read_by_one_grammar(engine: Engine) -> None:
    found = _sorted_rows(engine, "texts")
    for column, (_, expected) in READ.items():
        told = [(text, _tiny(row[column])) for text, row in zip(TEXTS, found, strict=True)]
        assert told == [(text, _tiny(expected(text))) for text in TEXTS], column


def _tiny(value: Any) -> Any:
    """Below 1e-300 engines may read 0."""
    return 0.0 if isinstance(value, float) and abs(value) < 1e-300 else value


def test_what_is_stored_otherwise_than_declared_is_cast_alike(engine: Engine) -> None:
    found = _sorted_rows(engine, "casts")
    for column, (kind, values, _, expected) in CAST.items():
        want = [None if x is None else expected(x) for x in values]
        assert [row[column] for row in found[: len(values)]] == want, (column, kind)


def test_columns_come_in_canonical_types(engine: Engine) -> None:
    found = engine.run(Statement((), f"SELECT * FROM {engine.dialect.quote('casts')}")).schema
    arrow = {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.DECIMAL: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }
    assert {name: found.field(name).type for name in CAST} == {
        name: arrow[kind.kind] for name, (_, _, kind, _) in CAST.items()
    }


def test_ctes_come_before_the_select_and_after_the_tables(engine: Engine) -> None:
    table, cte, name = (engine.dialect.quote(word) for word in ("texts", "_rows", "id"))
    ctes = (("_rows", f"SELECT {name} FROM {table} WHERE {name} < 3"),)
    text = {"duckdb": "VARCHAR", "postgres": "text", "spark": "STRING"}[engine.dialect.name]
    found = engine.run(
        Statement(ctes, f"SELECT CAST(SUM({name}) AS {text}) AS total, COUNT(*) AS n FROM {cte}")
    )
    assert found.to_pylist() == [{"total": "3", "n": 3}]


def test_a_failure_is_one_sentence_whatever_failed(engine: Engine) -> None:
    table, name = engine.dialect.quote("texts"), engine.dialect.quote("as_text")
    said = set()
    for select in (
        f"SELECT CAST({name} AS INTEGER) / 0 FROM {table}",
        "SELECT nonsense",
        "DROP TABLE texts",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(DataError) as told:
            engine.run(Statement((), select))
        said.add(str(told.value))
    assert said == {
        "The engine did not finish this statement. Nothing was released; the reason is kept for the owner."
    }
    assert len(_column(engine, "texts", "as_integer")) == len(TEXTS)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_missing_column_is_told_at_the_opening(kind: str) -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("b", Type(Kind.INTEGER)),)),))
    with pytest.raises(DataError, match='The table "t" has no column "b" where it is stored'):
        opened(kind, {"t": pa.table({"a": [1]})}, schema)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_type_without_a_reading_is_told_at_the_opening(kind: str) -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.DATE)),)),))
    with pytest.raises(
        DataError, match='The column "a" of "t" is stored as float, which cannot be read as date'
    ):
        opened(kind, {"t": pa.table({"a": [1.5]})}, schema)


@pytest.mark.parametrize("kind", ENGINES)
def test_names_with_quotes_and_other_case_are_found(kind: str) -> None:
    declared = TableInfo(
        'we"ird`t', (ColumnInfo('a"b`c', Type(Kind.INTEGER)), ColumnInfo("upper", Type(Kind.INTEGER)))
    )
    tables = {'we"ird`t': pa.table({'a"b`c': [1], "UPPER": [2]})}
    engine = opened(kind, tables, Schema((declared,)))
    assert rows(engine, f"SELECT * FROM {engine.dialect.quote(declared.name)}") == [(1, 2)]
    engine.close()


@pytest.mark.parametrize("kind", ENGINES)
def test_a_statement_is_stopped_after_its_time(kind: str) -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.INTEGER)),)),))
    tables = {"t": pa.table({"a": list(range(3000))})}
    if kind == "spark":
        # A cancelled task that is in the middle of a loop holds its core to the end, so that this one sleeps.
        sources: dict[str, Any] = {"t": session().range(0, 3000, 1, 2).toDF("a")}
        endless = (
            "SELECT COUNT(s) FROM (SELECT java_method('java.lang.Thread', 'sleep', 1000L + a) AS s FROM t)"
        )
    else:
        sources = ingest(tables) if kind == "postgres" else tables
        endless = 'SELECT SUM(sqrt(x.a + y.a + z.a + w.a)) FROM "t" x, "t" y, "t" z, "t" w'
    engine = open_engine(sources, schema, seconds=2)
    with pytest.raises(DataError, match="did not finish"):
        engine.run(Statement((), endless))
    again = open_engine(sources, schema)
    assert rows(again, "SELECT COUNT(*) FROM t") == [(3000,)]
    for one in (engine, again):
        one.close()


@pytest.mark.parametrize("kind", ENGINES[:2])
def test_an_engine_refuses_use_in_a_child(kind: str) -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.INTEGER)),)),))
    engine = opened(kind, {"t": pa.table({"a": [1]})}, schema)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads run; the child only asks
        child = os.fork()
    if child == 0:
        try:
            engine.run(Statement((), "SELECT 1"))
        except DataError as error:
            os.write(writing, str(error).encode())
        finally:
            engine.close()
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    assert "This engine belongs to the process that opened it" in os.read(reading, 1000).decode()
    assert rows(engine, "SELECT a FROM t") == [(1,)]
    engine.close()


LONG_IDS = ["p" * 256, "p" * 257, "p" * 299 + "a", "p" * 299 + "b", "é" * 256, "é" * 257, "", "short", None]


@pytest.mark.parametrize("kind", ENGINES)
def test_two_people_with_a_common_prefix_stay_two(kind: str) -> None:
    visits = TableInfo(
        "visits", (ColumnInfo("who", Type(Kind.TEXT)), ColumnInfo("v", Type(Kind.TEXT))), unit="who"
    )
    drugs = TableInfo("drugs", (ColumnInfo("visit", Type(Kind.TEXT)),), path=(("visit", "visits", "v"),))
    tables = {"visits": pa.table({"who": LONG_IDS, "v": LONG_IDS}), "drugs": pa.table({"visit": LONG_IDS})}
    engine = opened(kind, tables, Schema((visits, drugs)))
    expected = [
        text if text is None or len(text) <= 256 else text[:256] + hashlib.sha256(text.encode()).hexdigest()
        for text in LONG_IDS
    ]
    q = engine.dialect.quote("visits"), engine.dialect.quote("drugs")
    assert set(rows(engine, f"SELECT who, v FROM {q[0]}")) == {(text, text) for text in expected}
    assert set(rows(engine, f"SELECT visit FROM {q[1]}")) == {(text,) for text in expected}
    engine.close()


@pytest.mark.parametrize("kind", ["duckdb"])
def test_limits_are_checked(kind: str) -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.INTEGER)),)),))
    for limits in ({"seconds": 0}, {"memory": "much"}, {"threads": 0}):
        with pytest.raises(InvalidParameter, match="Expected"):
            opened(kind, {"t": pa.table({"a": [1]})}, schema, **limits)
