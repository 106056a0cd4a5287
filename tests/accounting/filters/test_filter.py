"""Filters: what they admit is private against every analyst, and nothing that fits is refused."""

from __future__ import annotations

import functools
import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from deniable.accounting import calibrate_noise, renyi
from deniable.accounting.choose import delta as best_delta
from deniable.accounting.choose import epsilon as best_epsilon
from deniable.accounting.filters import Filter, Purpose, convert_order
from deniable.accounting.filters.charges import LONGEST, UNIT, UNKNOWN, Charge, charge
from deniable.accounting.filters.gaussian_rule import GaussianRule, response_of
from deniable.accounting.filters.odometer import odometer
from deniable.accounting.methods.gaussian import analytic_sigma, hockey_stick
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import (
    Approximate,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Loss,
    Parallel,
    Pure,
    ResponseNoise,
    Shuffled,
    Zcdp,
    exact,
)

# ------------------------------------------------------------------------------------------------ charges


def test_thirty_times_a_tenth_is_exactly_three() -> None:
    limit = Filter.of(Budget(3))
    spent = limit.nothing
    for _ in range(30):
        spent += limit.charge(Pure(0.1))
        assert limit.admits(spent)
    assert spent.epsilon == 3
    assert not limit.admits(spent + limit.charge(Pure(1e-9)))


def test_a_third_three_times_is_exactly_one() -> None:
    limit = Filter.of(Budget(1))
    assert limit.admits(limit.charge(DiscreteLaplaceNoise(3)) * 3)


def test_a_float_is_charged_as_the_decimal_it_prints_and_a_fraction_as_itself() -> None:
    # Equal as numbers, different as losses: a memory of charges must not confuse them.
    assert charge(Pure(0.1)).epsilon == Fraction(1, 10)
    assert charge(Pure(Fraction(0.1))).epsilon == Fraction(0.1) > Fraction(1, 10)


@given(
    st.lists(
        st.sampled_from([Pure(0.1), Pure(Fraction(1, 7)), GaussianNoise(3), Approximate(0.2, 1e-9)]),
        max_size=8,
    )
)
def test_charges_add_in_any_order_to_the_same_bits(losses: list[Loss]) -> None:
    orders = (2.0, 9.0)
    forward = sum((charge(loss, orders) for loss in losses), Charge(renyi=(0, 0)))
    backward = sum((charge(loss, orders) for loss in reversed(losses)), Charge(renyi=(0, 0)))
    assert forward == backward == charge(Composed(tuple(losses)), orders)


def test_a_charge_is_never_below_the_divergence() -> None:
    orders = (1.5, 2.0, 9.0, 64.0)
    for loss in (Pure(0.3), GaussianNoise(4).sampled(0.01), DiscreteGaussianNoise(3, 2), Zcdp(0.01) * 7):
        found = charge(loss, orders).renyi
        for units, divergence in zip(found, renyi.curve(loss, np.array(orders)), strict=True):
            assert Fraction(units, UNIT) >= Fraction(float(divergence))
            assert units / UNIT <= divergence * (1 + 1e-9) + 2**-50


def test_what_is_given_back_restores_the_state() -> None:
    whole, part = charge(GaussianNoise(2) * 10, (4.0,)), charge(GaussianNoise(2) * 3, (4.0,))
    assert (whole - part).renyi == charge(GaussianNoise(2) * 7, (4.0,)).renyi
    assert part.fits_into(whole)
    assert not whole.fits_into(part)


def test_sums_stay_short_and_are_rounded_up() -> None:
    spent, truth = Charge(), Fraction(0)
    for prime in (p for p in range(2, 400) if all(p % d for d in range(2, p))):
        spent, truth = spent + charge(Pure(Fraction(1, prime))), truth + Fraction(1, prime)
    assert spent.epsilon.denominator <= LONGEST
    assert 0 <= spent.epsilon - truth < Fraction(1, 10**50)


