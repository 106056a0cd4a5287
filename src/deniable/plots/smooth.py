"""Pictures of certified robustness: accuracy against radius, radii of several bounds,
and what the noise looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deniable.plots import COLOURS, axes, save

MARKERS = "os^Dv"
DASHES = ("-", "--", "-.", ":")


def certified_accuracy(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    norm: str,
    path: Path,
    paper_points: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    abstention: float | None = None,
) -> Path:
    """Share of pictures whose right answer certainly holds within a radius; `paper_points` are points of
    papers."""
    picture, plane = axes(title=title, x=f"radius ({norm})", y="certified accuracy (%)")
    _lines(plane, curves, paper_points or {})
    if abstention is not None:
        plane.plot([], [], " ", label=f"abstained: {100 * abstention:.1f} %")
    plane.legend(frameon=False, fontsize=8)
    return save(picture, path)


def panels(
    planes: Mapping[
        str, tuple[Mapping[str, Sequence[tuple[float, float]]], Mapping[str, Sequence[tuple[float, float]]]]
    ],
    *,
    title: str,
    x: str,
    y: str,
    path: Path,
) -> Path:
    """One plane for each name: our curves, and points that papers print."""
    picture, first = axes(title="", x="", y="", width=10.5, height=3.4 * -(-len(planes) // 3) + 0.3)
    first.remove()
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    columns = min(3, len(planes))
    for i, (name, (curves, points)) in enumerate(planes.items()):
        plane = picture.add_subplot(-(-len(planes) // columns), columns, i + 1)
        plane.set_title(name, loc="left", fontsize=9)
        plane.set_xlabel(x)
        plane.grid(visible=True, color="#dddddd", linewidth=0.6)
        if i % columns == 0:
            plane.set_ylabel(y)
        _lines(plane, curves, points)
        plane.legend(frameon=False, fontsize=7)
    return save(picture, path)


def noisy_pictures(rows: Mapping[str, Sequence[Any]], *, title: str, path: Path) -> Path:
    """Pictures (height × width, or × 3 for colour) in rows: as they are, and as the classifier sees them."""
    columns = max(len(row) for row in rows.values())
    picture, first = axes(title="", x="", y="", width=1.15 * columns + 1.2, height=1.2 * len(rows) + 0.5)
    first.remove()
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    for i, (name, images) in enumerate(rows.items()):
        for j, image in enumerate(images):
            plane = picture.add_subplot(len(rows), columns, i * columns + j + 1)
            plane.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            plane.set_xticks([])
            plane.set_yticks([])
            if j == 0:
                plane.set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
    return save(picture, path)


def _lines(plane: Any, curves: Mapping[str, Any], paper_points: Mapping[str, Any]) -> None:
    for i, (name, points) in enumerate(curves.items()):
        xs, ys = zip(*points, strict=True)
        plane.plot(xs, ys, DASHES[i // 8 % 4], color=COLOURS[i % 8], label=name, linewidth=1.6)
    for i, (name, points) in enumerate(paper_points.items()):
        xs, ys = zip(*points, strict=True)
        plane.plot(xs, ys, MARKERS[i % 5], color="black", markerfacecolor="none", markersize=6, label=name)
    plane.set_ylim(bottom=0)
    plane.set_xlim(left=0)
