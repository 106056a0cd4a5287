"""Columns of every storage type with the values that break readers, for people beside everyday ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from deniable.sql.dialects.storage import Physical
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from deniable.sql.write.columns import reads

TOP, LOW = 2**63 - 1, -(2**63)
EVERYDAY = 40
"""People with everyday values."""


@dataclass(frozen=True)
class Stored:
    """How a column is stored, for a reading: everyday values and extreme ones, and how
    an array is made of them."""

    physical: Physical
    make: Callable[[Sequence[Any]], pa.Array]
    everyday: Any
    extremes: tuple[Any, ...]


def raw(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """Whole numbers as the bits of another type, and None."""
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()

    def make(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, whole).view(kind)

    return make


def texts(kind: pa.DataType, offsets: str = "i") -> Callable[[Sequence[Any]], pa.Array]:
    """Bytes as text, whatever they are."""

    def make(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, pa.binary() if offsets == "i" else pa.large_binary()).view(kind)

    return make


def decimals(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """Whole numbers of 128 bits as decimals, beyond the precision too."""

    def make(values: Sequence[Any]) -> pa.Array:
        body = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
        bits = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(body)])

    return make


def typed(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    return lambda values: pa.array(values, kind, from_pandas=False)


INTS = (0, -1, TOP, LOW)
NUMBERS = (
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1.7976931348623157e308,
    5e-324,
    2.0**63,
    -(2.0**63),
)
DAYS = (2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1, 2932896, 2932897, -719162, -719163)
MOMENTS = (
    TOP,
    LOW,
    LOW + 1,
    TOP - 1,
    9223372036854775,
    9223372036854776,
    -9223372036854776,
    253402300799,
    253402300800,
    -62135596801,
)
TEXTS = (
    b"",
    b" ",
    b"\xff",
    b"\xfe\xff" * 20,
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xc0\x80",
    b"a\0b",
    b"\0",
    b"x" * 100_000,
    "é".encode() * 300,
    b"p" * 256,
    b"p" * 257,
    b"1e400",
    b"-1e-400",
    b"NaN",
    b"infinity",
    b"9" * 400,
    b"1" + b" " * 5000,
    b"0001-01-01 00:00:00+13:00",
    b"9999-12-31T23:59:59-13:00",
    b"24:00",
    b"2024-02-30",
    b"'",
    b"\\",
    b"${x}",
    b"%",
    b"\xf0\x9f\x91\x8d" * 70,
    b"\xe2\x80\xa8",
    b"TRUE",
    b"0x10",
    b"1_0",
)
P = Physical
EVERY_ARROW: dict[str, Stored] = {
    "bool": Stored(P.BOOLEAN, typed(pa.bool_()), True, (False, None)),
    **{
        f"int{n}": Stored(
            P.INTEGER, typed(getattr(pa, f"int{n}")()), 5, (2 ** (n - 1) - 1, -(2 ** (n - 1)), 0, None)
        )
        for n in (8, 16, 32, 64)
    },
    **{
        f"uint{n}": Stored(P.INTEGER, typed(getattr(pa, f"uint{n}")()), 5, (2**n - 1, 0, None))
        for n in (8, 16, 32)
    },
    "uint64": Stored(P.WIDE, typed(pa.uint64()), 5, (2**64 - 1, 2**63, 2**63 - 1, None)),
    "float32": Stored(P.FLOAT, typed(pa.float32()), 5.0, (*NUMBERS[:5], 3.4e38, 1e-45, None)),
    "float64": Stored(P.FLOAT, typed(pa.float64()), 5.0, (*NUMBERS, None)),
    **{
        f"decimal{p}_{s}": Stored(
            P.DECIMAL,
            decimals(pa.decimal128(p, s)),
            5 * 10**s if p > s else 5,
            (10**p - 1, 1 - 10**p, 2**127 - 1, -(2**127), 1 - 2**127, 0, None),
        )
        for p, s in ((5, 2), (18, 18), (19, 2), (38, 0), (38, 10), (38, 38))
    },
    "date32": Stored(P.DATE, raw(pa.date32()), 20_000, (*DAYS, None)),
    "date64": Stored(
        P.DATE,
        raw(pa.date64()),
        86_400_000 * 20_000,
        (TOP, LOW, 86_400_000 * 2**31, -86_400_000 * 2**31, 1, None),
    ),
    **{
        f"time_{unit}{'_zoned' if zone else ''}": Stored(
            P.ZONED if zone else P.TIMESTAMP,
            raw(pa.timestamp(unit, zone)),
            1_700_000_000 * 10**power,
            (*MOMENTS, None),
        )
        for unit, power in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9))
        for zone in (None, "UTC", "Asia/Tokyo")[: 3 if unit == "ms" else 2]
    },
    "string": Stored(P.TEXT, texts(pa.string()), b"5", (*TEXTS, None)),
    "large_string": Stored(P.TEXT, texts(pa.large_string(), "q"), b"5", (*TEXTS, None)),
    "dictionary": Stored(
        P.TEXT, lambda values: texts(pa.string())(values).dictionary_encode(), b"5", (*TEXTS, None)
    ),
}
KINDS = {
    Kind.BOOLEAN: Type(Kind.BOOLEAN),
    Kind.INTEGER: Type(Kind.INTEGER),
    Kind.DECIMAL: Type(Kind.DECIMAL, scale=3),
    Kind.FLOAT: Type(Kind.FLOAT),
    Kind.TEXT: Type(Kind.TEXT),
    Kind.DATE: Type(Kind.DATE),
    Kind.TIMESTAMP: Type(Kind.TIMESTAMP),
}


@dataclass(frozen=True)
class Case:
    """A table of one kind of storage, and a column of it for every declared type that it can be read as."""

    table: str
    stored: Stored

    @property
    def columns(self) -> dict[str, Type]:
        return {
            f"as_{kind.value}": type_ for kind, type_ in KINDS.items() if reads(self.stored.physical, type_)
        }

    @property
    def info(self) -> TableInfo:
        columns = [ColumnInfo("person", Type(Kind.INTEGER))]
        for name, type_ in self.columns.items():
            bounds = (Fraction(-100), Fraction(100)) if type_.kind in NUMERIC else (None, None)
            columns.append(ColumnInfo(name, type_, *bounds))
        return TableInfo(self.table, tuple(columns), unit="person")

    @property
    def values(self) -> list[Any]:
        """Everyday people and those with extreme values."""
        return [self.stored.everyday] * EVERYDAY + list(self.stored.extremes)

    @property
    def rows(self) -> pa.Table:
        made = self.stored.make(self.values)
        people = pa.array(range(len(made)), pa.int64())
        return pa.table({"person": people} | dict.fromkeys(self.columns, made))

    @property
    def queries(self) -> list[str]:
        """All columns at once where that goes, then groups by each."""
        numbers = [name for name, type_ in self.columns.items() if type_.kind in NUMERIC]
        counts = ", ".join(f"COUNT({name})" for name in self.columns)
        sums = "".join(f", SUM({name}), AVG({name}), STDDEV(CLAMP({name}, -1, 1e9))" for name in numbers)
        tests = "".join(
            f", COUNT(*) FILTER (WHERE {name} {_COMPARED[type_.kind]})"
            for name, type_ in self.columns.items()
        )
        made = [f"SELECT {counts}{sums}{tests} FROM {self.table}"]
        made += (
            [f"SELECT {', '.join(f'MEDIAN({name})' for name in numbers)} FROM {self.table}"]
            if numbers
            else []
        )
        return made + [self._groups(name, type_.kind) for name, type_ in self.columns.items()]

    def _groups(self, name: str, kind: Kind) -> str:
        more = {
            Kind.TEXT: f", COUNT(*) FILTER (WHERE LOWER(TRIM({name})) LIKE '%a%' AND LENGTH({name}) > 1)",
            Kind.DATE: f", SUM(CLAMP(EXTRACT(year FROM {name}), 1900, 2100))",
            Kind.TIMESTAMP: f", COUNT(*) FILTER (WHERE CAST({name} AS DATE) = DATE '2020-01-01')",
        }.get(kind, "")
        if kind is Kind.FLOAT:
            return f"SELECT COUNT(DISTINCT {name}) FROM {self.table} WHERE NOT ({name} {_COMPARED[kind]})"
        what = f"SELECT {name}, COUNT(DISTINCT {name}){more}"
        return f"{what} FROM {self.table} WHERE NOT ({name} {_COMPARED[kind]}) GROUP BY {name}"


NUMERIC = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def cases(stored: dict[str, Stored]) -> list[Case]:
    return [Case(f"t_{name}", how) for name, how in stored.items()]


def schema(chosen: Sequence[Case]) -> Schema:
    return Schema(tuple(case.info for case in chosen))


_COMPARED = {
    Kind.BOOLEAN: "",
    Kind.INTEGER: "> 3",
    Kind.DECIMAL: "> 3.5",
    Kind.FLOAT: "> 3.5",
    Kind.TEXT: "> 'm'",
    Kind.DATE: "> DATE '2000-01-01'",
    Kind.TIMESTAMP: "> TIMESTAMP '2000-01-01 00:00:00'",
}


# ------------------------------------------------------------------------------------------------ servers, in SQL


def said(physical: Physical, everyday: str, *extremes: str) -> Stored:
    """Values as SQL writes them."""
    return Stored(physical, typed(pa.string()), everyday, (*extremes, "NULL"))


_LONG = ("repeat('x', 300000)", "repeat('p', 256)", "repeat('p', 257)", "repeat('é', 300)")
_READ = tuple(
    f"'{text.decode()}'"
    for text in TEXTS
    if text.isascii() and b"\0" not in text and b"'" not in text and len(text) < 500
)
EVERY_POSTGRES: dict[str, tuple[str, Stored]] = {
    "smallint": ("smallint", said(P.INTEGER, "5", "32767", "-32768")),
    "bigint": ("bigint", said(P.INTEGER, "5", str(TOP), str(LOW))),
    "boolean": ("boolean", said(P.BOOLEAN, "true", "false")),
    "real": ("real", said(P.FLOAT, "5", "'NaN'", "'Infinity'", "'-Infinity'", "'1e-45'", "'3.4e38'", "'-0'")),
    "double": (
        "double precision",
        said(
            P.FLOAT, "5", "'NaN'", "'Infinity'", "'-Infinity'", "'5e-324'", "'1.7976931348623157e308'", "'-0'"
        ),
    ),
    "numeric": (
        "numeric",
        said(
            P.DECIMAL,
            "5",
            "'1e400'",
            "'-1e400'",
            "'1e-400'",
            "'1e100000'",
            "'-9e131071'",
            "'1e-16383'",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "'1.7976931348623159e308'",
            "'9223372036854775807.5'",
        ),
    ),
    "money_like": (
        "numeric(38, 10)",
        said(P.DECIMAL, "5", "'" + "9" * 28 + "'", "'-" + "9" * 28 + "'", "'NaN'"),
    ),
    "date": (
        "date",
        said(
            P.DATE,
            "'2024-01-01'",
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'5874897-12-31'",
            "'0001-01-01 BC'",
            "'9999-12-31'",
            "'10000-01-01'",
        ),
    ),
    "timestamp": (
        "timestamp",
        said(
            P.TIMESTAMP,
            "'2024-01-01'",
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'294276-12-31 23:59:59.999999'",
            "'9999-12-31 23:59:59.9999995'",
        ),
    ),
    "timestamptz": (
        "timestamptz(3)",
        said(
            P.ZONED,
            "'2024-01-01'",
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 00:00:00+00 BC'",
            "'294276-12-31 23:59:59+00'",
            "'294276-12-31 12:00:00-12'",
        ),
    ),
    "text": ("text", said(P.TEXT, "'5'", *_READ, *_LONG)),
    "varchar": ("varchar(400)", said(P.TEXT, "'5'", *_READ)),
    "char": ("char(300)", said(P.TEXT, "'5'", "''", *_READ[:3])),
    "name": ("name", said(P.TEXT, "'5'", "''")),
    "uuid": (
        "uuid",
        said(P.TEXT, "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    ),
}
_ENDS = ("'infinity'", "'-infinity'")
EVERY_DUCKDB: dict[str, tuple[str, Stored]] = {
    "tinyint": ("TINYINT", said(P.INTEGER, "5", "127", "-128")),
    "bigint": ("BIGINT", said(P.INTEGER, "5", str(TOP), str(LOW))),
    "uinteger": ("UINTEGER", said(P.INTEGER, "5", str(2**32 - 1), "0")),
    "ubigint": ("UBIGINT", said(P.WIDE, "5", str(2**64 - 1), str(2**63))),
    "hugeint": ("HUGEINT", said(P.WIDE, "5", f"'{2**127 - 1}'", f"'-{2**127}'", str(2**63))),
    "uhugeint": ("UHUGEINT", said(P.WIDE, "5", f"'{2**128 - 1}'", "0")),
    "boolean": ("BOOLEAN", said(P.BOOLEAN, "true", "false")),
    "float": (
        "FLOAT",
        said(P.FLOAT, "5", "'NaN'", "'Infinity'", "'-Infinity'", "'1e-45'", "'3.4e38'", "'-0'"),
    ),
    "double": (
        "DOUBLE",
        said(
            P.FLOAT, "5", "'NaN'", "'Infinity'", "'-Infinity'", "'5e-324'", "'1.7976931348623157e308'", "'-0'"
        ),
    ),
    "decimal": ("DECIMAL(18, 3)", said(P.DECIMAL, "5", "'" + "9" * 15 + ".999'", "'-" + "9" * 15 + ".999'")),
    "wide": ("DECIMAL(38, 0)", said(P.DECIMAL, "5", f"'{'9' * 38}'", f"'-{'9' * 38}'")),
    "fine": ("DECIMAL(38, 38)", said(P.DECIMAL, "0.5", f"'0.{'9' * 38}'", f"'-0.{'9' * 38}'")),
    "date": (
        "DATE",
        said(P.DATE, "'2024-01-01'", *_ENDS, "'5877642-06-25 (BC)'", "'5881580-07-10'", "'9999-12-31'"),
    ),
    **{
        name: (name.upper(), said(P.TIMESTAMP, "'2024-01-01'", *_ENDS, *farthest))
        for name, farthest in (
            ("timestamp", ("'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'")),
            ("timestamp_s", ("'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54'")),
            ("timestamp_ms", ("'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775'")),
            ("timestamp_ns", ("'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775'")),
        )
    },
    "timestamptz": (
        "TIMESTAMPTZ",
        said(
            P.ZONED,
            "'2024-01-01 00:00:00+00'",
            *_ENDS,
            "'294247-01-10 04:00:54.775806+00'",
            "'0001-01-01 00:00:00+13'",
        ),
    ),
    "varchar": ("VARCHAR", said(P.TEXT, "'5'", *_READ, *_LONG, "chr(0)", "chr(8232)")),
    "uuid": (
        "UUID",
        said(P.TEXT, "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
    ),
    "enum": ("ENUM('5', '', 'x')", said(P.TEXT, "'5'", "''", "'x'")),
}
EVERY_SPARK: dict[str, tuple[str, Stored]] = {
    "tinyint": ("TINYINT", said(P.INTEGER, "5", "127", "-128")),
    "bigint": ("BIGINT", said(P.INTEGER, "5", f"{TOP}L", f"({-TOP}L - 1L)")),
    "boolean": ("BOOLEAN", said(P.BOOLEAN, "true", "false")),
    "float": (
        "FLOAT",
        said(P.FLOAT, "5", "float('NaN')", "float('Infinity')", "float('-Infinity')", "1e-45F", "3.4e38F"),
    ),
    "double": (
        "DOUBLE",
        said(
            P.FLOAT,
            "5",
            "double('NaN')",
            "double('Infinity')",
            "double('-Infinity')",
            "5e-324D",
            "1.7976931348623157e308D",
            "-0.0D",
            "9223372036854775808D",
        ),
    ),
    "decimal": ("DECIMAL(38, 0)", said(P.DECIMAL, "5", "9" * 38 + "BD", "-" + "9" * 38 + "BD")),
    "fine": ("DECIMAL(38, 38)", said(P.DECIMAL, "0.5BD", "0." + "9" * 38 + "BD", "-0." + "9" * 38 + "BD")),
    "mixed": ("DECIMAL(38, 10)", said(P.DECIMAL, "5", "9" * 28 + "." + "9" * 10 + "BD")),
    "date": (
        "DATE",
        said(
            P.DATE,
            "DATE '2024-01-01'",
            "date_from_unix_date(2147483647)",
            "date_from_unix_date(-2147483648)",
            "DATE '-0001-01-01'",
            "DATE '9999-12-31'",
        ),
    ),
    "timestamp": (
        "TIMESTAMP",
        said(
            P.ZONED,
            "TIMESTAMP '2024-01-01'",
            f"timestamp_micros({TOP}L)",
            f"timestamp_micros({-TOP}L - 1L)",
            f"timestamp_micros({-TOP}L)",
        ),
    ),
    "clock": (
        "TIMESTAMP_NTZ",
        said(
            P.TIMESTAMP,
            "TIMESTAMP_NTZ '2024-01-01'",
            "TIMESTAMP_NTZ '-290000-01-01 00:00:00'",
            "TIMESTAMP_NTZ '+290000-01-01 00:00:00'",
        ),
    ),
    "string": (
        "STRING",
        said(
            P.TEXT, "'5'", *(f"CAST(X'{text.hex()}' AS STRING)" for text in TEXTS if len(text) < 1000), *_LONG
        ),
    ),
    "varchar": ("VARCHAR(400)", said(P.TEXT, "'5'", "''", "repeat('p', 257)")),
}
