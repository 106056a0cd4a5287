"""What counts prove about a probability: Clopper–Pearson bounds, rounded outward and
checked against the binomial tail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from deniable.errors import InvalidParameter

Array = NDArray[np.float64]

_NUDGE = 1e-9
"""Relative to p and to 1 − p: far above the error of the inverse, far below what a sample can tell."""


_MANY = 64


def lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Array:
    """p is at least this, but for a chance of at most alpha (Clopper, Pearson 1934).

    The largest p whose tail P(Bin(n, p) ≥ k) = I_p(k, n − k + 1) is at most alpha, moved
    down until the computed tail is.

    >>> float(lower(100, 100, 0.001)) < 0.001 ** (1 / 100) < float(lower(100, 100, 0.001)) * (1 + 1e-6)
    True
    """
    k, n, a = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (successes, trials, alpha)))
    _check(k, n, a)
    return _bound_once(_lower, k, n, a)


def _lower(k: Array, n: Array | float, a: Array | float) -> Array:
    some = k > 0
    k = np.where(some, k, 1.0)
    a = a * (1 - 1e-12)
    rest = np.where(some, n - k + 1, 1.0)
    p = np.where(some, betaincinv(k, rest, a), 0.0)
    p = p - _NUDGE * p * (1 - p)
    step = 1e-6
    while (above := some & (betainc(k, rest, p) > a)).any():
        # By a float at least: beside 1 a part of 1 − p is less than that. Doubled, so that it ends.
        p = np.where(above, np.maximum(np.minimum(p - step * p * (1 - p), np.nextafter(p, -1.0)), 0.0), p)
        step = min(2 * step, 0.5)
    return np.asarray(p, np.float64)


def upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Array:
    """p is at most this, but for a chance of at most alpha.

    >>> float(upper(0, 10, 0.05)) >= 1 - 0.05 ** (1 / 10)
    True
    """
    k, n, a = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (successes, trials, alpha)))
    _check(k, n, a)
    return _bound_once(_upper, k, n, a)


def _upper(k: Array, n: Array | float, a: Array | float) -> Array:
    """The upper bound by the complement of the tail, so that a small p keeps its digits."""
    some = k < n
    a = a * (1 - 1e-12)
    rest = np.where(some, n - k, 1.0)
    p = np.where(some, betainccinv(k + 1, rest, a), 1.0)
    p = p + _NUDGE * p * (1 - p)
    step = 1e-6
    while (below := some & (betaincc(k + 1, rest, p) > a)).any():
        p = np.where(below, np.minimum(np.maximum(p + step * p * (1 - p), np.nextafter(p, 2.0)), 1.0), p)
        step = min(2 * step, 0.5)
    return np.asarray(p, np.float64)


def _bound_once(bound: Callable[..., Array], k: Array, n: Array, a: Array) -> Array:
    """Equal counts have equal bounds."""
    if a.size > _MANY and n.min() == n.max() and a.min() == a.max():
        each, back = np.unique(k, return_inverse=True)
        return bound(each, n.ravel()[0], a.ravel()[0])[back.reshape(k.shape)]
    return bound(k, n, a)


def interval(successes: float, trials: float, alpha: float) -> tuple[float, float]:
    """Both at once, each at half of alpha.

    >>> low, high = interval(5, 10, 0.05)
    >>> round(low, 4), round(high, 4)
    (0.1871, 0.8129)
    """
    return float(lower(successes, trials, alpha / 2)), float(upper(successes, trials, alpha / 2))


def _check(k: Array, n: Array, alpha: Array) -> None:
    if not ((k >= 0) & (k <= n)).all():
        raise InvalidParameter("Expected every count between 0 and its number of trials.")
    if not ((alpha > 0) & (alpha < 1)).all():
        raise InvalidParameter(f"Expected alpha={float(alpha.ravel()[0]):g} in (0, 1).")
