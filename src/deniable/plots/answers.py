"""Pictures of answers: bars with error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.plots import COLOURS, axes, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cells = Sequence[float | int | None]

MOST = 40
"""Labels that can still be read; more bars than these go without."""


def bars(
    labels: Sequence[str],
    value: Cells,
    low: Cells,
    high: Cells,
    *,
    title: str,
    x: str,
    y: str,
    truth: Cells | None = None,
    path: str | Path | None = None,
) -> Figure:
    """A bar for each label, with the interval around it. An unbounded interval is drawn
    as a hollow bar without one.

    `truth`, where it is known, is drawn as a mark across each bar.
    """
    picture, plane = axes(title=title, x=x, y=y, width=max(4.0, min(12.0, 1.5 + 0.45 * len(labels))))
    places = range(len(labels))
    heights = [math.nan if v is None else float(v) for v in value]
    below, above = (_reach(heights, side, sign) for side, sign in ((low, -1), (high, 1)))
    known = [math.isfinite(a) and math.isfinite(b) for a, b in zip(below, above, strict=True)]
    drawn = plane.bar(places, heights, color=COLOURS[4], edgecolor=COLOURS[0], linewidth=0.8)
    for bar, closed in zip(drawn, known, strict=True):
        bar.set_fill(closed)
    reach = [[side[i] for i in places if known[i]] for side in (below, above)]
    at = [i for i in places if known[i]]
    plane.errorbar(
        at, [heights[i] for i in at], yerr=reach, fmt="none", ecolor=COLOURS[6], elinewidth=1, capsize=3
    )
    if truth is not None:
        marks = [math.nan if t is None else float(t) for t in truth]
        plane.plot(places, marks, "_", color=COLOURS[1], markersize=16, markeredgewidth=2, label="truth")
        plane.legend(frameon=False)
    if len(labels) <= MOST:
        plane.set_xticks(
            places,
            labels,
            rotation=0 if len(labels) <= 4 else 60,
            ha="center" if len(labels) <= 4 else "right",
        )
    if path is not None:
        save(picture, Path(path))
    return picture


def _reach(heights: Sequence[float], side: Cells, sign: int) -> list[float]:
    """How far the interval reaches from each bar on one side."""
    return [
        math.nan if end is None else max(sign * (float(end) - height), 0.0)
        for height, end in zip(heights, side, strict=True)
    ]
