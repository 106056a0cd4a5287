"""What the owner says when she opens a data set, put into its schema: the unit, bounds,
public keys, the data's version."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from deniable.errors import InvalidParameter
from deniable.loss import exact
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.schema.file import MAX_LENGTH
from deniable.sql.tree import Kind, Type, Value
from deniable.sql.types import MAX_SCALE
from deniable.units import Unit
from deniable.units import UnitKind as UnitKind

Bounds = Mapping[str, tuple[Any, Any]]
Keys = Mapping[str, Sequence[Any]]


def declared(schema: Schema, unit: Unit, bounds: Bounds, keys: Keys, version: str | None) -> Schema:
    """The schema with what was said beside it. A column is named "days", or
    "visits.days" where several tables have one."""
    schema = described(schema, {}, bounds, keys)
    tables = tuple(_protected(table, unit) for table in schema.tables)
    return Schema(tables, schema.version if version is None else str(version))


def described(schema: Schema, types: Mapping[str, Type], bounds: Bounds, keys: Keys) -> Schema:
    """The schema with these types, bounds and keys of its columns."""
    for name, kind in types.items():
        schema = _changed(schema, name, lambda column, kind=kind: replace(column, type=kind))
    for name, (lower, upper) in bounds.items():
        schema = _changed(
            schema, name, lambda column, lower=lower, upper=upper: _bounded(column, lower, upper)
        )
    for name, values in keys.items():
        schema = _changed(schema, name, lambda column, values=values: _keyed(column, values))
    return schema


# ------------------------------------------------------------------------------------------------ as texts


def parse_unit(text: str, max_rows: int | None = None, *, replace: bool = False) -> Unit:
    """The name of a column, or `row`.

    >>> print(parse_unit("patient_id", 4))
    all rows of one patient_id (at most 4 count), added or removed
    """
    if text != "row":
        return Unit.column(text.removeprefix("column:"), max_rows=max_rows, replace=replace)
    if max_rows is not None:
        raise InvalidParameter(
            f"Expected max_rows={max_rows} only with a column as the unit: one row is one row."
        )
    return Unit.row(replace=replace)


def parse_bounds(texts: Sequence[str]) -> dict[str, tuple[Fraction, Fraction]]:
    """Columns and the numbers that their values are clamped to.

    >>> parse_bounds(["days=0:60"])
    {'days': (Fraction(0, 1), Fraction(60, 1))}
    """
    return dict(map(_parse_bound, texts))


def _parse_bound(text: str) -> tuple[str, tuple[Fraction, Fraction]]:
    column, _, pair = text.partition("=")
    low, _, high = pair.partition(":")
    try:
        return column, (Fraction(low), Fraction(high))
    except (ValueError, ZeroDivisionError):
        raise InvalidParameter(f"Expected bounds={text!r} to look like days=0:60.") from None


def parse_types(texts: Sequence[str]) -> dict[str, Type]:
    """Columns and their types.

    >>> parse_types(["age=integer", "cost=decimal:2"])["cost"].scale
    2
    """
    return dict(map(_parse_typed, texts))


def _parse_typed(text: str) -> tuple[str, Type]:
    column, _, type_name = text.partition("=")
    return column, parse_type(type_name)


def parse_type(text: str) -> Type:
    """A type by its name; a decimal with its places, `decimal:2`, a text with its length, `text:40`.

    >>> parse_type("date").kind.value, parse_type("text:40").length
    ('date', 40)
    """
    name, _, size = text.strip().lower().partition(":")
    limit = {"decimal": MAX_SCALE, "text": MAX_LENGTH}.get(name, 0)
    if name not in list(Kind) or (size and not (size.isdecimal() and len(size) < 9 and int(size) <= limit)):
        raise InvalidParameter(
            f"Expected type={text!r} to be one of {', '.join(Kind)}, with decimal:2 for two places and "
            "text:40 for 40 characters."
        )
    if name == Kind.DECIMAL:
        return Type(Kind.DECIMAL, scale=int(size or 2))
    if size:
        return Type(Kind.TEXT, length=max(1, int(size)))
    return Type(Kind(name))


def parse_keys(texts: Sequence[str]) -> dict[str, list[str]]:
    """Columns and their public values.

    >>> parse_keys(["diagnosis=flu,asthma"])
    {'diagnosis': ['flu', 'asthma']}
    """
    return dict(map(_parse_key, texts))


def _parse_key(text: str) -> tuple[str, list[str]]:
    column, _, values = text.partition("=")
    if not column or not values:
        raise InvalidParameter(f"Expected keys={text!r} to look like diagnosis=flu,asthma.")
    return column, values.split(",")


# ------------------------------------------------------------------------------------------------ the unit


def _protected(table: TableInfo, unit: Unit) -> TableInfo:
    """The table with its way to the unit, which must be there for every table that is not public."""
    if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN):
        raise InvalidParameter(
            f"Expected the unit of a table to be a row or a column, got {unit}. Nothing was opened."
        )
    if table.public:
        return table
    if unit.kind is UnitKind.ROW:
        return replace(table, unit=None, path=())
    if table.unit not in (None, unit.column_name) and table.column(str(unit.column_name)) is not None:
        raise InvalidParameter(
            f'The schema says that "{table.unit}" tells the people of "{table.name}" apart, and the unit '
            f'says "{unit.column_name}", which is a column of it too. Nothing was opened. Name one of them '
            "in both."
        )
    if table.unit is not None or table.path:
        return table
    if table.column(str(unit.column_name)) is None:
        raise InvalidParameter(
            f'The table "{table.name}" has no column "{unit.column_name}", so nobody in it could be '
            "protected. Nothing was opened. Its columns are: "
            f"{', '.join(column.name for column in table.columns)}. "
            "Name one of them, or declare in a schema file that the table is public, or the path from it "
            "to the unit."
        )
    return replace(table, unit=unit.column_name)


# ------------------------------------------------------------------------------------------------ columns


def _changed(schema: Schema, name: str, change: Any) -> Schema:
    owner, column = _find(schema, name)
    columns = tuple(change(c) if c is column else c for c in owner.columns)
    tables = tuple(replace(t, columns=columns) if t is owner else t for t in schema.tables)
    return replace(schema, tables=tables)


def _find(schema: Schema, name: str) -> tuple[TableInfo, ColumnInfo]:
    matches = list(_named(schema, name))
    if len(matches) == 1:
        return matches[0]
    if matches:
        ways = ", ".join(f'"{table.name}.{column.name}"' for table, column in matches)
        raise InvalidParameter(f'There are several columns "{name}". Nothing was opened; say which: {ways}.')
    names = ", ".join(f'"{column.name}"' for table in schema.tables for column in table.columns)
    raise InvalidParameter(f'There is no column "{name}". Nothing was opened; there are: {names}.')


def _named(schema: Schema, name: str) -> Iterator[tuple[TableInfo, ColumnInfo]]:
    target = name.lower()
    for table in schema.tables:
        for column in table.columns:
            if target in (column.name.lower(), f"{table.name}.{column.name}".lower()):
                yield table, column


def _bounded(column: ColumnInfo, lower: Any, upper: Any) -> ColumnInfo:
    low, high = (_number(column.name, x) for x in (lower, upper))
    if low > high:
        raise InvalidParameter(
            f"Expected bounds of {column.name} with lower ≤ upper, got ({lower}, {upper})."
        )
    # Text with bounds is a number, whole or not, that is written as text: nothing in a CSV file says so
    # itself.
    column_type = column.type
    if column.type.kind is Kind.TEXT:
        column_type = Type(Kind.FLOAT)
    return replace(column, type=column_type, lower=low, upper=high)


def _number(name: str, x: Any) -> Fraction:
    good = isinstance(x, int | float | Decimal | Fraction) and not isinstance(x, bool) and math.isfinite(x)
    if not good:
        raise InvalidParameter(f"Expected a finite number as a bound of {name}, got {x!r}.")
    if isinstance(x, Decimal):
        return Fraction(x)
    return exact(x)


def _keyed(column: ColumnInfo, values: Sequence[Any]) -> ColumnInfo:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidParameter(f"Expected a list of keys of {column.name}, got {values!r}.")
    keys = tuple(key(column.name, column.type, value) for value in values)
    if not keys or len(set(keys)) != len(keys):
        raise InvalidParameter(
            f"Expected at least one key of {column.name} and none of them twice, got {list(values)}."
        )
    return replace(column, keys=keys)


def key(name: str, type: Type, value: Any) -> Value:
    """A public key as a value of its column's type; the text of a value is taken too.

    >>> key("day", Type(Kind.DATE), "2024-03-01"), key("zip", Type(Kind.INTEGER), "10001")
    (datetime.date(2024, 3, 1), 10001)
    """
    if value is None:
        return None
    try:
        reading = _read(type.kind, value)
    except (TypeError, ValueError, InvalidOperation):
        reading = None
    if reading is None:
        raise InvalidParameter(
            f"Expected keys of {name} of the type {type.kind}, got {value!r}. Nothing was opened."
        )
    return reading


def _read(kind: Kind, value: Any) -> Value:
    content = value.item() if hasattr(value, "item") else value
    match kind, content:
        case (Kind.TEXT, str()):
            return str(content)
        case (Kind.BOOLEAN, bool()):
            return bool(content)
        case (Kind.BOOLEAN, "true" | "false"):
            return bool(content == "true")
        case (Kind.INTEGER, int() | str()) if not isinstance(content, bool):
            return int(content)
        case (Kind.DECIMAL, int() | str() | Decimal()) if not isinstance(content, bool):
            return Decimal(content)
        case (Kind.FLOAT, int() | float() | str()) if not isinstance(content, bool):
            return float(content)
        case (Kind.TIMESTAMP, str() | datetime()):
            return datetime.fromisoformat(str(content))
        case (Kind.DATE, str() | date()) if not isinstance(content, datetime):
            return date.fromisoformat(str(content))
    return None
