"""Choices follow their law exactly, and their laws on neighbours stay within the stated loss."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.loss import BoundedRange, Pure, Repeated
from deniable.mechanisms import Exponential, NoisyMax, PermuteAndFlip, TopK, tails
from deniable.mechanisms.selection import exponential
from deniable.mechanisms.selection.exponential import RESOLUTION
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows, worst_ratio

NAMES = ("a", "b", "c")
SCORES = st.lists(st.integers(-3, 3), min_size=3, max_size=3)
MOVES = st.lists(st.integers(-1, 1), min_size=3, max_size=3)


def softmax(scores: list[float], rate: float) -> dict[str, float]:
    w = np.exp(rate * (np.array(scores, float) - max(scores)))
    return dict(zip(NAMES, w / w.sum(), strict=True))


def flip_law(scores: list[float], rate: float) -> dict[str, float]:
    """By walking through all orders."""
    law = dict.fromkeys(NAMES, 0.0)
    for order in permutations(range(3)):
        left = 1 / 6
        for i in order:
            taken = math.exp(-rate * (max(scores) - scores[i]))
            law[NAMES[i]] += left * taken
            left *= 1 - taken
    return law


def noisy_max_law(scores: list[int], scale: float) -> dict[str, float]:
    """By summing over all noise of three candidates, ties broken by all orders: the
    score units are whole sensitivities."""
    reach = np.arange(-60, 61)
    p = np.exp(-np.abs(reach) / scale)
    p /= p.sum()
    law = dict.fromkeys(NAMES, 0.0)
    for order in permutations(range(3)):
        for i in range(3):
            won = np.zeros_like(p)
            for n, noise in enumerate(reach):
                chance = p[n]
                for j in set(range(3)) - {i}:
                    room = scores[i] + noise - scores[j]
                    below = reach <= room if order.index(i) < order.index(j) else reach < room
                    chance *= p[below].sum()
                won[n] = chance
            law[NAMES[i]] += won.sum() / 6
    return law


@pytest.mark.parametrize("monotone", [False, True])
def test_the_exponential_mechanism_draws_its_weights(monotone: bool) -> None:
    m, rng, scores = (
        Exponential(NAMES, 1.5, sensitivity=2, monotone=monotone),
        SeededRandom(1),
        [1.0, 2.5, -1.0],
    )
    rate = 1.5 / 2 if monotone else 1.5 / 4
    draws = [m(scores, rng=rng) for _ in range(5_000)]
    assert follows(draws, softmax(scores, rate))
    assert not follows(draws, softmax(scores, 1.3 * rate))
    assert not follows(draws, softmax(scores, 0.7 * rate))


@pytest.mark.parametrize("monotone", [False, True])
def test_permute_and_flip_draws_its_law(monotone: bool) -> None:
    m, rng, scores = PermuteAndFlip(NAMES, 1.5, monotone=monotone), SeededRandom(2), [1.0, 2.5, -1.0]
    rate = 1.5 if monotone else 0.75
    draws = [m(scores, rng=rng) for _ in range(5_000)]
    assert follows(draws, flip_law(scores, rate))
    assert not follows(draws, flip_law(scores, 1.3 * rate))
    assert not follows(draws, softmax(scores, rate))


def test_noisy_max_draws_its_law_with_ties_in_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "RESOLUTION", 1)
    m, rng, scores = NoisyMax(NAMES, 2), SeededRandom(3), [0, 1, 1]
    draws = [m(scores, rng=rng) for _ in range(5_000)]
    assert follows(draws, noisy_max_law(scores, scale=1))
    assert not follows(draws, noisy_max_law(scores, scale=0.7))
    assert not follows(draws, noisy_max_law(scores, scale=1.3))


@given(SCORES, MOVES, st.sampled_from([0.3, 1.0, 3.0]))
def test_neighbours_of_exponential_stay_within_its_range(
    scores: list[int], moves: list[int], eps: float
) -> None:
    law, other = (
        softmax(scores, eps / 2),
        softmax([s + m for s, m in zip(scores, moves, strict=True)], eps / 2),
    )
    logs = [math.log(law[n] / other[n]) for n in NAMES]
    assert max(logs) - min(logs) <= eps + 1e-9


@given(SCORES, MOVES, st.sampled_from([0.3, 1.0, 3.0]))
def test_neighbours_of_permute_and_flip_stay_within_epsilon(
    scores: list[int], moves: list[int], eps: float
) -> None:
    moved = [s + m for s, m in zip(scores, moves, strict=True)]
    assert worst_ratio(flip_law(scores, eps / 2), flip_law(moved, eps / 2)) <= math.exp(eps) + 1e-9
    up = [s + abs(m) for s, m in zip(scores, moves, strict=True)]
    assert worst_ratio(flip_law(scores, eps), flip_law(up, eps)) <= math.exp(eps) + 1e-9


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_neighbours_of_noisy_max_stay_within_epsilon(eps: float) -> None:
    worst = 0.0
    for scores, moved in (
        ([0, 0, 0], [1, -1, -1]),
        ([0, 1, 0], [1, 0, 1]),
        ([2, 0, 0], [1, 1, 1]),
        ([0, 0, 9], [1, -1, 8]),
    ):
        worst = max(worst, worst_ratio(noisy_max_law(scores, 2 / eps), noisy_max_law(moved, 2 / eps)))
        assert worst <= math.exp(eps) + 1e-9
        up = [max(s, m) for s, m in zip(scores, moved, strict=True)]
        assert worst_ratio(noisy_max_law(scores, 1 / eps), noisy_max_law(up, 1 / eps)) <= math.exp(eps) + 1e-9
    assert worst > math.exp(eps / 2)


def test_each_states_its_loss() -> None:
    assert Exponential(NAMES, 0.5).loss == BoundedRange(0.5)
    assert PermuteAndFlip(NAMES, 0.5).loss == Pure(0.5)
    assert NoisyMax(NAMES, 0.5).loss == Pure(0.5)
    assert TopK(NAMES, 2, 0.1).loss == Repeated(2, BoundedRange(Fraction(1, 20)))
    assert epsilon(TopK(NAMES, 2, 0.1).loss, 0).upper == pytest.approx(0.1)


def test_top_k_is_peeling() -> None:
    m, rng, scores = TopK(NAMES, 2, 3), SeededRandom(4), [1.0, 2.5, -1.0]
    first = softmax(scores, 0.75)
    w = {n: math.exp(0.75 * s) for n, s in zip(NAMES, scores, strict=True)}
    law = {(i, j): first[i] * w[j] / (sum(w.values()) - w[i]) for i in NAMES for j in NAMES if i != j}
    draws = [m(scores, rng=rng) for _ in range(5_000)]
    assert follows(draws, law)
    assert sorted(TopK(NAMES, 3, 1)(scores, rng=rng)) == list(NAMES)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
@pytest.mark.parametrize("n", [1, 2, 12])
def test_the_error_bound_is_met_at_its_worst_case(kind: type[Exponential], n: int) -> None:
    m, rng = kind(tuple(range(n)), epsilon=1, sensitivity=4), SeededRandom(6)
    within = m.error(0.9).within
    scores = [0.0] + [-within * 1.0001] * (n - 1)
    missed = sum(m(scores, rng=rng) != 0 for _ in range(2000))
    assert missed <= 2000 * 0.1 + 6 * math.sqrt(2000 * 0.09)
    if kind is not NoisyMax and n > 1:
        assert missed >= 2000 * 0.1 - 6 * math.sqrt(2000 * 0.09)


def test_permute_and_flip_promises_more_than_exponential() -> None:
    for n in (2, 10, 1000):
        candidates = tuple(range(n))
        assert (
            PermuteAndFlip(candidates, 1).error(0.95).within < Exponential(candidates, 1).error(0.95).within
        )


def test_nan_and_infinity_are_scores_too() -> None:
    for kind in (Exponential, PermuteAndFlip, NoisyMax):
        m = kind(NAMES, epsilon=1)
        assert m([math.nan, math.inf, -math.inf], rng=SeededRandom(1)) == "b"
        assert m([], rng=SeededRandom(1)) in NAMES
        assert m("nonsense", rng=SeededRandom(1)) in NAMES
    assert len(TopK(NAMES, 2, 1)([math.nan, None], rng=SeededRandom(1))) == 2


def test_scores_move_by_one_resolution_at_most_whatever_the_sensitivity() -> None:
    for sensitivity in (1, 3, 0.7, Fraction(22, 7)):
        for x in (0.3, 1.7, -2.49):
            a, b = (
                Exponential(("x",), 1, sensitivity).read_scores([y])[0]
                for y in (Fraction(x), Fraction(x) + Fraction(str(sensitivity)))
            )
            assert b - a == exponential.RESOLUTION


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
def test_wrong_parameters_are_refused_before_data(kind: type[Exponential]) -> None:
    for wrong in (
        {"epsilon": 0},
        {"sensitivity": -1},
        {"candidates": ()},
        {"candidates": ("a", "a")},
        {"unit": "row"},
    ):
        with pytest.raises(InvalidParameter):
            kind(**({"candidates": NAMES, "epsilon": 1} | wrong))
    with pytest.raises(InvalidParameter, match="monotone=False"):
        kind(NAMES, 1, monotone=True, unit=Unit.row(replace=True))


def test_top_k_names_no_more_than_there_are() -> None:
    for count in (0, 4, 1.5):
        with pytest.raises(InvalidParameter, match="count"):
            TopK(NAMES, count, 1)


def test_noisy_max_error_is_twice_the_largest_noise() -> None:
    m, scale = NoisyMax(NAMES, 1), Fraction(2 * RESOLUTION)
    t = tails.quantile(lambda n: tails.laplace_tail(scale, n), tails.per_coordinate(Fraction(1, 20), 3), 1.0)
    assert m.error(0.95).within == float((2 * t + 1) * m.score_unit)