def test_deltas_of_approximate_parts_add_beside_the_divergence_of_their_epsilon() -> None:
    found = charge(Approximate(0.2, 1e-9) * 3 + Pure(0.1), (5.0,))
    assert (found.epsilon, found.delta, found.impure) == (Fraction(7, 10), Fraction(3, 10**9), 0)
    assert found.renyi == charge(Pure(0.2) * 3 + Pure(0.1), (5.0,)).renyi


def test_a_charge_at_a_delta_is_what_accounting_says_of_that_one_loss() -> None:
    loss = GaussianNoise(4).sampled(0.01) * 1000
    found = charge(loss, (8.0,), delta=1e-6)
    upper = best_epsilon(loss, 1e-6).upper
    assert found.delta == Fraction(1, 10**6)
    assert upper <= found.epsilon <= upper * (1 + 1e-12)
    assert found.renyi == charge(Pure(found.epsilon), (8.0,)).renyi


def test_a_loss_without_epsilon_or_curve_asks_for_a_delta() -> None:
    with pytest.raises(
        Unaccountable, match=r"no ε of its own.*Rényi orders are not tracked here.*delta=1e-8"
    ):
        charge(GaussianNoise(3))
    with pytest.raises(Unaccountable, match="no ε of its own"):
        Filter.basic(Budget(3, 1e-6)).charge(Zcdp(0.1))


def test_json_keeps_charges_and_filters_bit_for_bit() -> None:
    spent = charge(GaussianNoise(3) + Pure(Fraction(1, 7)), (2.0, 5.5))
    assert Charge.from_dict(spent.to_dict()) == spent
    for limit in (
        Filter.of(Budget(Fraction(1, 3))),
        Filter.of(Budget(3, 1e-6)),
        Filter.renyi(Budget(1.5, 1e-9), orders=[3, 70]),
    ):
        again = Filter.from_dict(limit.to_dict())
        assert again == limit
        assert str(again.limit) == str(limit.limit)


# ------------------------------------------------------------------------------------------------ the curve


@pytest.mark.parametrize(
    "limit",
    [Budget(3, 1e-6), Budget(0.01, 1e-9), Budget(1, 1e-3), Budget(40, 1e-12), Budget(Fraction(1, 3), 1e-5)],
)
def test_the_curve_gives_the_limit_by_the_formula_in_many_digits(limit: Budget) -> None:
    made = Filter.renyi(limit)
    order, level = mpmath.mpf(made.orders[0]), mpmath.mpf(made.curve[0]) / UNIT
    with mpmath.workdps(50):
        delta = mpmath.mpf(made.curve_delta.numerator) / made.curve_delta.denominator
        # Canonne, Kamath, Steinke 2020, Proposition 12.
        epsilon = level + mpmath.log(1 - 1 / order) - (mpmath.log(delta) + mpmath.log(order)) / (order - 1)
        wanted = mpmath.mpf(exact(limit.epsilon).numerator) / exact(limit.epsilon).denominator
        assert epsilon <= wanted
        assert wanted - epsilon < 1e-9 * (1 + wanted)
    assert made.curve_delta + made.reserve == exact(limit.delta)


def test_the_default_order_is_the_best_for_gaussian_noise() -> None:
    limit = Budget(3, 1e-6)
    rho = Filter.renyi(limit).left(Filter.renyi(limit).nothing).rho
    for order in (6, 8, 10, 12, 20, 40):
        other = Filter.renyi(limit, orders=[order])
        assert other.left(other.nothing).rho <= rho * (1 + 1e-6)


def test_a_sum_on_the_curve_is_admitted_and_one_above_it_is_not() -> None:
    made = Filter.renyi(Budget(3, 1e-6))
    full = Charge(impure=1, renyi=(made.curve[0], *(0 for _ in made.orders[1:])))
    assert made.admits(full)
    assert not made.admits(full + Charge(renyi=(1, *(0 for _ in made.orders[1:]))))
    assert made.reading(full) <= 3 * (1 + 1e-12)
    assert made.spent(full).share == 1


