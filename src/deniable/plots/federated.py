"""Pictures of federated runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deniable.plots import COLOURS, axes, save


def by_round(scores: Sequence[float], *, title: str, path: Path) -> Path:
    """Accuracy on public rows, in per cent, after each round."""
    picture, plane = axes(title=title, x="round", y="accuracy on public rows (%)")
    plane.plot(range(1, len(scores) + 1), [100 * score for score in scores], color=COLOURS[0], linewidth=1.8)
    return save(picture, path)
