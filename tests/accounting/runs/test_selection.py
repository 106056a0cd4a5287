"""The best of a random number of runs, against the exact law of small selections."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as peer
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from deniable.accounting import epsilon, numerical, renyi
from deniable.accounting.methods import pure
from deniable.accounting.numerical.pairs import best_run
from deniable.accounting.runs.selection import mean_runs
from deniable.loss import (
    FiniteOutcomes,
    GaussianNoise,
    Grouped,
    Loss,
    NegativeBinomialRuns,
    Parallel,
    PoissonRuns,
    Pure,
    ResponseNoise,
    Selected,
)

Runs = NegativeBinomialRuns | PoissonRuns


def law_of_runs(runs: Runs, most: int = 4000) -> np.ndarray:
    """P(K = k) for k = 0, 1, 2, … (Definition 1 of the paper, term by term)."""
    k = np.arange(most)
    if isinstance(runs, PoissonRuns):
        log = k * math.log(runs.mean) - runs.mean - np.array([math.lgamma(i + 1) for i in k])
        return np.exp(log)
    eta, gamma = float(runs.eta), float(runs.gamma)
    terms = np.zeros(most)
    if eta == 0:
        terms[1:] = (1 - gamma) ** k[1:] / (k[1:] * math.log(1 / gamma))
        return terms
    product = 1.0
    for i in range(1, most):
        product *= (i - 1 + eta) / i * (1 - gamma)
        terms[i] = product / (gamma**-eta - 1)
    return terms


def best_of(law: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """The law of the largest of K draws (outcomes in rising order of score), with "no run" first."""
    k = np.arange(len(runs))
    at_most = np.array([np.sum(runs * c**k) for c in np.concatenate([[0.0], np.cumsum(law).clip(0, 1)])])
    return np.concatenate([at_most[:1], np.diff(at_most)])


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    keep = p > 0
    return math.log(float(np.sum(p[keep] ** order * q[keep] ** (1 - order)))) / (order - 1)


RUNS = [
    NegativeBinomialRuns(1, 0.2),
    NegativeBinomialRuns(0, 0.05),
    NegativeBinomialRuns(0.5, 0.1),
    NegativeBinomialRuns(-0.5, 0.05),
    NegativeBinomialRuns(3, 0.5),
    PoissonRuns(0.2),
    PoissonRuns(1),
    PoissonRuns(8),
]


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_the_mean_is_that_of_the_law(runs: Runs) -> None:
    law = law_of_runs(runs)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    mean = float(np.sum(law * np.arange(len(law))))
    assert mean_runs(runs) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_no_small_mechanism_passes_the_bounds(runs: Runs) -> None:
    """Base mechanisms with few scores, tilted by e^±ε in every way: the exact selection
    stays under curve and pure ε."""
    eps, number = 0.7, law_of_runs(runs)
    loss = Selected(Pure(eps), runs)
    ceiling = pure.epsilon(loss, 0)
    base = np.array([0.1, 0.2, 0.3, 0.4])
    for signs in range(1, 15):
        tilt = np.exp([eps / 2 if signs >> i & 1 else -eps / 2 for i in range(4)])
        other = base * tilt / np.sum(base * tilt)
        p, q = best_of(base, number), best_of(other, number)
        assert np.max(np.abs(np.log(p[p > 0] / q[p > 0]))) <= ceiling * (1 + 1e-9)
        for order in (1.2, 2.0, 8.0):
            bound = renyi.divergence(loss, order) + 1e-9
            assert divergence(p, q, order) <= bound
            assert divergence(q, p, order) <= bound


@pytest.mark.parametrize(
    "runs", [NegativeBinomialRuns(0, 0.05), NegativeBinomialRuns(1, 0.1), PoissonRuns(10)], ids=str
)
def test_gaussian_scores_stay_under_the_curve(runs: Runs) -> None:
    """The score itself is the output: noisy scores 0 or 1, cut into fine steps."""
    edges = np.linspace(-9, 10, 4000)
    cdf = lambda m: np.array([0.5 * math.erfc(-(x - m) / math.sqrt(2)) for x in edges])  # noqa: E731
    number = law_of_runs(runs, 600)
    p, q = (best_of(np.concatenate([np.diff(cdf(m))]) / (cdf(m)[-1] - cdf(m)[0]), number) for m in (1, 0))
    keep = (p > 1e-250) & (q > 1e-250)
    for order in (1.5, 3.0):
        assert (
            divergence(p[keep], q[keep], order)
            <= renyi.divergence(Selected(GaussianNoise(1), runs), order) + 1e-6
        )


@pytest.mark.parametrize(("eta", "gamma"), [(1, 0.1), (0, 0.05), (0.5, 0.2)])
def test_negative_binomial_agrees_with_dp_accounting(eta: float, gamma: float) -> None:
    orders = 1 + np.exp2(np.arange(-6, 14, 0.25))
    base = renyi.curve(GaussianNoise(3), orders)
    runs = NegativeBinomialRuns(eta, gamma)
    theirs = peer._compute_rdp_repeat_and_select(orders, base, mean_runs(runs), eta)
    ours = renyi.curve(Selected(GaussianNoise(3), runs), orders)
    assert np.all(ours >= theirs * (1 - 1e-6))
    assert np.all(ours <= theirs * (1 + 1e-3))


def test_poisson_is_the_theorem_and_the_chance_of_no_run() -> None:
    """Theorem 6 alone is negative for few runs, where the divergence cannot be."""
    few = Selected(GaussianNoise(10), PoissonRuns(0.1))
    assert renyi.divergence(few, 2.0) >= 0
    orders = 1 + np.exp2(np.arange(-6, 14, 0.25))
    theirs = peer._compute_rdp_repeat_and_select(
        orders, renyi.curve(GaussianNoise(10), orders), 20.0, math.inf
    )
    theirs = np.minimum.accumulate(theirs[::-1])[::-1]  # a divergence is at most that at a higher order
    ours = renyi.curve(Selected(GaussianNoise(10), PoissonRuns(20)), orders)
    assert np.all(ours >= theirs * (1 - 1e-6))
    assert np.all(ours <= theirs * 1.01)


PURE_RUNS = [
    NegativeBinomialRuns(1, 0.999),
    NegativeBinomialRuns(1, 0.5),
    NegativeBinomialRuns(0, 0.9),
    NegativeBinomialRuns(0, 0.05),
    NegativeBinomialRuns(-0.5, 0.3),
    NegativeBinomialRuns(3, 0.01),
    PoissonRuns(0.2),
    PoissonRuns(8),
]


def rise(runs: Runs, u: mpmath.mpf, v: mpmath.mpf) -> mpmath.mpf:
    """f′(u)/f′(v) of the generating function of the number of runs, to thirty digits."""
    if isinstance(runs, PoissonRuns):
        return mpmath.exp(runs.mean * (u - v))
    chance = 1 - mpmath.mpf(str(runs.gamma))
    return ((1 - chance * v) / (1 - chance * u)) ** (1 + mpmath.mpf(str(runs.eta)))


@pytest.mark.parametrize("runs", PURE_RUNS, ids=str)
@pytest.mark.parametrize("eps", [0.1, 1, 4])
def test_the_pure_epsilon_of_a_selection_is_exact(runs: Runs, eps: float) -> None:
    """Randomized response with its likely answer split in n: from below it comes up to
    the bound, and never passes it."""
    with mpmath.workdps(30):
        truth = 1 / (1 + mpmath.exp(-eps))
        near = []
        for n in (
            10,
            10**6,
        ):  # the topmost of n equal pieces: P(y)/Q(y) = e^ε, and the event {below y or y and half a coin}
            share = 1 - mpmath.mpf(1) / (2 * n)
            near.append(eps + mpmath.log(rise(runs, truth * share, (1 - truth) * share)))
        bound = epsilon(Selected(Pure(eps), runs), 0)
        assert near[0] < near[1] <= bound.upper
        assert near[1] >= bound.lower * (1 - 1e-5)
        assert bound.gap <= 1e-9


@pytest.mark.parametrize("runs", PURE_RUNS, ids=str)
@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_no_enumerated_selection_passes_the_pure_epsilon(runs: Runs, pieces: int) -> None:
    """Every outcome of the exact law of the best of K, from the law of K term by term."""
    eps = 1.0
    number = law_of_runs(runs, 6000)
    truth = 1 / (1 + math.exp(-eps))
    p = np.array([truth / pieces] * pieces + [1 - truth])
    q = np.array([(1 - truth) / pieces] * pieces + [truth])
    top, bottom = best_of(p, number), best_of(q, number)
    keep = (top > 1e-9) & (bottom > 1e-9)
    ratios = np.log(top[keep] / bottom[keep])
    bound = epsilon(Selected(Pure(eps), runs), 0)
    assert np.max(np.abs(ratios)) <= bound.upper * (1 + 1e-6)
    if pieces == 40:
        assert np.max(ratios) >= 0.9 * bound.lower


@pytest.mark.parametrize(("eta", "gamma", "truth"), [(1, 0.999, 1.002), (1, 0.5, 2.386), (0, 0.9, 1.105)])
def test_one_run_nearly_surely_costs_nearly_nothing(eta: float, gamma: float, truth: float) -> None:
    """The certified lower bound was (2 + η)ε here, which no mechanism reaches."""
    bound = epsilon(Selected(Pure(1), NegativeBinomialRuns(eta, gamma)), 0)
    assert 1 <= bound.lower <= bound.upper <= truth
    assert bound.upper <= 1 + (1 + eta) * min(1, math.log(1 / gamma))


@given(
    st.fractions(Fraction(1, 1000), 50),
    st.fractions(Fraction(-99, 100), 20),
    st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
)
def test_the_bound_is_never_above_the_known_ones(eps: Fraction, eta: Fraction, gamma: Fraction) -> None:
    value = pure.exact_epsilon(Selected(Pure(eps), NegativeBinomialRuns(eta, gamma)))
    assert (
        eps <= value <= (eps + (1 + eta) * min(eps, Fraction(-math.log(gamma)))) * (1 + Fraction(1, 10**12))
    )


def test_what_no_theorem_says_is_not_said_to_be_attained() -> None:
    """Randomized response gives one of its answers, however many people change."""
    answer = ResponseNoise(0.75)
    one = epsilon(answer, 0)
    for loss in (
        Grouped(5, answer),
        Selected(answer, NegativeBinomialRuns(1, 0.1)),
        Parallel((answer,), replace=True),
    ):
        bound = epsilon(loss, 0)
        assert one.lower <= bound.lower <= one.upper < bound.upper
    assert epsilon(Grouped(5, Pure(1)), 0).gap < 1e-9


# ------------------------------------------------------------------------------------------------ from the profile of one run

RUNS: list[Runs] = [
    NegativeBinomialRuns(1, 0.1),
    NegativeBinomialRuns(0, 0.05),
    NegativeBinomialRuns(-0.5, 0.2),
    PoissonRuns(3),
    PoissonRuns(0.4),
]


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_no_order_of_scores_passes_the_bound_from_the_profile(runs: Runs) -> None:
    """Mechanisms of a few outcomes at random, every order of scores, both orders of the
    neighbours: exact laws of the best."""
    rng = np.random.default_rng(7)
    law = law_of_runs(runs, 800)
    for _ in range(12):
        size = int(rng.integers(2, 5))
        counts = [1 + rng.multinomial(1000 - size, rng.dirichlet(np.full(size, 0.7))) for _ in range(2)]
        shares = [tuple(Fraction(int(c), 1000) for c in one) for one in counts]
        p, q = (one / 1000 for one in counts)
        loss = Selected(FiniteOutcomes(*shares), runs)
        epsilons = (0.0, 0.5, 2.0)
        uppers = [numerical.delta(loss, at).upper for at in epsilons]
        for order in itertools.permutations(range(size)):
            first, second = best_of(p[list(order)], law), best_of(q[list(order)], law)
            for (a, b), (at, upper) in itertools.product(
                ((first, second), (second, first)), zip(epsilons, uppers, strict=True)
            ):
                assert float(np.maximum(a - math.exp(at) * b, 0).sum()) <= upper + 1e-9


@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_the_smallest_gaussian_answer_reveals_as_much_as_is_said(runs: Runs) -> None:
    """δ of the least of K answers by quadrature, K's law summed term by term; the
    certified lower side lies just below it."""
    sigma, at = 1.5, 0.7
    x = np.linspace(-12, 13, 40_001)
    k, chances = np.arange(400), law_of_runs(runs, 400)

    def density(shift: float) -> np.ndarray:
        above = 1 - special.ndtr((x - shift) / sigma)
        powers = np.polynomial.polynomial.polyval(above, (k * chances)[1:])
        return np.asarray(
            powers * np.exp(-0.5 * ((x - shift) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
        )

    p, q = density(1.0), density(0.0)
    truth = max(float(np.maximum(a - math.exp(at) * b, 0).sum()) for a, b in ((p, q), (q, p))) * (x[1] - x[0])
    pair = best_run.smallest(sigma, runs)
    found = max(
        float(np.maximum(one.p - math.exp(at) * one.q, 0).sum())
        for one in (pair, pair.turned())  # type: ignore[attr-defined]
    )
    assert truth * (1 - 1e-3) <= found <= truth * (1 + 1e-4)
    bound = numerical.delta(Selected(GaussianNoise(sigma), runs), at)
    assert found * (1 - 1e-6) <= bound.lower <= bound.upper


TUNED: list[Loss] = [GaussianNoise(1), GaussianNoise(4), GaussianNoise(1).sampled(0.01) * 1000]


@pytest.mark.parametrize("of", TUNED, ids=str)
def test_the_profile_bounds_a_selection_more_tightly_than_renyi(of: Loss) -> None:
    loss = Selected(of, NegativeBinomialRuns(1, 0.01))
    bound = epsilon(loss, 1e-6)
    assert bound.upper < 0.9 * renyi.epsilon(loss, 1e-6)
    assert bound.lower >= epsilon(of, 1e-6).lower * (1 - 1e-6)


def test_a_chance_of_next_to_no_run_more_is_still_charged() -> None:
    """γ = 1e-30: E[K] is 1e30, and nothing is claimed that one run's curve does not show."""
    loss = Selected(GaussianNoise(5), NegativeBinomialRuns(1, 1e-30))
    assert (
        epsilon(loss, 1e-6).upper
        > epsilon(Selected(GaussianNoise(5), NegativeBinomialRuns(1, 1e-3)), 1e-6).upper
    )
