"""From raw estimates to a distribution. Post-processing: it costs no privacy, and it
costs unbiasedness, so it is kept apart.

>>> norm_sub(np.array([0.7, 0.5, -0.1])).tolist()
[0.6, 0.4, 0.0]
"""

from __future__ import annotations

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Floats


def norm_sub(frequencies: Floats) -> Floats:
    """Set negatives to 0 and shift the rest by one number until all add up to 1 (Wang et al. 2020, Norm-Sub).

    The fixed point is the Euclidean projection on the simplex; `simplex` finds it by sorting.
    """
    shares = _check_frequencies(frequencies)
    alive = np.ones(len(shares), bool)
    while True:
        shift = (shares[alive].sum() - 1) / alive.sum()
        below = alive & (shares < shift)
        if not below.any():
            return np.where(alive, shares - shift, 0.0)
        alive &= ~below


def simplex(frequencies: Floats) -> Floats:
    """The nearest distribution in the Euclidean norm (Held, Wolfe, Crowder 1974; Duchi et al. 2008)."""
    shares = _check_frequencies(frequencies)
    falling = np.sort(shares)[::-1]
    shifts = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    last = np.flatnonzero(falling > shifts)[-1]
    return np.asarray(np.maximum(shares - shifts[last], 0.0))


def norm_mul(frequencies: Floats) -> Floats:
    """Set negatives to 0 and scale the rest to add up to 1; uniform if nothing is left."""
    shares = np.maximum(_check_frequencies(frequencies), 0.0)
    total = shares.sum()
    return np.asarray(shares / total if total > 0 else np.full(len(shares), 1 / len(shares)))


def _check_frequencies(frequencies: Floats) -> Floats:
    shares = np.asarray(frequencies, np.float64)
    if shares.ndim != 1 or not len(shares) or not np.isfinite(shares).all():
        raise InvalidParameter("Expected a vector of at least one finite frequency.")
    return shares
