"""`deniable reproduce`: results of the literature, computed again, each as a table and a figure.

Every module here but `report` is one reproduction: `SUMMARY`, a line, and `run(out, progress) -> Report`. Its name with dashes is
the name of the reproduction, so a new file is all that a new one needs.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Annotated, Protocol, cast

import typer

from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.reproduce.report import Progress, Report
from deniable.errors import InvalidParameter


class Reproduction(Protocol):
    """`full` is there where `run` computes a part only."""

    SUMMARY: str

    def run(self, out: Path, progress: Progress) -> Report: ...

    def full(self, out: Path, progress: Progress) -> Report: ...


def names() -> list[str]:
    """Every reproduction there is."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name.replace("_", "-") for name in found if name != "report" and not name.startswith("_"))


def load(name: str) -> Reproduction:
    if name not in names():
        raise InvalidParameter(f"Expected the name of a reproduction, got {name!r}. There are: {', '.join(names())}.")
    return cast(Reproduction, importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))


@door
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which result; left out: the list.", metavar="[NAME]")] = None,
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
        show.table(("name", "what it shows"), [(each, load(each).SUMMARY) for each in names()])
        return
    reproduction = load(name)
    out.mkdir(parents=True, exist_ok=True)
    if full and not hasattr(reproduction, "full"):
        raise InvalidParameter(f"The reproduction {name} has no --full: it always computes the whole. Nothing was run.")
    report = (reproduction.full if full else reproduction.run)(out, show.progress)
    show.heading(report.title)
    show.say("")
    show.table(
        report.columns, [[_cell(value) for value in row] for row in report.rows], right=range(1, len(report.columns))
    )
    show.say("", report.reading, f"Figure: {report.figure}", f"Table: {report.write_table(out / f'{name}.csv')}")


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
