"""Sums and quotients of noisy numbers reach as far as the joint law of their noises
says, and no further than boxes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from deniable.randomness import SeededRandom
from deniable.sql.answer.joint_noise import LinearForm, _two_laplace, quotients, reach
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise

ONE = Fraction(1)
DRAWS = 200_000


def noise(family: Family, scale: float) -> Noise:
    return Noise(family, scale, IntegerSensitivity(1, 1))


def drawn(of: Noise, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rng = SeededRandom(seed)
    draw = rng.discrete_laplace if of.family is Family.LAPLACE else rng.discrete_gaussian
    return np.asarray(draw(of.scale, DRAWS), float)


@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize("share", [0, 1, 300, 1023, 1024])
def test_two_laplace_noises_have_their_exact_quantile(share: int, beta: float) -> None:
    """Against the convolution, integrated: P(|L₁ + r·L₂| > t) = E P(|L₁ + r·L₂| > t | L₂)."""
    r = share / 1024

    def tail(t: float) -> float:
        def beyond(y: float) -> float:
            inside = 1 - 0.5 * (math.exp(-(t - y)) + math.exp(-(t + y))) if y <= t else 0.0
            return math.exp(-y / r) / r * ((1 - inside) if y <= t else 1 - _between(t, y))

        near, far = (integrate.quad(beyond, *ends, limit=200)[0] for ends in ((0, t), (t, t + 60 * r)))
        return float(near + far)

    wanted = math.log(1 / beta) if not share else optimize.brentq(lambda t: tail(t) - beta, 1e-6, 60)
    assert _two_laplace(share, beta) == pytest.approx(wanted, rel=1e-6)


def _between(t: float, y: float) -> float:
    """P(|L₁ + y| ≤ t) for y > t."""
    return 0.5 * (math.exp(t - y) - math.exp(-t - y))


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("scales", [(3.0, 3.0), (2.0, 40.0), (1.0, 1.5), (30.0, 20.0, 5.0)])
@pytest.mark.parametrize("beta", [0.2, 0.01])
def test_a_sum_reaches_as_far_as_it_says(family: Family, scales: tuple[float, ...], beta: float) -> None:
    sizes = [Fraction(1), Fraction(-7, 4), Fraction(2)][: len(scales)]
    noises = [noise(family, scale) for scale in scales]
    total = sum(float(size) * drawn(of, i) for i, (size, of) in enumerate(zip(sizes, noises, strict=True)))
    t = reach(list(zip(sizes, noises, strict=True)), beta)
    beyond = int(np.sum(np.abs(total) > float(t)))
    assert stats.binomtest(beyond, DRAWS, beta, alternative="greater").pvalue > 1e-9
    apart = sum(abs(size) * of.within(beta / len(sizes)) for size, of in zip(sizes, noises, strict=True))
    assert float(t) <= float(apart) * (1 + 1e-8)


def test_a_halved_reach_would_be_found() -> None:
    noises = [(ONE, noise(Family.LAPLACE, 3)), (ONE, noise(Family.LAPLACE, 4))]
    total = drawn(noises[0][1], 1) + drawn(noises[1][1], 2)
    beyond = int(np.sum(np.abs(total) > 0.7 * float(reach(noises, 0.05))))
    assert stats.binomtest(beyond, DRAWS, 0.05, alternative="greater").pvalue < 1e-9


@pytest.mark.sampled
@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("ratio", [-25.0, -1.0, 0.0, 0.3, 30.0])
@pytest.mark.parametrize("rows", [40, 1000])
def test_quotients_hold_the_true_one_as_often_as_they_say(family: Family, ratio: float, rows: int) -> None:
    above, below, beta, many = noise(family, 90), noise(family, 5), 0.1, 1500
    errors = [iter(drawn(of, i)) for i, of in enumerate((above, below))]
    missed = 0
    for _ in range(many):
        top = LinearForm(Fraction(round(ratio * rows) + int(next(errors[0]))), {0: (ONE, above)})
        bottom = LinearForm(Fraction(rows + int(next(errors[1]))), {1: (ONE, below)})
        found = quotients(top, bottom, beta)
        missed += found is not None and not found[0] <= Fraction(round(ratio * rows), rows) <= found[1]
    assert stats.binomtest(missed, many, beta, alternative="greater").pvalue > 1e-9


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("value", [-20_000, -500, 0, 500, 20_000])
def test_quotients_are_narrower_than_boxes(family: Family, value: int) -> None:
    above, below = noise(family, 90), noise(family, 5)
    low, high = quotients(
        LinearForm(Fraction(value), {0: (ONE, above)}), LinearForm(Fraction(1000), {1: (ONE, below)}), 0.05
    ) or (
        0,
        0,
    )
    radii = above.within(0.025), below.within(0.025)
    corners = [Fraction(value + i * radii[0], 1000 + j * radii[1]) for i in (-1, 1) for j in (-1, 1)]
    assert min(corners) < low <= Fraction(value, 1000) <= high < max(corners)
    assert float(high - low) < 0.9 * float(max(corners) - min(corners))


def test_the_ends_solve_the_equation() -> None:
    """At the far end |a − ρ·b| is the reach of that, to a thousandth; the near end is at
    most a little further out."""
    above, below = noise(Family.GAUSSIAN, 900), noise(Family.GAUSSIAN, 20)
    _, high = quotients(
        LinearForm(Fraction(9000), {0: (ONE, above)}), LinearForm(Fraction(300), {1: (ONE, below)}), 0.05
    ) or (0, 0)
    z = stats.norm.ppf(0.975)
    wanted = optimize.brentq(lambda r: 300 * r - 9000 - z * math.hypot(900, r * 20), 30, 100)
    assert wanted <= float(high) <= wanted * 1.01


def test_a_denominator_that_may_be_zero_leaves_nothing() -> None:
    below = noise(Family.LAPLACE, 5)
    assert (
        quotients(LinearForm(ONE), LinearForm(Fraction(below.within(0.05)), {0: (ONE, below)}), 0.05) is None
    )
    assert quotients(LinearForm(ONE), LinearForm(Fraction(-1000), {0: (ONE, below)}), 0.05) is not None


def test_a_part_on_both_sides_is_taken_out() -> None:
    """(S + 30·N)/N is 30 + S/N: the count's noise must not be counted twice."""
    above, below = noise(Family.LAPLACE, 90), noise(Family.LAPLACE, 5)
    bottom = LinearForm(Fraction(1000), {1: (ONE, below)})
    alone = LinearForm(Fraction(200), {0: (ONE, above)})
    plain = quotients(alone, bottom, 0.05) or (0, 0)
    moved = quotients(alone.plus(bottom.times(Fraction(30))), bottom, 0.05) or (0, 0)
    assert moved == (plain[0] + 30, plain[1] + 30)


