"""Gaussian noise: calibrated to the profile of the integers drawn, never by the classical formula."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.loss import DiscreteGaussianNoise
from deniable.mechanisms import Gaussian, sensitivity, tails
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows


def law(sigma: float, reach: int = 200) -> dict[int, float]:
    w = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-reach, reach + 1)}
    total = sum(w.values())
    return {x: p / total for x, p in w.items()}


def hockey_stick(sigma: float, shift: int, eps: float) -> float:
    """δ(ε) of the integer Gaussian moved by `shift`, term by term."""
    p = law(sigma, int(40 * sigma) + shift)
    total = sum(p.values())
    return sum(max(0.0, p[x] - math.exp(eps) * p.get(x + shift, 0.0)) for x in p) / total


def test_one_number_gets_noise_of_the_stated_sigma() -> None:
    m, rng = Gaussian(sigma=3), SeededRandom(1)
    noise = [m(1000, rng=rng) - 1000 for _ in range(20_000)]
    assert follows(noise, law(3))
    assert not follows(noise, law(3 * 0.7))
    assert not follows(noise, law(3 * 1.3))


def test_a_vector_of_reals_gets_noise_of_the_stated_sigma() -> None:
    m = Gaussian(sigma=2.5, sensitivity=0.3, dimension=50_000, granularity=0.125)
    units = m(np.full(50_000, 0.3), rng=SeededRandom(2)) / 0.125
    assert np.array_equal(units, np.round(units))
    assert follows((units - 2).astype(int).tolist(), law(20))
    assert not follows((units - 2).astype(int).tolist(), law(21))


@pytest.mark.parametrize(("eps", "dlt"), [(1, 1e-5), (0.1, 1e-6), (3, 1e-9)])
def test_a_budget_is_met_by_the_integers_own_profile(eps: float, dlt: float) -> None:
    m = Gaussian.for_budget(eps, dlt)
    truth = hockey_stick(float(m.sigma), 1, eps)
    assert truth <= dlt
    assert hockey_stick(float(m.sigma) * 0.999, 1, eps) > dlt
    assert epsilon(m.loss, dlt).upper <= eps


def test_it_needs_less_than_the_classical_formula() -> None:
    classical = math.sqrt(2 * math.log(1.25e5))
    assert 3.73 < Gaussian.for_budget(1, 1e-5).sigma < 3.75 < classical


def test_reals_meet_their_budget_at_hardly_more_noise() -> None:
    whole, real = Gaussian.for_budget(1, 1e-5), Gaussian.for_budget(1, 1e-5, 0.3, real=True)
    assert epsilon(real.loss, 1e-5).upper <= 1
    assert 2**10 <= real.loss.sigma <= 2**40
    assert float(real.sigma) / 0.3 == pytest.approx(whole.sigma, rel=0.005)


def test_vectors_meet_their_budget() -> None:
    l2 = sensitivity.histogram(Unit.row(replace=True)).l2
    m = Gaussian.for_budget(1, 1e-5, l2, dimension=20)
    assert m.loss == DiscreteGaussianNoise(m.sigma, l2, 20)
    assert epsilon(m.loss, 1e-5).upper <= 1


def test_the_rounding_of_reals_is_in_the_loss() -> None:
    assert Gaussian(1, 0.3, granularity=0.25).loss == DiscreteGaussianNoise(4, 2, 1)
    assert Gaussian(1, 1, dimension=9, granularity=0.25).loss == DiscreteGaussianNoise(4, 7, 9)
    assert Gaussian(1, 1, dimension=9).loss == DiscreteGaussianNoise(1, 1, 9)


@pytest.mark.parametrize("dimension", [None, 1, 20])
@pytest.mark.parametrize("granularity", [None, 0.25])
def test_an_error_asked_for_is_kept_and_hardly_beaten(
    dimension: int | None, granularity: float | None
) -> None:
    m = Gaussian.for_error(tolerance=6, confidence=0.9, dimension=dimension, granularity=granularity)
    assert m.error(0.9).within < 6
    assert m.error(0.91).within >= (6 if granularity is None else 6 - 0.25)
    sigma = Fraction(str(m.loss.sigma))
    n = 6 if granularity is None else 24
    assert 1 - (1 - tails.gaussian_tail(sigma, n)) ** (dimension or 1) <= 0.1


def test_reals_for_an_error_are_near_the_normal_quantile() -> None:
    m = Gaussian.for_error(tolerance=10, confidence=0.95, real=True)
    assert float(m.sigma) == pytest.approx(10 / stats.norm.ppf(0.975), rel=1e-4)


@pytest.mark.parametrize("m", [Gaussian(3, dimension=8), Gaussian(2.5, 0.3, 8, 0.125)])
def test_errors_hold_and_are_not_far_too_large(m: Gaussian) -> None:
    data, rng, n = np.full(8, 0.0625 if m.granularity else 5), SeededRandom(3), 3000
    errors = np.array([np.abs(m(data, rng=rng) - data) for _ in range(n)])
    for bound, seen, least in (
        (m.error(0.9).within, errors.max(1), 0.05),
        (m.norm_error(0.9).within, errors.sum(1), 0.005),
    ):
        missed = int((seen > bound).sum())
        assert stats.binomtest(missed, n, 0.1, alternative="greater").pvalue > 1e-9
        assert stats.binomtest(missed, n, least, alternative="less").pvalue > 1e-9
    assert abs(errors.sum(1).mean() - m.norm_error().expected) < 6 * errors.sum(1).std() / math.sqrt(n) + 0.01


@pytest.mark.parametrize(
    "wrong",
    [
        {"sigma": 0},
        {"sigma": math.nan},
        {"sigma": 2**61},
        {"sensitivity": 0},
        {"dimension": 0},
        {"granularity": 3},
    ],
)
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        Gaussian(**({"sigma": 1} | wrong))


@pytest.mark.parametrize("budget", [(0, 1e-5), (1, 0), (1, 1), (-1, 1e-5), (1, math.nan)])
def test_a_budget_without_delta_is_refused(budget: tuple[float, float]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        Gaussian.for_budget(*budget)


def test_no_data_whatever_makes_it_fail() -> None:
    rng = SeededRandom(1)
    for data in (math.nan, math.inf, None, "x", [], {}, [None], object()):
        assert isinstance(Gaussian(1)(data, rng=rng), int)
        assert isinstance(Gaussian(1, granularity=0.5)(data, rng=rng), float)
        assert Gaussian(1, dimension=3)(data, rng=rng).shape == (3,)
