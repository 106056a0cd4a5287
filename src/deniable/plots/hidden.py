"""The picture of what a model gives away of a sensitive column, beside what its guarantee allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from deniable.plots import COLOURS, axes, save

UNPROTECTED = 24.0
"""Where models without a guarantee stand on the axis of ε."""


def advantages(
    lines: Mapping[str, Sequence[tuple[float | None, float, float]]],
    bound: Callable[[float], float],
    *,
    title: str,
    path: Path,
) -> Path:
    """Advantage by ε with its interval, for several attacks; ε None stands at the right end; the bound is
    dotted."""
    picture, plane = axes(title=title, x="ε for one replaced value", y="advantage of the attack", width=8.2)
    for colour, (name, points) in zip(COLOURS, lines.items(), strict=False):
        xs = [UNPROTECTED if epsilon is None else epsilon for epsilon, _, _ in points]
        plane.errorbar(
            xs,
            [p[1] for p in points],
            yerr=[p[2] for p in points],
            fmt="o",
            color=colour,
            markersize=4,
            capsize=2,
            label=name,
        )
    grid = np.geomspace(0.3, 12, 100)
    plane.plot(
        grid, [bound(float(e)) for e in grid], ":", color="black", label="most that ε lets one's own row tell"
    )
    plane.set_xscale("log")
    ticks = sorted({e for points in lines.values() for e, _, _ in points if e is not None})
    plane.set_xticks([*ticks, UNPROTECTED], [*(f"{e:g}" for e in ticks), "no\nguarantee"])
    plane.minorticks_off()
    plane.set_ylim(-0.1, 1.05)
    picture.legend(frameon=False, fontsize=8, loc="outside right upper")
    return save(picture, path)
