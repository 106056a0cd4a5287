"""Dominating pairs: their masses against mpmath, the constants assumed of libm, and the
claims that they dominate."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import fft
from scipy.special import log_ndtr, ndtr

from deniable.accounting.numerical.pairs.continuous import (
    Gaussian,
    Laplace,
    Pair,
    Range,
    SampledShape,
    Swapped,
    Symmetrised,
    normal_cells,
)
from deniable.accounting.numerical.pairs.finite import (
    Finite,
    answers,
    approximate,
    choice,
    coarse_laplace,
    integer_gaussian,
    integer_laplace,
    product,
)
from deniable.accounting.numerical.pairs.shifted import GaussianMixture, GaussianReplace, LaplaceReplace
from deniable.accounting.numerical.rounding import U, expm1, fast_length, fft_error, relative

PAIRS: dict[str, Pair] = {
    "gaussian": Gaussian(0.7),
    "laplace": Laplace(1.5),
    "range": Range(0.8),
    "sampled gaussian": SampledShape(Gaussian(0.6), 0.05),
    "sampled laplace": SampledShape(Laplace(0.5), 0.2),
    "sampled range": SampledShape(Range(1.0), 0.1),
    "twice sampled": SampledShape(SampledShape(Gaussian(1.0), 0.3), 0.2),
    "replaced gaussian": GaussianReplace(0.9, 0.1),
    "replaced laplace": LaplaceReplace(0.8, 0.3),
    "group": GaussianMixture(1.2, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)),
    "without replacement": Symmetrised(SampledShape(Gaussian(0.9), 0.1)),
    "integer laplace": integer_laplace(2.5, 3),
    "sampled integer laplace": SampledShape(integer_laplace(2.5, 3), 0.1),
    "integer gaussian": integer_gaussian(1.3, 2),
    "approximate": approximate(0.5, 0.01),
    "sampled approximate": SampledShape(approximate(0.5, 0.01), 0.1),
    "answers": answers(0.5, 4),
    "choice": choice(0.7, 0.8),
    "product": product(approximate(0.5, 0.01), integer_laplace(2.5, 2)),
}
EVERY = pytest.mark.parametrize(
    "pair", [*PAIRS.values(), *map(Swapped, PAIRS.values())], ids=lambda p: type(p).__name__
)


def tail(pair: Pair, loss: float) -> tuple[float, float]:
    """P and Q of {L > loss}, straight from cells and atoms."""
    p, q = (float(m[0]) for m in pair.cells(np.array([loss, np.inf])))
    at, pm, qm = pair.atoms
    return p + float(pm[at > loss].sum()), q + float(qm[at > loss].sum())


def height(pair: Pair, loss: float) -> float:
    p, q = tail(pair, loss)
    return p - math.exp(loss) * q


@EVERY
def test_both_measures_are_probabilities(pair: Pair) -> None:
    p, q = (float(m[0]) for m in pair.cells(np.array([-np.inf, np.inf])))
    assert p + pair.atoms[1].sum() == pytest.approx(1, abs=1e-13)
    assert q + pair.atoms[2].sum() == pytest.approx(1, abs=1e-13)


@EVERY
def test_losses_are_log_ratios_of_the_masses(pair: Pair) -> None:
    low, high = pair.span(1e-12)
    ends = np.linspace(low, high, 60)
    p, q = pair.cells(ends)
    held = (p > 1e-14) & (q > 1e-14)
    ratio = np.log(p[held] / q[held])
    assert (ratio >= ends[:-1][held] - 1e-9).all()
    assert (ratio <= ends[1:][held] + 1e-9).all()
    at, pm, qm = (a[np.isfinite(pair.atoms[0])] for a in pair.atoms)
    np.testing.assert_allclose(np.log(pm / qm), at, atol=1e-12)


@EVERY
def test_span_keeps_the_promised_mass(pair: Pair) -> None:
    for promised in (1e-3, 1e-9, 1e-15):
        high = pair.span(promised)[1]
        assert float(pair.cells(np.array([high, np.inf]))[0][0]) <= promised * (1 + 1e-9)


@EVERY
def test_tails_agree_with_cells(pair: Pair) -> None:
    for loss in (-0.31, 0.0, 0.123, 0.4):
        p, q = tail(pair, loss)
        log_p, log_q = pair.tails(loss, True)
        assert math.exp(log_p) == pytest.approx(p, rel=1e-9, abs=1e-300)
        assert math.exp(log_q) == pytest.approx(q, rel=1e-9, abs=1e-300)


def test_normal_cells_have_the_assumed_relative_error() -> None:
    rng = np.random.default_rng(1)
    with mp.workdps(160):
        for start, width in zip(rng.uniform(-16, 16, 150), 10.0 ** rng.uniform(-7, 0.5, 150), strict=True):
            t = np.array([start, start + width])
            true = (mp.erfc(mp.mpf(t[0]) / mp.sqrt(2)) - mp.erfc(mp.mpf(t[1]) / mp.sqrt(2))) / 2
            got = float(normal_cells(t)[0])
            assert abs(mp.mpf(got) / true - 1) < relative(max(0.0, (start**2 - 144) / 2)) / 3, (t, got)


def test_library_functions_are_as_exact_as_assumed() -> None:
    """exp, expm1, log1p within 8 ulp; ndtr and log_ndtr within (8 + t²) ulp."""
    rng = np.random.default_rng(2)
    with mp.workdps(50):
        for x in rng.uniform(-700, 700, 100):
            assert abs(mp.mpf(float(np.exp(x))) / mp.exp(mp.mpf(x)) - 1) < 16 * U
        for x in np.concatenate([rng.uniform(-1, 1, 50), 10.0 ** rng.uniform(-12, 0, 50)]):
            assert abs(mp.mpf(float(np.expm1(x))) / mp.expm1(mp.mpf(x)) - 1) < 16 * U
            assert abs(mp.mpf(float(np.log1p(x))) / mp.log1p(mp.mpf(x)) - 1) < 16 * U
        for t in rng.uniform(-30, 3, 100):
            true = mp.erfc(-mp.mpf(t) / mp.sqrt(2)) / 2
            assert abs(mp.mpf(float(ndtr(t))) / true - 1) < 2 * (8 + t * t) * U
            assert abs(mp.mpf(float(log_ndtr(t))) - mp.log(true)) < 2 * (8 + t * t) * U


def test_complex_expm1_keeps_its_digits_near_zero() -> None:
    real, imaginary = -3e-7, np.array([0.0, 1e-6, 0.3])
    with mp.workdps(40):
        for got, phase in zip(expm1(np.float64(real), imaginary), imaginary, strict=True):
            true = mp.expm1(mp.mpc(real, phase))
            assert abs(mp.mpc(complex(got)) - true) / abs(true) < 16 * U


def test_transform_errs_less_than_its_bound() -> None:
    rng = np.random.default_rng(3)
    for n in map(fast_length, (64, 1000, 4321, 30_000)):
        y = rng.dirichlet(np.ones(n))
        got, true = fft.rfft(y), fft.rfft(y.astype(np.longdouble))
        assert np.linalg.norm((got - true).astype(complex)) <= fft_error(n) * np.linalg.norm(
            true.astype(complex)
        )


def test_transform_of_unknown_length_is_refused() -> None:
    with pytest.raises(ArithmeticError, match="no product of 2, 3, 5, 7 and 11"):
        fft_error(13 * 16)


# ------------------------------------------------------------------------------------------------ domination


def discrete(scale: float, reach: int = 60) -> np.ndarray:
    x = np.arange(-reach, reach + 1)
    w = np.exp(-np.abs(x) / scale)
    return w / w.sum()


@pytest.mark.parametrize("shift", [(3,), (2,), (2, 1), (1, 1, 1), (1, 1), (-1, 2)])
def test_one_coordinate_shift_dominates_every_integer_vector(shift: tuple[int, ...]) -> None:
    """Integer Laplace noise, |shift|₁ ≤ 3: the privacy curve never exceeds that of a
    shift of 3 in one coordinate."""
    scale, whole = 1.5, integer_laplace(1.5, 3)
    noise = discrete(scale, 25)
    p, q = np.ones(1), np.ones(1)
    for s in shift:
        moved = (
            np.exp(-np.abs(np.arange(-25, 26) - s) / scale)
            / np.exp(-np.abs(np.arange(-60, 61)) / scale).sum()
        )
        p, q = np.multiply.outer(p, moved).ravel(), np.multiply.outer(q, noise).ravel()
    for y in np.linspace(-2.2, 2.2, 89):
        assert np.maximum(p - math.exp(y) * q, 0).sum() <= height(whole, float(y)) + 1e-6


def test_integer_laplace_has_the_stated_node_values_on_the_continuous_curve() -> None:
    s, n = 2.5, 4
    pair, smooth = integer_laplace(s, n), Laplace(s / n)
    for j in range(1, n):
        y = (n - 2 * j) / s
        assert height(pair, y) == pytest.approx(1 - math.exp(-j / s), abs=1e-14)
        assert height(smooth, y) == pytest.approx(1 - math.exp(-j / s), abs=1e-14)
    for y in np.linspace(-1.7, 1.7, 41):
        assert height(smooth, float(y)) <= height(pair, float(y)) + 1e-14


@pytest.mark.parametrize("n", [2001, 3000, 5557])
def test_coarse_laplace_lies_above_the_exact_curve(n: int) -> None:
    scale = 1000.0
    exact, coarse = integer_laplace(scale, n), coarse_laplace(scale, n)
    assert len(coarse.losses) <= 2001
    for y in np.linspace(-n / scale, n / scale, 301):
        assert height(exact, float(y)) <= height(coarse, float(y)) + 1e-13
        assert height(coarse, float(y)) <= height(exact, float(y)) + 2e-3


def test_integer_gaussian_shift_dominates_smaller_ones() -> None:
    large = integer_gaussian(1.5, 3)
    for shift, y in itertools.product((1, 2), np.linspace(-4, 4, 81)):
        assert height(integer_gaussian(1.5, shift), float(y)) <= height(large, float(y)) + 1e-14


def test_bounded_range_curve_is_the_supremum_over_two_point_pairs() -> None:
    epsilon, pair = 0.9, Range(0.9)
    two = [choice(epsilon, share) for share in np.linspace(0.001, 0.999, 999)]
    for y in np.linspace(-0.88, 0.88, 45):
        best = max(height(one, float(y)) for one in two)
        assert best <= height(pair, float(y)) + 1e-13
        assert best >= height(pair, float(y)) - 1e-5


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_replaced_pair_dominates_other_replacements(noise: str) -> None:
    """Records u and v anywhere in [−1, 1] instead of at the ends, integrated on a grid."""
    rate, x = 0.2, np.linspace(-14, 14, 40_001)
    scale = 0.8
    pair: Pair = GaussianReplace(scale, rate) if noise == "gaussian" else LaplaceReplace(scale, rate)

    def density(at: float) -> np.ndarray:
        z = (x - at) / scale
        return (
            np.exp(-0.5 * z * z) / (scale * math.sqrt(2 * math.pi))
            if noise == "gaussian"
            else np.exp(-abs(z)) / (2 * scale)
        )

    for u, v in ((1, -1), (1, 0), (1, 0.3), (0.5, -1), (-0.7, 0.7), (0, 1), (-1, 0)):
        p = (1 - rate) * density(0) + rate * density(u)
        q = (1 - rate) * density(0) + rate * density(v)
        for y in np.linspace(-1.5, 1.5, 25):
            got = np.trapezoid(np.maximum(p - math.exp(y) * q, 0), x)
            assert got <= height(pair, float(y)) + 3e-5
            if (u, v) == (1, -1):
                assert got >= height(pair, float(y)) - 3e-5


def test_replaced_gaussian_dominates_vectors_at_an_angle() -> None:
    """u, v on the unit circle at 120°, as a mixture in the plane."""
    rate, s = 0.3, 0.8
    x, y = np.meshgrid(np.linspace(-5, 5, 601), np.linspace(-5, 5, 601))
    cell = (10 / 600) ** 2

    def density(a: float, b: float) -> np.ndarray:
        return np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * s * s)) / (2 * math.pi * s * s)

    p = (1 - rate) * density(0, 0) + rate * density(1, 0)
    q = (1 - rate) * density(0, 0) + rate * density(-0.5, math.sqrt(0.75))
    for e in (-0.5, 0.0, 0.3, 0.8):
        assert np.maximum(p - math.exp(e) * q, 0).sum() * cell <= height(GaussianReplace(s, rate), e) + 1e-6


def test_group_pair_of_one_is_the_sampled_gaussian() -> None:
    one, mixed = GaussianMixture(0.8, (0.0, 1.0), (0.9, 0.1)), SampledShape(Gaussian(0.8), 0.1)
    ends = np.linspace(math.log(0.9) - 0.01, 5, 200)
    for got, true in zip(one.cells(ends), mixed.cells(ends), strict=True):
        np.testing.assert_allclose(got, true, rtol=1e-10, atol=1e-18)


def test_without_replacement_bounds_a_real_sampled_mean() -> None:
    """One of n = 5 records is sampled and seen through Laplace noise: every pair of
    neighbours stays below the curve."""
    rate, b, x = 0.2, 0.7, np.linspace(-14, 15, 60_001)
    pair = Symmetrised(SampledShape(Laplace(b), rate))
    rng = np.random.default_rng(4)
    for _ in range(20):
        others = rng.uniform(0, 1, 4)
        old, new = rng.uniform(0, 1, 2) if rng.random() < 0.5 else (1.0, 0.0)
        rest = sum(np.exp(-abs(x - o) / b) / (2 * b) for o in others) * rate
        p, q = (rest + rate * np.exp(-abs(x - o) / b) / (2 * b) for o in (old, new))
        for y in np.linspace(-0.6, 0.6, 13):
            assert np.trapezoid(np.maximum(p - math.exp(y) * q, 0), x) <= height(pair, float(y)) + 1e-5


def test_finite_pairs_are_sorted() -> None:
    for pair in PAIRS.values():
        if isinstance(pair, Finite):
            assert (np.sort(pair.losses) == pair.losses).all()
