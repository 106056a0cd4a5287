"""A record that comes k times with probability wₖ, replaced: an upper curve for Gaussian noise.

For x ≥ 1 and any νₖ ≥ 0 with Σ wₖνₖ ≤ (x − 1)w₀ the curve is at most Σ wₖ·Hₖ(x + νₖ), Hₖ
that of noise moved k times as far (docs/theory/batches.md, "Draws with replacement").
The best νₖ make all k reveal on one and the same half-line.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from deniable.accounting.numerical.pairs.dots import connected
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.rounding import REACH, Array, relative

NODES = 2400
WIDE = 14.0
"""Deviations beyond the likely shifts up to which the curve is followed."""
LOST = 1e-45
"""Heights below are not followed further, but charged as revealed."""


@lru_cache(maxsize=32)
def gaussian(sigma: float, weights: tuple[float, ...], left: float) -> Finite:
    """A pair that dominates replacing a record which comes k times with probability
    weights[k]; `left` is revealed."""
    w, shifts = np.array(weights), np.arange(1.0, len(weights))
    losses = _nodes(sigma, w, shifts)
    heights = _heights(losses, sigma, w, shifts) + left
    mask = heights > LOST + left
    mask[: int(mask.sum()) + 1] = True
    return connected(losses[mask], heights[mask])


def _ratio(t: Array, sigma: float, shifts: Array) -> Array:
    """The losses of noise at 1, 2, … against noise at 0, at the places t: one row for each place."""
    return np.asarray((np.multiply.outer(t, shifts) - 0.5 * shifts**2) / sigma**2)


def _nodes(sigma: float, w: Array, shifts: Array) -> Array:
    """Losses of the whole mixture at places evenly spaced from where it is 0; steps of
    noise make the even step."""
    likely = int(np.flatnonzero(w > 1e-30)[-1])
    t = np.linspace(0, likely + WIDE * sigma, NODES)
    logs = np.concatenate([np.zeros((len(t), 1)), _ratio(t, sigma, shifts)], axis=1)
    losses = np.logaddexp.reduce(logs + np.log(np.maximum(w, 1e-300)), axis=1)
    # Far out the mixture's loss is not what decides; near 0 its digits are those of w·(e^loss − 1).
    near = np.abs(losses) < 1e-3
    losses[near] = np.log1p(np.expm1(np.minimum(logs[near, 1:], 1.0)) @ w[1:])
    return np.concatenate([[0.0], np.unique(losses[(losses > 0) & (losses < REACH)])])


def _heights(losses: Array, sigma: float, w: Array, shifts: Array) -> Array:
    """Σ wₖ·Hₖ(x + νₖ), rounded up."""
    spare = _spare(losses, sigma, w, shifts)
    at = losses[:, None] + np.log1p(spare * np.exp(-losses)[:, None])
    s = sigma / shifts
    p, q = ndtr(0.5 / s - s * at), ndtr(-0.5 / s - s * at)
    with np.errstate(over="ignore", invalid="ignore"):
        height = np.maximum(p - np.where(q > 0, np.exp(at) * q, 0.0), 0.0)
    # Rounded up: p errs by `relative` of itself, and e^at·q ≤ p by no more than that.
    return np.asarray((height + 16 * relative(REACH) * p) @ w[1:])


def _spare(losses: Array, sigma: float, w: Array, shifts: Array) -> Array:
    """νₖ = (e^(loss at t) − x)₊ at the place t where Σ wₖνₖ comes up to (x − 1)w₀; a
    little less, so that it never exceeds it."""
    x, room = np.exp(losses), w[0] * np.expm1(losses)
    low, high = np.zeros(len(x)), np.full(len(x), float(shifts[-1]) + 1.0)

    def used(t: Array) -> tuple[Array, Array]:
        spare = np.maximum(np.exp(np.minimum(_ratio(t, sigma, shifts), REACH + 50)) - x[:, None], 0.0)
        return spare, spare @ w[1:]

    while (short := used(high)[1] < room).any():
        high[short] *= 2
    # Halving keeps `low` on the side where the room is not used up.
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = used(middle)[1] > room
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    spare, total = used(low)
    return np.asarray(spare * np.minimum(1.0, room / np.maximum(total, 1e-300))[:, None] * (1 - 1e-12))


def closed(sigma: float, weights: tuple[float, ...], epsilon: float) -> float:
    """The same bound at one ε, for tests."""
    w, shifts = np.array(weights), np.arange(1.0, len(weights))
    if math.isfinite(epsilon):
        return float(_heights(np.array([epsilon]), sigma, w, shifts)[0])
    return 0.0
