"""How the command line prints: tables that fit the terminal, bars, JSON with every digit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import track
from rich.table import Table

from deniable.strict_json import plain

Item = TypeVar("Item")


def console() -> Console:
    return Console(highlight=False, emoji=False, markup=False)


def say(*lines: str) -> None:
    """Print sentences, wrapped at the width of the terminal."""
    for line in lines:
        console().print(line)


def say_files(**files: Path | None) -> None:
    """Name the files that were written, each with what it holds; those nobody asked for are left out."""
    say(*(f"{what.capitalize()}: {file}" for what, file in files.items() if file is not None))


def bullets(sentences: Iterable[str]) -> None:
    """Print a list, each sentence wrapped beside its dot."""
    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(" ·", sentence)
    console().print(grid)


def heading(line: str) -> None:
    console().print(line, style="bold")


def say_indented(line: str) -> None:
    """Print what belongs to the line above, wrapped."""
    console().print(Padding(line, (0, 0, 0, 3)))


def as_json(value: Mapping[str, object]) -> None:
    """Print JSON with every digit; ∞ is the string "inf", as in certificates."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    fixed_columns: Sequence[int] = (),
    best: int | None = None,
) -> None:
    """A table without walls: columns `right` are numbers, `fixed_columns` never wrap, `best` stands out."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    cells = [[str(cell) for cell in row] for row in rows]
    for i, name in enumerate(columns):
        firm = i in right or i in fixed_columns
        # Numbers stay whole on a narrow screen: their heading wraps instead.
        width = None
        if firm:
            width = max((len(row[i]) for row in cells), default=0)
        grid.add_column(name, justify="right" if i in right else "left", min_width=width, overflow="fold")
    for i, row in enumerate(cells):
        grid.add_row(*row, style="bold green" if i == best else None)
    console().print(grid)


def progress(items: Sequence[Item], label: str) -> Iterable[Item]:
    """The items, with a bar on stderr while they pass; nothing of it stays, and nothing is drawn into a
    pipe."""
    screen = Console(stderr=True)
    return track(items, description=label, console=screen, transient=True, disable=not screen.is_terminal)
