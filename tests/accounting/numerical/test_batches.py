"""Batches as loaders make them: against quadrature, enumeration, sampling of true
likelihood ratios, and dp-accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import integrate, special, stats

from deniable import accounting
from deniable.accounting import dpsgd, numerical
from deniable.accounting.events import from_event
from deniable.accounting.numerical import samples, uniform_cut
from deniable.accounting.numerical.pairs import allocation
from deniable.accounting.numerical.pairs.continuous import Gaussian, Laplace
from deniable.accounting.numerical.pairs.finite import Finite, response
from deniable.accounting.numerical.terms import cases
from deniable.errors import InvalidLoss, Unaccountable
from deniable.loss import (
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    CappedSample,
    DiscreteGaussianNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    ResponseNoise,
    Sampled,
    Silenced,
    UniformlyCappedSample,
)
from deniable.units import Unit

# ------------------------------------------------------------------------------------------------ allocation


def two_steps(sigma: float, x: float, *, added: bool) -> float:
    """H at x of (N(e₁) + N(e₂))/2 against N(0) in the plane, by quadrature over one ratio; both
    directions."""

    def given(z: float) -> float:
        """E over the second ratio, lognormal with mean 1, of (Λ − x)₊, or of (1 − xΛ)₊."""
        first = math.exp(z / sigma - 0.5 / sigma**2)
        at = 2 * x - first if not added else 2 / x - first  # the second ratio is beyond, or below, this
        if at <= 0:
            return 0.0 if added else (first + 1) / 2 - x
        t = sigma * math.log(at) + 0.5 / sigma
        below, moved = special.ndtr(t), special.ndtr(t - 1 / sigma)
        if added:
            return float(below * (1 - x * first / 2) - x / 2 * moved)
        return float((1 - moved) / 2 - (x - first / 2) * (1 - below))

    kink = sigma * math.log(2 * x if not added else 2 / x) + 0.5 / sigma

    def weighed(z: float) -> float:
        return given(z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return float(
        sum(integrate.quad(weighed, *ends, epsabs=1e-14, limit=200)[0] for ends in ((-38, kink), (kink, 38)))
    )


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_a_pass_of_two_steps_is_bracketed_by_quadrature(sigma: float, epsilon: float) -> None:
    truth = max(two_steps(sigma, math.exp(epsilon), added=added) for added in (False, True))
    bound = accounting.delta(Allocated(2, GaussianNoise(sigma)), epsilon)
    assert bound.lower <= truth * (1 + 1e-6) + 1e-12
    assert truth <= bound.upper * (1 + 1e-6) + 1e-12
    assert bound.upper <= 1.05 * truth + 1e-6


@pytest.mark.parametrize("steps", [2, 3, 7, 64])
def test_allocated_responses_are_bracketed_by_enumeration(steps: int) -> None:
    """Each ratio is e^ε or e^−ε: the number of high ones is binomial."""
    one, truth = 1.0, 1 / (1 + math.exp(-1.0))
    k = np.arange(steps + 1)
    q = stats.binom.pmf(k, steps, 1 - truth)
    ratio = (k * math.exp(one) + (steps - k) * math.exp(-one)) / steps
    for epsilon in (0.1, 0.4, 0.8):
        x = math.exp(epsilon)
        exact = max((q * np.maximum(ratio - x, 0)).sum(), (q * np.maximum(1 - x * ratio, 0)).sum())
        bound = accounting.delta(Allocated(steps, Pure(one)), epsilon)
        assert bound.lower - 1e-15 <= exact <= bound.upper + 1e-15
        assert bound.upper - bound.lower <= 0.1 * exact + 1e-4


def certain(values: np.ndarray, top: float) -> tuple[float, float]:
    """An interval for the mean of values in [0, top] that holds but with probability
    1e-9 (empirical Bernstein)."""
    n, log = len(values), math.log(4e9)
    off = math.sqrt(2 * values.var() * log / n) + 7 * top * log / (3 * (n - 1))
    return float(values.mean()) - off, float(values.mean()) + off


@pytest.mark.parametrize(("sigma", "steps", "epsilon"), [(0.4, 100, 6.0), (1.0, 10, 1.0), (0.7, 30, 1.5)])
def test_no_sample_of_the_true_ratio_lies_outside_the_bracket(
    sigma: float, steps: int, epsilon: float
) -> None:
    rng, n = np.random.default_rng(1), 40_000
    low, high = math.inf, -math.inf
    for present in (True, False):
        x = sigma * rng.normal(size=(n, steps))
        x[:, 0] += present
        ratio = np.exp((x - 0.5) / sigma**2).mean(axis=1)
        seen = certain(np.maximum(1 - math.exp(epsilon) * (1 / ratio if present else ratio), 0), 1.0)
        low, high = (seen[0] if low is math.inf else max(low, seen[0])), max(high, seen[1])
    bound = accounting.delta(Allocated(steps, GaussianNoise(sigma)), epsilon)
    assert low <= bound.upper
    assert bound.lower <= high
    assert bound.upper <= high * 1.5


def test_an_adaptive_analyst_gets_no_more() -> None:
    """Contributions that depend on earlier answers: after a high answer the unit shows itself less, or
    more."""
    sigma, steps, epsilon = 0.8, 12, 1.0
    bound = accounting.delta(Allocated(steps, GaussianNoise(sigma)), epsilon)
    rng, n = np.random.default_rng(2), 100_000
    for policy in (lambda s: np.where(s > 0, 1.0, 0.3), lambda s: np.where(s > 0, 0.3, 1.0)):
        place, total, ratio = rng.integers(steps, size=n), np.zeros(n), np.zeros(n)
        for t in range(steps):
            shift = policy(total)
            x = sigma * rng.normal(size=n) + shift * (place == t)
            ratio += np.exp((x * shift - shift**2 / 2) / sigma**2) / steps
            total = total + x
        assert certain(np.maximum(1 - math.exp(epsilon) / ratio, 0), 1.0)[0] <= bound.upper


def test_a_shuffled_pass_is_no_allocation() -> None:
    """T = 100, σ = .4, ε = 6: fixed lots leave one unamplified Gaussian, a hundred times the δ of own
    draws."""
    own = accounting.delta(Allocated(100, GaussianNoise(0.4)), 6.0)
    lots = accounting.delta(GaussianNoise(0.4), 6.0)
    assert 5e-4 < own.lower <= own.upper < 6e-4
    assert lots.lower > 0.07
    with pytest.raises(Unaccountable, match="shuffled batches"):
        accounting.epsilon(GaussianNoise(0.4).sampled(0.01, SHUFFLED) * 100, 1e-5)


@pytest.mark.parametrize(
    "pair", [Gaussian(1.3), Laplace(0.9), response(0.7)], ids=["gaussian", "laplace", "response"]
)
@pytest.mark.parametrize("steps", [2, 5, 33])
def test_laws_of_sums_keep_mass_and_mean(pair: object, steps: int) -> None:
    for upper in (True, False):
        law = allocation.allocated(pair, steps, upper=upper)  # type: ignore[arg-type]
        assert isinstance(law, Finite)
        assert law.p.sum() == pytest.approx(1, abs=1e-9)
        assert law.q.sum() == pytest.approx(1, abs=1e-9)
        assert law.sided


@pytest.mark.sampled
@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("steps", [10, 1000, 10_000])
def test_the_bracket_of_a_pass_is_tight(sigma: float, steps: int) -> None:
    bound = accounting.epsilon(Allocated(steps, GaussianNoise(sigma)), 1e-6)
    assert bound.gap <= max(1e-2 * bound.upper, 1e-4)
    assert bound.upper <= accounting.epsilon(GaussianNoise(sigma), 1e-6).upper


def test_passes_compose_and_grow() -> None:
    one = Allocated(50, GaussianNoise(1))
    bounds = [accounting.epsilon(one * passes, 1e-6) for passes in (1, 4, 16)]
    assert all(b.gap <= 1e-2 * b.upper for b in bounds)
    assert bounds[0].upper < bounds[1].lower < bounds[1].upper < bounds[2].lower
    assert accounting.epsilon(Allocated(1, GaussianNoise(2)), 1e-6) == accounting.epsilon(
        GaussianNoise(2), 1e-6
    )


def test_integer_noise_and_releases_of_one_step_enter_a_pass() -> None:
    integer = accounting.epsilon(Allocated(20, DiscreteGaussianNoise(100, 100, 7)), 1e-6)
    smooth = accounting.epsilon(Allocated(20, GaussianNoise(1)), 1e-6)
    assert smooth.lower * (1 - 1e-2) <= integer.upper <= smooth.upper * (1 + 1e-2)
    merged = accounting.epsilon(Allocated(20, GaussianNoise(2) * 4), 1e-6)
    assert merged.upper == pytest.approx(smooth.upper, rel=1e-9)
    assert accounting.epsilon(Allocated(20, Approximate(1, 1e-7)), 1e-6).upper <= 1.01


@pytest.mark.parametrize(
    "loss",
    [
        Allocated(10, GaussianNoise(1).sampled(0.5)),
        Allocated(10, Allocated(5, GaussianNoise(1))),
        Allocated(10, GaussianNoise(1)).sampled(0.5),
        Allocated(10**7, GaussianNoise(1)),
    ],
    ids=str,
)
def test_what_has_no_proof_is_refused(loss: Loss) -> None:
    with pytest.raises(Unaccountable):
        accounting.epsilon(loss, 1e-6)


def test_batches_are_stated_for_one_relation() -> None:
    for make in (
        lambda: Allocated(3, GaussianNoise(1).sampled(0.1, replace=True)),
        lambda: CappedSample(0.1, 3, 9, GaussianNoise(1).sampled(0.1, replace=True)),
        lambda: DrawnSample(3, 9, GaussianNoise(1).sampled(0.1)),
        lambda: Silenced(DrawnSample(3, 9, GaussianNoise(1))),
        lambda: DrawnSample(2, 1, GaussianNoise(1)),
        lambda: Allocated(0, Pure(1)),
        lambda: CappedSample(0, 1, 1, Pure(1)),
    ):
        with pytest.raises(InvalidLoss):
            make()


# ------------------------------------------------------------------------------------------------ a cap on the lot


@pytest.mark.parametrize(
    ("cap", "rows", "rate"), [(3, 10, 0.2), (600, 50_000, 0.01), (1100, 10_000, 0.1), (40, 50, 0.5)]
)
def test_the_chance_of_passing_the_cap_is_rounded_up(cap: int, rows: int, rate: float) -> None:
    with mpmath.workdps(40):
        truth = mpmath.betainc(cap, rows - cap, 0, mpmath.mpf(repr(rate)), regularized=True)
        assert truth <= samples.over(cap, rows, rate) <= truth * (1 + mpmath.mpf("1e-5"))


def test_a_lot_that_cannot_overflow_is_a_poisson_sample() -> None:
    plain, capped = GaussianNoise(1).sampled(0.1), CappedSample(0.1, 100, 100, GaussianNoise(1))
    assert accounting.epsilon(capped * 50, 1e-6) == accounting.epsilon(plain * 50, 1e-6)
    assert samples.over(100, 100, 0.1) == 0


def capped_delta(values: list[float], cap: int, rate: float, sigma: float, epsilon: float) -> float:
    """δ between a table of `values` and the same with one more row of value 1 (put
    first), by enumeration: the first `cap` of the sample are summed, in a fixed order in
    which the new row comes first, so that it displaces another."""

    def law(table: list[float]) -> dict[float, float]:
        masses: dict[float, float] = {}
        for bits in range(1 << len(table)):
            kept = [v for i, v in enumerate(table) if bits >> i & 1][:cap]
            size = bits.bit_count()
            masses[sum(kept)] = masses.get(sum(kept), 0.0) + rate**size * (1 - rate) ** (len(table) - size)
        return masses

    x = np.linspace(-12, 12, 200_001)

    def density(table: list[float]) -> np.ndarray:
        return np.asarray(sum(m * stats.norm.pdf(x, s, sigma) for s, m in law(table).items()))

    p, q, x_eps = density([1.0, *values]), density(values), math.exp(epsilon)
    step = x[1] - x[0]
    return max(float(np.maximum(p - x_eps * q, 0).sum()), float(np.maximum(q - x_eps * p, 0).sum())) * step


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("values", [[-1.0] * 6, [1.0] * 6, [0.0] * 6], ids=str)
def test_no_table_with_a_cap_passes_the_bound(values: list[float], epsilon: float) -> None:
    rate, cap, sigma = 0.9, 3, 1.1  # the others nearly always fill the lot
    truth = capped_delta(values, cap, rate, sigma, epsilon)
    bound = accounting.delta(CappedSample(rate, cap, len(values) + 1, GaussianNoise(sigma)), epsilon)
    assert truth <= bound.upper * (1 + 1e-6)
    if values[0] == -1.0:  # without the second term, displaced rows would not be paid
        plain = accounting.delta(GaussianNoise(sigma).sampled(rate), epsilon)
        assert truth > plain.upper


@pytest.mark.parametrize(("cap", "steps"), [(600, 100), (540, 20)])
def test_a_capped_sample_agrees_with_dp_accounting(cap: int, steps: int) -> None:
    accountant = pld_privacy_accountant.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    event = dp_event.TruncatedSubsampledGaussianDpEvent(
        dataset_size=50_000, sampling_probability=0.01, truncated_batch_size=cap, noise_multiplier=1.0
    )
    peer = accountant.compose(event, steps).get_epsilon(1e-6)
    ours = accounting.epsilon(CappedSample(0.01, cap, 50_000, GaussianNoise(1)) * steps, 1e-6)
    assert ours.lower <= peer * (1 + 1e-3)
    assert ours.upper == pytest.approx(peer, rel=0.02)


UNIFORM_RUNS = [(300, 50_000, 0.005, 1.0, 200), (300, 30_000, 0.01, 1.0, 10), (540, 50_000, 0.01, 1.0, 20)]


@pytest.mark.parametrize(("cap", "rows", "rate", "sigma", "steps"), UNIFORM_RUNS)
def test_a_uniform_cut_costs_no_more_than_dp_accounting_states(
    cap: int, rows: int, rate: float, sigma: float, steps: int
) -> None:
    """Where the mean lot is no larger than the cap fewer units are no worse, and both mean the same."""
    accountant = pld_privacy_accountant.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    event = dp_event.TruncatedSubsampledGaussianDpEvent(rows, rate, cap, sigma)
    peer = accountant.compose(event, steps).get_epsilon(1e-6)
    ours = accounting.epsilon(from_event(event) * steps, 1e-6)
    assert ours.lower <= peer
    # It takes a replaced record for the lots that are full, and a grid of 1e-3.
    assert peer * (1 - 0.02) <= ours.upper <= peer * (1 + 1e-3)
    assert (
        ours.upper
        < accounting.epsilon(CappedSample(rate, cap, rows, GaussianNoise(sigma)) * steps, 1e-6).upper
    )


def test_fewer_units_than_promised_reveal_no_more() -> None:
    """Of 500 units drawn a cap of 300 keeps each less often than of 330: with N as the true number ε is below what a smaller
    table reveals."""
    many, fewer = (
        accounting.epsilon(UniformlyCappedSample(0.01, 300, rows, GaussianNoise(1)) * 10, 1e-6).upper
        for rows in (50_000, 33_000)
    )
    assert many >= fewer
    accountant = pld_privacy_accountant.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    event = dp_event.TruncatedSubsampledGaussianDpEvent(50_000, 0.01, 300, 1.0)
    assert accountant.compose(event, 10).get_epsilon(1e-6) < fewer * 0.95


@pytest.mark.parametrize(("cap", "rows", "rate"), [(3, 12, 0.2), (40, 300, 0.15), (5, 5000, 0.5), (2, 9, 1)])
def test_full_lots_are_charged_at_least_for_every_number_of_units(cap: int, rows: int, rate: float) -> None:
    """For each k the chance of cap … k others, of any number up to rows − 1, is at most what stands at or above it."""
    lots = uniform_cut.full_lots(cap, rows, rate, samples.over(cap, rows, rate))
    assert lots.total <= samples.over(cap, rows, rate) * (1 + 1e-12)
    assert (np.diff(lots.shares) < 0).all()
    firsts = np.rint(cap / lots.shares - 1).astype(int)
    assert firsts[0] == cap
    lasts = np.append(firsts[1:] - 1, rows - 1)
    charged = np.cumsum(lots.chances)
    for others in {*range(min(rows, 400)), *range(0, rows, 97)}:
        truth = stats.binom.cdf(lasts, others, rate) - stats.binom.cdf(cap - 1, others, rate)
        assert (truth <= charged * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(
    "noise", [LaplaceNoise(1), Pure(0.5), ResponseNoise(0.75), GaussianNoise(0.7)], ids=str
)
def test_a_uniform_cut_is_a_cut_and_never_costs_more(noise: Loss) -> None:
    for sample in ((0.1, 30, 300), (0.9, 3, 10), (0.01, 5, 10**9), (1, 2, 4), (0.5, 4, 4)):
        rate, cap, rows = sample
        uniform, capped = (node(rate, cap, rows, noise) for node in (UniformlyCappedSample, CappedSample))
        try:
            most = accounting.delta(capped, 0.3).upper
        except Unaccountable:
            continue
        assert accounting.delta(uniform, 0.3).upper <= most * (1 + 1e-5)
        assert accounting.delta(Silenced(uniform), 0.3) == accounting.delta(Silenced(capped), 0.3)


def reached(epsilon: float) -> float:
    """δ that 100 lots of one among 50 units, drawn by coins of .1, reach where the own unit is the first, +1 or silent, and
    all others are −1. Of each answer only the interval it lies in is looked at, so this is below the truth."""
    others, ends = 1 - 0.9**49, np.array([-np.inf, -0.5, 1.2, 2.4, np.inf])
    cells = {mean: np.diff(special.ndtr(ends - mean)) for mean in (-1, 0, 1)}
    without = others * cells[-1] + (1 - others) * cells[0]
    present, silent = (np.log(0.9 * without + 0.1 * cells[mean]) for mean in (1, 0))
    three = np.stack(np.meshgrid(*3 * [np.arange(101)], indexing="ij")).reshape(3, -1)
    counts = np.vstack([three, 100 - three.sum(axis=0)])[:, three.sum(axis=0) <= 100]
    log_ways = special.gammaln(101) - special.gammaln(counts + 1).sum(axis=0)
    p, q = (np.exp(log_ways + chances @ counts) for chances in (present, silent))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_a_silent_unit_takes_its_place_from_another() -> None:
    run = dpsgd(1, 5, 50, 100, cap=1, unit=Unit.row(zero_out=True))
    bound = accounting.epsilon(run, 1e-5)
    assert reached(7.05) > 0.015  # 7.05 at δ = 1e-5 was stated while the cap was left out
    assert 17.17 <= bound.upper < 23
    for epsilon in (1.0, 7.05, 12.0, 15.0, 18.0):
        assert accounting.delta(run, epsilon).upper >= reached(epsilon)


def test_a_cap_is_never_free_for_a_silent_unit() -> None:
    capped, plain = CappedSample(0.1, 5, 1000, GaussianNoise(1)) * 10, GaussianNoise(1).sampled(0.1) * 10
    assert accounting.epsilon(Silenced(capped), 1e-6).lower == accounting.epsilon(plain, 1e-6).lower
    for loss in (capped, Silenced(capped), Silenced(CappedSample(0.1, 5, 1000, GaussianNoise(1))) * 10):
        assert accounting.epsilon(loss, 1e-6).upper > accounting.epsilon(plain, 1e-6).upper * 1.5


def test_a_table_that_is_never_cut_costs_a_silent_unit_what_poisson_lots_do() -> None:
    plain = accounting.epsilon(Silenced(GaussianNoise(1).sampled(0.1) * 50), 1e-6)
    assert accounting.epsilon(Silenced(CappedSample(0.1, 100, 100, GaussianNoise(1)) * 50), 1e-6) == plain
    always = accounting.epsilon(Silenced(CappedSample(1, 2, 100, GaussianNoise(1)) * 50), 1e-6)
    # All coins are up: the same unit is put out in both tables.
    assert always == accounting.epsilon(GaussianNoise(1) * 50, 1e-6)


@pytest.mark.parametrize(
    "noise",
    [ResponseNoise(0.75), FiniteOutcomes((0.6, 0.4), (0.4, 0.6)), FiniteOutcomes((0.5, 0.5), (0.2, 0.8))],
)
def test_a_silent_unit_in_a_full_lot_costs_at_most_its_step_where_its_coin_is_up(noise: Loss) -> None:
    """No group of two is known for these, and none is needed: with the coin up one table differs by one contribution."""
    bound = accounting.delta(Silenced(CappedSample(0.25, 1, 10**6, noise)), 0.1)
    assert bound.upper == pytest.approx(0.25 * accounting.delta(noise, 0.1).upper, rel=1e-9)


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("steps", [2, 1000])
def test_a_pass_with_next_to_no_noise_is_bounded_by_one_step(sigma: float, steps: int) -> None:
    """Infinite, and after half a minute, before."""
    bound = accounting.epsilon(Allocated(steps, GaussianNoise(sigma)), 1e-6)
    one = accounting.epsilon(GaussianNoise(sigma), 1e-6)
    assert bound.upper <= one.upper * (1 + 1e-9)
    seen = accounting.epsilon(GaussianNoise(sigma).sampled(1 / steps), 1e-6)
    assert bound.lower == pytest.approx(seen.lower, rel=1e-6)


# ------------------------------------------------------------------------------------------------ with replacement


@pytest.mark.parametrize(
    ("trials", "rate"), [(5, 0.3), (500, 1 / 50_000), (64, 0.02), (1000, 0.01), (10**6, 1e-6)]
)
def test_counts_are_binomial(trials: int, rate: float) -> None:
    first, weights = samples.counts(trials, rate)
    with mpmath.workdps(60):
        q = mpmath.mpf(rate)
        for i in (0, len(weights) // 2, len(weights) - 1):
            k = first + i
            truth = mpmath.binomial(trials, k) * q**k * (1 - q) ** (trials - k)
            assert abs(weights[i] / truth - 1) < 1e-12
        assert weights.sum() == pytest.approx(1, abs=1e-12)


def drawn_delta(rows: int, draws: int, sigma: float, others: float, epsilon: float) -> float:
    """δ between tables of `rows` that differ in one value, ½ or −½, the rest being
    `others`; by enumeration of counts."""
    x = np.linspace(-14, 14, 200_001)

    def density(value: float) -> np.ndarray:
        k = np.arange(draws + 1)
        weights = stats.binom.pmf(k, draws, 1 / rows)
        means = k * value + (draws - k) * others
        return np.asarray(sum(w * stats.norm.pdf(x, m, sigma) for m, w in zip(means, weights, strict=True)))

    p, q = density(0.5), density(-0.5)
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p))) * (
        x[1] - x[0]
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("others", [-0.5, 0.5, 0.0])
def test_no_table_drawn_with_replacement_passes_the_bound(others: float, epsilon: float) -> None:
    rows, draws, sigma = 5, 3, 1.2
    truth = drawn_delta(rows, draws, sigma, others, epsilon)
    bound = accounting.delta(DrawnSample(draws, rows, GaussianNoise(sigma)), epsilon)
    assert truth <= bound.upper * (1 + 1e-6)
    if others == -0.5:
        assert bound.lower == pytest.approx(truth, rel=1e-4)


def test_one_draw_is_a_sample_of_one() -> None:
    once = accounting.epsilon(DrawnSample(1, 50, GaussianNoise(1)) * 10, 1e-6)
    fixed = accounting.epsilon(Sampled(0.02, GaussianNoise(1), WITHOUT_REPLACEMENT, replace=True) * 10, 1e-6)
    assert once.upper == pytest.approx(fixed.upper, rel=1e-3)
    assert accounting.epsilon(DrawnSample(500, 50_000, LaplaceNoise(2)), 1e-6).upper < 0.5
    with pytest.raises(Unaccountable, match="another neighbour"):
        accounting.epsilon(DrawnSample(500, 50_000, ResponseNoise(0.7)), 1e-6)


# ------------------------------------------------------------------------------------------------ groups


def test_large_groups_on_a_sample_are_known() -> None:
    bounds = [
        accounting.epsilon((GaussianNoise(20).sampled(0.01) * 100).grouped(k), 1e-6)
        for k in (64, 65, 100, 400)
    ]
    assert all(b.gap <= 2e-3 * b.upper + 1e-5 for b in bounds)
    assert all(a.upper < b.lower for a, b in itertools.pairwise(bounds) if a.upper * 1.01 < b.upper)
    assert bounds[0].upper < bounds[1].upper < bounds[0].upper * 1.03
    # With hundreds of records the sample always holds about q·k of them: nearly one Gaussian shift of that
    # size.
    many = numerical.epsilon(GaussianNoise(400).sampled(0.5).grouped(400), 1e-6)
    plain = numerical.epsilon(GaussianNoise(2), 1e-6)
    assert plain.lower < many.lower < 1.1 * plain.upper
    with pytest.raises(Unaccountable, match="up to 300 counts"):
        numerical.epsilon(GaussianNoise(20).sampled(0.5).grouped(10**6), 1e-6)


BRACKETS: list[Callable[[], Loss]] = [
    lambda: Allocated(100, GaussianNoise(1)),
    lambda: CappedSample(0.01, 700, 50_000, GaussianNoise(1)),
    lambda: DrawnSample(500, 50_000, GaussianNoise(1)),
]


@pytest.mark.parametrize("make", BRACKETS)
def test_epsilon_falls_as_delta_grows(make: Callable[[], Loss]) -> None:
    uppers = [accounting.epsilon(make() * 3, delta).upper for delta in (1e-8, 1e-6, 1e-4)]
    assert uppers == sorted(uppers, reverse=True)


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
def test_draws_with_laplace_noise_have_their_lattice_through_the_heaviest_atom(noise: float) -> None:
    """Through the outermost one, of mass 1e-41, it took 17 seconds and 1.5 GB to find the same ε."""
    ((pair, _),) = cases(DrawnSample(256, 60_000, LaplaceNoise(noise)) * 100)[0].terms
    losses, p, _ = pair.atoms
    assert pair.lattice is not None
    assert pair.lattice[1] == losses[losses > 0][np.argmax(p[losses > 0])] == losses[losses > 0][0]
