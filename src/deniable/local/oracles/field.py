"""Multiplication in GF(2^m): a hash family so small that a server can count it whole.

For a uniform a in GF(2^m) and x ≠ x' the product a·(x − x') is uniform, so the low bits
of a·x and a·x' agree with probability exactly 2^−bits: universal (Carter, Wegman 1979),
with 2^m functions, and exactly so on the average over all of them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.local.arrays import Integers

Item = TypeVar("Item", bound=np.signedinteger[Any])

LARGEST = 24
# x^m plus these low terms is irreducible over GF(2), the smallest such polynomial of each degree m (tests
# check all).
_LOW = (0, 1, 3, 3, 3, 5, 3, 3, 27, 3, 9, 5, 9, 27, 33, 3, 43, 9, 9, 39, 9, 5, 3, 33, 27)


def polynomial(m: int) -> int:
    """The modulus of GF(2^m), 1 ≤ m ≤ 24."""
    return 1 << m | _LOW[m]


def times_x(a: NDArray[Item], m: int) -> NDArray[Item]:
    """a·X in GF(2^m)."""
    double = a << 1
    return np.asarray(double ^ (double >> m) * polynomial(m), a.dtype)


def multiply(a: NDArray[Item], b: NDArray[Item], m: int) -> NDArray[Item]:
    """a·b in GF(2^m), elementwise."""
    product = np.zeros_like(a)
    for j in range(m):
        product ^= a * (b >> j & 1)
        a = times_x(a, m)
    return product


def dual(a: Integers, m: int, count: int) -> Integers:
    """Rows w_0, …, w_(count − 1): bit j of w_i is bit i of a·X^j, so that bit i of a·x
    is the parity of w_i & x."""
    rows = np.zeros((count, len(a)), np.int64)
    for j in range(m):
        for i in range(count):
            rows[i] |= (a >> i & 1) << j
        a = times_x(a, m)
    return rows
