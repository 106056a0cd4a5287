"""A replaced record in a sample of fixed size or with replacement: real tables in the
plane, every sample enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats

from deniable import accounting
from deniable.accounting import numerical
from deniable.accounting.numerical import samples
from deniable.accounting.numerical.pairs import copies
from deniable.accounting.numerical.pairs.triangle import triangle
from deniable.loss import WITHOUT_REPLACEMENT, DrawnSample, GaussianNoise, Sampled

Points = np.ndarray


def _density(sums: Points, chances: np.ndarray, sigma: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Σ chance·N(sum, σ²) on a grid of the plane."""
    across = stats.norm.pdf(x[None, :], sums[:, :1], sigma)
    along = stats.norm.pdf(y[None, :], sums[:, 1:], sigma)
    return np.asarray((across * chances[:, None]).T @ along)


def _tables(rng: np.random.Generator, rows: int) -> Iterator[tuple[Points, Points]]:
    """Two tables that differ in one record, all records pairwise within 1: at random, on
    a line, in a triangle."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])
    for _ in range(6):
        points = rng.random((rows + 1, 2)) / math.sqrt(2)
        yield points[:-1], np.vstack([points[-1:], points[1:-1]])
    for old, new, other in ((0, 1, 0), (0, 1, 1), (0, 1, 2)):
        rest = np.repeat(corners[other : other + 1], rows - 1, axis=0)
        yield np.vstack([corners[old], rest]), np.vstack([corners[new], rest])


def _samples(rows: int, size: int, *, replacement: bool) -> tuple[np.ndarray, np.ndarray]:
    """How often each record comes in each sample, and the chance of the sample."""
    if not replacement:
        held = np.array(
            [[i in chosen for i in range(rows)] for chosen in itertools.combinations(range(rows), size)],
            float,
        )
        return held, np.full(len(held), 1 / len(held))
    held = np.array(
        [np.bincount(draw, minlength=rows) for draw in itertools.product(range(rows), repeat=size)], float
    )
    return held, np.full(len(held), 1 / len(held))


@pytest.mark.parametrize(
    ("rows", "size", "sigma", "replacement"),
    [(4, 2, 0.6, False), (4, 2, 0.6, True), (5, 2, 1.0, False), (5, 2, 1.0, True), (3, 3, 0.8, True)],
)
def test_no_table_in_the_plane_passes_the_bound(
    rows: int, size: int, sigma: float, replacement: bool
) -> None:
    loss = (
        DrawnSample(size, rows, GaussianNoise(sigma))
        if replacement
        else Sampled(size / rows, GaussianNoise(sigma), WITHOUT_REPLACEMENT, replace=True)
    )
    epsilons = (0.0, 0.2, 0.7, 2.0)
    uppers = [accounting.delta(loss, epsilon).upper for epsilon in epsilons]
    held, chances = _samples(rows, size, replacement=replacement)
    x, y = (np.linspace(-1 - 8 * sigma, size + 1 + 8 * sigma, 500) for _ in range(2))
    area = (x[1] - x[0]) * (y[1] - y[0])
    for old, new in _tables(np.random.default_rng(rows + size), rows):
        p, q = (_density(held @ table, chances, sigma, x, y) for table in (old, new))
        for (a, b), (epsilon, upper) in itertools.product(
            ((p, q), (q, p)), zip(epsilons, uppers, strict=True)
        ):
            assert (
                float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) * area <= upper * (1 + 5e-4) + 1e-9
            )  # of the quadrature


@pytest.mark.parametrize(("draws", "rows", "sigma"), [(10, 100, 1.0), (100, 100, 2.0), (3, 5, 0.7)])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_the_spare_mass_is_given_out_as_well_as_can_be(
    draws: int, rows: int, sigma: float, epsilon: float
) -> None:
    """Σ wₖHₖ(x + νₖ) at the νₖ found: no feasible other does better, and an even νₖ (the
    known theorem) does worse."""
    first, weights = samples.counts(draws, 1 / rows)
    assert first == 0
    ours = copies.closed(sigma, tuple(weights.tolist()), epsilon)
    w, k, x = weights[1:], np.arange(1, len(weights)), math.exp(epsilon)
    room = (x - 1) * weights[0]

    def value(spare: np.ndarray) -> float:
        at, s = np.log(x + spare), sigma / k
        return float(w @ (special.ndtr(0.5 / s - s * at) - (x + spare) * special.ndtr(-0.5 / s - s * at)))

    even = value(np.full(len(w), room / w.sum()))
    assert ours <= even * (1 + 1e-9)
    rng = np.random.default_rng(5)
    for _ in range(200):
        shares = rng.dirichlet(np.full(len(w), rng.choice([0.1, 1.0])))
        assert ours <= value(room * shares / w) * (1 + 1e-9)
    if len(w) > 1:
        pair = optimize.minimize_scalar(
            lambda a: value(room * np.append([a, 1 - a], np.zeros(len(w) - 2)) / w),
            bounds=(0, 1),
            method="bounded",
        )
        assert ours <= float(pair.fun) * (1 + 1e-9)


def test_the_spare_mass_is_right_to_many_digits() -> None:
    """Three counts at ε = 1, in 40 digits, with all of νₖ at k = 1: a valid bound, so never below ours."""
    sigma, weights, epsilon = 1.0, (0.7, 0.2, 0.1), 1.0
    with mpmath.workdps(40):
        x = mpmath.e**epsilon
        spare = (x - 1) * mpmath.mpf("0.7") / mpmath.mpf("0.2")

        def height(k: int, at: mpmath.mpf) -> mpmath.mpf:
            s, log = mpmath.mpf(sigma) / k, mpmath.log(at)
            return mpmath.ncdf(1 / (2 * s) - s * log) - at * mpmath.ncdf(-1 / (2 * s) - s * log)

        valid = mpmath.mpf("0.2") * height(1, x + spare) + mpmath.mpf("0.1") * height(2, x)
    assert copies.closed(sigma, weights, epsilon) <= float(valid)


def test_draws_with_replacement_are_bracketed_for_one_step() -> None:
    """[4.1, 8.9] before νₖ was chosen by k."""
    bound = numerical.epsilon(DrawnSample(10, 100, GaussianNoise(1)), 1e-6)
    assert bound.gap <= 1e-4 * bound.upper
    assert bound.upper == pytest.approx(4.108, abs=1e-3)


# ------------------------------------------------------------------------------------------------ the triangle


@pytest.mark.parametrize("weights", [(0.9, 0.1), (0.6, 0.3, 0.1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_the_triangle_is_below_quadrature(weights: tuple[float, ...], epsilon: float) -> None:
    sigma = 0.8
    x = np.linspace(-9, 9, 1501)
    k = np.arange(len(weights))
    u, v = (np.stack([side * k / 2, k * math.sqrt(0.75)], axis=1) for side in (1, -1))
    p, q = (_density(sums, np.array(weights), sigma, x, x) for sums in (u, v))
    truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) * (x[1] - x[0]) ** 2
    pair = triangle(sigma, weights)
    ahead = pair.losses > epsilon
    found = float((pair.p[ahead] - math.exp(epsilon) * pair.q[ahead]).sum())
    assert 0.99 * truth <= found <= truth * (1 + 1e-6)


def test_many_steps_in_the_triangle_reveal_as_much_as_is_said() -> None:
    """Likelihood ratios of 200 steps drawn from the mechanism itself: δ at the certified
    lower ε, at p = 1e-9."""
    sigma, rate, steps, delta, runs = 0.7, 0.03, 200, 0.1, 20_000
    lower = numerical.epsilon(
        Sampled(rate, GaussianNoise(sigma), WITHOUT_REPLACEMENT, replace=True) * steps, delta
    ).lower
    line = numerical.lower(Sampled(rate, GaussianNoise(sigma), WITHOUT_REPLACEMENT) * steps, delta)
    assert lower > 1.1 * line
    rng = np.random.default_rng(11)
    corners = np.array([[0.5, math.sqrt(0.75)], [-0.5, math.sqrt(0.75)]])
    held = rng.random((runs, steps, 1)) < rate
    x = held * corners[0] + sigma * rng.standard_normal((runs, steps, 2))
    ratios = [np.log1p(rate * np.expm1((x @ corner - 0.5) / sigma**2)) for corner in corners]
    loss = (ratios[0] - ratios[1]).sum(axis=1)
    shown = np.maximum(0.0, -np.expm1(lower - loss))
    assert shown.mean() + 6.5 * shown.std() / math.sqrt(runs) > delta


@pytest.mark.parametrize("sigma", [0.7, 1.1, 3.0])
@pytest.mark.parametrize(("draws", "rows"), [(100, 1000), (256, 1000), (1024, 1000), (4096, 10_000)])
def test_the_column_on_the_axis_is_its_own_mirror_image(draws: int, rows: int, sigma: float) -> None:
    """Roundings once counted it twice, and the masses of the pair came to 1.02."""
    _, weights = samples.counts(draws, 1 / rows)
    pair = triangle(sigma, tuple(weights.tolist()))
    assert float(pair.p.sum()) == pytest.approx(1, abs=1e-12)
    assert float(pair.q.sum()) == pytest.approx(1, abs=1e-12)


def test_ordinary_draws_with_replacement_have_an_epsilon_at_every_noise() -> None:
    for sigma in (0.7, 1.1, 3.0):
        bound = accounting.epsilon(DrawnSample(256, 1000, GaussianNoise(sigma)) * 10, 1e-5)
        assert 0 < bound.lower <= bound.upper < math.inf
