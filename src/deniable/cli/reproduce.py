"""`deniable reproduce`: the list of reproductions, or one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable import reproduce as reproductions
from deniable.cli import show
from deniable.cli.door import door
from deniable.errors import MissingExtra
from deniable.reproduce.report import Report


@door
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which result; left out: the list.", metavar="[NAME]")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where figure and table go.", file_okay=False)
    ] = Path("out"),
    full: Annotated[
        bool, typer.Option("--full", help="The whole of it, where the default is a part; may take days.")
    ] = False,
) -> None:
    """Compute a published result again: a table on the screen, the same as CSV, and a figure.

    [bold]deniable reproduce[/]   (the list)

    [bold]deniable reproduce abadi-figure2 --out figures[/]
    """
    if name is None:
        rows = [(each, reproductions.summary(each)) for each in reproductions.names()]
        show.table(("name", "what it shows"), rows)
        return
    report = reproductions.compute(name, out, show.progress, full=full)
    cells = [[_cell(value) for value in row] for row in report.rows]
    show.heading(report.title)
    show.say("")
    show.table(report.columns, cells, right=range(1, len(report.columns)))
    show.say("", report.reading, f"Table: {out / f'{name}.csv'}", _figure(report))


def _figure(report: Report) -> str:
    try:
        return f"Figure: {report.figure}"
    except MissingExtra as missing:
        return f"No figure was drawn. {missing}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
