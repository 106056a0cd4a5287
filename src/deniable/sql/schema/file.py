"""The owner's declaration as a YAML file, to be read and reviewed by people, and back.

version: "2024-05"
tables:
  visits:
    unit: patient_id
    columns:
      patient_id: integer
      days: {type: integer, bounds: [0, 60], nulls: false}
      cost: {type: decimal, scale: 2, bounds: [0, 9999.99]}
      diagnosis: {type: text, length: 40, keys: [flu, asthma]}
  prescriptions:
    path: [visit_id -> visits.visit_id]
    columns: {visit_id: integer, drug: text}
  drugs:
    public: true
    unique: [drug]
    columns: {drug: text}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from deniable.errors import DataError, InvalidParameter
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import LENGTH, Kind, Type, Value
from deniable.sql.types import MAX_SCALE

MAX_LENGTH = 65_536
STEP = re.compile(r"(.+?) *-> *([^.]+)[.](.+)")
TABLE = {"columns", "public", "unit", "path", "unique"}
COLUMN = {"type", "scale", "length", "bounds", "keys", "nulls"}


def load(path: str | Path) -> Schema:
    """The schema in a file."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The schema {path} cannot be read: {error}.") from error


def parse(text: str) -> Schema:
    """The schema in a text.

    >>> columns = "{id: integer, days: {type: integer, bounds: [0, 60]}}"
    >>> schema = parse(f"tables: {{visits: {{unit: id, columns: {columns}}}}}")
    >>> schema.tables[0].unit, schema.tables[0].columns[1].upper
    ('id', Fraction(60, 1))
    >>> parse("tables: {visits: {columns: {days: int}}}")
    Traceback (most recent call last):
    deniable.errors.InvalidParameter: In visits.days: expected a type among boolean, integer, ..., got 'int'.
    """
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise InvalidParameter(f"The schema is not YAML: {error}") from None
    root = _mapping(document, "the schema", {"version", "tables"})
    tables = _mapping(root.get("tables"), "tables")
    if not tables:
        raise InvalidParameter("In tables: expected at least one table.")
    return checked(
        Schema(tuple(_table(str(name), body) for name, body in tables.items()), str(root.get("version", "1")))
    )


def save(schema: Schema) -> str:
    """The text of a schema; `parse` gives the schema back."""
    tables = {table.name: _table_out(table) for table in schema.tables}
    out = {"version": schema.version, "tables": tables}
    return yaml.dump(out, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def inline(column: ColumnInfo) -> str:
    """What a column is declared as, in one line of a file.

    >>> inline(ColumnInfo("days", Type(Kind.INTEGER), Fraction(0), Fraction(60)))
    '{type: integer, bounds: [0, 60]}'
    """
    out = _column_out(column)
    declaration = out if isinstance(out, dict) else {"type": out}
    text: str = yaml.dump(
        declaration, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**9
    )
    return text.strip()


def checked(schema: Schema) -> Schema:
    """Refuse names that mean two things, and units, paths and unique columns that are not there."""
    _distinct([table.name for table in schema.tables], "tables")
    for table in schema.tables:
        where = f"In {table.name}"
        _distinct([column.name for column in table.columns], table.name)
        if table.unit is not None and table.path:
            raise InvalidParameter(f"{where}: expected a unit or a path to it, not both.")
        if table.public and (table.unit is not None or table.path):
            raise InvalidParameter(
                f"{where}: a public table has no unit. Leave out public, or unit and path."
            )
        for name in (*table.unique, *filter(None, [table.unit])):
            if table.column(name) is None:
                raise InvalidParameter(f'{where}: the column "{name}" is not declared.')
        _walk(schema, table)
    return schema


def _walk(schema: Schema, table: TableInfo) -> None:
    """A path must lead, over declared columns, to a table that holds the unit."""
    here = table
    for column, name, other in table.path:
        there = schema.table(name)
        if here.column(column) is None or there is None or there.column(other) is None:
            raise InvalidParameter(
                f'In {table.name}: the step "{column} -> {name}.{other}" names what is not declared.'
            )
        here = there
    if table.path and here.unit is None:
        raise InvalidParameter(f'In {table.name}: the path ends in "{here.name}", which declares no unit.')


def _distinct(names: list[str], where: str) -> None:
    earlier_names: set[str] = set()
    for name in names:
        if not name or name.startswith("_"):
            raise InvalidParameter(f'In {where}: expected a name that does not begin with "_", got "{name}".')
        if name.casefold() in earlier_names:
            raise InvalidParameter(
                f'In {where}: "{name}" stands there twice; upper and lower case are one name in SQL.'
            )
        earlier_names.add(name.casefold())


# ------------------------------------------------------------------------------------------------ reading


def _mapping(value: Any, where: str, allowed: set[str] | None = None) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"In {where}: expected names with values, got {value!r}.")
    if allowed is not None and (unknown := [key for key in value if key not in allowed]):
        raise InvalidParameter(
            f"In {where}: {unknown[0]!r} is not known; expected {', '.join(sorted(allowed))}."
        )
    return value


