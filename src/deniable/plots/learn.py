"""Pictures of private learning: accuracy by ε beside the papers', accuracy by epoch, and
panels of one parameter each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save

MARKERS = "os^Dv"


def by_epsilon(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    paper_points: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    path: Path,
    level: tuple[str, float] | None = None,
) -> Path:
    """Accuracy in per cent by ε: ours as lines with marks, what papers print as open marks; `level` is a
    dashed line with its name, such as that of no privacy."""
    picture, plane = axes(title=title, x="ε", y="accuracy on the test set (%)")
    for i, (name, points) in enumerate(curves.items()):
        plane.plot(*zip(*sorted(points), strict=True), f"-{MARKERS[i % 5]}", color=COLOURS[i % 8], label=name)
    for i, (name, points) in enumerate(paper_points.items()):
        mark = MARKERS[-1 - i % 5]
        plane.plot(
            *zip(*points, strict=True), mark, color="black", markerfacecolor="none", markersize=8, label=name
        )
    if level is not None:
        plane.axhline(level[1], linestyle="--", color="grey", linewidth=1, label=level[0])
    plane.set_xscale("log")
    marks = sorted({x for points in (*curves.values(), *paper_points.values()) for x, _ in points})
    plane.set_xticks(marks, [f"{mark:g}" for mark in marks])
    plane.set_xticks([], minor=True)
    plane.legend(frameon=False, fontsize=9)
    return save(picture, path)


def by_epoch(
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    path: Path,
    interval: float = 1,
    x: str = "epoch",
    levels: Mapping[str, float] | None = None,
) -> Path:
    """Accuracy in per cent after each epoch (or `interval` so many steps); `levels` are
    dashed lines, the numbers of a paper."""
    picture, plane = axes(title=title, x=x, y="accuracy on the test set (%)")
    for i, (name, values) in enumerate(curves.items()):
        at = [interval * (k + 1) for k in range(len(values))]
        plane.plot(at, values, color=COLOURS[i % 8], label=name, linewidth=1.8)
    for i, (name, level) in enumerate((levels or {}).items()):
        plane.axhline(level, linestyle="--", color=COLOURS[i % 8], linewidth=1, label=name)
    plane.legend(frameon=False, fontsize=9, loc="lower right")
    return save(picture, path)


def by_round(curves: Mapping[str, Mapping[int, float]], *, title: str, path: Path) -> Path:
    """Accuracy in per cent by round, rounds on a logarithmic axis. The plane ends 15 to 25 points below the
    best of the worst curve, so that ends of curves can be told apart."""
    picture, plane = axes(title=title, x="round", y="accuracy on the test set (%)", width=8.0)
    for i, (name, scores) in enumerate(curves.items()):
        at, style = sorted(scores), ("-", "--")[i // 8 % 2]
        heights = [100 * scores[k] for k in at]
        plane.plot(at, heights, style, color=COLOURS[i % 8], label=name, linewidth=1.6)
    plane.set_xscale("log")
    worst = min(100 * max(scores.values()) for scores in curves.values())
    plane.set_ylim(bottom=max(0, 10 * math.floor((worst - 15) / 10)))
    plane.legend(frameon=False, fontsize=8, loc="lower right")
    return save(picture, path)


def panels(
    accuracies: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    path: Path,
    logarithmic: Sequence[str] = (),
) -> Path:
    """A small plane for each parameter: accuracy in per cent by its value."""
    picture, plane = axes(title="", x="", y="", width=9.0, height=5.6)
    plane.remove()
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    rows = -(-len(accuracies) // 3)
    for i, (name, points) in enumerate(accuracies.items()):
        each = picture.add_subplot(rows, 3, i + 1)
        each.plot(*zip(*sorted(points), strict=True), "-o", color=COLOURS[i % 8], markersize=4)
        each.set_xlabel(name)
        if name in logarithmic:
            each.set_xscale("log")
            each.set_xticks([x for x, _ in sorted(points)], [f"{x:g}" for x, _ in sorted(points)])
            each.set_xticks([], minor=True)
        each.grid(visible=True, color="#dddddd", linewidth=0.6)
        if i % 3 == 0:
            each.set_ylabel("accuracy (%)")
    return save(picture, path)
