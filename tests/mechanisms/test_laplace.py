"""Laplace noise: the loss of the integers drawn, the scale asked for, the error promised."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.loss import DiscreteLaplaceNoise
from deniable.mechanisms import Laplace, TruncatedGeometric, tails
from deniable.randomness import SeededRandom
from tests.mechanisms.law import follows

EPSILONS = st.sampled_from([0.1, 1, Fraction(1, 3), 3.7])


def law(scale: float, reach: int = 400) -> dict[int, float]:
    w = {x: math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)}
    total = sum(w.values())
    return {x: p / total for x, p in w.items()}


def test_one_number_gets_noise_of_the_stated_scale() -> None:
    m, rng = Laplace(scale=3), SeededRandom(1)
    noise = [m(1000, rng=rng) - 1000 for _ in range(20_000)]
    assert follows(noise, law(3))
    assert not follows(noise, law(3 * 0.7))
    assert not follows(noise, law(3 * 1.3))


def test_a_vector_gets_independent_noise_of_the_stated_scale() -> None:
    m = Laplace(scale=3, dimension=100_000)
    noise = m(np.full(100_000, 7), rng=SeededRandom(1)) - 7
    assert noise.dtype == np.int64
    assert follows(noise.tolist(), law(3))
    assert not follows(noise.tolist(), law(3 * 1.05))
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 6 / math.sqrt(len(noise))


def test_reals_get_noise_of_the_stated_scale_on_the_grid() -> None:
    m = Laplace(scale=2.5, sensitivity=0.3, dimension=50_000, granularity=0.125)
    noisy = m(np.full(50_000, 0.3), rng=SeededRandom(2))
    units = noisy / 0.125
    assert np.array_equal(units, np.round(units))
    assert follows((units - 2).astype(int).tolist(), law(20))
    assert stats.kstest(noisy - 0.25, stats.laplace(scale=2.5).cdf).pvalue < 1 - 1e-9


@given(EPSILONS, st.integers(1, 50), st.integers(1, 9))
def test_a_budget_is_met_exactly_for_whole_numbers(eps: float, sensitivity: int, dimension: int) -> None:
    m = Laplace.for_budget(eps, sensitivity, dimension=dimension)
    assert Fraction(str(m.loss.sensitivity)) / Fraction(str(m.loss.scale)) == Fraction(str(eps))


@given(EPSILONS, st.sampled_from([0.3, 1, Fraction(22, 7), 1e-6, 12345.6]), st.integers(1, 9))
def test_a_budget_is_met_exactly_for_reals_and_rounding_costs_little(
    eps: float, sensitivity: float, k: int
) -> None:
    m = Laplace.for_budget(eps, sensitivity, dimension=k, real=True)
    assert m.loss.sensitivity / Fraction(str(m.loss.scale)) == Fraction(str(eps))
    assert 2**10 <= m.loss.scale <= 2**40
    assert 1 <= Fraction(str(m.scale)) * Fraction(str(eps)) / Fraction(str(sensitivity)) <= 1.001


def test_the_loss_is_that_of_the_integer_noise() -> None:
    m = Laplace(scale=2)
    assert m.loss == DiscreteLaplaceNoise(2, 1)
    assert epsilon(m.loss, 0).upper == pytest.approx(0.5)
    assert epsilon(m.loss * 30, 1e-6).lower > 13.9


def test_the_rounding_of_reals_is_in_the_loss() -> None:
    assert Laplace(scale=1, sensitivity=0.3, granularity=1).loss == DiscreteLaplaceNoise(1, 1)
    assert Laplace(scale=1, sensitivity=1, dimension=10, granularity=1).loss == DiscreteLaplaceNoise(1, 10)
    assert Laplace(scale=1, sensitivity=1, dimension=10).loss == DiscreteLaplaceNoise(1, 1)


def test_ten_or_more_with_probability_a_hundred_thousandth() -> None:
    m = Laplace.for_error(tolerance=10, confidence=1 - 1e-5)
    assert math.log(1e5) / 10 == pytest.approx(1.1513, abs=1e-4)  # what continuous noise needs
    assert epsilon(m.loss, 0).upper == pytest.approx(1.1941, abs=1e-4)
    assert tails.laplace_tail(Fraction(str(m.scale)), 10) <= 1e-5
    assert m.error(1 - 1e-5).within == 9


def test_reals_for_an_error_need_hardly_more_than_continuous_noise() -> None:
    m = Laplace.for_error(tolerance=10, confidence=1 - 1e-5, real=True)
    assert 1.1513 - 1e-4 <= float(Fraction(m.loss.sensitivity) / Fraction(str(m.loss.scale))) <= 1.1513 + 1e-4
    assert m.error(1 - 1e-5).within <= 10


@pytest.mark.parametrize("dimension", [None, 1, 20])
@pytest.mark.parametrize("granularity", [None, 0.25])
def test_an_error_asked_for_is_kept_and_hardly_beaten(
    dimension: int | None, granularity: float | None
) -> None:
    m = Laplace.for_error(tolerance=6, confidence=0.9, dimension=dimension, granularity=granularity)
    assert m.error(0.9).within < 6
    assert m.error(0.91).within >= (6 if granularity is None else 6 - 0.25)


def test_the_norm_error_beats_the_union_bound() -> None:
    m = Laplace(scale=10, dimension=100)
    union = 100 * 10 * math.log(100 / 0.05)
    assert m.norm_error(0.95).within < union / 5
    assert m.norm_error(0.95).expected == pytest.approx(100 * m.loss.scale, rel=0.01)


@pytest.mark.parametrize("m", [Laplace(3, dimension=8), Laplace(2.5, 0.3, 8, 0.125)])
def test_errors_hold_and_are_not_far_too_large(m: Laplace) -> None:
    data, rng, n = np.full(8, 0.0625 if m.granularity else 5), SeededRandom(3), 3000
    errors = np.array([np.abs(m(data, rng=rng) - data) for _ in range(n)])
    for bound, seen in ((m.error(0.9).within, errors.max(1)), (m.norm_error(0.9).within, errors.sum(1))):
        missed = int((seen > bound).sum())
        assert stats.binomtest(missed, n, 0.1, alternative="greater").pvalue > 1e-9
        assert stats.binomtest(missed, n, 0.05, alternative="less").pvalue > 1e-9
    assert abs(errors.sum(1).mean() - m.norm_error().expected) < 6 * errors.sum(1).std() / math.sqrt(n) + 0.01


def test_a_number_knows_its_mean_error() -> None:
    assert Laplace(10).error().expected == pytest.approx(1 / math.sinh(0.1))
    assert Laplace(10).error().measure == "absolute"
    assert Laplace(10, dimension=3).error().measure == "largest"


def test_truncation_keeps_answers_inside_and_data_too() -> None:
    m, rng = TruncatedGeometric(scale=2, lower=0, upper=10), SeededRandom(4)
    answers = [m(12, rng=rng) for _ in range(4000)]
    noise = law(2)
    expected = {x: sum(p for z, p in noise.items() if max(0, min(10, 10 + z)) == x) for x in range(11)}
    assert follows(answers, expected)
    assert {m(x, rng=rng) for x in (math.nan, math.inf, -math.inf, "x", None)} <= set(range(11))


def test_truncation_costs_what_laplace_costs() -> None:
    m = TruncatedGeometric.for_budget(epsilon=0.5, lower=0, upper=9, sensitivity=2)
    assert m.loss == Laplace.for_budget(0.5, 2).loss
    assert m.error(0.999).within == 9


def test_the_mean_error_of_truncation_is_that_of_the_middle() -> None:
    m, noise = TruncatedGeometric(scale=4, lower=0, upper=10), law(4)
    means = [sum(p * abs(max(0, min(10, x + z)) - x) for z, p in noise.items()) for x in range(11)]
    assert max(means) == pytest.approx(m.error().expected)
    assert max(means) == means[5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0}, {"scale": -1}, {"scale": math.nan}, {"scale": math.inf}, {"scale": 2**61}, {"sensitivity": 0},
        {"sensitivity": 1.5}, {"sensitivity": True}, {"dimension": 0}, {"dimension": 1.5}, {"granularity": 0.1}, {"unit": None},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        Laplace(**({"scale": 1} | wrong))


def test_wrong_targets_are_refused() -> None:
    for wrong in ((0, 0.9), (-1, 0.9), (5, 1), (5, 0)):
        with pytest.raises(InvalidParameter, match="Expected"):
            Laplace.for_error(*wrong)
    with pytest.raises(InvalidParameter, match="more than half the granularity"):
        Laplace.for_error(0.1, 0.9, granularity=1)
    with pytest.raises(InvalidParameter, match="epsilon"):
        Laplace.for_budget(0)
    with pytest.raises(InvalidParameter, match="upper"):
        TruncatedGeometric(1, 5, 4)


def test_no_data_whatever_makes_it_fail() -> None:
    rng = SeededRandom(1)
    for data in (math.nan, math.inf, None, "x", [], {}, [None], object(), np.array([]), [[1, 2], 3], 10**400):
        assert isinstance(Laplace(1)(data, rng=rng), int)
        assert isinstance(Laplace(1, granularity=0.5)(data, rng=rng), float)
        assert Laplace(1, dimension=3)(data, rng=rng).shape == (3,)


def test_the_largest_scales_do_not_wrap() -> None:
    noisy = Laplace(2**60, dimension=2000)(np.full(2000, 2**63 - 1), rng=SeededRandom(1))
    assert max(noisy) > 2**63
    assert abs(sum(int(x) - 2**61 for x in noisy) / 2000) < 2**60
