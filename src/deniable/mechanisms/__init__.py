"""Mechanisms: immutable values whose loss and error are known before any data is seen.

Numbers: `Laplace`, `Gaussian`, `TruncatedGeometric`; counts: `NoisyCounts`; choices:
         `Exponential`, `PermuteAndFlip`,
`NoisyMax`, `TopK`; quantiles: `Quantile`; a bias: `CoinBias`; a survey: `RandomizedResponse`; a conversation:
`SparseVector`. `sensitivity` says how far one unit moves an answer, `classify` makes classifiers of noisy
counts, `cautionary` holds what should not be used.

>>> from deniable.randomness import SecureRandom
>>> mechanism = Laplace.for_budget(epsilon=0.5, sensitivity=sensitivity.count(Unit.row()).l1)
>>> print(mechanism.loss, "|", mechanism.error(0.95))
integer Laplace noise of scale 2 on sensitivity 1 | ± 6 with probability 0.95
>>> answer = mechanism(1234, rng=SecureRandom())
"""

from deniable.mechanisms import cautionary, classify, sensitivity
from deniable.mechanisms.counts import NoisyCounts
from deniable.mechanisms.gaussian import Gaussian
from deniable.mechanisms.grid import clamped_sum
from deniable.mechanisms.laplace import Laplace, TruncatedGeometric
from deniable.mechanisms.response import RandomizedResponse, Share
from deniable.mechanisms.selection.coin import CoinBias
from deniable.mechanisms.selection.exponential import Exponential, NoisyMax, PermuteAndFlip, TopK
from deniable.mechanisms.selection.quantile import Quantile
from deniable.mechanisms.selection.sparse_vector import SparseVector
from deniable.units import Unit

__all__ = [
    "CoinBias",
    "Exponential",
    "Gaussian",
    "Laplace",
    "NoisyCounts",
    "NoisyMax",
    "PermuteAndFlip",
    "Quantile",
    "RandomizedResponse",
    "Share",
    "SparseVector",
    "TopK",
    "TruncatedGeometric",
    "Unit",
    "cautionary",
    "clamped_sum",
    "classify",
    "sensitivity",
]
