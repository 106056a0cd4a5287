"""The picture of membership inference: ROC curves where it matters, at small false-positive rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from deniable.plots import COLOURS, axes, save

LOWEST = 1e-3


def curves(
    baseline: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    private: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    ceiling: Callable[[float], float],
    *,
    title: str,
    path: Path,
) -> Path:
    """Attacks on the plain model as lines, on the private one as dashes in the same
    colours, with what its guarantee allows."""
    picture, plane = axes(title=title, x="false-positive rate", y="true-positive rate", width=7.4, height=5.0)
    for colour, name in zip(COLOURS, baseline, strict=False):
        plane.plot(*_trim_curve(*baseline[name]), color=colour, label=name)
        plane.plot(*_trim_curve(*private[name]), color=colour, linestyle=(0, (2, 1.5)), linewidth=1.2)
    grid = np.geomspace(LOWEST, 1, 200)
    plane.plot(grid, grid, color=COLOURS[7], linewidth=1, label="guessing")
    limits = [ceiling(float(rate)) for rate in grid]
    plane.plot(grid, limits, color="black", linestyle=":", label="most that the guarantee allows")
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.set_xlim(LOWEST, 1)
    plane.set_ylim(LOWEST, 1.05)
    picture.legend(
        frameon=False, fontsize=9, loc="outside right upper", title="plain —   private - -", title_fontsize=9
    )
    return save(picture, path)


def _trim_curve(false_rates: Sequence[float], true_rates: Sequence[float]) -> tuple[list[float], list[float]]:
    """The curve from the smallest rate shown on, as steps."""
    grid = np.geomspace(LOWEST, 1, 300)
    at = np.searchsorted(false_rates, grid, side="right") - 1
    return grid.tolist(), np.maximum(np.asarray(true_rates)[at], LOWEST / 2).tolist()
