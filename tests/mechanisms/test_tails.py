"""Tails against sums of exact terms (mpmath), one-sided: never below the truth, and barely above it."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from deniable.mechanisms import tails

CLOSE = 1 + 1e-8


def laplace_weights(scale: Fraction, reach: int) -> list[mp.mpf]:
    """P(|X| = j), j < reach."""
    a = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    return [(1 - a) / (1 + a) * (2 if j else 1) * a**j for j in range(reach)]


def gaussian_weights(sigma: Fraction, reach: int) -> list[mp.mpf]:
    s2 = mp.mpf(sigma.numerator) ** 2 / sigma.denominator**2
    w = [(2 if j else 1) * mp.exp(-(mp.mpf(j) ** 2) / (2 * s2)) for j in range(reach)]
    total = mp.fsum(w)
    return [x / total for x in w]


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1), Fraction(10, 3), Fraction(50)])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_the_laplace_tail_is_the_sum_of_its_terms(scale: Fraction, n: int) -> None:
    with mp.workdps(600):
        truth = 1 - mp.fsum(laplace_weights(scale, n)) if n else mp.mpf(1)
    assert truth <= tails.laplace_tail(scale, n) <= max(float(truth) * CLOSE, 1e-290)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(37, 10), Fraction(60)])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100, 1000])
def test_the_gaussian_tail_is_the_sum_of_its_terms(sigma: Fraction, n: int) -> None:
    with mp.workdps(60):
        truth = min(mp.mpf(1), mp.fsum(gaussian_weights(sigma, int(45 * sigma) + 1100)[n:]))
    assert truth <= tails.gaussian_tail(sigma, n) <= max(float(truth) * CLOSE, 1e-290)


@pytest.mark.parametrize("multiple", [0.2, 0.9, 1.1, 3, 8, 20])
def test_the_integral_bound_meets_the_sum_where_both_hold(
    multiple: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sigma = Fraction(2000)
    n = int(multiple * sigma)
    exact = tails.gaussian_tail(sigma, n)
    monkeypatch.setattr(tails, "_SUMMED", 10)
    bound = tails.gaussian_tail(sigma, n)
    assert exact <= bound * (1 + 1e-9)
    assert bound <= exact * (1.002 if multiple < 1 else 1.0001)


def test_means_are_sums_of_their_terms() -> None:
    for scale in (Fraction(1, 2), Fraction(7)):
        w = laplace_weights(scale, 2000)
        assert tails.laplace_mean(scale) == pytest.approx(
            float(sum(j * p for j, p in enumerate(w))), rel=1e-12
        )
        assert tails.laplace_at_zero(scale) == pytest.approx(float(w[0]), rel=1e-12)
    for sigma in (Fraction(1, 2), Fraction(7)):
        w = gaussian_weights(sigma, 500)
        assert tails.gaussian_mean(sigma) == pytest.approx(
            float(sum(j * p for j, p in enumerate(w))), rel=1e-12
        )
        assert tails.gaussian_at_zero(sigma) == pytest.approx(float(w[0]), rel=1e-12)
    assert tails.gaussian_mean(Fraction(5000)) == pytest.approx(
        tails.gaussian_mean(Fraction(4096)) * 5000 / 4096, rel=1e-7
    )


def convolved(weights: list[mp.mpf], k: int) -> np.ndarray:
    """P(norm = j) exactly below the reach, from the law of one coordinate."""
    one = np.array([float(w) for w in weights])
    out = np.array([1.0])
    for _ in range(k):
        out = np.convolve(out, one)[: len(one)]
    return out


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(40)])
@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_the_norm_of_laplace_noise_has_its_convolved_tail(scale: Fraction, k: int) -> None:
    law = convolved(laplace_weights(scale, 3000), k)
    for n in (1, 3, int(k * scale), int(2 * k * scale) + 4):
        truth = 1 - law[:n].sum()
        assert truth - 1e-12 <= tails.laplace_norm_tail(scale, k, n) <= truth * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("k", [1, 3, 20])
def test_a_fine_grid_keeps_the_norm_tail(k: int) -> None:
    """At scale 2^40 the norm is near a gamma distribution."""
    scale, n = Fraction(2**40), 3 * k * 2**40
    truth = float(mp.gammainc(k, 3 * k, mp.inf, regularized=True))
    assert tails.laplace_norm_tail(scale, k, n) == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("k", [2, 10, 200])
def test_chernoff_is_above_the_exact_tail_and_within_a_few_times_of_it(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale, n = Fraction(5), int(5 * k * 2.2)
    exact = tails.laplace_norm_tail(scale, k, n)
    monkeypatch.setattr(tails, "_MIXED", 1)
    bound = tails.laplace_norm_tail(scale, k, n)
    assert exact <= bound <= 12 * exact * k**0.5
    union = min(1.0, k * tails.laplace_tail(scale, -(-n // k)))
    assert bound < union or k == 2


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_the_norm_of_gaussian_noise_is_bounded_closely(
    k: int, summed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sigma = Fraction(20)
    law = convolved(gaussian_weights(sigma, 4000), k)
    if not summed:
        monkeypatch.setattr(tails, "_SUMMED", 1)
        monkeypatch.setattr(tails, "_gaussian_table", None)
    for share in (1.0, 1.3, 1.8):
        n = int(k * sigma * share) + 1
        truth = 1 - law[:n].sum()
        bound = tails.gaussian_norm_tail(sigma, k, n)
        assert truth - 1e-12 <= bound
        assert bound <= 1 if share == 1.0 else bound <= 25 * k**0.5 * truth + 1e-12


def test_a_quantile_is_the_least_bound_that_holds() -> None:
    for scale, beta in ((Fraction(3), 0.05), (Fraction(1, 5), 0.3), (Fraction(2**45), 1e-9)):
        t = tails.quantile(lambda n, s=scale: tails.laplace_tail(s, n), beta, float(scale))
        assert tails.laplace_tail(scale, t + 1) <= beta
        assert t == 0 or tails.laplace_tail(scale, t) > beta


def test_the_largest_scale_keeps_its_promise_and_a_larger_one_does_not() -> None:
    for n, beta in ((10, 1e-5), (1, 0.3), (2**40, 1e-12)):
        scale = tails.largest_scale(lambda s, n=n: tails.laplace_tail(s, n), beta)
        assert tails.laplace_tail(Fraction(str(scale)), n) <= beta
        assert tails.laplace_tail(Fraction(str(scale)) * (1 + Fraction(1, 10**10)), n) > beta


def test_noise_too_small_to_write_has_a_tail_all_the_same() -> None:
    assert 0 < tails.laplace_tail(Fraction(1, 1000), 1) <= 1e-290
    assert 0 < tails.laplace_norm_tail(Fraction(1, 1000), 5, 1) <= 1e-290
    assert 0 < tails.gaussian_tail(Fraction(1, 1000), 1) <= 1e-290
    assert tails.laplace_mean(Fraction(1, 1000)) == 0


@pytest.mark.parametrize("sigma", [1, 2, 5])
@pytest.mark.parametrize("tilt", [0.0, 0.3, 2.0])
def test_the_bound_on_moments_is_above_them_and_close(
    sigma: int, tilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed = tails._gaussian_log_mgf(Fraction(sigma), tilt / sigma)
    monkeypatch.setattr(tails, "_SUMMED", 0)
    bound = tails._gaussian_log_mgf(Fraction(sigma), tilt / sigma)
    assert summed - 1e-9 <= bound <= summed + 1 / sigma**2 + 0.2 * tilt / sigma
