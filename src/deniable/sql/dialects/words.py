"""The words of each dialect: names, types, literals, and the forms that keep an expression total.

`let` names a part of an expression where it is long: a guard mentions its operand several times, and guards nest, so without it
the text would double at every level.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.tree import Kind, Type, Value
from deniable.sql.types import HIGHEST, LOWEST

LONG = 160

_TYPES: dict[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
_OWN: dict[tuple[Dialect, Kind], str] = {
    (Dialect.POSTGRES, Kind.FLOAT): "DOUBLE PRECISION",
    (Dialect.POSTGRES, Kind.TEXT): "TEXT",
    (Dialect.SPARK, Kind.TEXT): "STRING",
    (Dialect.SPARK, Kind.TIMESTAMP): "TIMESTAMP_NTZ",
}


def type_name(of: Type, dialect: Dialect) -> str:
    return _OWN.get((dialect, of.kind), _TYPES[of.kind])


def quote(name: str, dialect: Dialect) -> str:
    """
    >>> quote('a"b', Dialect.DUCKDB), quote("a`b", Dialect.SPARK)
    ('"a""b"', '`a``b`')
    """
    mark = "`" if dialect is Dialect.SPARK else '"'
    return mark + name.replace(mark, mark + mark) + mark


def text(value: str, dialect: Dialect) -> str:
    """A text literal. Spark reads backslashes and ${…}, PostgreSQL may read backslashes: both are written so that they do not."""
    if dialect is Dialect.SPARK:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
    if dialect is Dialect.POSTGRES and "\\" in value:
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + value.replace("'", "''") + "'"


def literal(value: Value, of: Type, dialect: Dialect) -> str:
    """
    >>> literal(Decimal("1.50"), Type(Kind.DECIMAL, scale=2), Dialect.DUCKDB)
    'CAST(150 AS BIGINT)'
    """
    name = type_name(of, dialect)
    match value:
        case None:
            return f"CAST(NULL AS {name})"
        case bool():
            return str(value).upper()
        case str():
            return text(value, dialect)
        case datetime():
            return f"CAST('{value.isoformat(sep=' ')}' AS {name})"
        case date():
            return f"CAST('{value.isoformat()}' AS {name})"
        case float():
            return double(value, dialect)
        case int() | Decimal():
            return whole(int(value.scaleb(of.scale)) if isinstance(value, Decimal) else value * 10**of.scale)


def whole(value: int) -> str:
    return f"CAST({value} AS BIGINT)"


def double(value: float, dialect: Dialect) -> str:
    return f"CAST('{float(value)!r}' AS {type_name(Type(Kind.FLOAT), dialect)})"


def let(dialect: Dialect, parts: list[str], body: Callable[..., str]) -> str:
    """`body` of the parts; where one of them is long, of names for them."""
    if max(len(part) for part in parts) <= LONG:
        return body(*parts)
    names = [f"p{i}" for i in range(len(parts))]
    match dialect:
        case Dialect.DUCKDB:
            given = ", ".join(f"'{n}': {p}" for n, p in zip(names, parts, strict=True))
            inner = body(*(f"struct_extract(_v, '{n}')" for n in names))
            return f"list_transform([{{{given}}}], lambda _v: {inner})[1]"
        case Dialect.SPARK:
            given = ", ".join(f"'{n}', {p}" for n, p in zip(names, parts, strict=True))
            return f"transform(array(named_struct({given})), _v -> {body(*(f'_v.{n}' for n in names))})[0]"
        case Dialect.POSTGRES:
            given = ", ".join(f"{p} AS {n}" for n, p in zip(names, parts, strict=True))
            return f"(SELECT {body(*(f'_v.{n}' for n in names))} FROM (SELECT {given}) AS _v)"


def wide(part: str, dialect: Dialect) -> str:
    """A 64-bit integer in a type in which sums and products of two of them are exact."""
    return f"CAST({part} AS {'HUGEINT' if dialect is Dialect.DUCKDB else 'NUMERIC'})"


def narrow(part: str, dialect: Dialect) -> str:
    """A wide integer as a 64-bit one, NULL where it does not fit. PostgreSQL has no TRY_CAST: what lies outside is moved just
    outside, then NULLIF takes it away; so `part` is written once (and GREATEST takes NULL to just outside)."""
    if dialect is not Dialect.POSTGRES:
        return f"TRY_CAST({part} AS BIGINT)"
    inside = f"LEAST(GREATEST({part}, {LOWEST - 1}), {HIGHEST + 1})"
    return f"CAST(NULLIF(NULLIF({inside}, {LOWEST - 1}), {HIGHEST + 1}) AS BIGINT)"


def finite(part: str, dialect: Dialect) -> str:
    """A double, NULL where it is NaN or infinite. PostgreSQL raises instead of making those: its operands are guarded."""
    match dialect:
        case Dialect.DUCKDB:
            return let(dialect, [part], lambda x: f"CASE WHEN isfinite({x}) THEN {x} END")
        case Dialect.SPARK:
            # The remainder by infinity is the number itself, and NaN for what is not finite.
            return f"nanvl({part} % CAST('Infinity' AS DOUBLE), CAST(NULL AS DOUBLE))"
        case Dialect.POSTGRES:
            return part
