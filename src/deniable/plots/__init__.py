"""Every picture. matplotlib is imported here and nowhere else; it comes with the extra `deniable[plot]`.

`axes()` gives a figure and its axes in the house style, `save()` writes the file. Neither touches pyplot, so
there is no global state and no display is needed.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from deniable import extras
from deniable.errors import InvalidParameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe, Ito 2008: told apart by colour-blind readers and in grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")

FORMATS = (".png", ".pdf", ".svg")


def axes(*, title: str, x: str, y: str, width: float = 7.0, height: float = 4.4) -> tuple[Figure, Axes]:
    """An empty picture with a title and labelled axes."""
    picture = empty(width, height)
    plane = picture.add_subplot()
    plane.set_title(title, loc="left", fontsize=11)
    plane.set_xlabel(x)
    plane.set_ylabel(y)
    apply_style(plane)
    return picture, plane


def empty(width: float, height: float) -> Figure:
    """A picture without axes, which a notebook shows by itself."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise extras.missing("Pictures need matplotlib, which is not installed", "plot") from None

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return Picture(figsize=(width, height), dpi=150, layout="constrained")


def apply_style(plane: Axes) -> None:
    """Give a plane the house style."""
    plane.set_prop_cycle(color=COLOURS)
    plane.grid(visible=True, color="#dddddd", linewidth=0.6)
    plane.set_axisbelow(True)
    for side in ("top", "right"):
        plane.spines[side].set_visible(False)


def save(picture: Figure, path: Path) -> Path:
    """Write the picture; the ending of `path` chooses the format (png, pdf, svg)."""
    if path.suffix not in FORMATS:
        raise InvalidParameter(
            f"Expected a picture's name to end in {', '.join(FORMATS)}, got {str(path)!r}."
        )
    picture.savefig(path)
    return path
