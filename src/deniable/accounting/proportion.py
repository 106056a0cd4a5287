"""What counts prove about a probability: Clopper–Pearson bounds, rounded outward and checked against the binomial tail."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from deniable.errors import InvalidParameter

Array = NDArray[np.float64]

_NUDGE = 1e-9
"""Relative: far above the error of the inverse, far below what a sample can tell."""


_MANY = 64


def lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Array:
    """p is at least this, but for a chance of at most alpha (Clopper, Pearson 1934).

    The largest p whose tail P(Bin(n, p) ≥ k) = I_p(k, n − k + 1) is at most alpha, moved down until the computed tail is.

    >>> float(lower(100, 100, 0.001)) < 0.001 ** (1 / 100) < float(lower(100, 100, 0.001)) * (1 + 1e-6)
    True
    """
    k, n, a = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (successes, trials, alpha)))
    _check(k, n, a)
    if a.size > _MANY and n.min() == n.max() and a.min() == a.max():  # equal counts have equal bounds
        each, back = np.unique(k, return_inverse=True)
        return _lower(each, n.ravel()[0], a.ravel()[0])[back.reshape(k.shape)]
    return _lower(k, n, a)


def _lower(k: Array, n: Array | float, a: Array | float) -> Array:
    some = k > 0
    k = np.where(some, k, 1.0)
    a = a * (1 - 1e-12)
    rest = np.where(some, n - k + 1, 1.0)
    p = np.where(some, betaincinv(k, rest, a) * (1 - _NUDGE), 0.0)
    while (above := some & (betainc(k, rest, p) > a)).any():
        p = np.where(above, p * (1 - 1e-6), p)
    return np.asarray(p, np.float64)


def upper(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Array:
    """p is at most this, but for a chance of at most alpha.

    >>> float(upper(0, 10, 0.05)) >= 1 - 0.05 ** (1 / 10)
    True
    """
    k, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    return np.asarray(np.minimum(np.nextafter(1 - lower(n - k, n, alpha), 2.0), 1.0))


def _check(k: Array, n: Array, alpha: Array) -> None:
    if not ((k >= 0) & (k <= n)).all() or (n < 1).any():
        raise InvalidParameter("Expected every count between 0 and its number of trials, of which there is at least 1.")
    if not ((alpha > 0) & (alpha < 1)).all():
        raise InvalidParameter(f"Expected alpha={float(alpha.ravel()[0]):g} in (0, 1).")