def test_all_orders_that_are_given_bind() -> None:
    made = Filter.renyi(Budget(3, 1e-6), orders=[2, 6, 12])
    for i in range(3):
        over = [0, 0, 0]
        over[i] = made.curve[i] + 1
        assert not made.admits(Charge(impure=1, renyi=tuple(over)))
    rho = [Fraction(top, UNIT) / Fraction(order) for top, order in zip(made.curve, made.orders, strict=True)]
    assert max(rho) - min(rho) < Fraction(1, 2**50)


@given(st.floats(0.05, 20), st.floats(1e-12, 1e-3), st.floats(1e-4, 5))
def test_whatever_gaussian_noise_is_admitted_is_private_by_the_exact_formula(
    epsilon: float, delta: float, rho: float
) -> None:
    # For Gaussian noise μ = √(2ρ) fixed in advance the true δ is known (Balle, Wang 2018).
    made = Filter.renyi(Budget(epsilon, delta))
    sigma = 1 / math.sqrt(2 * rho)
    if made.admits(made.charge(GaussianNoise(sigma))):
        assert best_delta(GaussianNoise(sigma), epsilon).lower <= delta


def test_deltas_of_charges_stay_within_the_reserve() -> None:
    made = Filter.renyi(Budget(3, 1e-6), reserve=0.25)
    assert made.reserve == Fraction(1, 4 * 10**6)
    assert made.admits(made.charge(Approximate(0.1, 2.5e-7)))
    assert not made.admits(made.charge(Approximate(0.1, 2.6e-7)))
    whole = Filter.basic(Budget(3, 1e-6))
    assert whole.admits(whole.charge(Approximate(3, 1e-6)))


def test_what_is_left_fits_and_a_little_more_does_not() -> None:
    for made in (Filter.of(Budget(3)), Filter.of(Budget(3, 1e-6)), Filter.basic(Budget(1, 1e-6))):
        for spent in (
            made.nothing,
            made.charge(Pure(0.3)),
            made.charge(Approximate(0.2, 1e-7) if made.reserve else Pure(0.2)),
        ):
            left = made.left(spent)
            assert made.admits(spent + made.charge(Pure(left.epsilon)))
            assert not made.admits(spent + made.charge(Pure(left.epsilon * 1.0001)))
            assert made.admits(spent + made.charge(Approximate(0, left.delta)))
            if left.rho:
                assert made.admits(spent + made.charge(Zcdp(left.rho)))
                assert not made.admits(spent + made.charge(Zcdp(left.rho * 1.0001)))


def test_many_small_charges_fit_by_the_curve_beyond_the_sum_of_epsilons() -> None:
    made = Filter.of(Budget(3, 1e-6))
    small = made.charge(Pure(0.01)) * 1000  # Σε = 10
    assert made.admits(small)
    assert made.spent(small).method.startswith("Rényi")
    assert made.admits(made.charge(Pure(3)))  # one large charge by the sum


def test_thirty_tenths_cost_three_under_a_limit_with_a_delta_too() -> None:
    made = Filter.of(Budget(3, 1e-6))
    assert made.spent(made.charge(Pure(0.1))).epsilon == 0.1
    thirty = made.spent(made.charge(Pure(0.1)) * 30)
    assert (thirty.epsilon, thirty.delta, thirty.method) == (3, 0, "basic")


def test_raising_keeps_orders_and_never_lowers() -> None:
    made = Filter.of(Budget(3, 1e-6))
    raised = made.raised(Budget(4, 1e-6))
    assert raised.orders == made.orders
    assert raised.curve[0] > made.curve[0]
    assert Filter.of(Budget(3)).raised(Budget(3.5)).limit.epsilon == 3.5
    with pytest.raises(InvalidParameter, match="never lowered"):
        made.raised(Budget(4, 1e-7))
    with pytest.raises(InvalidParameter, match="never lowered"):
        made.raised(Budget(2, 1e-6))


