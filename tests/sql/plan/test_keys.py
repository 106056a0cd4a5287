"""Private keys come out by the optimal rule, exactly; public ones always."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deniable.errors import InvalidQuery
from deniable.loss import Approximate
from deniable.randomness import SeededRandom
from deniable.sql.plan.keys import KeySelection, combinations
from deniable.sql.tree import Key
from tests.sql.planned import REGION, N

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 10**5)


@settings(max_examples=30, deadline=None)
@given(
    epsilon=st.fractions(Fraction(1, 50), 5, max_denominator=1000),
    delta=st.fractions(Fraction(1, 10**9), Fraction(1, 10), max_denominator=10**9).filter(lambda d: d > 0),
)
def test_one_unit_more_or_less_is_private_for_every_count(epsilon: Fraction, delta: Fraction) -> None:
    selection = KeySelection(epsilon, delta, 1)
    with mpmath.workdps(60):
        grown = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        lost = mpmath.mpf(delta.numerator) / delta.denominator
        n, p = 0, mpmath.mpf(0)
        while p < 1:
            q = _real(selection.probability(n + 1))
            assert p <= q <= grown * p + lost
            assert 1 - p <= grown * (1 - q) + lost
            n, p = n + 1, q


def test_probabilities_are_those_of_the_paper() -> None:
    """Desfontaines et al. 2020, Theorem 1, in closed form."""
    selection, e, d = KeySelection(EPSILON, DELTA, 1), float(EPSILON), float(DELTA)
    middle = 1 + math.floor(math.log((math.exp(e) + 2 * d - 1) / ((math.exp(e) + 1) * d)) / e)
    for n in range(1, middle + 1):
        assert float(selection.probability(n)) == pytest.approx(
            d * math.expm1(n * e) / math.expm1(e), rel=1e-9
        )
    at = float(selection.probability(middle))
    for m in range(1, 20):
        wanted = (
            1 - math.exp(-m * e) * (1 - at) + d * (math.exp(-e) - math.exp(-(m + 1) * e)) / (1 - math.exp(-e))
        )
        assert float(selection.probability(middle + m)) == pytest.approx(min(1.0, wanted), rel=1e-9)


def test_keys_come_out_as_often_as_stated() -> None:
    selection = KeySelection(Fraction(1), Fraction(1, 100), 1)
    n = next(n for n in range(100) if selection.probability(n) > Fraction(1, 2))
    units = {(f"key {i:05}",): n for i in range(4000)}
    released = selection(units, rng=SeededRandom(3))
    assert stats.binomtest(len(released), 4000, float(selection.probability(n))).pvalue > 1e-9
    assert stats.binomtest(len(released), 4000, float(selection.probability(n - 1))).pvalue < 1e-9
    assert released == sorted(released)


def test_a_key_that_nobody_has_is_never_released_and_one_of_many_always() -> None:
    selection = KeySelection(EPSILON, DELTA, 1)
    assert selection({("none",): 0, (None,): 10**9, ("b",): 10**9}, rng=SeededRandom(1)) == [(None,), ("b",)]


def test_the_loss_counts_every_key_that_a_unit_touches() -> None:
    assert KeySelection(EPSILON, DELTA, 4).loss == Approximate(EPSILON, DELTA) * 4
    assert KeySelection(EPSILON, DELTA, 4, replace=True).loss == Approximate(EPSILON, DELTA) * 8


def test_too_little_for_any_key_is_refused_before_the_data() -> None:
    with pytest.raises(InvalidQuery, match="too small to release any"):
        KeySelection(Fraction(1, 10**7), Fraction(1, 10**60), 1).probability(1)


def test_public_keys_are_all_there_and_not_too_many() -> None:
    keys = [Key("region", REGION, ("a", "b", None)), Key("n", N, (1, 2, 2))]
    assert combinations(keys) == [("a", 1), ("a", 2), ("b", 1), ("b", 2), (None, 1), (None, 2)]
    assert combinations([]) == [()]
    with pytest.raises(InvalidQuery, match="make 250,000 groups, more than 100,000"):
        combinations([Key("n", N, tuple(range(500)))] * 2)


def _real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator
