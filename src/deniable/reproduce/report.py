"""What a reproduction hands back: a table, a figure, and how to read them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Progress(Protocol):
    """`for item in progress(items, "label")`: the items themselves, with a bar while they pass."""

    def __call__(self, items: Sequence[Item], label: str) -> Iterable[Item]: ...


@dataclass(frozen=True)
class Report:
    """`rows` under `columns`, what draws the figure, and a sentence or two on what they show."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    draw: Callable[[], Path]
    reading: str

    @cached_property
    def figure(self) -> Path:
        """The figure's file, drawn when it is first asked for: a table is there without matplotlib too."""
        return self.draw()

    def write_table(self, path: Path) -> Path:
        """The table as CSV, every digit kept."""
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([self.columns, *self.rows])
        return path
