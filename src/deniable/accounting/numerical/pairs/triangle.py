"""A replaced record among others, where old, new and other records differ pairwise by 1:
a lower side in the plane.

P = Σ wₖ·N(k·u), Q = Σ wₖ·N(k·v), with u, v and 0 the corners of a triangle of side 1: the record comes k
times with probability wₖ, and each time stands in the place of another one. On a line the other record must
equal the old or the new one; off it, it differs from both, and over many steps that reveals more. Proof and
figures: docs/theory/batches.md, "What is attained when a record is replaced".
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from deniable.accounting.numerical.pairs.continuous import normal_cells
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.rounding import Array

SIDE = 400
"""Edges of cells on each axis of the plane; an even number, so that one column of cells lies on the axis of
symmetry."""
OUTCOMES = 3000
"""Outcomes that are left after cells of about the same loss are seen as one."""
WIDE = 9.0
"""Deviations around the shifts that are cut into cells; what lies outside is in the outermost cells."""


@lru_cache(maxsize=32)
def triangle(sigma: float, weights: tuple[float, ...]) -> Finite:
    """The pair seen through cells of the plane: post-processing, so its curve lies under
    that of the mechanism."""
    shifts, w = np.arange(float(len(weights))), np.array(weights)
    far = min(len(weights) - 1, 8)
    across = _edges(-far / 2 - WIDE * sigma, far / 2 + WIDE * sigma)
    along = _edges(-WIDE * sigma, far * math.sqrt(0.75) + WIDE * sigma)
    # The columns right of the axis. The one on it weighs as much under P as under Q, and roundings must not
    # count it as ahead: its mirror image is itself.
    right, left = (_masses(across[SIDE // 2 + 1 :], sigma, sign * shifts / 2) for sign in (1, -1))
    up = _masses(along, sigma, shifts * math.sqrt(0.75)) * w[:, None]
    p, q = (right.T @ up).ravel(), (left.T @ up).ravel()
    return _merged(p, q)


def _edges(low: float, high: float) -> Array:
    return np.concatenate([[-np.inf], np.linspace(low, high, SIDE), [np.inf]])


def _masses(edges: Array, sigma: float, shifts: Array) -> Array:
    return np.stack([normal_cells((edges - shift) / sigma) for shift in shifts])


def _merged(p: Array, q: Array) -> Finite:
    """Cells right of the axis, those with p > q in the order of their loss, a few at a time seen as one;
    beside them stands their mirror image, and all the rest is seen as one."""
    ahead = (p > q) & (q > 0)
    p, q = p[ahead], q[ahead]
    order = np.argsort(p / q)
    # Seeing outcomes as one is post-processing: it can only lower the curve.
    starts = np.arange(0, len(order), max(1, len(order) // OUTCOMES))
    p, q = np.add.reduceat(p[order], starts), np.add.reduceat(q[order], starts)
    # By the difference: masses that are nearly equal keep the digits of their loss.
    losses = np.log1p((p - q) / q)
    mask = losses > 0
    losses, p, q = losses[mask], p[mask], q[mask]
    # The rest, at loss 0, reveals nothing.
    middle = max(0.0, 1 - float(p.sum()) - float(q.sum()))
    return Finite(
        np.concatenate([-losses[::-1], [0.0], losses]),
        np.concatenate([q[::-1], [middle], p]),
        np.concatenate([p[::-1], [middle], q]),
    )
