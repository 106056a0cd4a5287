"""A source whose bits are written down, and exact laws to compare with."""

from __future__ import annotations

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


@pytest.fixture(scope="session")
def exact_cdf() -> Callable[..., list[mpmath.mpf]]:
    """c(1), c(2), … of a law by mpmath at 500 digits: computed apart from the code under test."""

    def cdf(first: Fraction, second: Fraction, folded: bool, count: int) -> list[mpmath.mpf]:
        with mpmath.workdps(500):
            a, b = (mpmath.mpf(x.numerator) / x.denominator for x in (first, second))
            end = int(mpmath.ceil(min(1200 / a, mpmath.sqrt(2400 / b) if b else mpmath.inf))) + count + 2
            weights = [mpmath.exp(-(a * k + b * k * (k - 1) / 2)) for k in range(end)]
            if folded:
                weights = weights[:1] + [w for w in weights[1:] for _ in range(2)]
            total, cumulative, sums = mpmath.fsum(weights), mpmath.mpf(0), []
            for weight in weights[:count]:
                cumulative += weight
                sums.append(cumulative / total)
            return sums

    return cdf
