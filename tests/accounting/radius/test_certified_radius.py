"""The radius from the loss tree: equal to three papers', bracketed, and the same from
closed forms and from profiles."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import proportion
from deniable.accounting.meaning import hypotheses
from deniable.accounting.radius import is_safe, lecture, overtaken, radii, radius
from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
)
from deniable.errors import InvalidParameter
from deniable.loss import Approximate, BoundedRange, Composed, GaussianNoise, LaplaceNoise, Loss, Pure
from deniable.randomness import SeededRandom
from deniable.smooth.draws import noise_of, noisy_copies

BINARY = (0.51, 0.6, 0.8, 0.9, 0.99, 0.9999)
PAIRS = ((0.6, 0.05), (0.4, 0.1), (0.35, 0.34), (0.9, 0.02), (0.99, 1e-5))


def cohen(p_a: float, p_b: float) -> float:
    """½·(Φ⁻¹(p_a) − Φ⁻¹(p_b)) in thirty digits."""
    with mpmath.workdps(30):
        inverse = [mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1) for p in (p_a, p_b)]
        return float((inverse[0] - inverse[1]) / 2)


def teng(p_a: float, p_b: float) -> float:
    """Teng, Lee, Yuan 2020, Theorem 1: the larger of two bounds."""
    return max(math.log(p_a / p_b) / 2, -math.log(1 - p_a + p_b))


@pytest.mark.parametrize("p", BINARY)
def test_one_function_reproduces_three_papers_and_is_never_above_them(p: float) -> None:
    papers = {
        Gaussian(1): cohen(p, 1 - p),
        Laplace(1): teng(p, 1 - p),
        Uniform(1): 2 * p - 1,  # Yang et al. 2020
    }
    for noise, paper in papers.items():
        found = radius(noise.loss_at, p, 1 - p)
        assert found.lower <= paper * (1 + 1e-13) <= found.upper * (1 + 1e-12) + 1e-12, noise
        assert found.upper - found.lower < 1e-8, noise


@pytest.mark.parametrize(("p_a", "p_b"), PAIRS)
def test_with_a_runner_up_gaussian_is_cohens_and_laplace_is_above_tengs(p_a: float, p_b: float) -> None:
    assert radius(Gaussian(1).loss_at, p_a, p_b).lower == pytest.approx(cohen(p_a, p_b), rel=1e-9)
    assert radius(Laplace(1).loss_at, p_a, p_b).upper >= teng(p_a, p_b)
    assert radius(Uniform(1).loss_at, p_a, p_b).lower == pytest.approx(p_a - p_b, rel=1e-7)


def test_laplace_above_tengs_is_true_of_the_worst_classifier() -> None:
    """A = {z ≤ s}, B = {z ≥ t} on one coordinate moved to the right: the worst sets,
    their probabilities by integration."""
    p_a, p_b = 0.6, 0.05
    found = float(radii(Laplace(1), p_a, p_b))
    assert found > teng(p_a, p_b) + 0.02
    s, t = -math.log(2 * (1 - p_a)), -math.log(2 * p_b)  # quantiles of Laplace noise

    def kept(shift: float) -> tuple[float, float]:
        below, above = s - shift, t - shift
        a = 0.5 * math.exp(below) if below < 0 else 1 - 0.5 * math.exp(-below)
        b = 0.5 * math.exp(-above) if above > 0 else 1 - 0.5 * math.exp(above)
        return a, b

    a, b = kept(found * 0.9999)
    assert a > b
    a, b = kept(found * 1.0001)
    assert a < b


@pytest.mark.parametrize(("p", "share"), [(0.6, 91), (0.8, 76), (0.9, 68), (0.99, 59)])
def test_the_lectures_theorem_reaches_these_shares_of_the_tight_radius(p: float, share: int) -> None:
    tight = radius(Laplace(1).loss_at, p, 1 - p)
    assert round(100 * lecture(p, 1 - p) / tight.lower) == share


def test_the_lectures_theorem_is_tight_up_to_one_half() -> None:
    assert radius(Laplace(1).loss_at, 0.5, 0.2).lower == pytest.approx(lecture(0.5, 0.2), rel=1e-9)


NOISES: list[InputNoise] = [
    Gaussian(0.25),
    Laplace(2),
    Uniform(0.5),
    IntegerGaussian(20),
    IntegerLaplace(9),
    IntegerUniform(30),
    Ablation(20, 100),
]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_closed_forms_for_many_are_the_radii_of_one(noise: InputNoise) -> None:
    points = [(0.55, 0.4), (0.7, 0.3), (0.9, 0.05), (0.99, 0.01), (0.4, 0.2), (0.5, 0.5), (0.2, 0.7)]
    many = radii(noise, [a for a, _ in points], [b for _, b in points])
    for found, (a, b) in zip(many, points, strict=True):
        one = radius(noise.loss_at, a, b)
        assert found <= one.lower * (1 + 1e-9) + 1e-9, (a, b)
        if noise.integer:
            level = round(found**2 if noise.norm == 2 else found)
            beyond = level + (
                2 if noise.norm == 2 else 1
            )  # one level of slack where noise is bounded, not known
            assert one.lower < (math.sqrt(beyond) if noise.norm == 2 else beyond)
        else:
            assert found == pytest.approx(one.lower, rel=1e-6, abs=1e-9)


def test_integer_noise_certifies_nearly_what_continuous_noise_does() -> None:
    p = np.array([0.7, 0.9, 0.99, 0.999])
    whole, real = radii(IntegerGaussian(64), p, 1 - p), radii(Gaussian(64), p, 1 - p)
    assert (whole <= real).all()
    assert (whole >= 0.998 * real - 0.1).all()
    assert (radii(IntegerLaplace(45), p, 1 - p) >= np.floor(radii(Laplace(45), p, 1 - p)) - 1).all()


def test_ablation_is_the_count_of_unseen_subsets() -> None:
    """Levine, Feizi 2020: robust to r changed pixels if p_a − Δ > ½, Δ = 1 − C(d − r, k)/C(d, k)."""
    noise, p = Ablation(45, 784), 0.95
    expected = max(
        r
        for r in range(60)
        if p - (1 - Fraction(math.comb(784 - r, 45), math.comb(784, 45))) > Fraction(1, 2)
    )
    assert float(radii(noise, p, 1 - p)) == expected


@pytest.mark.parametrize(
    "loss",
    [
        GaussianNoise(0.7),
        GaussianNoise(1) + GaussianNoise(2),
        LaplaceNoise(0.8),
        Pure(0.6),
        Approximate(0.4, 0.05),
        IntegerLaplace(5).loss_at(4),
        IntegerGaussian(30).loss_at(25),
    ],
    ids=str,
)
def test_closed_forms_lie_between_the_two_sides_of_the_profile(loss: Loss) -> None:
    alpha = np.array([1e-4, 0.03, 0.2, 0.5, 0.9])
    low, high = hypotheses.misses(loss, alpha)
    other_low, other_high = hypotheses._from_profile(loss, alpha)
    assert (low <= other_high + 1e-9).all()
    assert (high >= other_low - 1e-9).all()
    assert (other_high - other_low < 0.02).all(), "A bracket that says nothing proves nothing."


def test_neyman_and_pearson_on_drawn_noise() -> None:
    """The best test of a shift by 4 in integer Laplace noise, its errors counted on exact draws."""
    rng = SeededRandom(3)
    plain = rng.discrete_laplace(5, 400_000)
    for cut in (0, 3, 9):
        alpha, missed = (plain >= cut).mean(), (plain + 4 < cut).mean()
        low, high = hypotheses.misses(IntegerLaplace(5).loss_at(4), [alpha])
        assert low[0] - 0.005 <= missed <= high[0] + 0.005


def test_a_mixed_tree_is_bracketed_within_four_in_a_thousand() -> None:
    """The whole search takes seconds: here the two ends of what it finds, [0.9565, 0.9590]."""
    both = Releases((Gaussian(1), Laplace(1)))
    assert not hypotheses.has_closed_form(both.loss_at(1))
    assert is_safe(both.loss_at(0.956), 0.9, 0.1)
    assert not is_safe(both.loss_at(0.9595), 0.9, 0.1)
    assert overtaken(both.loss_at(0.9595), 0.9, 0.1)
    assert not overtaken(both.loss_at(0.956), 0.9, 0.1)


def test_two_gaussian_releases_are_one_of_less_noise() -> None:
    two = Releases((Gaussian(1), Gaussian(1)))
    assert radius(two.loss_at, 0.9, 0.1).lower == pytest.approx(cohen(0.9, 0.1) / math.sqrt(2), rel=1e-9)


def test_other_norms_cost_their_reach() -> None:
    p = 0.9
    own = float(radii(Gaussian(1), p, 1 - p))
    assert float(radii(Gaussian(1), p, 1 - p, norm=1.0)) == own
    assert float(radii(Gaussian(1), p, 1 - p, norm=math.inf, dimension=100)) == pytest.approx(
        own / 10, rel=1e-9
    )
    assert float(radii(Laplace(1), p, 1 - p, norm=2.0, dimension=100)) == pytest.approx(
        math.log(5) / 10, rel=1e-9
    )
    assert float(radii(IntegerGaussian(64), p, 1 - p, norm=1.0)) == math.floor(
        float(radii(IntegerGaussian(64), p, 1 - p))
    )
    with pytest.raises(InvalidParameter, match="Expected a dimension"):
        radii(Gaussian(1), p, 1 - p, norm=math.inf)
    with pytest.raises(InvalidParameter, match="ablated pixels protect against changed pixels"):
        radii(Gaussian(1), p, 1 - p, norm=0.0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))
def test_a_radius_is_never_above_the_truth_and_grows_with_the_lead(
    p_a: float, p_b: float, sigma: float
) -> None:
    found = float(radii(Gaussian(sigma), p_a, p_b))
    if p_a <= min(p_b, 1 - p_a):
        assert found == 0
    elif p_a < 1 and p_b > 0:
        assert found <= sigma * cohen(p_a, min(p_b, 1 - p_a)) * (1 + 1e-14)
    assert float(radii(Gaussian(sigma), p_a, min(1.0, p_b + 0.1))) <= found


def test_nobody_ahead_has_no_radius() -> None:
    assert radius(Gaussian(1).loss_at, 0.5, 0.5).upper == 0
    assert radii(Gaussian(1), [0.3, 0.5], [0.3, 0.6]).tolist() == [0, 0]


def test_a_bounded_range_is_no_worse_than_its_epsilon() -> None:
    (low,), (high,) = hypotheses.misses(BoundedRange(1), [0.2])
    assert hypotheses.misses(Pure(1), [0.2])[0][0] <= low + 1e-3
    assert low <= high


def test_probabilities_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"p_a=1.2"):
        radius(Gaussian(1).loss_at, 1.2, 0)
    with pytest.raises(InvalidParameter, match="every probability"):
        radii(Gaussian(1), [0.5], [-0.1])


@pytest.mark.parametrize("noise", [*NOISES, Releases((Gaussian(1), Laplace(0.5)))], ids=str)
def test_noise_is_stable_as_json(noise: InputNoise) -> None:
    from deniable.loss import Node

    assert Node.from_json(noise.to_json()) == noise  # type: ignore[attr-defined]
    assert Loss.kinds[type(noise).__name__] is type(noise)


def test_noise_that_means_nothing_is_refused() -> None:
    for wrong in (
        lambda: Gaussian(0),
        lambda: Laplace(-1),
        lambda: Uniform(math.inf),
        lambda: IntegerUniform(1.5),
    ):  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter):
            wrong()
    with pytest.raises(InvalidParameter, match="keep=9 of at most pixels=4"):
        Ablation(9, 4)
    with pytest.raises(InvalidParameter, match="no common norm"):
        Releases((Gaussian(1), Ablation(1, 4)))
    with pytest.raises(InvalidParameter, match="all on whole numbers"):
        Releases((Gaussian(1), IntegerGaussian(4)))


# ------------------------------------------------------------------------------------------------ the noise is what it says


DRAWN: list[tuple[InputNoise, float]] = [
    (Gaussian(0.5), 0.5),
    (Laplace(0.5), 0.5 * math.sqrt(2)),
    (Uniform(0.5), 0.5 / math.sqrt(3)),
    (IntegerGaussian(8), 8.0),
    (IntegerUniform(8), math.sqrt((17**2 - 1) / 12)),
]


@pytest.mark.parametrize(("noise", "deviation"), DRAWN, ids=lambda one: str(one))
def test_drawn_noise_has_the_stated_width(noise: InputNoise, deviation: float) -> None:
    """Three-sided: the right width passes, × 0.97 and × 1.03 fail, at 2·10⁵ draws
    (standard error of a width < 0.3 %)."""
    dtype = np.uint8 if noise.integer else np.float32
    drawn = noise_of(noise, (10,), dtype, SeededRandom(4))(20_000).astype(np.float64)
    assert abs(drawn.mean()) < 6 * deviation / math.sqrt(drawn.size)
    assert 0.985 < drawn.std() / deviation < 1.015


def test_ablated_copies_keep_just_so_many_pixels_of_all_channels() -> None:
    x = np.arange(1, 49, dtype=np.float32).reshape(3, 4, 4)
    copies = noisy_copies(Ablation(5, 16), x, SeededRandom(1))(4000)
    kept = copies != 0
    assert (kept.reshape(4000, 3, 16).sum(axis=2) == 5).all()
    assert (kept[:, 0] == kept[:, 2]).all()
    assert (copies[kept] == np.broadcast_to(x, copies.shape)[kept]).all()
    share = kept[:, 0].reshape(4000, 16).mean(axis=0)
    assert np.abs(share - 5 / 16).max() < 6 * math.sqrt(5 / 16 * 11 / 16 / 4000)


def test_bounds_of_counts_are_on_the_safe_side_of_the_exact_tail() -> None:
    for k, n, alpha in ((1, 10, 0.05), (97, 100, 0.001), (100, 100, 0.0005), (9973, 10_000, 0.0005)):
        p = float(proportion.lower(k, n, alpha))
        with mpmath.workdps(40):
            tail = sum(
                mpmath.binomial(n, j) * mpmath.mpf(p) ** j * (1 - mpmath.mpf(p)) ** (n - j)
                for j in range(k, n + 1)
            )
        assert alpha * (1 - 1e-4) < tail <= alpha
        assert float(proportion.upper(n - k, n, alpha)) == pytest.approx(1 - p, rel=1e-8)
    assert proportion.lower([0, 3], 3, 0.05)[0] == 0
    assert proportion.upper([0, 3], 3, 0.05)[1] == 1
    many = proportion.lower(np.arange(200), 200, 0.01)
    assert [float(proportion.lower(k, 200, 0.01)) for k in (1, 77, 199)] == many[[1, 77, 199]].tolist()


def test_the_empty_composition_moves_nothing() -> None:
    low, high = hypotheses.misses(Composed(()), [0.3])
    assert low[0] == pytest.approx(0.7)
    assert high[0] == pytest.approx(0.7)
