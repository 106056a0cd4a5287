"""Secrets in shares: any `threshold` of them give the secret, fewer say nothing about it (Shamir 1979).

A secret of 32 bytes is one element of the field of PRIME elements, the smallest prime
above 2²⁵⁶. Fewer than `threshold` points of a polynomial of degree `threshold` − 1 with
uniform coefficients are uniform whatever its value at 0 is. Python's integers take time
that depends on their values: whoever can time a client closely is not defended against.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(secret: int, holders: Iterable[int], threshold: int, *, prime: int = PRIME) -> dict[int, int]:
    """A share for each holder. Holders are numbered from 0; number h gets the polynomial's value at h + 1."""
    # Uniform over the whole field, the leading one included: with it set apart from 0 fewer shares would tell
    # something (Shamir 1979).
    coefficients = [secrets.randbelow(prime) for _ in range(threshold - 1)]
    return {holder: _value(secret, coefficients, holder + 1, prime) for holder in holders}


def _value(constant: int, coefficients: list[int], point: int, prime: int) -> int:
    total = 0
    for coefficient in coefficients:
        total = (total + coefficient) * point % prime
    return (total + constant) % prime


def join(shares: Mapping[int, int], *, prime: int = PRIME) -> int:
    """The polynomial's value at 0, by Lagrange's formula. With fewer shares than the
    threshold it means nothing."""
    points = [holder + 1 for holder in shares]
    total = 0
    for point, share in zip(points, shares.values(), strict=True):
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % prime
                below = below * (other - point) % prime
        total += share * above * pow(below, -1, prime)
    return total % prime
