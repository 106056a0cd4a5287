"""How far a sum of n like noises reaches, as a line in √n: what sums over released cells are off by.

Each of n noises at β/n would reach about √n times too far. Proofs: docs/theory/curator.md, Theorems 10 and
11."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy.special import gammaln

from deniable.sql.plan.noise import Family, Noise

_OUTWARD = 1 + 1e-9
"""More than the rounding of the formulas below."""
_EACH = 20
"""Up to so many noises every number of them is looked at, then one in each step of `_STEP`."""
_STEP = 1.05
_POINTS = 33


@dataclass(frozen=True)
class RootLine:
    """The sum of n like noises is farther from 0 than slope·√n + start with probability β at most."""

    slope: float
    start: float

    def __call__(self, n: int) -> float:
        return self.slope * math.sqrt(n) + self.start


def line(worth: Fraction, noise: Noise, most: int, beta: float) -> RootLine | None:
    """Of n = 1 … `most` independent noises, each times `worth`; None for Gaussian noise of σ < 1."""
    scale, size = float(Fraction(noise.scale)), float(abs(worth)) * _OUTWARD
    if noise.family is Family.LAPLACE:
        wide = 0.5 / math.tanh(0.5 / scale)
        unit = _laplace(1 << max(0, most - 1).bit_length(), beta)
        return RootLine(size * wide * unit.slope, size * (wide * unit.start + 0.5))
    if scale < 1:
        return None
    more = math.exp(2 * most * 2.001 * math.exp(-((math.pi * scale) ** 2)))
    return RootLine(size * scale * -NormalDist().inv_cdf(beta / more / 2), size)


@lru_cache(maxsize=256)
def _laplace(most: int, beta: float) -> RootLine:
    """Of continuous Laplace noises of scale 1. The quantile grows with n, so between two of the n looked at
    the larger one's serves."""
    slope = -NormalDist().inv_cdf(beta / 2) * math.sqrt(2 * _STEP)
    start, first = 0.0, 1
    while first <= most:
        last = first if first < _EACH else min(most, math.floor(first * _STEP))
        start = max(start, _quantile(last, beta) - slope * math.sqrt(first))
        first = last + 1
    return RootLine(slope * _OUTWARD, start * _OUTWARD)


def _quantile(n: int, beta: float) -> float:
    """A t with P(|Σ of n Laplace noises| > t) ≤ β, from above, to 1e-4 of it.

    Σ is the difference of the n-th arrivals of two Poisson processes. When the first of these comes, the
    other process has j arrivals with probability C(n − 1 + j, j)·2^(1 − n − j), and the rest of the way is n
    − j arrivals long: longer than t if fewer than n − j come in t."""
    j = np.arange(n)
    left = np.exp(gammaln(n + j) - gammaln(n) - gammaln(j + 1) - (n + j - 1) * math.log(2))
    longer = np.cumsum(left)[::-1]  # P(n − j > m) for m = 0 … n − 1
    log = math.log(2 / beta)
    low, high = 0.0, 2 * math.sqrt(n * log) + log
    for _ in range(3):
        t = np.linspace(low, high, _POINTS)[1:]
        tails = np.exp(j * np.log(t)[:, None] - t[:, None] - gammaln(j + 1)) @ longer
        at = int(np.argmax(tails <= beta * (1 - 1e-9)))
        if tails[at] > beta:
            return high
        low, high = float(t[at] - (high - low) / (_POINTS - 1)), float(t[at])
    return high
