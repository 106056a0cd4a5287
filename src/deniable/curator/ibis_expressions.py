"""Questions put in the words of Ibis: an expression is asked as the SQL that it stands for, and nothing else
is run."""

from __future__ import annotations

import importlib
from typing import Any

from deniable.errors import InvalidParameter, InvalidQuery, MissingExtra
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import Kind, Type


def as_sql(question: object) -> str:
    """A text as it is; an expression of Ibis in DuckDB's SQL."""
    if isinstance(question, str):
        return question
    if type(question).__module__.partition(".")[0] != "ibis":
        raise InvalidParameter(
            f"Expected SQL or an expression of Ibis, got {type(question).__name__}. Nothing was charged and "
            "nothing was run."
        )
    ibis = _ibis()
    try:
        return str(ibis.to_sql(question, dialect="duckdb"))
    except ibis.common.exceptions.IbisError as error:
        raise InvalidQuery(
            f"The expression has no SQL: {error} No data was read and nothing was charged. Build it on "
            "curator.ibis(…)."
        ) from None


def unbound(schema: Schema, name: str) -> Any:
    """A declared table as Ibis sees it."""
    declaration = schema.table(name)
    if declaration is None:
        table_names = ", ".join(table.name for table in schema.tables)
        raise InvalidParameter(
            f"Expected the name of a declared table, got {name!r}. There are: {table_names}."
        )
    return _ibis().table(
        {column.name: _name_type(column.type) for column in declaration.columns}, name=declaration.name
    )


def _name_type(kind: Type) -> str:
    simple = {
        Kind.BOOLEAN: "boolean",
        Kind.INTEGER: "int64",
        Kind.FLOAT: "float64",
        Kind.TEXT: "string",
        Kind.DATE: "date",
        Kind.TIMESTAMP: "timestamp",
    }
    if kind.kind is Kind.DECIMAL:
        return f"decimal(18, {kind.scale})"
    return simple[kind.kind]


def _ibis() -> Any:
    try:
        return importlib.import_module("ibis")
    except ModuleNotFoundError:
        raise MissingExtra(
            "An expression of Ibis needs it installed: pip install ibis-framework. Or ask in SQL."
        ) from None
