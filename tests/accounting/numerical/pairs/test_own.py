"""Mechanisms stated by their own probabilities, and unlike noises on one sample:
enumeration, quadrature, dp-accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from scipy import integrate

from deniable import accounting
from deniable.accounting import numerical
from deniable.accounting.numerical.lattice import powers
from deniable.accounting.numerical.pairs import own
from deniable.errors import Unaccountable
from deniable.loss import (
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    CappedSample,
    FiniteOutcomes,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    Pure,
    ResponseNoise,
    Sampled,
    Silenced,
)

OUTCOMES = FiniteOutcomes((0.5, 0.2, 0.2, 0.1), (0.2, 0.3, 0.1, 0.4))


def enumerated(p: list[float], q: list[float], steps: int, epsilon: float) -> float:
    """The larger δ of both directions after `steps` runs, by listing all outcomes."""
    worst = 0.0
    for a, b in ((p, q), (q, p)):
        words = itertools.product(range(len(a)), repeat=steps)
        joint = [(math.prod(a[i] for i in w), math.prod(b[i] for i in w)) for w in words]
        worst = max(worst, math.fsum(max(x - math.exp(epsilon) * y, 0) for x, y in joint))
    return worst


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_finite_outcomes_are_bracketed_by_enumeration(steps: int, epsilon: float) -> None:
    p, q = ([float(x) for x in side] for side in (OUTCOMES.present, OUTCOMES.absent))
    truth = enumerated(p, q, steps, epsilon)
    bound = accounting.delta(OUTCOMES * steps, epsilon)
    assert bound.lower * (1 - 1e-12) <= truth <= bound.upper * (1 + 1e-12)
    assert bound.gap <= 0.02 * truth + 1e-9


@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_finite_outcomes_on_a_sample_are_bracketed_by_enumeration(rate: float) -> None:
    p, q = ([float(x) for x in side] for side in (OUTCOMES.present, OUTCOMES.absent))
    mixed = [rate * x + (1 - rate) * y for x, y in zip(p, q, strict=True)]
    for epsilon in (0.05, 0.3):
        truth = enumerated(mixed, q, 3, epsilon)
        bound = accounting.delta(OUTCOMES.sampled(rate) * 3, epsilon)
        assert bound.lower * (1 - 1e-12) <= truth <= bound.upper * (1 + 1e-12)


def test_an_outcome_that_only_one_side_has_is_revealed() -> None:
    shown = FiniteOutcomes((0.9, 0.1, 0), (0.9, 0, 0.1))
    assert accounting.delta(shown, 5.0).upper == pytest.approx(0.1, rel=1e-6)
    assert accounting.delta(shown, 5.0).lower == pytest.approx(0.1, rel=1e-6)
    same = accounting.epsilon(Approximate(1, 1e-3) * 5, 1e-2)
    keep, high = 1 - 1e-3, 1 / (1 + math.exp(-1))
    own = FiniteOutcomes((1e-3, keep * high, keep * (1 - high), 0), (0, keep * (1 - high), keep * high, 1e-3))
    assert accounting.epsilon(own * 5, 1e-2).upper == pytest.approx(same.upper, rel=1e-3)


@pytest.mark.parametrize("rate", [0.3, 1])
@pytest.mark.parametrize("times", [1, 3])
def test_outcomes_that_no_two_neighbours_share_are_revealed_as_often_as_drawn(
    rate: float, times: int
) -> None:
    """All losses are infinite: there is no finite one to place on a lattice."""
    loss = Sampled(rate, FiniteOutcomes((1, 0), (0, 1))) * times
    bound = accounting.delta(loss, 1.0)
    truth = 1 - (1 - rate) ** times
    assert bound.lower <= truth * (1 + 1e-12)
    assert truth <= bound.upper * (1 + 1e-12)
    assert bound.gap < 1e-6


def test_what_is_missing_from_probabilities_is_charged() -> None:
    rough = FiniteOutcomes((0.5, 0.4999999999), (0.5, 0.5))
    assert accounting.delta(rough, 0.1).upper >= 1e-10
    with pytest.raises(Unaccountable, match="not symmetric"):
        accounting.epsilon(Sampled(0.1, OUTCOMES, WITHOUT_REPLACEMENT, replace=True), 1e-6)
    # A group has no pair of its own, only a chain of neighbours.
    assert accounting.epsilon(OUTCOMES.grouped(2), 1e-6).method in ("basic", "group")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("shifts", "weights"), [((0.0, 1.0, 2.0), (0.9, 0.08, 0.02)), ((0.5, 1.0), (0.5, 0.5))]
)
def test_mixtures_of_gaussians_agree_with_dp_accounting(
    shifts: tuple[float, ...], weights: tuple[float, ...]
) -> None:
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-3)
    event = dp_event.MixtureOfGaussiansDpEvent(1.5, list(shifts), list(weights))
    peer = accountant.compose(event, 50).get_epsilon(1e-6)
    ours = accounting.epsilon(MixedGaussianNoise(1.5, shifts, weights) * 50, 1e-6)
    assert ours.lower <= peer * (1 + 1e-4)
    assert ours.upper == pytest.approx(peer, rel=5e-3)
    assert ours.gap <= 2e-3 * ours.upper


def test_special_mixtures_are_what_they_are() -> None:
    sampled = numerical.epsilon(GaussianNoise(2).sampled(0.1) * 10, 1e-6)
    assert numerical.epsilon(MixedGaussianNoise(2, (0, 1), (0.9, 0.1)) * 10, 1e-6).upper == pytest.approx(
        sampled.upper, rel=1e-6
    )
    plain = numerical.epsilon(GaussianNoise(2) * 10, 1e-6)
    assert numerical.epsilon(MixedGaussianNoise(4, (2, 2), (0.5, 0.5)) * 10, 1e-6).upper == pytest.approx(
        plain.upper, rel=1e-3
    )
    assert numerical.epsilon(MixedGaussianNoise(4, (0, 0), (0.5, 0.5)) * 10, 1e-6).upper == 0
    group = numerical.epsilon(GaussianNoise(2).sampled(0.5).grouped(2), 1e-6)
    assert numerical.epsilon(
        MixedGaussianNoise(2, (0, 1, 2), (0.25, 0.5, 0.25)), 1e-6
    ).upper == pytest.approx(group.upper, rel=1e-9)


# ------------------------------------------------------------------------------------------------ one sample, unlike noises


def beside_response(sigma: float, truth: float, rate: float, epsilon: float) -> float:
    """Gaussian noise and a coin from one sample: δ of both directions, by quadrature
    over the noise for each side of the coin."""
    coin = ((truth, 1 - truth), (1 - truth, truth))

    def gap(x: float, p: float, q: float, added: bool) -> float:
        with_unit = p * math.exp(-((x - 1) ** 2) / (2 * sigma**2))
        without = q * math.exp(-(x**2) / (2 * sigma**2))
        mixed = rate * with_unit + (1 - rate) * without
        a, b = (without, mixed) if added else (mixed, without)
        return max(a - math.exp(epsilon) * b, 0.0) / (sigma * math.sqrt(2 * math.pi))

    def total(added: bool) -> float:
        return sum(
            integrate.quad(gap, -30, 30, args=(p, q, added), limit=400, points=[0, 1], epsabs=1e-13)[0]
            for p, q in coin
        )

    return max(total(False), total(True))


@pytest.mark.parametrize("rate", [0.1, 0.6])
@pytest.mark.parametrize("epsilon", [0.1, 0.4])
def test_gaussian_noise_and_a_response_on_one_sample_are_bracketed(rate: float, epsilon: float) -> None:
    truth = beside_response(1.3, 0.7, rate, epsilon)
    bound = accounting.delta(Sampled(rate, GaussianNoise(1.3) + ResponseNoise(0.7)), epsilon)
    assert bound.lower * (1 - 1e-6) <= truth <= bound.upper * (1 + 1e-6)
    assert bound.gap <= 1e-2 * truth + 1e-9


SHARED: list[Callable[[], Loss]] = [
    lambda: GaussianNoise(1) + LaplaceNoise(2),
    lambda: GaussianNoise(2) * 3 + LaplaceNoise(3) + Pure(0.2),
    lambda: OUTCOMES + GaussianNoise(1),
]


@pytest.mark.parametrize("make", SHARED)
def test_unlike_noises_on_one_sample_cost_more_than_each_and_less_than_apart(
    make: Callable[[], Loss],
) -> None:
    together = accounting.epsilon(make().sampled(0.02) * 100, 1e-6)
    assert together.gap <= 1e-2 * together.upper
    parts = getattr(make(), "parts")  # noqa: B009
    for part in parts:
        assert accounting.epsilon(part.sampled(0.02) * 100, 1e-6).lower < together.upper
    whole = accounting.epsilon(make() * 100, 1e-6)
    assert together.upper < whole.lower


def test_a_sample_of_everything_is_no_sample() -> None:
    close = accounting.epsilon((GaussianNoise(1) + LaplaceNoise(2)).sampled(1 - 1e-9) * 5, 1e-6)
    whole = accounting.epsilon((GaussianNoise(1) + LaplaceNoise(2)) * 5, 1e-6)
    assert close.upper == pytest.approx(whole.upper, rel=3e-3)


# ------------------------------------------------------------------------------------------------ few outcomes, many times


@pytest.mark.parametrize(
    ("present", "absent"),
    [
        ((0.3, 0.25, 0.25, 0.2), (0.24, 0.25, 0.2, 0.31)),
        ((0.5, 0.3, 0.2), (0.4, 0.33, 0.27)),
        ((0.6, 0.3999, 0.0001, 0), (0.55, 0.4498, 0, 0.0002)),
    ],
)
def test_a_block_of_runs_is_what_the_runs_are_one_by_one(
    present: tuple[float, ...], absent: tuple[float, ...]
) -> None:
    pair = own.finite(FiniteOutcomes(present, absent))
    block = powers.power(pair, 7)
    p, q = np.array(present), np.array(absent)
    listed_p, listed_q = p, q
    for _ in range(6):
        listed_p, listed_q = np.multiply.outer(listed_p, p).ravel(), np.multiply.outer(listed_q, q).ravel()
    for x in (0.3, 1.0, 1.7, 4.0):
        mine = np.maximum(block.p - x * block.q, 0).sum()
        assert mine == pytest.approx(np.maximum(listed_p - x * listed_q, 0).sum(), rel=1e-12)
    assert block.p.sum() == pytest.approx(1, abs=1e-13)


def test_a_thousand_runs_of_a_few_outcomes_are_tight_and_agree_with_dp_accounting() -> None:
    """Ten thousand were refused, over sixteen million nodes."""
    present, absent = (0.3, 0.25, 0.25, 0.2), (0.24, 0.25, 0.2, 0.31)
    thousand = accounting.epsilon(FiniteOutcomes(present, absent) * 1000, 1e-6)
    many = accounting.epsilon(FiniteOutcomes(present, absent) * 10**4, 1e-6)
    assert thousand.gap <= 1e-3 * thousand.upper
    assert many.gap <= 1e-3 * many.upper
    laws = [dict(enumerate(np.log(side))) for side in (present, absent)]
    pld = privacy_loss_distribution.from_two_probability_mass_functions(
        *laws, value_discretization_interval=1e-4
    )
    assert thousand.lower <= pld.self_compose(1000).get_epsilon_for_delta(1e-6) * (1 + 1e-9)


def test_outcomes_on_a_lattice_are_exact() -> None:
    """Losses ±ln(13/12) and 0: a trinomial walk."""
    bound = accounting.epsilon(
        FiniteOutcomes((0.26, 0.25, 0.25, 0.24), (0.24, 0.25, 0.25, 0.26)) * 1000, 1e-6
    )
    assert bound.gap <= 1e-6 * bound.upper


def test_two_runs_that_are_seen_together_keep_both_orders() -> None:
    """The third outcome never comes with the unit: without it, it comes in one of two runs with probability .64."""
    one = FiniteOutcomes((0.5, 0.5, 0), (0.2, 0.4, 0.4))
    full = Silenced(CappedSample(1, 1, 4, one * 2))
    assert accounting.delta(full, 4.0).upper >= 0.64
    for shared in (Allocated(2, one), Allocated(2, one * 2)):
        with pytest.raises(Unaccountable, match="not symmetric"):
            accounting.delta(shared, 1.0)


def test_the_lower_side_of_unlike_noises_on_one_sample_is_reached() -> None:
    """The lower law of the product lacks mass of P, which was counted for the other order: δ ≥ .161054 at ε = 0 was stated."""
    both = Sampled(0.25, LaplaceNoise(3) + ResponseNoise(0.75, 3))
    answers = ((0.75, 0.125), (0.125, 0.75), (0.125, 0.125))
    laplace = [lambda t, at=at: math.exp(-abs(t - at) / 3) / 6 for at in (1, 0)]
    truth = sum(
        integrate.quad(
            lambda t, a=a, b=b: max(a * laplace[0](t) - b * laplace[1](t), 0), low, high, epsabs=1e-13
        )[0]
        for a, b in answers
        for low, high in ((-100, 0), (0, 0.5), (0.5, 1), (1, 101))
    )
    bound = accounting.delta(both, 0.0)
    assert bound.lower <= truth / 4 <= bound.upper
    assert bound.method == "numerical"