def test_bad_filters_are_refused_with_the_reason() -> None:
    with pytest.raises(InvalidParameter, match="ε > 0 and δ > 0"):
        Filter.renyi(Budget(3))
    with pytest.raises(InvalidParameter, match=r"reserve=1 in \[0, 1\)"):
        Filter.renyi(Budget(3, 1e-6), reserve=1)
    with pytest.raises(InvalidParameter, match=r"orders in \(1, ∞\)"):
        Filter.renyi(Budget(3, 1e-6), orders=[1])
    with pytest.raises(InvalidParameter, match="No order up to 2 can keep"):
        Filter.renyi(Budget(0.1, 1e-6), orders=[2])


def test_losses_of_every_shape_have_a_charge_under_a_limit_with_a_delta() -> None:
    made = Filter.of(Budget(8, 1e-6))
    for loss in (
        GaussianNoise(4).sampled(0.01) * 100,
        DiscreteGaussianNoise(8, 1),
        ResponseNoise(0.75),
        Parallel((Pure(0.5), GaussianNoise(4))),
        Pure(0.1).grouped(3),
        Zcdp(0.01) + Pure(0.1),
    ):
        assert made.admits(made.charge(loss)), loss
    shuffled = Shuffled(10_000, Pure(1))
    assert made.admits(made.charge(shuffled, delta=1e-8))
    assert made.charge(shuffled, delta=1e-8).epsilon < 1


# ------------------------------------------------------------------------------------------------ the worst analyst

Step = tuple[tuple[float, float], ...]
"""A mechanism as seen by one pair of neighbours: (probability under P, privacy loss) of each answer."""


def rare(probability: float, loss: float) -> Step:
    """Two answers: a rare one of this privacy loss, and the other."""
    under = probability * math.exp(-loss)
    return (probability, loss), (1 - probability, math.log1p(-probability) - math.log1p(-under))


def response(epsilon: float) -> Step:
    """Randomized response, the worst ε-DP mechanism."""
    return rare(1 / (1 + math.exp(-epsilon)), epsilon)


def divergence(step: Step, order: float) -> float:
    """The larger Rényi divergence of both directions."""
    forward = math.fsum(p * math.exp((order - 1) * loss) for p, loss in step)
    backward = math.fsum(p * math.exp(-order * loss) for p, loss in step)
    return max(math.log(forward), math.log(backward)) / (order - 1)


def cost(step: Step, orders: tuple[float, ...], epsilon: float | None = None) -> Charge:
    units = tuple(math.ceil(divergence(step, order) * UNIT) for order in orders)
    return Charge(impure=1, renyi=units) if epsilon is None else Charge(exact(epsilon), renyi=units)


def worst_delta(epsilon: float, menu: list[tuple[Step, Charge]], start: Charge, admits, depth: int) -> float:  # type: ignore[no-untyped-def]
    """The largest δ at `epsilon` that any adaptive analyst reaches: at each answer she
    may stop, or ask anything admitted.

    δ = E_P[(1 − e^{ε − L})₊] of the final privacy loss L, maximised by dynamic
    programming over (what is spent, L).
    """

    @functools.cache
    def value(spent: Charge, loss: float, steps: int) -> float:
        best = max(0.0, -math.expm1(epsilon - loss)) if loss > epsilon else 0.0
        if steps:
            for step, price in menu:
                if admits(spent + price):
                    best = max(
                        best,
                        math.fsum(p * value(spent + price, round(loss + l, 9), steps - 1) for p, l in step),
                    )
        return best

    return value(start, 0.0, depth)


TWO = (5.0, 60.0)
TRAP = [rare(6e-5, 0.35), rare(0.97, 3.667), rare(4.9e-6, 4.22)]


