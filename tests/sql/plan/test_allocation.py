"""ε is divided whole, and so that the errors shown are small."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.sql.plan.allocation import Item, allot, concentrated_shares, pure_shares
from deniable.sql.plan.noise import Family

uses = st.lists(st.floats(0.01, 100), min_size=1, max_size=12)


@given(uses)
def test_shares_are_positive_and_never_more_than_all(given_uses: list[float]) -> None:
    for shares in (pure_shares(given_uses), concentrated_shares(given_uses)):
        assert all(share > 0 for share in shares)
        assert 1 - Fraction(1, 100) < sum(shares) <= 1


def test_the_split_is_near_the_best_one() -> None:
    given_uses = [1.0, 0.25, 2.0]
    error = sum(u / float(s) for u, s in zip(given_uses, pure_shares(given_uses), strict=True))
    assert error <= 1.001 * sum(math.sqrt(u) for u in given_uses) ** 2
    even = sum(u * 3 for u in given_uses)
    assert error < even


@pytest.mark.parametrize("family", [None, *Family])
@pytest.mark.parametrize("selections", [0, 1, 3])
@given(st.lists(st.tuples(st.floats(0.1, 4), st.sampled_from([None, 1.0, 0.5])), min_size=1, max_size=6))
def test_everything_together_is_at_most_what_was_given(
    family: Family | None, selections: int, given_items: object
) -> None:
    items = [Item(use, ratio) for use, ratio in given_items]  # type: ignore[attr-defined]
    found = allot(items, selections, Fraction(1, 2), Fraction(1, 10**6), family, 0.05)
    keys, lost = (selections * part for part in found.selection)
    assert found.noise_epsilon + keys <= Fraction(1, 2)
    assert found.noise_delta + lost <= Fraction(1, 10**6)
    if found.family is Family.LAPLACE:
        assert sum(found.amounts) <= found.noise_epsilon
        assert found.noise_delta == 0


def test_few_numbers_get_laplace_and_many_gaussian_noise() -> None:
    def chosen(count: int) -> Family:
        return allot([Item(1.0, 1.0)] * count, 0, Fraction(1), Fraction(1, 10**6), None, 0.05).family

    assert chosen(2) is Family.LAPLACE
    assert chosen(60) is Family.GAUSSIAN


def test_without_a_delta_there_is_no_gaussian_noise() -> None:
    assert allot([Item(1.0, 1.0)] * 100, 0, Fraction(1), 0, None, 0.05).family is Family.LAPLACE
