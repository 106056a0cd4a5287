"""Pictures of mechanisms: how errors and variances fall, with what was computed as lines
and what was measured as dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^D"


def falling(
    grid: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    title: str,
    x: str,
    y: str,
    path: Path,
    points: Mapping[str, Sequence[float]] | None = None,
    note: tuple[float, float, str] | None = None,
) -> Path:
    """Lines over `grid` on logarithmic axes; `points` dots take the colour of the line
    of the same name; `note` marks a point."""
    picture, plane = axes(title=title, x=x, y=y)
    for i, (name, values) in enumerate(lines.items()):
        plane.plot(
            grid, values, STYLES[i % len(STYLES)], color=COLOURS[i % len(COLOURS)], label=name, linewidth=1.8
        )
    for name, values in (points or {}).items():
        i = list(lines).index(name)
        plane.plot(
            grid,
            values,
            MARKERS[i % 4],
            color=COLOURS[i % len(COLOURS)],
            markersize=5,
            label=f"{name}, measured",
        )
    plane.set_xscale("log")
    plane.set_yscale("log")
    if note:
        plane.plot(*note[:2], "*", color="black", markersize=12, zorder=5)
        plane.annotate(note[2], note[:2], xytext=(30, 24), textcoords="offset points", ha="right", fontsize=9)
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)
