"""Sparse vector: the law of a run, its loss on neighbours, and what is used of a conversation."""

import math
from itertools import product

import numpy as np
import pytest

from deniable.accounting import epsilon
from deniable.accounting.runs import sparse_vector as accounted
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.loss import Composed, Pure, Repeated
from deniable.mechanism import Interactive
from deniable.mechanisms import SparseVector
from deniable.mechanisms.selection import sparse_vector
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows, worst_ratio

REACH = np.arange(-400, 401)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score units of one sensitivity each, so that ties between whole numbers matter."""
    monkeypatch.setattr(sparse_vector, "RESOLUTION", 1)


def noise(scale: float) -> np.ndarray:
    p = np.exp(-np.abs(REACH) / scale)
    return p / p.sum()


def run_law(m: SparseVector, answers: list[int]) -> dict[int | None, float]:
    """P(the first yes comes at question i), None for never, summing over the noise of the threshold."""
    at_threshold, of_question = noise(float(m.threshold_scale)), noise(float(m.question_scale))
    above = np.cumsum(of_question[::-1])[::-1]  # P(ν ≥ REACH[i])
    level = m.threshold + REACH
    left, law = at_threshold.copy(), {}
    for i, answer in enumerate(answers):
        index = np.clip(level - answer + 400, 0, 800)
        passes = above[index]
        law[i] = float((left * passes).sum())
        left = left * (1 - passes)
    return law | {None: float(left.sum())}


def first_yes(m: SparseVector, answers: list[int], rng: SeededRandom) -> int | None:
    talk = m.open(answers, rng=rng)
    return next((i for i in range(len(answers)) if talk.ask(lambda data, i=i: data[i])), None)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("monotone", [False, True])
def test_a_run_follows_its_law(monotone: bool) -> None:
    m, rng, answers = SparseVector(3, 2, monotone=monotone), SeededRandom(1), [0, 2, 4]
    draws = [first_yes(m, answers, rng) for _ in range(6000)]
    assert follows(draws, run_law(m, answers))
    assert not follows(draws, run_law(SparseVector(3, 3, monotone=monotone), answers))


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("eps", [0.5, 1.0, 3.0])
def test_neighbours_stay_within_epsilon(eps: float) -> None:
    m, mono, worst = SparseVector(2, eps), SparseVector(2, eps, monotone=True), 0.0
    for answers in ([0, 0, 0, 0], [2, 2, 2, 2], [0, 5, 0, 5], [2, 2, 2, 9]):
        for moves in product((-1, 1), repeat=4):
            moved = [a + b for a, b in zip(answers, moves, strict=True)]
            worst = max(worst, worst_ratio(run_law(m, answers), run_law(m, moved)))
        up = [a + 1 for a in answers[:3]] + answers[3:]
        assert worst_ratio(run_law(mono, answers), run_law(mono, up)) <= math.exp(eps) + 1e-9
    assert math.exp(0.6 * eps) < worst <= math.exp(eps) + 1e-9


@pytest.mark.parametrize("monotone", [False, True])
def test_the_scales_cost_what_the_theorem_says(monotone: bool) -> None:
    m = SparseVector(10, 0.7, runs=3, monotone=monotone)
    unit = sparse_vector.RESOLUTION
    assert (
        accounted.above_threshold(m.threshold_scale, m.question_scale, unit, monotone=monotone) == m.run_loss
    )


def test_the_loss_is_that_of_all_runs() -> None:
    m = SparseVector(10, 0.3, runs=3)
    assert isinstance(m, Interactive)
    assert m.loss == Repeated(3, Pure(m.run_loss.epsilon))
    assert epsilon(m.loss, 0).upper == pytest.approx(0.3)


def test_used_is_what_the_answers_show() -> None:
    m = SparseVector(0, 1000, runs=2)
    talk = m.open(None, rng=SeededRandom(1))
    assert talk.used == Composed(())
    assert not talk.ask(lambda _: -100)
    assert talk.used == m.run_loss
    assert not talk.ask(lambda _: -100)
    assert talk.used == m.run_loss
    assert talk.ask(lambda _: 100)
    assert talk.used == m.run_loss
    assert not talk.ask(lambda _: -100)
    assert talk.used == m.loss
    assert talk.ask(lambda _: 100)
    assert talk.used == m.loss
    with pytest.raises(InvalidQuery, match="said yes 2 times and is over"):
        talk.ask(lambda _: 100)


def test_each_run_has_its_own_threshold() -> None:
    """A threshold kept over runs would make the second answer depend on the first."""
    m, rng = SparseVector(0, 1, runs=2), SeededRandom(2)
    gaps = []
    for _ in range(400):
        talk = m.open(None, rng=rng)
        talk.ask(lambda _: 10**6)
        talk.ask(lambda _: -(10**6))
        gaps.append(talk._threshold)
    first = [m.open(None, rng=rng) for _ in range(400)]
    for talk in first:
        talk.ask(lambda _: -(10**6))
    scale = float(m.threshold_scale)
    for seen in (gaps, [t._threshold for t in first]):
        assert 0.6 < np.abs(seen).mean() / scale < 1.6


@pytest.mark.parametrize("answer", [math.nan, None, "x", [1]])
def test_an_answer_that_is_none_counts_as_0(answer: object) -> None:
    for threshold, passes in ((-100, True), (100, False)):
        assert SparseVector(threshold, 1000).open(None, rng=SeededRandom(1)).ask(lambda _: answer) is passes


def test_a_question_that_fails_on_the_data_counts_as_0() -> None:
    assert SparseVector(-100, 1000).open({}, rng=SeededRandom(1)).ask(lambda data: data["missing"])
    assert not SparseVector(100, 1000).open({}, rng=SeededRandom(1)).ask(lambda data: 1 / 0)


def test_what_is_no_question_is_refused_without_looking() -> None:
    talk = SparseVector(0, 1).open(None, rng=SeededRandom(1))
    with pytest.raises(InvalidQuery, match="Expected a function of the data, got int"):
        talk.ask(5)
    assert talk.used == Composed(())


def test_the_error_holds_over_many_questions() -> None:
    m, rng, n = SparseVector(100, 1), SeededRandom(3), 300
    within = m.error(30, 0.9).within
    too_low = [100 - within * 1.0001] * 30
    wrong = sum(first_yes(m, too_low, rng) is not None for _ in range(n))
    assert 0 < wrong <= n * 0.1 + 6 * math.sqrt(n * 0.09)
    assert within > m.error(1, 0.9).within


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0}, {"runs": 0}, {"sensitivity": 0}, {"threshold": math.nan}, {"unit": 1}]
)
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        SparseVector(**({"threshold": 1, "epsilon": 1} | wrong))
    with pytest.raises(InvalidParameter, match="monotone"):
        SparseVector(1, 1, monotone=True, unit=Unit.row(replace=True))
