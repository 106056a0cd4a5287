"""`epsilon`, `delta` and `compare`: the best valid method, bracketed, for every tree."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import accounting
from deniable.accounting import compare, delta, epsilon
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Bound
from deniable.loss import (
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    BoundedRange,
    CappedSample,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    NegativeBinomialRuns,
    Parallel,
    PoissonRuns,
    Pure,
    ResponseNoise,
    Selected,
    Shuffled,
    Zcdp,
)

STEP = GaussianNoise(4).sampled(0.01)
EVERY = [
    Pure(0.5) * 10,
    Approximate(0.5, 1e-8) * 10,
    Zcdp(0.1),
    Zcdp(0.1) + Pure(0.5),
    BoundedRange(0.5) * 10,
    ResponseNoise(0.75) * 5,
    LaplaceNoise(2) * 20,
    GaussianNoise(2) * 3,
    DiscreteLaplaceNoise(4, 2) * 9,
    DiscreteGaussianNoise(5, 1) * 9,
    DiscreteGaussianNoise(50, 7) * 9,
    STEP * 100,
    GaussianNoise(4).sampled(0.01, replace=True) * 100,
    GaussianNoise(4).sampled(0.01, WITHOUT_REPLACEMENT, replace=True) * 100,
    GaussianNoise(4).sampled(0.01, WITHOUT_REPLACEMENT) * 100,
    (GaussianNoise(4) + LaplaceNoise(3)).sampled(0.01) * 10,
    Zcdp(0.1).sampled(0.1),
    (STEP * 100).grouped(3),
    Parallel((Pure(1), GaussianNoise(3))),
    Parallel((Pure(1), GaussianNoise(3)), replace=True),
    Shuffled(10_000, ResponseNoise(0.75)),
    Shuffled(10_000, Pure(1)) + GaussianNoise(4),
    Selected(GaussianNoise(4), PoissonRuns(10)),
    Selected(Pure(0.5), NegativeBinomialRuns(1, 0.1)) + Pure(0.1),
    Composed(()),
]


@pytest.mark.parametrize("loss", EVERY, ids=str)
def test_every_tree_is_accounted_for_and_bracketed(loss: Loss) -> None:
    bound = epsilon(loss, 1e-6)
    assert 0 <= bound.lower <= bound.upper < 1000
    back = delta(loss, bound.upper)
    assert back.lower <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("loss", EVERY, ids=str)
def test_no_method_falls_below_what_some_mechanism_reaches(loss: Loss) -> None:
    chosen = epsilon(loss, 1e-6)
    for name, found in compare(loss, 1e-6).items():
        if isinstance(found, Bound):
            assert found.upper >= chosen.lower * (1 - 1e-9), name
            assert found.upper >= chosen.upper * (1 - 2e-3), f"{name} is better than the method chosen"


@pytest.mark.parametrize("loss", EVERY, ids=str)
def test_a_larger_delta_never_costs_more(loss: Loss) -> None:
    assert epsilon(loss, 1e-4).lower <= epsilon(loss, 1e-8).upper


@settings(max_examples=30, deadline=None)
@given(st.permutations([Pure(0.3), GaussianNoise(3), DiscreteLaplaceNoise(4, 3), STEP * 50]))
def test_composition_is_free_of_order(parts: list[Loss]) -> None:
    one, other = epsilon(Composed(tuple(parts)), 1e-6), epsilon(Composed(tuple(reversed(parts))), 1e-6)
    assert one.lower <= other.upper
    assert other.lower <= one.upper


def test_pure_composition_is_exact_and_optimal_at_delta_zero() -> None:
    bound = epsilon(Pure(0.1) * 30, 0)
    assert bound.upper == 3
    assert bound.lower >= 3 * (1 - 1e-11)
    assert epsilon(GaussianNoise(1), 0).upper == math.inf


def test_basic_composition_is_optimal_for_laplace_at_delta_zero() -> None:
    # As δ falls to nothing the tight value of k Laplace answers climbs to k·ε: basic composition wastes
    # nothing there.
    tight = [epsilon(LaplaceNoise(2) * 4, d).lower for d in (1e-3, 1e-6, 1e-12)]
    assert tight[0] < tight[1] < tight[2] <= 2
    assert epsilon(LaplaceNoise(2) * 4, 0).upper == 2
    assert delta(LaplaceNoise(2) * 4, 1.99).lower > 0


def test_releases_that_share_a_sample_are_not_independent_samples() -> None:
    shared = Composed((GaussianNoise(1),) * 4).sampled(0.01) * 1000
    independent = Composed((GaussianNoise(1).sampled(0.01),) * 4) * 1000
    assert epsilon(shared, 1e-5).upper == pytest.approx(13.36, abs=0.02)
    assert epsilon(independent, 1e-5).upper == pytest.approx(3.72, abs=0.02)


def test_replaced_units_touch_two_parts() -> None:
    parts = (DiscreteLaplaceNoise(2, 1),) * 5
    assert epsilon(Parallel(parts), 0).upper == 0.5
    assert epsilon(Parallel(parts, replace=True), 0).upper == 1


def test_shuffled_batches_are_refused_by_name() -> None:
    loss = GaussianNoise(1).sampled(0.01, SHUFFLED) * 100
    for ask in (lambda: epsilon(loss, 1e-5), lambda: delta(loss, 1.0), lambda: epsilon(loss, 0)):
        with pytest.raises(Unaccountable, match="shuffled"):
            ask()


def test_one_method_may_be_asked_for_alone() -> None:
    loss = LaplaceNoise(10) * 1000
    assert epsilon(loss, 1e-6, method="basic").upper == 100
    assert epsilon(loss, 1e-6, method="advanced").upper == pytest.approx(27.1, abs=0.05)
    with pytest.raises(InvalidParameter, match="to be one of basic"):
        epsilon(loss, 1e-6, method="hope")


@pytest.mark.parametrize("value", [-1e-9, 1.0, math.nan])
def test_a_delta_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameter, match="Expected delta="):
        accounting.epsilon(Pure(1), value)


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameter, match="Expected epsilon="):
        accounting.delta(Pure(1), value)


GROUPED = [
    CappedSample(0.01, 200, 10_000, GaussianNoise(1)) * 100,
    DrawnSample(100, 10_000, GaussianNoise(2)) * 10,
    Allocated(50, GaussianNoise(2)) * 3,
]


@pytest.mark.parametrize("loss", GROUPED, ids=str)
def test_a_group_of_capped_drawn_or_allocated_lots_has_an_epsilon_by_a_chain_of_neighbours(
    loss: Loss,
) -> None:
    single = epsilon(loss, 1e-5)
    before = single.upper
    for size in (2, 3):
        group = epsilon(loss.grouped(size), 1e-5)
        assert group.method == "group"
        # Never below k times one unit's own ε at δ, since each neighbour has a smaller share of δ.
        assert size * single.upper < group.upper < math.inf
        assert group.upper > before
        before = group.upper
        # The chain at this ε, written out: k neighbours, each at an even part of it.
        each = group.upper / size
        chain = delta(loss, each).upper * sum(math.exp(i * each) for i in range(size))
        assert chain <= 1e-5 * (1 + 1e-2)
        assert delta(loss.grouped(size), group.upper).upper == pytest.approx(chain, rel=1e-6)


def test_a_group_inside_of_a_composition_is_the_group_of_it() -> None:
    inside = Composed((GROUPED[0].grouped(2), GROUPED[2].grouped(2)))
    outside = Composed((GROUPED[0], GROUPED[2])).grouped(2)
    assert epsilon(inside, 1e-5).upper == epsilon(outside, 1e-5).upper
    # Groups of two sizes are no group of the whole: then every part is split off by itself.
    assert epsilon(Composed((GROUPED[0].grouped(2), GROUPED[2].grouped(3))), 1e-5).method == "split"
