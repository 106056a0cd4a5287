"""What one neighbour puts out and the other never did: rare, and plain.

Noise that is cut off at ±k leaves values that only one neighbour can give. They may be one in a thousand
outputs, so that a rule which must be right on average passes them over; a rule on them alone is never wrong.
It has a tenth of alpha of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.rules.tables import Array, Rows
from deniable.audit.rules.thresholds import Rule

UNSEEN = 0.1
"""The part of alpha for it."""
EITHER = Rule(0.5, -0.5)
MOST_COLUMNS, MOST_VALUES = 16, 256
SEEN = 5
"""Outputs of one neighbour from which on it is no accident that the other had none."""
RARER = 0.2
"""Regions this much rarer than the most frequent one are left out: one wrong guess costs
more than they bring."""


@dataclass(frozen=True)
class Region:
    """A part of one coordinate in which only the first (`side` 1) or the second
    neighbour (−1) was seen: above, below, or at."""

    column: int
    side: int
    kind: str
    edge: float
    count: int

    def holds(self, rows: Rows) -> Any:
        values = rows[:, self.column]
        if self.kind == "at":
            return np.isnan(values) if math.isnan(self.edge) else values == self.edge
        return values > self.edge if self.kind == "above" else values < self.edge


@dataclass(frozen=True)
class Support:
    """Scores 1 what only the first neighbour was seen to put out, −1 what only the
    second was, and all else 0."""

    regions: tuple[Region, ...]

    @classmethod
    def fit(cls, first: Rows, second: Rows) -> Support | None:
        """The regions that samples of both show; None if nothing was seen on one side alone."""
        regions = [
            region
            for column in range(min(first.shape[1], MOST_COLUMNS))
            for side, own, other in (
                (1, first[:, column], second[:, column]),
                (-1, second[:, column], first[:, column]),
            )
            for region in _regions(column, side, own, other)
        ]
        most = max((region.count for region in regions), default=0)
        frequent_regions = tuple(region for region in regions if region.count >= max(SEEN, RARER * most))
        return cls(frequent_regions) if frequent_regions else None

    def score(self, rows: Rows) -> Array:
        total = np.zeros(len(rows))
        for region in self.regions:
            total += region.side * region.holds(rows)
        return np.sign(total)

    def promise(self, count: int, trials: int, alpha: float) -> float:
        """The bound to expect from `trials` more samples, after `count`, if no guess is
        wrong: ln of right guesses/ln(1/alpha)."""
        right = max(region.count for region in self.regions) * trials / max(count, 1)
        return math.log(right / math.log(1 / (UNSEEN * alpha))) if right > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": "support",
            "regions": [[r.column, r.side, r.kind, r.edge, r.count] for r in self.regions],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Support:
        return cls(
            tuple(Region(int(c), int(s), str(k), float(at), int(n)) for c, s, k, at, n in value["regions"])
        )


def _regions(column: int, side: int, outputs: Array, opposite: Array) -> list[Region]:
    outputs, opposite = outputs[np.isfinite(outputs)], opposite[np.isfinite(opposite)]
    if not len(outputs) or not len(opposite):
        return []
    top, bottom = float(opposite.max()), float(opposite.min())
    regions = [
        Region(column, side, "above", top, int(np.count_nonzero(outputs > top))),
        Region(column, side, "below", bottom, int(np.count_nonzero(outputs < bottom))),
    ]
    inside = outputs[(outputs >= bottom) & (outputs <= top)]
    values, counts = np.unique(inside, return_counts=True)
    often = np.argsort(-counts)[: 4 * MOST_VALUES]
    often = often[(counts[often] >= SEEN) & ~np.isin(values[often], opposite)][:MOST_VALUES]
    return regions + [Region(column, side, "at", float(values[i]), int(counts[i])) for i in often]
