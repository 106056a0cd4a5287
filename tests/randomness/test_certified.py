from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.randomness import SeededRandom
from deniable.randomness.certified import (
    coins,
    complement,
    exp_bounds,
    exponential,
    invert,
    is_below,
    rational,
    weighted,
)

GAMMAS = st.fractions(min_value=0, max_value=2000, max_denominator=10**12) | st.fractions(
    0, 1, max_denominator=10**30
)


def true_exp(gamma: Fraction, bits: int) -> mpmath.mpf:
    return mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** bits


@given(gamma=GAMMAS, bits=st.integers(1, 700))
def test_the_bracket_of_exp_holds_the_true_value_and_is_narrow(gamma: Fraction, bits: int) -> None:
    low, high = exp_bounds(gamma, bits)
    with mpmath.workprec(bits + 3200):
        assert low <= true_exp(gamma, bits) <= high
    assert 0 <= low <= high <= low + 2


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 10**40), Fraction(10**4), Fraction(22026, 7)])
def test_the_bracket_of_exp_is_as_narrow_at_ten_thousand_bits(gamma: Fraction) -> None:
    low, high = exp_bounds(gamma, 10_000)
    with mpmath.workprec(30_000):
        assert low <= true_exp(gamma, 10_000) <= high
    assert high - low <= 2


def test_rationals_and_complements_are_bracketed() -> None:
    assert rational(Fraction(1, 3))(4) == (5, 6)
    assert rational(Fraction(1, 2))(4) == (8, 8)
    assert rational(Fraction(1))(4) == (16, 16)
    low, high = exponential(Fraction(1, 2))(90)
    assert complement(Fraction(1, 2))(90) == (2**90 - high, 2**90 - low)


def test_a_tie_is_continued_with_the_same_uniform(scripted) -> None:
    """U = 0.0101…01 in binary is exactly below 1/3 as long as it follows its digits; the
    first other digit decides."""
    third, tie = rational(Fraction(1, 3)), 0x5555555555555555
    assert is_below(scripted([tie, tie - 1]), 0x5555, 16, third)
    assert not is_below(scripted([tie, tie + 1]), 0x5555, 16, third)
    assert is_below(scripted(), 0x5554, 16, third)
    assert not is_below(scripted(), 0x5556, 16, third)
    with pytest.raises(EOFError):
        is_below(scripted([tie, tie]), 0x5555, 16, third)


def test_a_tie_with_exp_is_continued_with_the_same_uniform(scripted) -> None:
    with mpmath.workprec(400):
        digits = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 144))
    first, second, third = digits >> 128, digits >> 64 & (2**64 - 1), digits & (2**64 - 1)
    assert is_below(scripted([second, third - 1]), first, 16, exponential(Fraction(1)))
    assert not is_below(scripted([second, third + 1]), first, 16, exponential(Fraction(1)))


@pytest.mark.parametrize(
    "p", [Fraction(1, 3), Fraction(1, 2), Fraction(1, 10**9), Fraction(65535, 65536), Fraction(2, 7)]
)
def test_sixteen_bits_decide_exactly_the_right_cells(scripted, p: Fraction) -> None:
    """Each of the 2^16 first words is heads, tails or open; the open one holds the rest of p."""
    low, high = (p * 65536).__floor__(), (p * 65536).__ceil__()
    heads = coins(scripted(cells=range(65536), bits=[2**64 - 1] * (high - low)), rational(p), 65536)
    assert heads[:low].all()
    assert not heads[high:].any()
    if low < high:  # the open cell is heads for exactly the share p·2^16 − low of its continuations
        share = int((p * 65536 - low) * 2**64)
        for word, expected in ((share - 1, True), (share + 1, False)):
            if 0 <= word < 2**64:
                source = scripted(cells=[low], bits=[word])
                assert coins(source, rational(p), 1)[0] == expected
                assert not source.left["bits"]


def test_certain_and_impossible_events_use_no_more_bits(scripted) -> None:
    assert coins(scripted(cells=[0, 65535]), rational(Fraction(1)), 2).all()
    assert coins(scripted(cells=[0, 65535]), exponential(Fraction(0)), 2).all()
    assert not coins(scripted(cells=[0, 65535]), rational(Fraction(0)), 2).any()


def test_rare_events_are_not_lost(scripted) -> None:
    """exp(−100) = 0.83·2^−144: a uniform of 144 zeros is still open, then the next word decides."""
    rare = exponential(Fraction(100))
    with pytest.raises(EOFError):
        is_below(scripted([0, 0]), 0, 16, rare)
    assert is_below(scripted([0, 0, 2**63, 0]), 0, 16, rare)
    assert not is_below(scripted([0, 0, 2**64 - 1, 0]), 0, 16, rare)
    assert not is_below(scripted([0, 1]), 0, 16, rare)


def test_a_finite_law_is_inverted_at_its_exact_thresholds(scripted) -> None:
    gammas = [Fraction(3), Fraction(0), Fraction(1, 7), Fraction(3), Fraction(200)]
    with mpmath.workprec(1000):
        weights = [mpmath.exp(-mpmath.mpf(g.numerator) / g.denominator) for g in gammas]
        edges = [mpmath.fsum(weights[:k]) / mpmath.fsum(weights) for k in range(1, 5)]
        for k, edge in enumerate(edges[:3]):
            at = int(mpmath.floor(edge * mpmath.mpf(2) ** 128))
            for u, expected in ((at - 8, k), (at + 8, k + 1)):
                assert invert(scripted([u & (2**64 - 1)]), u >> 64, 64, weighted(gammas)) == expected
        ones = [2**64 - 1] * 8  # P(last) = e^−200 / total > 2^−320
        assert invert(scripted(ones), 2**64 - 1, 64, weighted(gammas)) == 4


@settings(max_examples=50, deadline=None)
@given(st.lists(GAMMAS, min_size=1, max_size=20), st.integers(20, 200))
def test_brackets_of_a_finite_law_hold_the_truth(gammas: list[Fraction], bits: int) -> None:
    low, slack = weighted(gammas)(bits)
    with mpmath.workprec(bits + 3500):
        weights = [true_exp(g - min(gammas), 0) for g in gammas]
        for k in range(len(gammas)):
            truth = mpmath.fsum(weights[: k + 1]) / mpmath.fsum(weights) * mpmath.mpf(2) ** bits
            assert low[k] - (k == len(gammas) - 1) * mpmath.mpf(2) ** -50 <= truth <= low[k] + slack
    assert slack <= 4
    assert low[-1] == 2**bits


def test_vector_and_scalar_coins_have_the_same_probability() -> None:
    rng = SeededRandom(5)
    ones = rng.bernoulli_exp(Fraction(1, 2), size=400_000).mean()
    single = np.mean([rng.bernoulli_exp(Fraction(1, 2)) for _ in range(40_000)])
    assert abs(ones - np.exp(-0.5)) < 6.2 * 0.5 / 400_000**0.5
    assert abs(single - np.exp(-0.5)) < 6.2 * 0.5 / 40_000**0.5
