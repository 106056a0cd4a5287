"""Shares: enough of them give the secret, fewer give nothing, exactly."""

from __future__ import annotations

import itertools
import secrets
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.federated.secure_sum import shamir


@given(st.integers(0, 2**256 - 1), st.integers(1, 6), st.integers(0, 4), st.randoms())
def test_any_threshold_of_shares_gives_the_secret(
    secret: int, threshold: int, more: int, order: object
) -> None:
    shares = shamir.split(secret, range(threshold + more), threshold)
    chosen = order.sample(sorted(shares), threshold)  # type: ignore[attr-defined]
    assert shamir.join({holder: shares[holder] for holder in chosen}) == secret


def test_fewer_shares_are_uniform_whatever_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw of two coefficients in a field of seven: any two of three shares take
    each pair of values exactly once."""
    for secret, pair in itertools.product(range(7), itertools.combinations(range(3), 2)):
        views: Counter[tuple[int, ...]] = Counter()
        for draw in itertools.product(range(7), repeat=2):
            numbers = iter(draw)
            monkeypatch.setattr(secrets, "randbelow", lambda bound, numbers=numbers: next(numbers))
            shares = shamir.split(secret, range(3), 3, prime=7)
            views[tuple(shares[holder] for holder in pair)] += 1
        assert len(views) == 49
        assert set(views.values()) == {1}


def test_the_field_has_a_prime_number_of_elements() -> None:
    """Miller and Rabin, forty bases: the chance that a composite passes is below 4 ** -40."""
    odd, twos = shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        power = pow(2 + secrets.randbelow(shamir.PRIME - 3), odd, shamir.PRIME)
        squares = [pow(power, 2**k, shamir.PRIME) for k in range(twos)]
        assert power == 1 or shamir.PRIME - 1 in squares
