"""`deniable schema`: draft what the owner declares about her data, without looking at it, and check it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.cli.schema_questions import interview
from deniable.errors import InvalidParameter
from deniable.sql.engines import open_engine
from deniable.sql.engines.sources import CSV, recognise, recognised
from deniable.sql.read.hints import in_quotes
from deniable.sql.schema.beside import schema_place
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.schema.draft import draft_text, likely_unit
from deniable.sql.schema.file import checked, load
from deniable.sql.schema.infer import declarable, named
from deniable.sql.schema.overrides import described, parse_bounds, parse_keys, parse_types
from deniable.sql.tree import Kind

FORMS = (
    "In a CSV file numbers are read as 1204.5 and dates as 2026-01-31. A cell that is written otherwise "
    "(1,204.50, 31.01.2026) counts as empty; declare such a column as text and convert it in the query. How "
    "many there are: deniable schema check FILE SOURCE --cells."
)

OWNER_ONLY = (
    "These counts are exact, read from the rows, and for the owner alone: they are no release, so pass none "
    "of them on, and do not fit bounds or public keys to the data."
)
UNREAD = (
    "A cell that does not fit counts as empty in every query, and no analyst is told. Correct the type in "
    "the schema, or declare the column as text and convert it in the query; the tutorial for data stewards "
    "shows how. (9 stands for a digit, a for a letter.)"
)
AS_WRITTEN = (Kind.TEXT, Kind.BOOLEAN)
"""Kinds whose cells in a CSV file have one form only."""

app = typer.Typer(
    help="What an analyst may know about private tables: draft it from metadata, review it, check it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
@door
def init(
    source: Annotated[
        str, typer.Argument(help="A parquet, CSV or DuckDB file, or postgresql://…", metavar="SOURCE")
    ],
    unit: Annotated[
        str | None,
        typer.Option("--unit", metavar="COLUMN", help="Who is protected: the column that names the person."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="COLUMN=TYPE", help="The type of a column, like cost=decimal:2; repeat."
        ),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Bounds of a number; repeat."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", metavar="COLUMN=A,B,…", help="The public values of a column; repeat."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The table's name, if not that of the file.")
    ] = None,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask for what is missing; by default if this is a terminal."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write; left out: beside the data. - is the screen."
        ),
    ] = None,
) -> None:
    """Write down what is known of a table without its rows: types, bounds, public keys. Queries find it
    beside the data.

    Only names of columns are read, and types where the file's metadata has them; a CSV file has none, so say
    them, or be asked:

    [bold]deniable schema init visits.csv[/]

    [bold]deniable schema init visits.csv --unit patient_id --type day=date --bounds age=0:100 --keys
    ward=A,B[/]
    """
    place = _place(source, out)
    if name is None:
        name = named(source)
    if ask is None:
        ask = sys.stdin.isatty() and sys.stdout.isatty()
    table = declarable(source, name)
    draft = Schema((table,))
    schema = described(draft, parse_types(types or []), parse_bounds(bounds or []), parse_keys(keys or []))
    table = replace(schema.tables[0], unit=unit)
    checked(Schema((table,)))
    has_types = not isinstance(recognise(source, name), CSV)
    if ask:
        table = interview(table, has_types, _prompt, show.say)
    text = draft_text(table)
    if place is None:
        typer.echo(text, nl=False)
        return
    _write_new(place, text)
    show.say(*_next(source, place, table, has_types=has_types))


def _next(source: str, place: Path, table: TableInfo, *, has_types: bool) -> Iterator[str]:
    """What there is to do with a schema that was just written."""
    is_beside = place == _default_place(source)
    use = "It is found there from now on"
    if not is_beside:
        use = f"Then `deniable query … --schema {place}`"
    yield f"{place}: review it, and fill in the unit, bounds and public keys that are missing. {use}."
    if not has_types and any(column.type.kind not in AS_WRITTEN for column in table.columns):
        yield FORMS
    if is_beside:
        yield _first_query(source, table)


def _first_query(source: str, table: TableInfo) -> str:
    unit_option = ""
    if not table.unit:
        # A row is the weaker promise, so it is said only where no column looks like people.
        unit_option = f" --unit {shlex.quote(likely_unit(table) or 'row')}"
    count = shlex.quote(f"SELECT COUNT(*) AS n FROM {in_quotes(table.name)}")
    return (
        f"Next: deniable query {shlex.quote(source)} {count}{unit_option} "
        "--limit 3:1e-6 --epsilon .5 --preview"
    )


def _default_place(source: str) -> Path | None:
    if "://" in source:
        return None
    return schema_place(Path(source))


def _place(source: str, target: str | None) -> Path | None:
    """Where the schema goes, None for the screen; a file that is there is never written over."""
    if target == "-":
        return None
    place = _default_place(source)
    if target is not None:
        place = Path(target)
    if place is not None and place.exists():
        raise InvalidParameter(
            f"The file {place} exists already. Nothing was written; change it by hand, or name another with "
            "--out."
        )
    return place


def _write_new(place: Path, text: str) -> None:
    # "x": a file that came to be while the owner was asked is not written over either.
    with place.open("x", encoding="utf-8") as file:
        file.write(text)


def _prompt(question: str, suggestion: str) -> str:
    return str(typer.prompt(question, default=suggestion, show_default=bool(suggestion)))


@app.command()
@door
def check(
    file: Annotated[Path, typer.Argument(help="The schema.", metavar="FILE", dir_okay=False)],
    source: Annotated[
        str | None, typer.Argument(help="Also try whether this data has these columns.", metavar="[SOURCE]")
    ] = None,
    cells: Annotated[
        bool,
        typer.Option(
            "--cells", help="For the owner: read all rows, and count the cells that do not fit their type."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Read a schema and tell what it declares; with a source, whether the data has these columns.

    [bold]deniable schema check visits.yaml visits.parquet[/]

    [bold]deniable schema check visits.csv.schema.yaml visits.csv --cells[/]
    """
    schema = load(file)
    if source is not None:
        open_engine(source, schema).close()
    if cells:
        _show_cells(schema, source, json)
        return
    if json:
        tables = [
            {"name": table.name, "columns": [_facts(c) for c in table.columns]} for table in schema.tables
        ]
        show.as_json({"version": schema.version, "tables": tables})
        return
    for table in schema.tables:
        show.heading(f"{table.name}: {_kind(table)}")
        show.table(("column", "type", "bounds", "public keys"), [_row(column) for column in table.columns])
    show.say("", *_empty_units(schema), f"Good. Version of the data: {schema.version}.")


