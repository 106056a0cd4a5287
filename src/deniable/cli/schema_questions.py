"""What the owner of a table is asked about it at a terminal. The questions come from the names of the columns
and from her answers; no value is read, and none is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from deniable.errors import InvalidParameter
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.schema.draft import likely_unit
from deniable.sql.schema.overrides import described, parse_bounds, parse_keys, parse_type
from deniable.sql.tree import Kind, Type
from deniable.sql.types import NUMBERS

Ask = Callable[[str, str], str]
"""A question and what Enter answers."""
Say = Callable[[str], None]
Answered = TypeVar("Answered")

LEFT_OUT = "-"
HEAD = (
    "Only names of columns were read; no value is looked at or shown. Enter takes what stands in brackets, "
    "and a column answered with - is left out. Types: text, integer, float, decimal:2, boolean, date, "
    "timestamp. Dates are read as 2026-01-31 and numbers as 1204.5; what is written otherwise becomes NULL, "
    "so let it be text."
)
LIKELY = (
    (re.compile(r"(^|_)(id|uuid|guid|key|code|zip|phone|email|name)$"), "text"),
    (re.compile(r"(^|_)(timestamp|datetime|time|at)$"), "timestamp"),
    (re.compile(r"(^|_)(date|day|on|dob|born|birthday)$"), "date"),
    (re.compile(r"^(is|has|was)_"), "boolean"),
    (
        re.compile(r"(^|_)(age|year|count|number|days|hours|minutes|visits|quantity|qty|size|n)$|^(num|n)_"),
        "integer",
    ),
    (
        re.compile(
            r"(^|_)(cost|price|amount|salary|income|fee|fare|tip|total|revenue|weight|height|score|rate|"
            r"ratio|percent|temperature|distance|duration|lat|lon|latitude|longitude)(_|$)"
        ),
        "float",
    ),
)


def likely_type(name: str) -> str:
    """A type that a column's name suggests, to be confirmed by the owner.

    >>> likely_type("patient_id"), likely_type("Age"), likely_type("admitted_at"), likely_type("ward")
    ('text', 'integer', 'timestamp', 'text')
    >>> likely_type("Length of stay (days)"), likely_type("Admitted on")
    ('integer', 'date')
    """
    words = "_".join(re.findall(r"[^\W_]+", name.lower()))
    return next((kind for pattern, kind in LIKELY if pattern.search(words)), "text")


def interview(table: TableInfo, has_types: bool, ask: Ask, say: Say) -> TableInfo:
    """The table as its owner describes it. `has_types`: its source knows the types of its columns."""
    say(HEAD)
    unit = _unit(table, ask, say)
    columns = [_column(column, column.name == unit, has_types, ask, say) for column in table.columns]
    final_columns = tuple(column for column in columns if column is not None)
    if not final_columns:
        raise InvalidParameter(
            "Every column was left out, so there is nothing to ask about. Nothing was written."
        )
    return replace(table, columns=final_columns, unit=unit)


def _unit(table: TableInfo, ask: Ask, say: Say) -> str | None:
    names = {column.name for column in table.columns}

    def column_name(text: str) -> str | None:
        if text != "row" and text not in names:
            raise InvalidParameter(
                f'There is no column "{text}". There are: {", ".join(sorted(names))}; or row.'
            )
        if text == "row":
            return None
        return text

    question = "Who is protected: the column that names a person, or row"
    return _ask_until_clear(question, table.unit or likely_unit(table) or "row", column_name, ask, say)


def _column(column: ColumnInfo, is_unit: bool, has_types: bool, ask: Ask, say: Say) -> ColumnInfo | None:
    if not has_types:
        suggestion = "text"
        if not is_unit:
            suggestion = _stated_type(column) or likely_type(column.name)
        column_type = _ask_until_clear(f"{column.name}: type", suggestion, _type_or_none, ask, say)
        if column_type is None:
            if is_unit:
                say(f"{column.name} tells who is protected, so it stays, as text.")
                return column
            return None
        column = replace(column, type=column_type)
    if is_unit:
        return column
    if column.type.kind in NUMBERS:
        return _ask_bounds(column, ask, say)
    if column.type.kind is Kind.TEXT:
        return _ask_keys(column, ask, say)
    return column


def _stated_type(column: ColumnInfo) -> str | None:
    """What an option has said already."""
    if column.type.kind is Kind.TEXT:
        return None
    return column.type.kind.value


def _type_or_none(text: str) -> Type | None:
    if text == LEFT_OUT:
        return None
    return parse_type(text)


def _ask_bounds(column: ColumnInfo, ask: Ask, say: Say) -> ColumnInfo:
    if column.lower is not None:
        return column

    def bounds(text: str) -> ColumnInfo:
        if not text:
            return column
        return _describe_column(column, bounds=text)

    question = f"{column.name}: bounds LOW:HIGH, known without the data (Enter: none)"
    return _ask_until_clear(question, "", bounds, ask, say)


def _ask_keys(column: ColumnInfo, ask: Ask, say: Say) -> ColumnInfo:
    if column.keys is not None:
        return column

    def keys(text: str) -> ColumnInfo:
        if not text:
            return column
        return _describe_column(column, keys=text)

    question = f"{column.name}: public values A,B,…, known without the data (Enter: private)"
    return _ask_until_clear(question, "", keys, ask, say)


def _describe_column(column: ColumnInfo, bounds: str = "", keys: str = "") -> ColumnInfo:
    """The column as it was answered, by the same rules as the options --bounds and --keys."""
    alone = Schema((TableInfo("t", (replace(column, name="c"),)),))
    limits = {}
    if bounds:
        limits = parse_bounds([f"c={bounds}"])
    values = {}
    if keys:
        values = parse_keys([f"c={keys}"])
    return replace(described(alone, {}, limits, values).tables[0].columns[0], name=column.name)


def _ask_until_clear(
    question: str, suggestion: str, read: Callable[[str], Answered], ask: Ask, say: Say
) -> Answered:
    """What the answer means; a question whose answer means nothing is asked again."""
    while True:
        try:
            return read(ask(question, suggestion).strip())
        except InvalidParameter as error:
            say(str(error))
