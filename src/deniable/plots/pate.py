"""Pictures of PATE: a student's accuracy against the ε of the labels it learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save

Point = tuple[float, float]


def accuracy(
    curves: Mapping[str, Sequence[tuple[float, Sequence[float]]]],
    paper_points: Mapping[str, Point],
    *,
    title: str,
    path: Path,
) -> Path:
    """`curves`: for each name (ε, accuracies of all runs), drawn as the mean with a bar from least to most;
    `paper_points`: the points of papers."""
    picture, plane = axes(title=title, x="ε of the labels", y="accuracy of the student")
    for (name, points), marker, colour in zip(curves.items(), "osD", COLOURS, strict=False):
        means = [sum(runs) / len(runs) for _, runs in points]
        least = [mean - min(runs) for mean, (_, runs) in zip(means, points, strict=True)]
        most = [max(runs) - mean for mean, (_, runs) in zip(means, points, strict=True)]
        at = [epsilon for epsilon, _ in points]
        plane.errorbar(
            at, means, yerr=[least, most], fmt=f"-{marker}", color=colour, capsize=3, markersize=5, label=name
        )
    for (name, point), marker in zip(paper_points.items(), "^vP", strict=False):
        plane.plot(
            *point, marker, color="black", markerfacecolor="none", markersize=8, label=name, linestyle="none"
        )
    plane.set_xlim(left=0)
    plane.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g} %")
    plane.legend(frameon=False, fontsize=9, loc="lower left")
    return save(picture, path)
