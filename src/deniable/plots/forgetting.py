"""The picture of what a model still tells after forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save

HEIGHT = 0.38


def ways(
    names: Sequence[str],
    costs: Sequence[float],
    distances: Sequence[float],
    forgotten_advantages: Sequence[float],
    other_advantages: Sequence[float],
    *,
    title: str,
    path: Path,
) -> Path:
    """Two bars for each way: membership advantage on the forgotten rows, and on those that stayed; beside its
    name the cost over that of training and the distance from a model trained anew."""
    picture, plane = axes(title=title, x="membership advantage", y="", width=8.0)
    names = [
        f"{name}\ncost {cost:.2g}, distance {distance:.2g}"
        for name, cost, distance in zip(names, costs, distances, strict=True)
    ]
    places = list(range(len(names)))
    plane.barh(
        [p - HEIGHT / 2 for p in places],
        forgotten_advantages,
        HEIGHT,
        color=COLOURS[1],
        label="the forgotten",
    )
    plane.barh(
        [p + HEIGHT / 2 for p in places], other_advantages, HEIGHT, color=COLOURS[0], label="those who stayed"
    )
    plane.set_yticks(places, names, fontsize=8)
    plane.invert_yaxis()
    plane.axvline(0, color="black", linewidth=0.8)
    picture.legend(frameon=False, fontsize=8, loc="outside right upper")
    return save(picture, path)
