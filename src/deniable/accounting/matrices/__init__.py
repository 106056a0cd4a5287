"""Noise that is correlated over time: factorisations A = B·C of running sums, what they
cost and how far they err.

A matrix mechanism releases C·G + Z, Z independent Gaussian noise, and multiplies by B: the noise in the
running sums is B·Z. Everything the answer reveals is one Gaussian release of the L2 sensitivity of C, which
depends on how often, and how far apart, one unit takes part. Proofs: docs/theory/matrices.md.

>>> who = Participation(steps=365, times=30, apart=1)
>>> round(sensitivity(square_root(365), who), 1)
39.1
>>> loss(square_root(365), who, sigma=391)
GaussianNoise(multiplier=9.99...)
"""

from deniable.accounting.matrices.families import (
    BufferedToeplitz,
    Toeplitz,
    Tree,
    banded,
    buffered,
    square_root,
)
from deniable.accounting.matrices.losses import cyclic_loss, loss
from deniable.accounting.matrices.participation import Participation, sensitivity

__all__ = [
    "BufferedToeplitz",
    "Participation",
    "Toeplitz",
    "Tree",
    "banded",
    "buffered",
    "cyclic_loss",
    "loss",
    "sensitivity",
    "square_root",
]