def test_what_cannot_be_taken_apart_is_a_box() -> None:
    noises = [noise(Family.LAPLACE, 5)] * 2
    top = LinearForm(Fraction(500), {0: (ONE, noises[0]), 1: (ONE, noises[1])})
    bottom = LinearForm(Fraction(1000), {0: (ONE, noises[0]), 1: (Fraction(2), noises[1])})
    low, high = quotients(top, bottom, 0.05) or (0, 0)
    above, below = top.ends(0.025), bottom.ends(0.025)
    assert (low, high) == (above[0] / below[1], above[1] / below[0])


def test_bounds_that_are_sure_reach_their_sum() -> None:
    assert reach([(Fraction(2), 5), (Fraction(-3), 7)], 0.05) == pytest.approx(31, rel=1e-8)
    assert LinearForm(Fraction(4), {0: (ONE, 3)}, Fraction(1, 2)).ends(0.05) == (
        Fraction(1, 2),
        Fraction(15, 2),
    )


@pytest.mark.parametrize("sigma", [1.0, 1.3, 2.0, 7.5, 60.0])
def test_integer_gaussian_noise_lies_within_one_of_continuous_noise(sigma: float) -> None:
    """P(L ≥ n) ≤ P(E ≥ n) ≤ P(L ≥ n − 1): what the coupling of Theorem 7 rests on, by plain sums."""
    x = np.arange(0, math.ceil(40 * sigma))
    weights = np.exp(-(x**2) / (2 * sigma**2))
    tails = np.cumsum(weights[::-1])[::-1] / (2 * weights.sum() - 1)
    n = np.arange(1, math.ceil(12 * sigma))
    assert np.all(stats.norm.sf(n / sigma) <= tails[n])
    assert np.all(tails[n] <= stats.norm.sf((n - 1) / sigma))


def test_narrow_gaussian_noise_is_taken_apart() -> None:
    """Where the coupling is not proved, each noise is taken by itself."""
    narrow, wide = noise(Family.GAUSSIAN, 0.5), noise(Family.GAUSSIAN, 30)
    apart = narrow.within(0.025) + wide.within(0.025)
    assert reach([(ONE, narrow), (ONE, wide)], 0.05) == pytest.approx(apart, rel=1e-8)
