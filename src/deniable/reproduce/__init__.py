"""Results of the literature, computed again, each as a table and a figure.

Every module here but `report` is one reproduction: `SUMMARY`, a line, and `run(out, progress) -> Report`. Its
name with dashes is the name of the reproduction, so a new file is all that a new one needs.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import Protocol, cast

from deniable.errors import InvalidParameter
from deniable.reproduce.report import Progress, Report


class Reproduction(Protocol):
    """`full` is there where `run` computes a part only."""

    SUMMARY: str

    def run(self, folder: Path, progress: Progress) -> Report: ...

    def full(self, folder: Path, progress: Progress) -> Report: ...


def names() -> list[str]:
    """Every reproduction there is."""
    files = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name.replace("_", "-") for name in files if name != "report" and not name.startswith("_"))


def summary(name: str) -> str:
    """The line that says what `name` shows, read from its file: a list needs none of what a reproduction
    needs."""
    tree = ast.parse(Path(__path__[0], f"{name.replace('-', '_')}.py").read_text(encoding="utf-8"))
    (line,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SUMMARY"
    ]
    return str(ast.literal_eval(line))


def load(name: str) -> Reproduction:
    if name not in names():
        raise InvalidParameter(
            f"Expected the name of a reproduction, got {name!r}. There are: {', '.join(names())}."
        )
    return cast(Reproduction, importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))


def compute(name: str, folder: Path, progress: Progress, *, full: bool = False) -> Report:
    """The reproduction `name` (all of it where it is `full`), with its table in `folder`;
    `report.figure` draws its figure there."""
    reproduction = load(name)
    if full and not hasattr(reproduction, "full"):
        raise InvalidParameter(
            f"The reproduction {name} has no --full: it always computes the whole. Nothing was run."
        )
    folder.mkdir(parents=True, exist_ok=True)
    report = (reproduction.full if full else reproduction.run)(folder, progress)
    report.write_table(folder / f"{name}.csv")
    return report
