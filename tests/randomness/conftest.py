"""A source whose bits are written down, and exact laws to compare with."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest


class Scripted:
    """Hands out the given words and fails when asked for more: so a test knows which bits were used."""

    def __init__(self, bits=(), halves=(), cells=()) -> None:
        self.left = {"bits": list(bits), "halves": list(halves), "cells": list(cells)}

    def _take(self, kind: str, n: int, dtype: type) -> np.ndarray:
        words = self.left[kind]
        if len(words) < n:
            raise EOFError(kind)
        taken, self.left[kind] = words[:n], words[n:]
        return np.array(taken, dtype)

    def bits(self, n: int) -> np.ndarray:
        return self._take("bits", n, np.uint64)

    def halves(self, n: int) -> np.ndarray:
        return self._take("halves", n, np.uint32)

    def cells(self, n: int) -> np.ndarray:
        return self._take("cells", n, np.uint16)


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    return Scripted


DIGITS = 150
"""More than twice what 256 bits and the 64 behind them need."""


@functools.cache
def cumulate(first: Fraction, second: Fraction, folded: bool) -> list[mpmath.mpf]:
    """c(1), c(2), … as far as there is something beyond them that `DIGITS` digits show, and 400 of them at least."""
    with mpmath.workdps(DIGITS + int(first / 2)):  # the first weight behind 1 is e^−first, and shows
        a, b = (mpmath.mpf(x.numerator) / x.denominator for x in (first, second))
        nothing = 350  # e^−350 < 10^−150
        end = int(mpmath.ceil(min(nothing / a, mpmath.sqrt(2 * nothing / b) if b else mpmath.inf)))
        weights = [mpmath.exp(-(a * k + b * k * (k - 1) / 2)) for k in range(max(end, 400) + 2)]
        if folded:
            weights = weights[:1] + [w for w in weights[1:] for _ in range(2)]
        total = mpmath.fsum(weights)
        return [sum_ / total for sum_ in itertools.accumulate(weights)]


@pytest.fixture(scope="session")
def exact_cdf() -> Callable[..., list[mpmath.mpf]]:
    """c(1), c(2), … of a law by mpmath: computed apart from the code under test."""

    def cdf(first: Fraction, second: Fraction, folded: bool, count: int) -> list[mpmath.mpf]:
        sums = cumulate(first, second, folded)
        assert count <= len(sums)
        return sums[:count]

    return cdf
