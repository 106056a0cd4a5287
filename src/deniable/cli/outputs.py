"""Files that a command will write: what would fail when the work is done, and paid for, is refused before."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deniable import extras
from deniable.errors import InvalidParameter
from deniable.plots import FORMATS


def check(plot: Path | None, *files: Path | None) -> None:
    """Refuse a folder that is not there, a picture in a form nobody can draw, and any without matplotlib."""
    for file in filter(None, (plot, *files)):
        if not file.parent.is_dir():
            raise InvalidParameter(f"{file}: there is no folder {file.parent}. Nothing was run.")
        if file.is_dir():
            raise InvalidParameter(f"{file} is a folder; expected the name of a file. Nothing was run.")
    if plot is None:
        return
    if plot.suffix not in FORMATS:
        raise InvalidParameter(f"Expected --plot {plot} to end in {', '.join(FORMATS)}. Nothing was run.")
    if importlib.util.find_spec("matplotlib") is None:
        raise extras.missing("Nothing was run. Pictures need matplotlib, which is not installed", "plot")
