"""`deniable schema`: draft what the owner declares about her data, without looking at it, and check it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.errors import InvalidParameter
from deniable.sql.engines import open_engine
from deniable.sql.schema.declare import ColumnInfo, TableInfo
from deniable.sql.schema.file import load
from deniable.sql.schema.infer import draft

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
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write; left out: to the screen.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Draft a schema to review: names and types of columns from the file's metadata, and nothing of its contents.

    [bold]deniable schema init visits.parquet --out visits.yaml[/]
    """
    text = draft(source)
    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise InvalidParameter(f"The file {out} exists already. Nothing was written; name another.")
    out.write_text(text, encoding="utf-8")
    show.say(
        f"{out}: review it, fill in the unit, bounds and public keys, then `deniable query … --schema {out}`."
    )


@app.command()
@door
def check(
    file: Annotated[Path, typer.Argument(help="The schema.", metavar="FILE", dir_okay=False)],
    source: Annotated[
        str | None, typer.Argument(help="Also try whether this data has these columns.", metavar="[SOURCE]")
    ] = None,
    json: Json = False,
) -> None:
    """Read a schema and tell what it declares; with a source, whether the data has these columns.

    [bold]deniable schema check visits.yaml visits.parquet[/]
    """
    schema = load(file)
    if source is not None:
        open_engine(source, schema).close()
    if json:
        tables = [
            {"name": table.name, "columns": [_facts(c) for c in table.columns]} for table in schema.tables
        ]
        show.as_json({"version": schema.version, "tables": tables})
        return
    for table in schema.tables:
        show.heading(f"{table.name}: {_kind(table)}")
        show.table(("column", "type", "bounds", "public keys"), [_row(column) for column in table.columns])
    show.say("", f"Good. Version of the data: {schema.version}.")


def _kind(table: TableInfo) -> str:
    if table.public:
        return "public"
    way = " → ".join(next_table for _, next_table, _ in table.path)
    return "private" + (f", unit {table.unit}" if table.unit else "") + (f", by way of {way}" if way else "")


def _row(column: ColumnInfo) -> tuple[str, ...]:
    bounds = (
        ""
        if column.lower is None or column.upper is None
        else f"{float(column.lower):g} to {float(column.upper):g}"
    )
    keys = "" if column.keys is None else f"{len(column.keys)}: {', '.join(map(str, column.keys[:5]))}"
    more = "…" if column.keys is not None and len(column.keys) > 5 else ""
    return column.name, str(column.type.kind), bounds, keys + more


def _facts(column: ColumnInfo) -> dict[str, object]:
    return {
        "name": column.name,
        "type": str(column.type.kind),
        "lower": None if column.lower is None else float(column.lower),
        "upper": None if column.upper is None else float(column.upper),
        "keys": None if column.keys is None else [None if key is None else str(key) for key in column.keys],
    }