def test_the_best_order_afterwards_is_no_filter() -> None:
    """Two steps, two orders: after a rare answer she goes on along the high order,
    otherwise along the low one."""
    limit, delta = 4.0, Fraction(1, 10**6)

    def best_order_afterwards(spent: Charge) -> bool:
        return min(convert_order(r, a, delta) for r, a in zip(spent.renyi, TWO, strict=True)) <= limit

    menu = [(step, cost(step, TWO)) for step in TRAP]
    reached = worst_delta(limit, menu, Charge(renyi=(0, 0)), best_order_afterwards, depth=2)
    assert reached > 1.9 * delta

    ours = Filter.renyi(Budget(4, delta), orders=TWO, reserve=0)
    assert worst_delta(limit, menu, ours.nothing, ours.admits, depth=2) <= delta
    for order in TWO:  # each order by itself is a filter
        alone = Filter.renyi(Budget(4, delta), orders=[order], reserve=0)
        single = [(step, cost(step, (order,))) for step in TRAP]
        assert worst_delta(limit, single, alone.nothing, alone.admits, depth=2) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.02), (2.0, 0.01), (1.5, 1e-3)])
def test_the_sum_or_the_curve_is_a_filter_at_the_curve_s_delta_alone(epsilon: float, delta: float) -> None:
    """Theorem 3: the analyst who stays within the sum on one path and leaves it on another gains nothing."""
    made = Filter.renyi(Budget(epsilon, delta), reserve=0)
    bounded = Filter(made.limit, made.reserve, made.orders[:1], made.curve)
    order = bounded.orders
    pures = [0.25, 0.5, 1.0]
    menu = [(response(e), cost(response(e), order, e)) for e in pures]
    menu += [
        (rare(p, l), cost(rare(p, l), order)) for p, l in ((delta, epsilon * 1.2), (5 * delta, epsilon / 2))
    ]
    reached = worst_delta(epsilon, menu, bounded.nothing, bounded.admits, depth=7)
    assert reached <= delta
    assert reached > delta / 20  # the analyst does get somewhere: the bound is not empty


def test_a_filter_with_half_the_toll_is_found_out() -> None:
    """The worst analyst is strong enough to break a curve that is set too high."""
    limit, delta = 4.0, Fraction(1, 10**6)
    broken = Filter.renyi(Budget(5, delta), orders=[60.0], reserve=0)
    menu = [(step, cost(step, (60.0,))) for step in (*TRAP, rare(3e-5, 4.6), rare(5e-4, 4.3))]
    assert worst_delta(limit, menu, broken.nothing, broken.admits, depth=2) > delta


# ------------------------------------------------------------------------------------------------ the odometer


def test_the_odometer_is_above_the_book_keeping_and_never_below_the_sum_of_nothing() -> None:
    made = Filter.of(Budget(3, 1e-6))
    assert odometer(made, made.nothing).epsilon == 0
    for loss in (Pure(0.1) * 5, GaussianNoise(20) * 3, Pure(0.01) * 1000):
        spent = made.charge(loss)
        assert odometer(made, spent).epsilon >= made.spent(spent).epsilon
    assert odometer(made, made.nothing).delta == 1e-6


def test_the_odometer_s_price_is_the_formula_in_many_digits() -> None:
    made = Filter.of(Budget(3, 1e-6))
    spent = made.charge(GaussianNoise(10))
    with mpmath.workdps(40):
        count = len(made.orders)
        best = min(
            mpmath.mpf(r) / UNIT + (mpmath.log(count) - mpmath.log(mpmath.mpf("5e-7"))) / (mpmath.mpf(a) - 1)
            for r, a in zip(spent.renyi, made.orders, strict=True)
        )
    found = odometer(made, spent).epsilon
    assert best <= found <= best * (1 + 1e-9)


def test_the_odometer_holds_at_the_worst_moment_to_stop() -> None:
    """An analyst who stops when her loss is above the reading succeeds with probability
    at most δ, exactly computed."""
    made = Filter.renyi(Budget(2, 0.01), reserve=0)
    steps = [(response(e), cost(response(e), made.orders, e)) for e in (0.2, 0.5)]

    @functools.cache
    def crossing(spent: Charge, loss: float, left: int) -> float:
        if loss > odometer(made, spent).epsilon + 1e-9:
            return 1.0
        if not left:
            return 0.0
        return max(
            math.fsum(p * crossing(spent + price, round(loss + l, 9), left - 1) for p, l in step)
            for step, price in steps
        )

    assert crossing(made.nothing, 0.0, 10) <= 0.01


