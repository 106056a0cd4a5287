"""From values of a curve to a pair: the dots connected, and mirrored where a pair and
its other order are alike.

The true curve H of a pair is convex in x = e^ε, so the chords between upper bounds of it
lie above it (T1). A curve of a relation whose two orders are alike obeys H(x) = 1 − x +
x·H(1/x): what is known for x ≥ 1 is known for all.
"""

from __future__ import annotations

import numpy as np

from deniable.accounting.numerical.pairs.continuous import Lattice
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.rounding import Array, U


def connected(losses: Array, heights: Array, lattice: Lattice | None = None) -> Finite:
    """A symmetric pair whose curve lies above `heights` at e^`losses` (increasing, the
    first 0), and so above all between.

    The last height is charged as revealed.
    """
    rest = float(heights[-1])
    corners = hull(losses, heights - rest)
    losses, heights = losses[corners], heights[corners] - rest
    x, widths = np.exp(losses), np.exp(losses[:-1]) * np.expm1(np.diff(losses))
    q = np.maximum(np.diff(np.append(np.diff(heights) / widths, 0.0)), 0.0)
    # Summed up again by positive terms alone, these masses show what their rounding has cost; they are raised
    # by it.
    again = np.cumsum((widths * np.cumsum(q[::-1])[::-1])[::-1])[::-1]
    q *= max(1.0, float((heights[:-1] / again).max())) * (1 + 8 * len(q) * U)
    p = x[1:] * q
    middle = 1 - float(p.sum()) - float(q.sum())
    if middle < 0:  # the two halves do not fit together at loss 0: the hull of both passes over it
        return _bridged(losses, heights, lattice, rest)
    return Finite(
        np.concatenate([-losses[:0:-1], losses]),
        np.concatenate([q[::-1], [middle], p]),
        np.concatenate([p[::-1], [middle], q]),
        lattice,
        rest,
    )


def _bridged(losses: Array, heights: Array, lattice: Lattice | None, rest: float) -> Finite:
    """Without the dots near 0: a chord from the mirror image of a dot to the dot itself
    has the slope (h − 1)/(1 + x)."""
    x = np.exp(losses)
    slopes = np.append(np.diff(heights) / (x[:-1] * np.expm1(np.diff(losses))), 0.0)
    bridges = (heights - 1) / (1 + x)
    first = int(np.argmax((slopes >= bridges) & (losses > 0)))
    q = np.maximum(np.diff(np.append(bridges[first], slopes[first:])), 0.0)
    p = x[first:] * q
    # Raised against rounding: more mass at the same loss is a higher curve.
    scale = max(1.0, 1 / (float(p.sum()) + float(q.sum()))) * (1 + 1e-9)
    p, q, losses = p * scale, q * scale, losses[first:]
    return Finite(
        np.concatenate([-losses[::-1], losses]),
        np.concatenate([q[::-1], p]),
        np.concatenate([p[::-1], q]),
        lattice,
        rest,
    )


def hull(losses: Array, heights: Array) -> list[int]:
    """Which dots the greatest convex curve under all of them passes: the truth, being
    convex, lies under it too."""
    corners: list[int] = []
    for i in range(len(losses)):
        while len(corners) > 1 and _above(losses, heights, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return corners


def _above(losses: Array, heights: Array, a: int, b: int, c: int) -> bool:
    """Whether the dot b lies on or above the chord from a to c, in e^loss."""
    left, right = (
        np.expm1(losses[b] - losses[a]),
        np.exp(losses[b] - losses[a]) * np.expm1(losses[c] - losses[b]),
    )
    return bool((heights[a] - heights[b]) * right <= (heights[b] - heights[c]) * left)
