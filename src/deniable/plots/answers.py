"""Pictures of answers: bars with error bars, panels for several numbers, facets or a heat map for two
keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.plots import COLOURS, apply_style, axes, empty, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Cells = Sequence[float | int | None]
Numbers = tuple[Cells, Cells, Cells]
"""A column of numbers: the value of every row, and the two ends around it."""

FACETS = 4
"""Values of a key that are drawn as panels beside one another."""
FEW = 4
"""Labels that stand beside one another without being turned."""
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
    _draw(plane, labels, (value, low, high))
    if truth is not None:
        plane.plot(
            range(len(labels)),
            _floats(truth),
            "_",
            color=COLOURS[1],
            markersize=16,
            markeredgewidth=2,
            label="truth",
        )
        plane.legend(frameon=False)
    if path is not None:
        save(picture, Path(path))
    return picture


def _draw(plane: Axes, labels: Sequence[str], numbers: Numbers) -> None:
    """Bars with error bars on one pair of axes."""
    heights, low, high = map(_floats, numbers)
    with np.errstate(invalid="ignore"):
        reach = np.maximum([heights - low, high - heights], 0.0)
    is_finite = np.asarray(np.isfinite(reach).all(axis=0))
    places = range(len(labels))
    boxes = plane.bar(places, heights, color=COLOURS[4], edgecolor=COLOURS[0], linewidth=0.8)
    for bar, fill in zip(boxes, is_finite, strict=True):
        bar.set_fill(bool(fill))
    at = np.flatnonzero(is_finite)
    plane.errorbar(at, heights[at], yerr=reach[:, at], fmt="none", ecolor=COLOURS[6], elinewidth=1, capsize=3)
    rotation, side = 0, "center"
    if len(labels) > FEW:
        rotation, side = 60, "right"
    if len(labels) <= MOST:
        plane.set_xticks(places, labels, rotation=rotation, ha=side)


def _floats(cells: Cells) -> NDArray[np.float64]:
    """The numbers, with NaN, which is not drawn, for NULL."""
    return np.array([math.nan if cell is None else float(cell) for cell in cells], np.float64)


# -------------------------------------------------------------------------------------------- several panels


def picture(
    keys: Mapping[str, Sequence[str]],
    numbers: Mapping[str, Numbers],
    *,
    title: str,
    path: str | Path | None = None,
) -> Figure:
    """An answer: its keys, each with a label for every row, and its numbers."""
    many = len(next(iter(numbers.values()))[0])
    if len(keys) == 2 and len(set(zip(*keys.values(), strict=True))) == many:
        figure = _two(TwoKeys(*keys.items()), numbers, title)
    else:
        labels = [" · ".join(key[i] for key in keys.values()) for i in range(many)]
        figure = panels(labels, numbers, title=title, x=", ".join(keys))
    if path is not None:
        save(figure, Path(path))
    return figure


def _two(keys: TwoKeys, numbers: Mapping[str, Numbers], title: str) -> Figure:
    """Facets by the key of fewer values; a heat map where even those are many."""
    sizes = [len(set(cells)) for _, cells in (keys.first, keys.second)]
    if min(sizes) > FACETS:
        return heat_map(keys, numbers, title=title)
    if sizes[0] > sizes[1]:
        keys = TwoKeys(keys.second, keys.first)
    return facets(keys, numbers, title=title)


def panels(labels: Sequence[str], numbers: Mapping[str, Numbers], *, title: str, x: str) -> Figure:
    """One panel for each column of numbers, one below the other, over the same labels."""
    many = len(numbers)
    width = max(4.0, min(12.0, 1.5 + 0.45 * len(labels)))
    picture = empty(width, 1.4 + 2.6 * many)
    planes = picture.subplots(many, 1, squeeze=False, sharex=True)[:, 0]
    for plane, (name, cells) in zip(planes, numbers.items(), strict=True):
        apply_style(plane)
        _draw(plane, labels, cells)
        plane.set_ylabel(name)
    planes[0].set_title(title, loc="left", fontsize=11)
    planes[-1].set_xlabel(x)
    return picture


def facets(keys: TwoKeys, numbers: Mapping[str, Numbers], *, title: str) -> Figure:
    """Two keys: a column of panels for each value of the first, with bars for the second; a row for each
    number."""
    (first, outer), (second, inner) = keys.first, keys.second
    values, labels = list(dict.fromkeys(outer)), list(dict.fromkeys(inner))
    width = max(5.0, min(14.0, len(values) * (1.0 + 0.4 * len(labels))))
    picture = empty(width, 1.4 + 2.6 * len(numbers))
    planes = picture.subplots(len(numbers), len(values), squeeze=False, sharex=True, sharey="row")
    for row, (name, cells) in zip(planes, numbers.items(), strict=True):
        for plane, value in zip(row, values, strict=True):
            apply_style(plane)
            _draw(plane, labels, _select_cells(keys, cells, value, labels))
        row[0].set_ylabel(name)
    for plane, value in zip(planes[0], values, strict=True):
        plane.set_title(f"{first} = {value}", fontsize=9)
    for plane in planes[-1]:
        plane.set_xlabel(second)
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    return picture


def heat_map(keys: TwoKeys, numbers: Mapping[str, Numbers], *, title: str) -> Figure:
    """Two keys of many values: a cell for each pair, coloured by the number, with its ± written in it."""
    (first, outer), (second, inner) = keys.first, keys.second
    rows, columns = list(dict.fromkeys(outer)), list(dict.fromkeys(inner))
    picture = empty(min(14.0, 2.5 + 0.9 * len(columns)), len(numbers) * min(12.0, 1.6 + 0.42 * len(rows)))
    planes = picture.subplots(len(numbers), 1, squeeze=False)[:, 0]
    for plane, (name, cells) in zip(planes, numbers.items(), strict=True):
        grid = [_select_cells(keys, cells, row, columns) for row in rows]
        heights = np.array([_floats(value) for value, _, _ in grid])
        image = plane.imshow(heights, aspect="auto", cmap="Blues")
        picture.colorbar(image, ax=plane, label=name)
        colours = np.where(heights > _middle(heights), "white", "black")
        for i, (value, low, high) in enumerate(grid):
            for j, text in enumerate(map(_cell_text, value, low, high)):
                plane.text(j, i, text, ha="center", va="center", fontsize=7, color=str(colours[i, j]))
        plane.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
        plane.set_yticks(range(len(rows)), rows)
        plane.set_xlabel(second)
        plane.set_ylabel(first)
    planes[0].set_title(title, loc="left", fontsize=11)
    return picture


@dataclass(frozen=True)
class TwoKeys:
    """Two keys of an answer: the name and the cells of each, row by row."""

    first: tuple[str, Sequence[str]]
    second: tuple[str, Sequence[str]]


def _select_cells(keys: TwoKeys, cells: Numbers, value: str, labels: Sequence[str]) -> Numbers:
    """The numbers of the rows whose first key is `value`, in the order of the second's labels."""
    place = {b: i for i, (a, b) in enumerate(zip(keys.first[1], keys.second[1], strict=True)) if a == value}
    columns = [{label: side[i] for label, i in place.items()} for side in cells]
    value_, low, high = ([column.get(label) for label in labels] for column in columns)
    return value_, low, high


def _cell_text(value: float | int | None, low: float | int | None, high: float | int | None) -> str:
    if value is None:
        return ""
    if low is None or high is None or not math.isfinite(float(high) - float(low)):
        return f"{float(value):,.4g}"
    return f"{float(value):,.4g}\n± {(float(high) - float(low)) / 2:,.2g}"


def _middle(heights: NDArray[np.float64]) -> float:
    numbers = heights[~np.isnan(heights)]
    if numbers.size:
        return float(numbers.max() + numbers.min()) / 2
    return math.nan