def test_an_order_without_a_known_divergence_is_never_read_as_zero() -> None:
    made = Filter.renyi(Budget(3, 1e-6))
    spent = Charge(impure=1, renyi=(UNKNOWN,) * len(made.orders))
    assert not made.admits(spent)
    assert made.reading(spent) == math.inf
    assert odometer(made, spent).epsilon == math.inf


# ------------------------------------------------------------------------------------------------ the Gaussian rule


def quantised(mu: float, cells: int) -> Step:
    """Gaussian noise seen in a few cells: a post-processing of N(μ, 1) against N(0, 1)."""
    ends = [-math.inf, *(mu / 2 + (i - cells / 2) * 1.1 for i in range(1, cells)), math.inf]
    p = [special.ndtr(b - mu) - special.ndtr(a - mu) for a, b in itertools.pairwise(ends)]
    q = [special.ndtr(b) - special.ndtr(a) for a, b in itertools.pairwise(ends)]
    return tuple((float(x), math.log(x / y)) for x, y in zip(p, q, strict=True))


def gaussian_menu(epsilons: tuple[float, ...], mus: tuple[float, ...]) -> list[tuple[Step, Charge]]:
    menu = [(quantised(mu, 4), Charge(impure=1, gaussian=math.ceil(mu * mu * UNIT))) for mu in mus]
    return menu + [(response(e), charge(Pure(e), gaussian=True)) for e in epsilons]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.02), (2.0, 0.01), (0.5, 0.05)])
def test_the_gaussian_rule_holds_against_the_worst_analyst(epsilon: float, delta: float) -> None:
    made = Filter.gaussians(Budget(epsilon, delta), reserve=0)
    bare = Filter(made.limit, made.reserve, (), (), made.gaussian)
    mu = math.sqrt(made.gaussian.level / UNIT) if made.gaussian else 0.0
    menu = gaussian_menu((0.25, 0.5), (mu / 2, mu / math.sqrt(2), mu * 0.999))
    reached = worst_delta(epsilon, menu, bare.nothing, bare.admits, depth=5)
    assert delta / 3 < reached <= delta


def test_a_gaussian_level_set_too_high_is_found_out() -> None:
    made = Filter.gaussians(Budget(1, 0.02), reserve=0)
    assert made.gaussian is not None
    broken = Filter(
        made.limit, made.reserve, (), (), GaussianRule(made.gaussian.delta, made.gaussian.level * 2)
    )
    mu = math.sqrt(2 * made.gaussian.level / UNIT)
    menu = gaussian_menu((), (mu * 0.999, mu / math.sqrt(2)))
    assert worst_delta(1.0, menu, broken.nothing, broken.admits, depth=3) > 0.02


def test_a_hundred_counts_cost_what_they_must() -> None:
    limit = Budget(1, 1e-6)
    made, best = Filter.of(limit, "counts"), analytic_sigma(1, 1e-6) * 10
    for kind in (lambda s: GaussianNoise(s), lambda s: DiscreteGaussianNoise(s, 1, 1)):
        assert made.admits(made.charge(kind(best * 1.003)) * 100)
        assert not made.admits(made.charge(kind(best * 0.999)) * 100)
    mixed = Filter.of(limit)
    assert not mixed.admits(mixed.charge(GaussianNoise(best * 1.05)) * 100)


def test_one_run_of_exactly_the_limit_fits_its_account() -> None:
    limit = Budget(3, 1e-5)
    made = Filter.of(limit, "run")
    assert made.admits(made.charge(Approximate(3, 1e-5)))
    assert not Filter.of(limit).admits(Filter.of(limit).charge(Approximate(3, 1e-5)))
    noise = calibrate_noise(3, 1e-5, rate=0.01, steps=1000)
    assert made.admits(made.charge(GaussianNoise(noise).sampled(0.01) * 1000, delta=1e-5))