def _empty_units(schema: Schema) -> list[str]:
    """What becomes of rows that name nobody."""
    units = dict.fromkeys(table.unit for table in schema.tables if not table.public and table.unit)
    return [f"Rows with an empty {unit} are not counted." for unit in units]


def _show_cells(schema: Schema, source: str | None, json: bool) -> None:
    if source is None:
        raise InvalidParameter(
            "Expected the data too: deniable schema check FILE SOURCE --cells. Nothing was read."
        )
    # Only here is a row read: what else this command needs is metadata.
    from deniable.sql.engines.cells import unread_cells

    columns = unread_cells(recognised(source, tuple(table.name for table in schema.tables)), schema)
    if json:
        show.as_json({"cells": [asdict(column) for column in columns]})
        return
    rows = [
        (
            f"{each.table}.{each.column}",
            f"{each.cells:,}",
            f"{each.empty:,}",
            f"{each.unread:,}",
            "  ".join(each.forms),
        )
        for each in columns
    ]
    show.table(("column", "cells", "empty", "do not fit", "are written like"), rows, right=(1, 2, 3))
    show.say("", OWNER_ONLY, *_empty_units(schema))
    if any(each.unread for each in columns):
        show.say(UNREAD)


def _kind(table: TableInfo) -> str:
    if table.public:
        return "public"
    words = ["private"]
    if table.unit:
        words.append(f"unit {table.unit}")
    if table.path:
        words.append("by way of " + " → ".join(next_table for _, next_table, _ in table.path))
    return ", ".join(words)


def _row(column: ColumnInfo) -> tuple[str, ...]:
    bounds = ""
    if column.lower is not None and column.upper is not None:
        bounds = f"{float(column.lower):g} to {float(column.upper):g}"
    keys = ""
    if column.keys is not None:
        keys = f"{len(column.keys)}: {', '.join(map(str, column.keys[:5]))}"
        keys += "…" * (len(column.keys) > 5)
    return column.name, str(column.type.kind), bounds, keys


def _facts(column: ColumnInfo) -> dict[str, object]:
    facts: dict[str, object] = {
        "name": column.name,
        "type": str(column.type.kind),
        "lower": None,
        "upper": None,
        "keys": None,
    }
    if column.lower is not None:
        facts["lower"] = float(column.lower)
    if column.upper is not None:
        facts["upper"] = float(column.upper)
    if column.keys is not None:
        facts["keys"] = [key if key is None else str(key) for key in column.keys]
    return facts
