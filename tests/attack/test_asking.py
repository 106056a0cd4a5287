"""Every way of asking gives the same counts, and a refusal ends the conversation."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from deniable.attack import asking
from deniable.attack.asking import (
    all_subsets,
    ask_account,
    ask_each,
    exact,
    noisy,
    random_subsets,
    through_sql,
)
from deniable.attack.counts.reconstruct import reconstruct
from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.mechanisms import Laplace
from deniable.randomness import SeededRandom

RNG = np.random.default_rng(3)
BITS = RNG.integers(0, 2, 40)
BITS[0] = 1


def refused(*_: Any) -> float:
    raise BudgetExceeded("No more.", asked=1, spent=1, total=2, limit=1)


def test_counts_are_those_of_a_naive_loop() -> None:
    subsets = random_subsets(3000, 40, seed=1)
    naive = [sum(int(b) for b, inside in zip(BITS, row, strict=True) if inside) for row in subsets]
    assert exact(BITS)(subsets).tolist() == naive


@pytest.mark.parametrize("people", [1, 7, 8, 9, 40])
def test_random_subsets_are_fair_coins_that_repeat_with_the_seed(people: int) -> None:
    subsets = random_subsets(2000, people, seed=5)
    assert subsets.shape == (2000, people)
    low, high = binom.interval(1 - 1e-9, 2000, 0.5)
    assert ((low <= subsets.sum(axis=0)) & (subsets.sum(axis=0) <= high)).all()
    assert (random_subsets(2000, people, seed=5) == subsets).all()
    assert (random_subsets(2000, people, seed=6) != subsets).any()


def test_all_subsets_are_all_and_different() -> None:
    subsets = all_subsets(6)
    assert len({tuple(row) for row in subsets.tolist()}) == 64


@pytest.mark.parametrize("people", [0, 21])
def test_too_many_people_to_list_are_refused(people: int) -> None:
    with pytest.raises(InvalidParameter, match=f"Expected people={people} from 1 to 20"):
        all_subsets(people)


def test_no_question_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected queries=0"):
        random_subsets(0, 5)


def test_noise_has_the_deviation_it_is_given() -> None:
    subsets = np.zeros((20_000, 40), np.uint8)
    spread = noisy(exact(BITS), 3.0, seed=1)(subsets).std()
    assert abs(spread / 3 - 1) < 6.2 / np.sqrt(2 * 20_000)


def test_a_refusal_ends_the_conversation() -> None:
    subsets = random_subsets(10, 40)
    said: list[float] = []

    def three(subset: asking.Subsets) -> float:
        said.append(float(subset @ BITS))
        return said[-1] if len(said) <= 3 else refused()

    assert ask_each(three)(subsets).tolist() == said[:3]
    assert len(said) == 4
    assert len(ask_each(refused)(subsets)) == 0


@pytest.mark.parametrize("batch", [1, 5])
def test_an_account_answers_until_it_is_spent_and_every_answer_is_charged(batch: int) -> None:
    subsets = random_subsets(100, 40)

    def mechanism(k: int) -> Laplace:
        return Laplace.for_budget(0.25, k, dimension=k if k > 1 else None, unit=asking.PERSON)

    with asking.account(1.0) as paid:
        answers = ask_account(paid, BITS, mechanism, batch=batch, rng=SeededRandom(1))(subsets)
        assert len(answers) == 4 * batch
        assert paid.spent().epsilon == 1
        assert sum(entry.kind == "run" for entry in paid.history()) == 4
    truth = exact(BITS)(subsets)[: 4 * batch]
    assert 0 < np.abs(answers - truth).max() < 40 * 4 * batch


def test_a_mechanism_for_one_count_is_not_taken_for_two() -> None:
    with asking.account(1.0) as paid, pytest.raises(InvalidParameter, match="answers 2 counts, got 1"):
        ask_account(paid, BITS, lambda _: Laplace(1, unit=asking.PERSON), batch=2)(random_subsets(4, 40))


def test_sql_asks_for_the_same_counts_and_is_reconstructed() -> None:
    keys = 3 * np.arange(40)
    connection = duckdb.connect()
    connection.register("patients", pa.table({"key": keys, "sick": BITS}))

    def run(text: str) -> float:
        return float(connection.execute(text).fetchall()[0][0])

    ask = through_sql(run, table="patients", key="key", keys=keys.tolist(), condition="sick = 1")
    subsets = random_subsets(20, 40)
    subsets[0] = 0
    assert ask(subsets).tolist() == exact(BITS)(subsets).tolist()
    assert (reconstruct(ask, 40, 80).bits == BITS).all()
