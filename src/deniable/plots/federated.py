"""Pictures of federated runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from deniable.plots import COLOURS, apply_style, axes, empty, save

LOWEST = 7
"""An axis begins so many times below 100 % as the target does."""


def by_round(scores: Sequence[float], *, title: str, path: Path) -> Path:
    """Accuracy on public rows, in per cent, after each round."""
    picture, plane = axes(title=title, x="round", y="accuracy on public rows (%)")
    plane.plot(range(1, len(scores) + 1), [100 * score for score in scores], color=COLOURS[0], linewidth=1.8)
    return save(picture, path)


def tables(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]],
    targets: Mapping[str, float],
    paper_points: Mapping[str, Mapping[str, int]],
    *,
    title: str,
    path: Path,
) -> Path:
    """A plane for each panel, with accuracy in per cent by round, the best so far, on a logarithmic axis. Its
    target is a dashed line, on which an open mark shows the rounds that are `paper_points` for a curve."""
    rows = -(-len(panels) // 2)
    picture = empty(9.0, 0.4 + 3.0 * rows)
    picture.suptitle(f"{title} (open marks: rounds in the paper)", x=0.01, ha="left", fontsize=11)
    for i, (name, curves) in enumerate(panels.items()):
        plane = picture.add_subplot(rows, 2, i + 1)
        apply_style(plane)
        plane.set_title(name, loc="left", fontsize=10)
        target = 100 * targets[name]
        lowest = 100 - LOWEST * (100 - target)
        plane.axhline(target, linestyle="--", color="grey", linewidth=1)
        for k, (curve, scores) in enumerate(curves.items()):
            numbers = sorted(scores)
            best = np.maximum.accumulate([100 * scores[number] for number in numbers])
            label = curve if best[-1] > lowest else f"{curve} (only begun)"
            plane.plot(
                numbers, best, color=COLOURS[k % 8], label=label, linewidth=1.6, marker=".", markersize=3
            )
            if curve in paper_points.get(name, {}):
                plane.plot(
                    paper_points[name][curve],
                    target,
                    "o",
                    color=COLOURS[k % 8],
                    markerfacecolor="none",
                    zorder=3,
                )
        plane.set_xscale("log")
        plane.set_ylim(lowest, 100)
        plane.set_xlabel("round")
        plane.set_ylabel("accuracy on the test set (%)", fontsize=8)
        plane.legend(frameon=False, fontsize=8, loc="best")
    return save(picture, path)


def by_traffic(
    curves: Mapping[str, Sequence[tuple[float, float]]], *, target: float, title: str, path: Path
) -> Path:
    """Accuracy in per cent, the best so far, by the megabytes that all clients together have sent, on a
    logarithmic axis. The target is a dashed line."""
    picture, plane = axes(title=title, x="sent by clients (MB)", y="accuracy on the test set (%)", width=8.0)
    plane.axhline(target, linestyle="--", color="grey", linewidth=1)
    for i, (name, points) in enumerate(curves.items()):
        best = np.maximum.accumulate([score for _, score in points])
        plane.plot(
            [megabytes for megabytes, _ in points],
            100 * best,
            color=COLOURS[i % 8],
            label=name,
            linewidth=1.6,
        )
    plane.set_xscale("log")
    plane.set_ylim(bottom=80)
    plane.legend(frameon=False, fontsize=8, loc="lower right")
    return save(picture, path)
