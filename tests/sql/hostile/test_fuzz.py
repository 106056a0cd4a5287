"""Random queries on neighbouring hospitals: nothing visible differs but through noise, and nothing fails."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from deniable.randomness import SeededRandom
from deniable.sql.plan.plan import Plan
from tests.sql.engines.real import ENGINES
from tests.sql.hostile.fuzz import Fuzz
from tests.sql.hostile.neighbours import assert_alike, hospitals, planned


def answered(seeds: range) -> list[tuple[str, Plan]]:
    found = []
    for seed in seeds:
        text = Fuzz(seed).query()
        try:
            found.append((text, planned(text)))
        except InvalidQuery:
            continue
    return found


def test_most_random_queries_are_answered() -> None:
    assert len(answered(range(40))) > 20


def test_neighbours_differ_only_within_the_noise_on_duckdb() -> None:
    for text, made in answered(range(30)):
        try:
            assert_alike(made, hospitals("duckdb"))
        except Exception as error:
            raise AssertionError(text) from error


def test_the_shape_of_an_answer_over_public_keys_is_the_same_on_neighbours() -> None:
    for text, made in answered(range(10)):
        answers = [made(engine, rng=SeededRandom(1)) for engine in hospitals("duckdb")]
        one, other = (answer.table for answer in answers)
        assert one.schema == other.schema, text
        if all(group.selection is None for group in made.sets) and made.query.having is None:
            assert one.num_rows == other.num_rows, text


@pytest.mark.parametrize("kind", ENGINES[1:2])
def test_neighbours_differ_only_within_the_noise_on_postgresql(kind: str) -> None:
    for text, made in answered(range(1000, 1040)):
        try:
            assert_alike(made, hospitals(kind))
        except Exception as error:
            raise AssertionError(text) from error


@pytest.mark.soak
@pytest.mark.parametrize("kind", ENGINES)
def test_many_more_random_queries(kind: str) -> None:
    for text, made in answered(range(10_000, 10_400)):
        try:
            assert_alike(made, hospitals(kind))
        except Exception as error:
            raise AssertionError(text) from error
