"""Certified numerical accounting: both sides of ε and δ, with discretisation, truncation
and rounding included.

>>> from deniable.loss import GaussianNoise
>>> bound = epsilon(GaussianNoise(4).sampled(0.01) * 10_000, delta=1e-5)
>>> bound.lower <= 0.9469 <= bound.upper, bound.gap < 1e-3 * bound.upper
(True, True)

The theory, with proofs and assumptions, is docs/theory/numerical.md.
"""

from __future__ import annotations

from deniable.accounting.numerical.api import delta, epsilon, lower, profile

__all__ = ["delta", "epsilon", "lower", "profile"]
