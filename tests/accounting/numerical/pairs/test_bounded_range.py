"""Compositions of choices of bounded range: against the recursion solved without a
lattice, and adaptive mechanisms at random."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from deniable import accounting
from deniable.accounting import numerical
from deniable.accounting.numerical.pairs import bounded_range, finite
from deniable.accounting.numerical.pairs.dots import connected, hull
from deniable.loss import BoundedRange, Composed, GaussianNoise, Loss, Pure, Sampled

Law = dict[int, tuple[float, float]]


def recursion(epsilon: float, times: int, y: float, cells: int = 60) -> float:
    """Dong, Durfee, Rogers 2020: the most over t of p·V(y − t) + (1 − p)·V(y − t + ε),
    searched on t without any lattice."""
    if times == 0:
        return max(0.0, -math.expm1(y))
    if times == 1:
        if abs(y) >= epsilon:
            return max(0.0, -math.expm1(y))
        return math.expm1((y - epsilon) / 2) ** 2 / -math.expm1(-epsilon)

    def value(t: float) -> float:
        p = math.expm1(t - epsilon) / math.expm1(-epsilon)
        return p * recursion(epsilon, times - 1, y - t, cells) + (1 - p) * recursion(
            epsilon, times - 1, y - t + epsilon, cells
        )

    grid = np.linspace(0, epsilon, cells)
    at = int(np.argmax([value(t) for t in grid]))
    ends = grid[max(at - 1, 0)], grid[min(at + 1, cells - 1)]
    best = optimize.minimize_scalar(
        lambda t: -value(t), bounds=ends, method="bounded", options={"xatol": 1e-9}
    )
    return max(-float(best.fun), value(grid[at]))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 2.98, 8.0])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.9])
def test_two_choices_are_bracketed_by_the_recursion(epsilon: float, place: float) -> None:
    y = place * 2 * epsilon
    truth = recursion(epsilon, 2, y, 200)
    bound = numerical.delta(BoundedRange(epsilon) * 2, y)
    assert bound.lower <= truth * (1 + 1e-9)
    assert truth <= bound.upper * (1 + 1e-9)
    assert bound.gap <= 5e-3 * truth


@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_three_choices_are_bracketed_by_the_recursion(epsilon: float) -> None:
    y = 1.2 * epsilon
    truth = recursion(epsilon, 3, y, 24)
    bound = numerical.delta(BoundedRange(epsilon) * 3, y)
    assert bound.lower * (1 - 1e-3) <= truth <= bound.upper * (1 + 1e-9)
    assert bound.gap <= 2e-3 * truth


def test_the_example_for_which_the_closed_form_is_too_small() -> None:
    """Five choices of range 2.98 at ε = 7.45: chosen in advance .167, adaptively .187;
    summed one by one it would be .300."""
    bound = accounting.delta(BoundedRange(2.98) * 5, 7.45)
    in_advance = max(_in_advance(2.98, 5, 7.45, share) for share in np.linspace(0.5, 0.99, 300))
    assert in_advance == pytest.approx(0.167, abs=1e-3)
    assert 0.1876 < bound.lower <= bound.upper < 0.1878
    assert bound.lower > in_advance


def _in_advance(epsilon: float, times: int, y: float, share: float) -> float:
    """δ where all choices have the losses share·ε and (share − 1)·ε: binomial."""
    one = finite.choice(epsilon, share)
    k = np.arange(times + 1)
    p = stats.binom.pmf(k, times, one.p[1])
    losses = k * one.losses[1] + (times - k) * one.losses[0]
    return float((p * np.maximum(0.0, 1 - np.exp(y - losses))).sum())


@pytest.mark.sampled
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("times", [4, 40, 300])
def test_choices_made_in_advance_stay_below(epsilon: float, times: int) -> None:
    loss = BoundedRange(epsilon) * times
    for delta in (1e-2, 1e-6, 1e-10):
        bound = numerical.epsilon(loss, delta)
        for share in np.linspace(0.5, 1, 25, endpoint=False):
            assert _in_advance(epsilon, times, bound.upper, share) <= delta * (1 + 1e-9)
        assert bound.gap <= max(2e-2 * bound.upper, 1e-4)


# ------------------------------------------------------------------------------------------------ mechanisms at random


def _range_pair(rng: np.random.Generator, epsilon: float, outcomes: int) -> tuple[np.ndarray, np.ndarray]:
    """P and Q whose log-ratios span at most ε: an exponential mechanism on random
    scores, often at its extremes."""
    q = rng.dirichlet(np.full(outcomes, rng.choice([0.2, 1.0, 5.0])))
    moved = rng.choice([0.0, 1.0], outcomes) if rng.random() < 0.7 else rng.random(outcomes)
    p = q * np.exp(epsilon * moved)
    return p / p.sum(), q


def _response_pair(rng: np.random.Generator, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    a = 1 / (1 + math.exp(-epsilon))
    order = np.array([a, 1 - a]) if rng.random() < 0.5 else np.array([1 - a, a])
    return order, order[::-1]


def _adaptive(rng: np.random.Generator, parts: list[Loss]) -> tuple[np.ndarray, np.ndarray]:
    """All histories of a composition whose every step depends on the history, in a
    random order of the parts."""
    histories = [(1.0, 1.0)]
    for index in rng.permutation(len(parts)):
        part, after = parts[index], []
        for p, q in histories:
            if isinstance(part, BoundedRange):
                one_p, one_q = _range_pair(rng, float(part.epsilon), int(rng.integers(2, 4)))
            else:
                assert isinstance(part, Pure)
                one_p, one_q = _response_pair(rng, float(part.epsilon))
            after += [(p * a, q * b) for a, b in zip(one_p, one_q, strict=True)]
        histories = after
    both = np.array(histories)
    return both[:, 0], both[:, 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(8))
def test_no_adaptive_mechanism_exceeds_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    epsilons = [float(e) for e in rng.choice([0.2, 1.0, 2.5], 2)]
    counts = [int(c) for c in rng.integers(1, 4, 2)]
    parts: list[Loss] = [BoundedRange(e) for e, c in zip(epsilons, counts, strict=True) for _ in range(c)]
    if seed % 2:
        parts.append(Pure(0.7))
    loss = Composed(tuple(parts))
    ys = np.array([0.0, 0.3, 0.8]) * sum(float(part.epsilon) for part in parts)  # type: ignore[attr-defined]
    uppers = [numerical.delta(loss, float(y)).upper for y in ys]
    for _ in range(60):
        p, q = _adaptive(rng, parts)
        for (a, b), (y, upper) in itertools.product(((p, q), (q, p)), zip(ys, uppers, strict=True)):
            assert float(np.maximum(0.0, a - math.exp(y) * b).sum()) <= upper * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_greedy_adversary_comes_up_to_the_lower_bound(seed: int) -> None:
    """The choice that is best for what is left, found by search: as much as the lower
    side says, no more than the upper."""
    rng = np.random.default_rng(100 + seed)
    epsilon, y = float(rng.uniform(0.3, 3)), float(rng.uniform(0, 2))
    bound = numerical.delta(BoundedRange(epsilon) * 2, y)
    assert bound.lower <= recursion(epsilon, 2, y, 150) * (1 + 1e-9) <= bound.upper * (1 + 2e-9)


# ------------------------------------------------------------------------------------------------ around it


def test_one_choice_alone_is_exact() -> None:
    bound = numerical.delta(BoundedRange(1.0), 0.5)
    assert bound.lower == pytest.approx(recursion(1.0, 1, 0.5), rel=1e-9)
    assert bound.upper == pytest.approx(bound.lower, rel=1e-9)


def test_choices_among_other_noise_are_bracketed() -> None:
    bound = accounting.epsilon(BoundedRange(1) * 10 + GaussianNoise(2) * 3, 1e-6)
    assert bound.gap <= 1e-3 * bound.upper
    alone = accounting.epsilon(BoundedRange(1) * 10, 1e-6)
    assert alone.upper < bound.lower


def test_choices_on_one_sample_cost_less_than_by_other_methods() -> None:
    loss = Sampled(0.1, BoundedRange(0.1) * 20) * 30
    bound = accounting.epsilon(loss, 1e-6)
    assert bound.upper < 0.7 * accounting.epsilon(loss, 1e-6, method="renyi").upper
    assert bound.gap < 0.03 * bound.upper


@pytest.mark.parametrize("times", [1, 5, 64, 200])
def test_the_default_is_no_worse_than_renyi(times: int) -> None:
    for delta in (1e-3, 1e-6, 1e-10):
        loss = BoundedRange(2.98) * times
        assert accounting.epsilon(loss, delta).upper <= accounting.epsilon(
            loss, delta, method="renyi"
        ).upper * (1 + 1e-12)


def test_a_group_of_choices_is_a_choice_of_more_range() -> None:
    assert accounting.epsilon(BoundedRange(0.5).grouped(2) * 3, 1e-6) == accounting.epsilon(
        BoundedRange(1) * 3, 1e-6
    )


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 40.0, 300.0, 590.0])
def test_extreme_ranges_are_bounded_by_the_sum_and_bracketed(epsilon: float) -> None:
    bound = accounting.epsilon(BoundedRange(epsilon) * 3, 1e-12)
    assert 0 <= bound.lower <= bound.upper <= 3 * epsilon * (1 + 1e-9)


def test_blocks_hold_every_choice() -> None:
    for epsilon, times in ((0.1, 1), (0.1, 128), (0.1, 129), (10.0, 1000), (700.0, 5)):
        assert sum(size * count for size, count in bounded_range.blocks(epsilon, times)) == times


def test_dots_that_bulge_are_replaced_by_the_hull() -> None:
    losses = np.log(np.array([1.0, 2.0, 3.0, 4.0]))
    heights = np.array([0.3, 0.28, 0.05, 0.0])
    assert hull(losses, heights) == [0, 2, 3]
    pair = connected(losses, heights)
    for at, height in ((0.0, 0.3), (math.log(3), 0.05)):
        kept = pair.losses > at
        assert float((pair.p[kept] - math.exp(at) * pair.q[kept]).sum()) == pytest.approx(height, rel=1e-9)
