"""What each loss node becomes: refusals by name, sharing a sample, groups, disjoint
parts, and laws of composition."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting import numerical
from deniable.accounting.numerical.terms import cases, flatten, grouped
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Parallel,
    PoissonRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Selected,
    Shuffled,
    Zcdp,
)

REFUSED: list[tuple[Loss, str]] = [
    (Zcdp(0.1), "Zcdp"),
    (Pure(0.1) * 5 + Zcdp(0.1), "Zcdp"),
    (Shuffled(1000, Pure(1)), "Shuffled"),
    (Selected(Zcdp(1), PoissonRuns(2)), "Zcdp"),
    (GaussianNoise(1).sampled(0.1, SHUFFLED), "not Poisson"),
    (GaussianNoise(1).sampled(1, SHUFFLED), "not Poisson"),
    (DiscreteGaussianNoise(2, 5), "larger sigma"),
    (DiscreteGaussianNoise(50, 5).sampled(0.1, replace=True), "Gaussian and Laplace noise only"),
    (Grouped(2, DiscreteGaussianNoise(50, 5).sampled(0.1)), "Gaussian noise"),
    ((GaussianNoise(1) + LaplaceNoise(1) * 65).sampled(0.1), "share one sample"),
    ((LaplaceNoise(1) * 100).sampled(0.1), "share one sample"),
    ((DiscreteLaplaceNoise(10, 100) * 3).sampled(0.1), "outcomes"),
    (Pure(1).sampled(0.1, replace=True), "Gaussian and Laplace noise only"),
    (GaussianNoise(1).sampled(0.1).sampled(0.1, replace=True), "Gaussian and Laplace noise only"),
    (GaussianNoise(1).grouped(2).sampled(0.1, SHUFFLED), "not Poisson"),
    (Grouped(2, LaplaceNoise(1).sampled(0.1)), "Gaussian noise"),
    (Grouped(2, ResponseNoise(0.7)), "group"),
    (Parallel((Pure(1), GaussianNoise(1))) * 2, "Parallel"),
    (Parallel((BoundedRange(1), BoundedRange(1)), replace=True) * 2, "Parallel"),
    (
        Parallel((GaussianNoise(1).sampled(0.1, WITHOUT_REPLACEMENT), Pure(1)), replace=True),
        "replaced within",
    ),
    (Pure(1000) + GaussianNoise(1), "over the 600"),
    (GaussianNoise(0.01).sampled(0.1) * 2, "over the 600"),
]


@pytest.mark.parametrize(("loss", "text"), REFUSED, ids=lambda x: None)
def test_node_without_a_pair_is_refused_by_name(loss: Loss, text: str) -> None:
    with pytest.raises(Unaccountable, match=text) as caught:
        numerical.epsilon(loss, 1e-5)
    assert "Nothing was computed" in str(caught.value)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(InvalidParameter, match=r"in \[0, 1\)"):
        numerical.epsilon(Pure(1), delta)


def test_epsilon_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="epsilon=-1"):
        numerical.delta(Pure(1), -1)
    with pytest.raises(InvalidParameter, match="profile"):
        numerical.profile(Pure(1), [0.0, math.inf])
    with pytest.raises(InvalidParameter, match="delta=0"):
        numerical.lower(Pure(1), 0)


def test_lower_bounds_exist_where_upper_ones_do_not() -> None:
    assert numerical.lower(Zcdp(0.5), 1e-5) == pytest.approx(numerical.epsilon(GaussianNoise(1), 1e-5).lower)
    assert numerical.lower(DiscreteGaussianNoise(3, 5) * 4, 1e-5) > 5
    assert numerical.lower(Shuffled(1000, Pure(1)), 1e-5) == 0
    alone = numerical.epsilon(Pure(0.1) * 50, 1e-5).lower
    assert numerical.lower(Pure(0.1) * 50 + Shuffled(1000, Pure(1)), 1e-5) == pytest.approx(alone)
    assert numerical.lower(Pure(0.1) * 50 + Selected(Pure(1), PoissonRuns(3)), 1e-5) > alone + 0.9


def close(a: Loss, b: Loss, delta: float = 1e-6) -> None:
    """Two ways to say one thing: the brackets meet."""
    one, other = numerical.epsilon(a, delta), numerical.epsilon(b, delta)
    assert one.lower <= other.upper
    assert other.lower <= one.upper


def test_nothing_costs_nothing() -> None:
    for loss in (
        Composed(()),
        Pure(0),
        Pure(0) * 3,
        ResponseNoise(0.5),
        DiscreteGaussianNoise(1, Fraction(1, 2)),
    ):
        assert numerical.epsilon(loss, 1e-9).upper == 0
        assert numerical.delta(loss, 0.0).upper == 0


def test_pure_loss_is_never_charged_above_its_sum() -> None:
    assert numerical.epsilon(Pure(1) * 3, 0).upper == pytest.approx(3)
    assert numerical.epsilon(Pure(1) * 3, 0).lower == pytest.approx(3)
    assert numerical.epsilon(LaplaceNoise(2), 1e-300).upper <= 0.5 * (1 + 1e-12)
    assert numerical.epsilon(GaussianNoise(1), 0).lower == math.inf


def test_what_shows_itself_outright_needs_its_delta() -> None:
    loss = Approximate(0.1, 1e-6)
    assert numerical.epsilon(loss, 1e-7).lower == math.inf
    assert numerical.epsilon(loss, 1e-6).upper == pytest.approx(0.1)
    assert numerical.epsilon(loss * 10, 9e-6).lower == math.inf
    assert numerical.epsilon(loss * 10, 1e-5).upper <= 1 + 1e-9
    tight = numerical.epsilon(loss * 10, 2e-5)
    assert 0 < tight.lower <= tight.upper < 1
    assert numerical.delta(loss * 10, 5.0).lower == pytest.approx(-math.expm1(10 * math.log1p(-1e-6)))
    sampled = numerical.epsilon(loss.sampled(0.1) * 10, 9e-7)
    assert sampled.lower == math.inf


def test_one_shared_sample_is_not_many() -> None:
    shared = numerical.epsilon(Composed((GaussianNoise(1),) * 4).sampled(0.01) * 100, 1e-5)
    apart = numerical.epsilon(Composed((GaussianNoise(1).sampled(0.01),) * 4) * 100, 1e-5)
    assert shared.lower > 2 * apart.upper
    close((GaussianNoise(1) * 4).sampled(0.01) * 100, GaussianNoise(0.5).sampled(0.01) * 100)
    close((Pure(0.2) * 3).sampled(0.1), Composed((Pure(0.2),) * 3).sampled(0.1))


def test_sample_of_everything_is_the_loss_itself() -> None:
    for scheme_loss in (
        (GaussianNoise(1) + Pure(1)).sampled(1),
        (GaussianNoise(1) + Pure(1)).sampled(1, WITHOUT_REPLACEMENT, replace=True),
    ):
        close(scheme_loss, GaussianNoise(1) + Pure(1))
    close(GaussianNoise(1).sampled(1, replace=True), GaussianNoise(Fraction(1, 2)))
    close(LaplaceNoise(1).sampled(1, replace=True) * 3, LaplaceNoise(Fraction(1, 2)) * 3)


def test_sample_of_a_sample_multiplies_rates() -> None:
    close(GaussianNoise(1).sampled(0.2).sampled(0.1) * 50, GaussianNoise(1).sampled(0.02) * 50)


def test_small_sensitivity_keeps_the_grid() -> None:
    """Integer noise costs more than continuous noise of the same ratio, and nears it as the grid gets
    finer."""
    smooth = numerical.epsilon(LaplaceNoise(2) * 30, 1e-6)
    rough = [
        numerical.epsilon(DiscreteLaplaceNoise(2 * n, n) * 30, 1e-6) for n in (1, 4, 64, 2000, 2**20, 2**40)
    ]
    assert rough[0].lower > 1.05 * smooth.upper
    for coarse, fine in itertools.pairwise(rough):
        assert fine.lower <= coarse.upper
    assert rough[-1].upper == pytest.approx(smooth.upper, rel=2e-3)
    assert all(bound.gap <= 1e-3 * bound.upper for bound in rough)


def test_integer_gaussian_nears_the_continuous_one() -> None:
    close(DiscreteGaussianNoise(2000, 2000, 1) * 20, GaussianNoise(1) * 20)
    assert numerical.epsilon(DiscreteGaussianNoise(0.5, 1.4) * 3, 1e-6).upper < 30


def test_groups_scale_the_shift() -> None:
    assert grouped(GaussianNoise(4) * 3, 4) == Repeated(3, GaussianNoise(1))
    assert grouped(Pure(0.1), 3) == Pure(Fraction(3, 10))
    assert grouped(Grouped(2, LaplaceNoise(6)), 3) == LaplaceNoise(1)
    close(DiscreteLaplaceNoise(10, 1).grouped(5) * 4, DiscreteLaplaceNoise(10, 5) * 4)
    one = numerical.epsilon(GaussianNoise(4).sampled(0.01) * 100, 1e-6)
    four = numerical.epsilon((GaussianNoise(4).sampled(0.01) * 100).grouped(4), 1e-6)
    assert four.lower > 2 * one.upper
    close(Grouped(3, GaussianNoise(2).sampled(1)), GaussianNoise(Fraction(2, 3)))


def test_disjoint_parts_cost_the_largest() -> None:
    parts = (GaussianNoise(1).sampled(0.01) * 10, GaussianNoise(2) * 3, Pure(0.5))
    alone = [numerical.epsilon(part, 1e-6) for part in parts]
    together = numerical.epsilon(Parallel(parts), 1e-6)
    assert together.upper == max(bound.upper for bound in alone)
    replaced = numerical.epsilon(Parallel(parts, replace=True), 1e-6)
    assert replaced.lower > 1.5 * together.upper
    close(Parallel((Pure(0.5), Pure(1))) * 10, Pure(1) * 10)
    close(Parallel((GaussianNoise(1), GaussianNoise(3)), replace=True) * 4, GaussianNoise(Fraction(1, 2)) * 4)


def test_a_unit_replaced_within_a_sampled_part_keeps_its_coin() -> None:
    step = GaussianNoise(1).sampled(0.01) * 100
    bound = numerical.epsilon(Parallel((step,), replace=True), 1e-6)
    replaced = numerical.epsilon(GaussianNoise(1).sampled(0.01, replace=True) * 100, 1e-6)
    assert bound == replaced


def test_without_replacement_is_bracketed_from_a_real_mechanism() -> None:
    loss = GaussianNoise(1).sampled(0.01, WITHOUT_REPLACEMENT, replace=True) * 1000
    bound = numerical.epsilon(loss, 1e-5)
    poisson = numerical.epsilon(GaussianNoise(1).sampled(0.01) * 1000, 1e-5)
    assert poisson.lower * (1 - 2e-3) <= bound.lower  # reached where all other records equal the new one
    assert poisson.upper < bound.upper < 1.5 * poisson.upper
    close(GaussianNoise(1).sampled(0.01, WITHOUT_REPLACEMENT) * 1000, GaussianNoise(1).sampled(0.01) * 1000)


def test_bounded_range_lies_between_half_and_whole() -> None:
    """ε-range implies ε-DP and (at share ½) contains randomized response of ε/2."""
    bound = numerical.epsilon(BoundedRange(0.2) * 50, 1e-6)
    assert numerical.epsilon(Pure(0.1) * 50, 1e-6).lower <= bound.lower * (1 + 1e-9)
    assert bound.upper < numerical.epsilon(Pure(0.2) * 50, 1e-6).lower


def test_equal_nodes_are_counted_together() -> None:
    assert flatten(Pure(1) * 3 + Pure(1.0) + GaussianNoise(2)) == {Pure(1): 4, GaussianNoise(2): 1}
    assert len(cases(Pure(1) * 3 + GaussianNoise(2))[0].terms) == 2


LEAVES = st.one_of(
    st.builds(Pure, st.sampled_from([0.05, 0.1, 0.3, 1.0])),
    st.builds(LaplaceNoise, st.sampled_from([1.0, 3.0, 10.0])),
    st.builds(GaussianNoise, st.floats(0.6, 20)),
    st.builds(DiscreteLaplaceNoise, st.sampled_from([2.0, 5.0]), st.integers(1, 5)),
    st.builds(lambda s, r: GaussianNoise(s).sampled(r), st.floats(0.6, 8), st.floats(1e-4, 0.9)),
    st.builds(
        lambda s, r: LaplaceNoise(s).sampled(r), st.sampled_from([0.5, 2.0]), st.sampled_from([0.01, 0.2])
    ),
    st.builds(lambda e, r: Pure(e).sampled(r), st.sampled_from([0.5, 2.0]), st.sampled_from([0.01, 0.2])),
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(LEAVES, st.integers(1, 300), st.floats(-12, -2), st.floats(0.5, 6))
def test_epsilon_falls_as_delta_grows_and_steps_cost(
    leaf: Loss, times: int, log_delta: float, more: float
) -> None:
    delta = 10**log_delta
    here = numerical.epsilon(leaf * times, delta)
    assert numerical.epsilon(leaf * times, delta * 10**-more).upper >= here.lower
    assert numerical.epsilon(leaf * (times + 1), delta).upper >= here.lower
    assert here.gap <= max(1.2e-3 * here.upper, 1e-5)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(LEAVES, LEAVES, LEAVES)
def test_composition_is_free_of_order(a: Loss, b: Loss, c: Loss) -> None:
    one, other = numerical.epsilon(a * 20 + b * 5 + c, 1e-6), numerical.epsilon(c + b * 5 + a * 20, 1e-6)
    assert one.lower <= other.upper
    assert other.lower <= one.upper
    assert one.upper >= numerical.epsilon(a * 20 + b * 5, 1e-6).lower


@settings(max_examples=15, deadline=None, derandomize=True)
@given(LEAVES, st.integers(1, 100), st.floats(0, 3))
def test_profile_falls_and_meets_delta(leaf: Loss, times: int, epsilon: float) -> None:
    low, high = numerical.profile(leaf * times, np.array([epsilon, epsilon + 0.1, epsilon + 1]))
    assert (low <= high).all()
    assert low[1] <= high[0]
    assert low[2] <= high[1]
    point = numerical.delta(leaf * times, epsilon)
    assert point.lower <= high[0] * (1 + 1e-12)
    assert point.upper >= low[0] * (1 - 1e-12)
