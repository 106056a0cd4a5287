"""What should not be used states its true loss, and that loss is attained."""

import math
from fractions import Fraction

import pytest

from deniable.accounting import delta, epsilon
from deniable.errors import InvalidParameter
from deniable.loss import Approximate, DiscreteGaussianNoise
from deniable.mechanisms import Gaussian, cautionary
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows


def test_release_everything_does_so_with_probability_delta() -> None:
    m, rng = cautionary.ReleaseEverything(0.2), SeededRandom(1)
    assert m.loss == Approximate(0, 0.2)
    assert follows([m([1, 2], rng=rng) is not None for _ in range(4000)], {True: 0.2, False: 0.8})
    assert delta(m.loss, 0).upper == pytest.approx(0.2)


def test_name_and_shame_shames_somebody() -> None:
    m, rng = cautionary.NameAndShame(0.01), SeededRandom(2)
    assert m.loss == Approximate(0, 0.01)
    named = [len(m(range(100), rng=rng)) > 0 for _ in range(2000)]
    somebody = m.somebody(100)
    assert somebody == pytest.approx(1 - 0.99**100)
    assert follows(named, {True: somebody, False: 1 - somebody})
    assert cautionary.NameAndShame(0.3, Unit.column("id", max_rows=2)).loss == Approximate(0, Fraction(3, 5))
    assert cautionary.NameAndShame(0.3, Unit.column("id", max_rows=9)).loss == Approximate(0, 1)


def test_laplace_after_the_argmax_tells_neighbours_apart_for_sure() -> None:
    m = cautionary.LaplaceAfterArgmax(("a", "b"), scale=1000)
    assert m.loss == cautionary.NOTHING == Approximate(0, 1)
    assert {m([5, 4], rng=SeededRandom(s))[0] for s in range(50)} == {"a"}
    assert {m([5, 6], rng=SeededRandom(s))[0] for s in range(50)} == {"b"}
    assert epsilon(m.loss, 1e-5).upper == math.inf


def test_the_plain_median_of_an_odd_number_is_somebody() -> None:
    m = cautionary.PlainMedian()
    rows = [31_000, 35_500, 1_250_000]
    assert m(rows, rng=SeededRandom(1)) in rows
    assert m.loss == cautionary.NOTHING
    assert m([math.nan], rng=SeededRandom(1)) == 0


@pytest.mark.parametrize("kind", [cautionary.RootlessGaussian, cautionary.MisplacedGaussian])
def test_a_misprinted_formula_wastes_at_small_delta_and_breaks_at_large(
    kind: type[cautionary.RootlessGaussian],
) -> None:
    small, large = kind(1, 1e-5), kind(1, 0.45)
    assert small.sigma > 2 * math.sqrt(2 * math.log(1.25e5))
    assert small.loss == DiscreteGaussianNoise(small.sigma, 1, 1)
    assert epsilon(small.loss, 1e-5).upper < 1
    assert large.sigma < math.sqrt(2 * math.log(1.25 / 0.45))


@pytest.mark.parametrize(
    ("kind", "truth"), [(cautionary.RootlessGaussian, 0.68), (cautionary.MisplacedGaussian, 0.97)]
)
def test_a_misprinted_formula_claims_what_it_does_not_keep(
    kind: type[cautionary.RootlessGaussian], truth: float
) -> None:
    broken = kind(5, 0.3)
    assert delta(broken.loss, 5).lower == pytest.approx(truth, abs=0.005)
    assert epsilon(broken.loss, 0.3).lower > 5


def test_a_misprinted_formula_draws_what_it_states() -> None:
    m = cautionary.RootlessGaussian(1, 0.01)
    assert m(5, rng=SeededRandom(3)) == Gaussian(m.sigma)(5, rng=SeededRandom(3))
    assert m.error(0.9) == Gaussian(m.sigma).error(0.9)


@pytest.mark.parametrize("wrong", [0, 1, -1, math.nan])
def test_wrong_parameters_are_refused(wrong: float) -> None:
    for kind in (cautionary.ReleaseEverything, cautionary.NameAndShame):
        with pytest.raises(InvalidParameter, match="delta"):
            kind(wrong)
    with pytest.raises(InvalidParameter, match="delta"):
        cautionary.RootlessGaussian(1, wrong)
