"""The draw finds the cell of its uniform number under the exact weights, wherever that lies."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.mechanisms import choice
from deniable.mechanisms.choice import Exponentials, draw
from deniable.randomness import SeededRandom
from tests.mechanisms.law import follows


class Scripted:
    """Gives the words it was told, then fails."""

    private = False

    def __init__(self, words: Sequence[int]) -> None:
        self.words = list(words)

    def uniform_integers(self, bound: int, size: int | None = None) -> int:
        assert bound == 1 << 64
        return self.words.pop(0)


def cell(weights: Exponentials, place: Fraction) -> int:
    """By brute force at 200 digits: the k with c(k) ≤ place < c(k + 1)."""
    with mp.workdps(200):
        rate = mp.mpf(weights.rate.numerator) / weights.rate.denominator
        times = (
            [1] * len(weights.distances)
            if weights.multiplicities is None
            else weights.multiplicities.tolist()
        )
        w = [m * mp.exp(-rate * d) for m, d in zip(times, weights.distances.tolist(), strict=True)]
        target, total = mp.mpf(place.numerator) / place.denominator * mp.fsum(w), mp.mpf(0)
        for k, x in enumerate(w):
            total += x
            if target < total:
                return k
    raise AssertionError


def borders(weights: Exponentials) -> list[int]:
    """Floors of 2^64 times the cumulative shares."""
    with mp.workdps(200):
        rate = mp.mpf(weights.rate.numerator) / weights.rate.denominator
        w = [mp.exp(-rate * d) for d in weights.distances.tolist()]
        total = mp.fsum(w)
        return [int(mp.floor(mp.fsum(w[: k + 1]) / total * 2**64)) for k in range(len(w) - 1)]


WEIGHTS = st.builds(
    Exponentials,
    st.fractions(min_value=Fraction(1, 100), max_value=3),
    st.lists(st.integers(0, 300), min_size=1, max_size=8).map(lambda d: np.array(d) - min(d)),
)


def joined(*words: int) -> Fraction:
    """The uniform number that begins with these words."""
    return sum((Fraction(word, 1 << 64 * (i + 1)) for i, word in enumerate(words)), Fraction(0))


@given(WEIGHTS, st.integers(0, 2**64 - 1))
def test_any_uniform_finds_its_cell(weights: Exponentials, u: int) -> None:
    assert draw(weights, Scripted([u, 7, 7, 7])) == cell(weights, joined(u, 7, 7, 7))


@given(WEIGHTS, st.integers(-2, 2), st.integers(0, 2**64 - 1))
@settings(max_examples=40)
def test_uniforms_at_a_border_are_settled_by_their_next_bits(
    weights: Exponentials, off: int, word: int
) -> None:
    for border in borders(weights):
        u = min(max(border + off, 0), 2**64 - 1)
        assert draw(weights, Scripted([u, word, 77, 77])) == cell(weights, joined(u, word, 77, 77))


def test_floats_do_not_settle_a_border(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = Exponentials(Fraction(1), np.array([0, 1, 2]))
    for border in borders(weights):
        assert choice._by_floats(*weights.floats(), border) is None
        assert choice._by_floats(*weights.floats(), border + 2**40) is not None


@given(WEIGHTS)
@settings(max_examples=30)
def test_the_float_errors_are_within_what_is_stated(weights: Exponentials) -> None:
    floats, error = weights.floats()
    low, slack = weights.brackets(1200)
    for v, x in zip(floats, low, strict=True):
        near, off = Fraction(v) * 2**1200, Fraction(error)
        assert x * (1 - off) - 2**250 <= near <= (x + slack) * (1 + off) + 2**250


def test_multiplicities_count() -> None:
    weights = Exponentials(Fraction(1, 2), np.array([3, 0, 1]), np.array([40, 1, 5]))
    w = np.array([40, 1, 5]) * np.exp(-np.array([3, 0, 1]) / 2)
    rng = SeededRandom(5)
    assert follows([draw(weights, rng) for _ in range(20_000)], dict(enumerate(w / w.sum())))
    wrong = {0: 1 / 3, 1: 1 / 3, 2: 1 / 3}
    assert not follows([draw(weights, rng) for _ in range(20_000)], wrong)


def test_the_exact_stage_alone_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = Exponentials(Fraction(1, 3), np.array([0, 4, 2, 9]), np.array([1, 7, 2, 2**40]))
    by_floats = [draw(weights, SeededRandom(s)) for s in range(200)]
    monkeypatch.setattr(choice, "_by_floats", lambda *_: None)
    assert [draw(weights, SeededRandom(s)) for s in range(200)] == by_floats


def test_a_hopeless_weight_is_possible_but_not_drawn() -> None:
    weights = Exponentials(Fraction(1), np.array([0, 2**62]))
    assert {draw(weights, SeededRandom(s)) for s in range(50)} == {0}
    low, slack = weights.brackets(64)
    assert low[1] == 0
    assert slack > 0


def test_one_candidate_is_always_drawn() -> None:
    words: Any = Scripted([2**64 - 1, 2**64 - 1, 2**64 - 1])
    assert draw(Exponentials(Fraction(1), np.array([0])), words) == 0