def _table(name: str, value: Any) -> TableInfo:
    body = _mapping(value, name, TABLE)
    columns = _mapping(body.get("columns"), f"{name}.columns")
    public, unit = body.get("public", False), body.get("unit")
    if not isinstance(public, bool) or not isinstance(unit, str | None):
        raise InvalidParameter(
            f"In {name}: expected public as true or false and unit as the name of a column."
        )
    infos = tuple(
        _column(f"{name}.{column}", str(column), declaration) for column, declaration in columns.items()
    )
    path = tuple(_step(name, step) for step in _list(body.get("path"), f"{name}.path"))
    return TableInfo(
        name, infos, public, unit, path, tuple(map(str, _list(body.get("unique"), f"{name}.unique")))
    )


def _step(name: str, step: Any) -> tuple[str, str, str]:
    match = STEP.fullmatch(str(step))
    if match is None:
        raise InvalidParameter(f'In {name}.path: expected "column -> table.column", got {step!r}.')
    return match[1], match[2], match[3]


def _list(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InvalidParameter(f"In {where}: expected a list, got {value!r}.")
    return value or []


def _column(where: str, name: str, value: Any) -> ColumnInfo:
    body = _mapping({"type": value} if isinstance(value, str) else value, where, COLUMN)
    kind = _type(where, body)
    lower, upper = _bounds(where, kind, body.get("bounds"))
    keys = None
    if body.get("keys") is not None:
        keys = tuple(_key(where, kind, key) for key in _list(body["keys"], where))
    if keys is not None and len(set(keys)) < len(keys):
        raise InvalidParameter(f"In {where}: expected keys that differ.")
    nulls = body.get("nulls", True)
    if not isinstance(nulls, bool):
        raise InvalidParameter(f"In {where}: expected nulls as true or false, got {nulls!r}.")
    return ColumnInfo(name, kind, lower, upper, keys, nulls)


def _type(where: str, body: Mapping[Any, Any]) -> Type:
    # Bounds alone say that it is a number, and not that it is a whole one.
    type_name = body.get("type", Kind.FLOAT.value if body.get("bounds") is not None else None)
    if type_name not in list(Kind):
        raise InvalidParameter(f"In {where}: expected a type among {', '.join(Kind)}, got {type_name!r}.")
    kind = Kind(type_name)
    scale = _whole(where, "scale", body.get("scale", 0), 0, MAX_SCALE)
    length = _whole(where, "length", body.get("length", LENGTH), 1, MAX_LENGTH)
    if ("scale" in body and kind is not Kind.DECIMAL) or ("length" in body and kind is not Kind.TEXT):
        raise InvalidParameter(
            f"In {where}: a scale is for decimals and a length for texts, but this is {kind.value}."
        )
    return Type(kind, scale, length)


def _whole(where: str, name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidParameter(f"In {where}: expected {name}={value!r} as a whole number in [{low}, {high}].")
    return value


def _bounds(where: str, kind: Type, value: Any) -> tuple[Fraction | None, Fraction | None]:
    if value is None:
        return None, None
    if kind.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        raise InvalidParameter(f"In {where}: bounds are for numbers, but this is {kind.kind.value}.")
    pair = [_number(where, x) for x in _list(value, where)]
    if len(pair) != 2 or not pair[0] <= pair[1]:
        raise InvalidParameter(f"In {where}: expected bounds as [lower, upper] with lower ≤ upper.")
    return Fraction(pair[0]), Fraction(pair[1])


def _number(where: str, value: Any) -> Decimal:
    try:
        number = None
        if not isinstance(value, bool | date):
            number = Decimal(str(value))
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite():
        raise InvalidParameter(f"In {where}: expected a number, got {value!r}.")
    return number


def _key(where: str, kind: Type, value: Any) -> Value:
    """A key as a value of the column's type."""
    match kind.kind:
        case Kind.INTEGER if isinstance(value, int) and not isinstance(value, bool):
            return value
        case Kind.DECIMAL if not isinstance(value, bool):
            return _number(where, value)
        case Kind.FLOAT if not isinstance(value, bool):
            return float(_number(where, value))
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.TEXT if isinstance(value, str):
            return value[: kind.length]
        case Kind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case Kind.TIMESTAMP if isinstance(value, datetime) and value.tzinfo is None:
            return value
        case _ if value is None:
            return None
    raise InvalidParameter(
        f"In {where}: the key {value!r} is not of type {kind.kind.value}; texts go in quotes."
    )


# ------------------------------------------------------------------------------------------------ writing


def _table_out(table: TableInfo) -> dict[str, Any]:
    path = [f"{column} -> {name}.{other}" for column, name, other in table.path]
    entries = {"public": table.public, "unit": table.unit, "path": path, "unique": list(table.unique)}
    return {k: v for k, v in entries.items() if v} | {
        "columns": {c.name: _column_out(c) for c in table.columns}
    }


def _column_out(column: ColumnInfo) -> Any:
    kind = column.type
    entries: dict[str, Any] = {"type": kind.kind.value}
    if kind.kind is Kind.DECIMAL:
        entries["scale"] = kind.scale
    if kind.kind is Kind.TEXT and kind.length != LENGTH:
        entries["length"] = kind.length
    if column.lower is not None and column.upper is not None:
        entries["bounds"] = [_plain(column.lower), _plain(column.upper)]
    if column.keys is not None:
        entries["keys"] = [_plain(key) if isinstance(key, Decimal) else key for key in column.keys]
    if not column.nulls:
        entries["nulls"] = False
    if len(entries) > 1:
        return entries
    return kind.kind.value


def _plain(number: Fraction | Decimal) -> int | Decimal:
    exact = Fraction(number)
    if exact.denominator == 1:
        return exact.numerator
    return _decimal(exact)


def _decimal(number: Fraction) -> Decimal:
    """The same number in decimal digits; bounds come from decimal digits or floats, so
    there always are some."""
    twos = fives = 0
    rest = number.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise InvalidParameter(
            f"The bound {number} has no end in decimal digits and cannot be written to a schema file."
        )
    places = max(twos, fives)
    return Decimal(number.numerator * 10**places // number.denominator).scaleb(-places)


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a name cannot stand twice, decimal digits stay decimal and only
    true and false are booleans."""


class _Dumper(yaml.SafeDumper):
    """Safe YAML that writes decimals digit by digit."""


def _unique_mapping(loader: Any, node: Any) -> dict[Any, Any]:
    names = [loader.construct_object(key, deep=True) for key, _ in node.value]
    if len({str(name) for name in names}) < len(names):
        raise InvalidParameter(f"A name stands twice in the schema, near line {node.start_mark.line + 1}.")
    return {
        name: loader.construct_object(value, deep=True)
        for name, (_, value) in zip(names, node.value, strict=True)
    }


def _decimal_scalar(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    try:
        return Decimal(text.replace("_", ""))
    except InvalidOperation:
        return text


def _decimal_out(dumper: Any, number: Decimal) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{number:f}")


_Loader.add_constructor("tag:yaml.org,2002:map", _unique_mapping)
_Loader.add_constructor("tag:yaml.org,2002:float", _decimal_scalar)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Dumper.add_representer(Decimal, _decimal_out)
