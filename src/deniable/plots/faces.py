"""The picture of model inversion: what is real and what was found, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deniable.plots import axes, save

GAP = 1


def side_by_side(
    rows: Mapping[str, NDArray[np.floating]],
    shape: tuple[int, int],
    *,
    title: str,
    path: Path,
    limit: int = 10,
) -> Path:
    """One row of grey images per name, a column for each person, at most `limit` of them."""
    height, width = shape
    columns = min(limit, *(len(images) for images in rows.values()))
    sheet = np.ones((len(rows) * (height + GAP), columns * (width + GAP)))
    for r, images in enumerate(rows.values()):
        for c in range(columns):
            top, left = r * (height + GAP), c * (width + GAP)
            sheet[top : top + height, left : left + width] = images[c].reshape(shape)
    across = 0.62 * columns
    tall = across / sheet.shape[1] * sheet.shape[0]
    picture, plane = axes(title=title, x="", y="", width=across + 1.8, height=tall + 0.4)
    plane.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    plane.set_yticks([r * (height + GAP) + height / 2 for r in range(len(rows))], list(rows), fontsize=9)
    plane.set_xticks([])
    plane.tick_params(length=0)
    plane.grid(visible=False)
    for spine in plane.spines.values():
        spine.set_visible(False)
    return save(picture, path)
