"""Basic composition, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting.methods.pure import epsilon, exact_epsilon, exact_pair
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Approximate,
    BoundedRange,
    Composed,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Parallel,
    PoissonRuns,
    Pure,
    ResponseNoise,
    Selected,
    Shuffled,
    Zcdp,
)

mp.mp.dps = 60


def above(ours: Fraction | float, truth: mp.mpf, relative: float = 1e-15) -> bool:
    """Never below the truth, but for what mpmath itself rounds, and hardly above it."""
    value = mp.mpf(ours.numerator) / ours.denominator if isinstance(ours, Fraction) else mp.mpf(ours)
    return bool(truth * (1 - 16 * mp.eps) <= value <= truth * (1 + mp.mpf(relative)))


def test_thirty_times_one_tenth_is_three() -> None:
    assert exact_epsilon(Pure(0.1) * 30) == 3
    assert exact_epsilon(Composed((Pure(0.1),) * 30)) == 3
    assert epsilon(Pure(0.1) * 30, 0) == 3.0


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (LaplaceNoise(10) * 1000, Fraction(100)),
        (DiscreteLaplaceNoise(Fraction(10, 3), 2), Fraction(3, 5)),
        (BoundedRange(0.3), Fraction(3, 10)),
        (Composed(()), Fraction(0)),
        (Parallel((Pure(1), Pure(0.25))), Fraction(1)),
        (Parallel((Pure(1), Pure(0.25)), replace=True), Fraction(2)),
        (Parallel((Pure(1), Pure(1)), replace=True), Fraction(2)),
        (Grouped(4, Pure(0.1)), Fraction(2, 5)),
        (Shuffled(10, Pure(0.1)), Fraction(1, 10)),
        (Approximate(0.1, 0) * 2, Fraction(1, 5)),
    ],
)
def test_rational_sums_are_exact(loss: Loss, expected: Fraction) -> None:
    assert exact_epsilon(loss) == expected


def test_laplace_error_of_ten_with_probability_one_in_a_hundred_thousand() -> None:
    # P(|noise| ≥ 10) = e^{−10/b} = 1e-5 at Δ = 1, so ε = 1/b = ln(1e5)/10.
    multiplier = 10 / math.log(1e5)
    assert round(epsilon(LaplaceNoise(multiplier), 0), 4) == 1.1513


@given(st.fractions(Fraction(1, 2), Fraction(999, 1000)), st.integers(2, 50))
def test_randomized_response_is_bounded_from_above_to_fifteen_digits(truth: Fraction, options: int) -> None:
    ratio = truth * (options - 1) / (1 - truth)
    if ratio == 1:
        assert exact_epsilon(ResponseNoise(truth, options)) == 0
    else:
        assert above(
            exact_epsilon(ResponseNoise(truth, options)), mp.log(mp.mpf(ratio.numerator) / ratio.denominator)
        )


def test_a_ratio_near_one_keeps_its_digits() -> None:
    truth = Fraction(1, 2) + Fraction(1, 10**40)
    exact = mp.log1p(mp.mpf(4) / 10**40 / (1 - mp.mpf(2) / 10**40))
    assert above(exact_epsilon(ResponseNoise(truth)), exact)


@given(st.floats(1e-6, 1), st.floats(1e-9, 50))
def test_a_sampled_pure_loss_is_the_balle_formula(rate: float, eps: float) -> None:
    q, e = mp.mpf(repr(rate)), mp.mpf(repr(eps))
    assert above(exact_epsilon(Pure(eps).sampled(rate)), mp.log1p(q * mp.expm1(e)))
    assert above(
        exact_epsilon(Pure(eps).sampled(rate, WITHOUT_REPLACEMENT, replace=True)), mp.log1p(q * mp.expm1(e))
    )


@given(st.floats(1e-6, 1), st.floats(1e-6, 20))
def test_a_replaced_record_in_a_poisson_sample_costs_what_three_answers_attain(
    rate: float, eps: float
) -> None:
    """Old record: answers (e^ε, e^−ε)-tilted one way, new one the other way; the ratio reaches the bound."""
    q, e = mp.mpf(repr(rate)), mp.mpf(repr(eps))
    without, old, new = mp.mpf(1), mp.exp(e), mp.exp(-e)
    ratio = ((1 - q) * without + q * old) / ((1 - q) * without + q * new)
    truth = mp.log(ratio) * (1 - mp.mpf(10) ** -40)  # of its own rounding: at rate 1 ours is 2ε, exactly
    assert above(exact_epsilon(Pure(eps).sampled(rate, replace=True)), truth)


def test_replacing_costs_at_most_removing_and_adding() -> None:
    one, two = Pure(1).sampled(0.1), Pure(1).sampled(0.1, replace=True)
    assert exact_epsilon(one) < exact_epsilon(two) < 2 * exact_epsilon(one)


def test_deltas_add_and_are_compared_exactly() -> None:
    loss = Approximate(0.5, 1e-7) * 10
    assert exact_pair(loss) == (5, Fraction(1, 10**6))
    assert epsilon(loss, 1e-6) == 5.0
    assert epsilon(loss, 0.99e-6) == math.inf


def test_a_group_pays_a_geometric_sum_of_deltas() -> None:
    _, delta = exact_pair(Grouped(3, Approximate(1, 1e-6)))
    assert above(delta, mp.mpf("1e-6") * (1 + mp.e + mp.e**2))


def test_the_delta_of_a_group_never_passes_one() -> None:
    assert exact_pair(Grouped(100, Approximate(1, 0.5)))[1] == 1
    assert exact_pair(Grouped(3, Approximate(0, 0.01))) == (0, Fraction(3, 100))


def test_a_sample_multiplies_delta_by_its_rate() -> None:
    assert exact_pair(Approximate(1, 1e-6).sampled(0.01))[1] == Fraction(1, 10**8)


def test_a_replaced_record_pays_delta_on_both_sides() -> None:
    q, e, d = mp.mpf("0.01"), mp.mpf(1), mp.mpf("1e-6")
    ratio = (1 - q + q * mp.exp(e)) / (1 - q + q * mp.exp(-e))
    assert above(
        exact_pair(Approximate(1, 1e-6).sampled(0.01, replace=True))[1], q * d * (1 + ratio * mp.exp(-e))
    )


def test_basic_composition_is_optimal_for_laplace_noise() -> None:
    """k Laplace answers all beyond the shift have loss kε, with probability 2^−k: no
    smaller ε holds at δ = 0."""
    k, multiplier = 10, 2
    total = epsilon(LaplaceNoise(multiplier) * k, 0)
    smaller = mp.mpf(total) * (1 - mp.mpf(10) ** -12)
    delta = mp.mpf(2) ** -k * (1 - mp.exp(smaller - mp.mpf(k) / multiplier))
    assert delta > 0
    assert total == k / multiplier


def test_poisson_selection_costs_total_variation_per_expected_run() -> None:
    value = exact_epsilon(Selected(Pure(1), PoissonRuns(3)))
    assert above(value, 1 + 3 * mp.tanh(mp.mpf(1) / 2))


def test_huge_epsilons_are_not_credited_for_a_sample() -> None:
    assert exact_epsilon(Pure(1e6).sampled(0.01)) == 10**6


@pytest.mark.parametrize("loss", [GaussianNoise(1), Zcdp(1), Composed((Pure(1), GaussianNoise(1)))])
def test_losses_without_a_pair_are_refused_by_name(loss: Loss) -> None:
    node = GaussianNoise(1) if isinstance(loss, Composed) else loss
    with pytest.raises(Unaccountable, match=str(node).split(" (")[0]):
        exact_epsilon(loss)


def test_an_approximate_loss_has_no_pure_epsilon() -> None:
    with pytest.raises(Unaccountable, match="fails with a probability of up to 1e-06"):
        exact_epsilon(Approximate(1, 1e-6))


def test_shuffled_batches_are_refused_with_the_way_out() -> None:
    with pytest.raises(Unaccountable, match=r"never accounted as Poisson.*Repeated\(epochs, of\)"):
        exact_epsilon(Pure(1).sampled(0.1, SHUFFLED))


@pytest.mark.parametrize("delta", [-1e-9, 1.5, math.nan, "1", True])
def test_a_delta_outside_the_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(InvalidParameter, match="delta="):
        epsilon(Pure(1), delta)
