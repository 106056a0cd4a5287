"""Pictures of who is served how well, and what noise costs the small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save


def recalls(
    groups: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    *,
    accuracy: Sequence[float],
    title: str,
    path: Path,
) -> Path:
    """Each group's recall and the accuracy of all, one place on the axis for each way to train."""
    picture, plane = axes(title=title, x="", y="share found, share right", width=8.6, height=4.8)
    places = range(len(labels))
    for colour, (name, values) in zip(COLOURS, groups.items(), strict=False):
        plane.plot(places, values, "-o", color=colour, markersize=4, label=f"recall, {name}")
    plane.plot(
        places, accuracy, "--s", color="black", markersize=4, linewidth=1.2, label="accuracy, everybody"
    )
    plane.set_xticks(list(places), labels, rotation=30, ha="right", fontsize=8)
    plane.set_ylim(0, 1)
    picture.legend(frameon=False, fontsize=8, loc="outside right upper")
    return save(picture, path)


def by_size(
    points: Mapping[str, Sequence[tuple[float, float]]],
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    path: Path,
) -> Path:
    """Relative error of each group's answer by its size: what was measured as marks,
    what the noise gives as lines."""
    picture, plane = axes(title=title, x="people in the group", y="mean relative error", width=7.6)
    for i, (name, pairs) in enumerate(points.items()):
        plane.plot(
            *zip(*sorted(pairs), strict=True),
            "o",
            color=COLOURS[i % 8],
            markersize=4,
            label=f"{name}, measured",
        )
    for i, (name, pairs) in enumerate(curves.items()):
        plane.plot(
            *zip(*sorted(pairs), strict=True),
            "-",
            color=COLOURS[i % 8],
            linewidth=1,
            label=f"{name}, expected",
        )
    plane.axhline(1, color=COLOURS[7], linewidth=1, linestyle=":")
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.legend(frameon=False, fontsize=8)
    return save(picture, path)