@pytest.mark.parametrize("sigma", [5, 7.5, 50, 400])
def test_integer_noise_enters_the_gaussian_rule_by_a_gaussian_above_it(sigma: float) -> None:
    loss = DiscreteGaussianNoise(sigma, 1, 1)
    price = charge(loss, gaussian=True)
    mu = math.sqrt(price.gaussian / UNIT)
    assert 0 < price.delta <= Fraction(2, 10**40)
    for epsilon in (0.0, 0.1, 0.5):
        assert best_delta(loss, epsilon).lower <= hockey_stick(mu, epsilon)
    assert mu < 1 / sigma * (1 + 4 / sigma**2)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 10.0])
def test_a_pure_loss_is_a_post_processing_of_its_gaussian(epsilon: float) -> None:
    mu = math.sqrt(charge(Pure(epsilon), gaussian=True).gaussian / UNIT)
    for y in np.linspace(0, epsilon, 9):
        truth = max(0.0, (math.exp(epsilon) - math.exp(y)) / (1 + math.exp(epsilon)))
        assert truth <= hockey_stick(mu, float(y)) + 1e-15
    assert response_of(mu) == pytest.approx(epsilon, rel=1e-6)


def test_what_is_no_gaussian_asks_the_gaussian_account_for_a_delta() -> None:
    made = Filter.of(Budget(1, 1e-6), Purpose.COUNTS)
    run = GaussianNoise(20).sampled(0.01) * 100
    with pytest.raises(Unaccountable, match="prices Gaussian noise"):
        made.charge(run)
    with pytest.raises(Unaccountable, match="prices Gaussian noise"):
        made.charge(Zcdp(0.01))
    assert made.admits(made.charge(run, delta=1e-9))
    assert not made.admits(made.charge(run, delta=1e-7))
    assert made.admits(made.charge(Parallel((GaussianNoise(60), GaussianNoise(50)))))
    assert made.charge(GaussianNoise(60).grouped(3)).gaussian == pytest.approx(UNIT / 400, rel=1e-9)


def test_the_gaussian_account_tells_what_is_left_and_keeps_its_bytes() -> None:
    made = Filter.of(Budget(1, 1e-6), "counts")
    spent = made.charge(DiscreteGaussianNoise(60, 1, 1)) * 40
    left = made.left(spent)
    assert made.admits(spent + made.charge(GaussianNoise(1 / left.mu)))
    assert not made.admits(spent + made.charge(GaussianNoise(1 / left.mu * (1 - 1e-6))))
    assert made.admits(spent + made.charge(Pure(left.epsilon)))
    assert made.spent(spent).method == "Gaussian"
    assert made.spent(spent).epsilon < 1 < made.reading(spent * 6)
    assert Filter.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert Charge.from_dict(json.loads(json.dumps(spent.to_dict()))) == spent
    assert "gaussian" not in Filter.of(Budget(1, 1e-6)).charge(GaussianNoise(60)).to_dict()
    higher = made.raised(Budget(2, 1e-6))
    assert higher.gaussian is not None
    assert higher.orders == made.orders
    assert higher.admits(spent * 3)
    assert math.isfinite(odometer(made, spent).epsilon)
    with pytest.raises(InvalidParameter, match="one of mixed, counts, run"):
        Filter.of(Budget(1, 1e-6), "sums")
    for broken in (
        made.to_dict() | {"gaussian": {"delta": "1"}},
        made.to_dict() | {"gaussian": {"delta": "1/2", "level": 3}},
    ):
        with pytest.raises(InvalidParameter):
            Filter.from_dict(broken)


def test_a_charge_below_nothing_in_any_part_is_negative() -> None:
    nothing = Charge(renyi=(0,))
    assert not nothing.negative
    for part in (
        Charge(epsilon=Fraction(-1), renyi=(0,)),
        Charge(delta=Fraction(-1), renyi=(0,)),
        Charge(impure=-1, renyi=(0,)),
        Charge(renyi=(-1,)),
        Charge(renyi=(0,), gaussian=-1),
    ):
        assert part.negative
