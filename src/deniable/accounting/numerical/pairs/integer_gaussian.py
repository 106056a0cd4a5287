"""Integer Gaussian noise beside continuous noise of nearly the same deviation: in any dimension and at any σ.

The finite pair of integer noise is known for one coordinate, and has about 27·σ outcomes. Convolution with a
narrow Gaussian of deviation s leads from one kind of noise to the other, up to a factor that Poisson
summation bounds: T8 in docs/theory/numerical.md. Reference: Peikert 2010, Theorem 3.1.
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.accounting.numerical.pairs.continuous import Gaussian

LEFT = 1e-40
"""Mass that `narrower` leaves out, charged as revealed."""
UNSEEN = 1e-14
"""A distance, as a log-ratio, within the rounding that every lower bound allows for."""
WIDE = 16
"""s² of `wider`: its factor is nearer to 1 than 1e-130, far within the rounding that
every lower bound allows for."""


def narrower(sigma: Fraction, sensitivity: Fraction) -> Gaussian | None:
    """A pair that dominates integer noise of `sigma` on integer vectors that differ by
    `sensitivity` ≥ 1 in L2.

    None where `sigma` is no larger than the narrow Gaussian itself.
    """
    return of_variance(sigma**2, sensitivity)


def of_variance(variance: Fraction, sensitivity: Fraction) -> Gaussian | None:
    """The same by σ², which may be no square of a fraction."""
    # Vectors at distance Δ differ in at most Δ² coordinates, each of which costs a factor within e^(±3η).
    eta = math.log(6.1) + 2 * math.log(sensitivity) - math.log(LEFT)
    left = variance - Fraction(eta / (2 * math.pi**2) * (1 + 1e-9))
    if left > 0:
        # Less noise dominates more: rounded down, past the error of the root.
        return Gaussian(math.sqrt(left / sensitivity**2) * (1 - 2.0**-50), LEFT)
    return None


def wider(variance: Fraction, shift: int) -> Gaussian:
    """A pair that is a post-processing of integer noise of `variance` ≥ 100², in one
    coordinate shifted by `shift`."""
    # More noise is dominated: rounded up.
    return Gaussian(math.sqrt((variance + WIDE) / shift**2) * (1 + 2.0**-50))


def summed(variance: Fraction, sensitivity: Fraction, distance: float) -> Gaussian | None:
    """A pair above noise within e^±distance of integer noise of `variance` (T9)."""
    near = of_variance(variance, max(sensitivity, Fraction(1)))
    if near is None:
        return None
    return Gaussian(near.sigma, near.left + distance)
