"""Pairs are neighbours or they are refused; the patterns of the literature are all there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable.audit.runs.pairs import Pair, default_pairs, neighbours, patterns
from deniable.errors import InvalidParameter
from deniable.units import Unit

PATIENTS = {"patient": ["a", "a", "b"], "cost": [1, 2, 3]}
FEWER = {"patient": ["b"], "cost": [3]}
OTHERS = {"patient": ["b", "c"], "cost": [3, 9]}


@pytest.mark.parametrize(
    ("unit", "first", "second", "are"),
    [
        (Unit.row(), [1, 2, 3], [1, 3], True),
        (Unit.row(), [1, 2, 3], [3, 1], True),
        (Unit.row(), [1, 1], [1], True),
        (Unit.row(), [1, 2], [1, 3], False),
        (Unit.row(), [1, 2, 3], [1], False),
        (Unit.row(replace=True), [1, 2], [3, 1], True),
        (Unit.row(replace=True), [1, 2], [1], False),
        (Unit.row(replace=True), [1, 2], [3, 4], False),
        (Unit.row(), {"x": [1, 2], "y": [3, 4]}, pa.table({"x": [1], "y": [3]}), True),
        (Unit.row(), np.eye(3), np.eye(3)[:2], True),
        (Unit.value(), "anything", 7, True),
        (Unit.ball(math.inf, 1), [1.0, 1.0], [2.0, 0.0], True),
        (Unit.ball(1, 1), [1.0, 1.0], [2.0, 0.0], False),
        (Unit.ball(2, 1), 0.0, 1.5, False),
        (Unit.ball(2, 1), [0.0], [0.0, 0.0], False),
        (Unit.column("patient"), PATIENTS, FEWER, True),
        (Unit.column("patient"), PATIENTS, {"patient": ["a", "b"], "cost": [1, 3]}, False),
        (Unit.column("patient"), PATIENTS, OTHERS, False),
        (Unit.column("patient", replace=True), PATIENTS, OTHERS, True),
        (Unit.column("patient", replace=True), PATIENTS, {"patient": ["a", "b"], "cost": [1, 3]}, True),
        (Unit.client(), {"a": [1], "b": [2]}, {"a": [1]}, True),
        (Unit.client(), {"a": [1], "b": [2]}, {"a": [1], "b": [3]}, False),
        (Unit.client(replace=True), {"a": [1], "b": [2]}, {"a": [1], "b": [3]}, True),
    ],
)
def test_neighbours_are_what_the_unit_says(unit: Unit, first: Any, second: Any, are: bool) -> None:
    assert neighbours(first, second, unit) is are
    assert neighbours(second, first, unit) is are


def test_a_pair_that_is_none_is_refused_before_anything_runs() -> None:
    with pytest.raises(
        InvalidParameter, match=r'The pair "given" is not a pair of neighbours .* Nothing was run'
    ):
        Pair([1, 2], [3]).check(Unit.row())


def test_a_table_without_the_column_of_its_unit_is_refused() -> None:
    with pytest.raises(InvalidParameter, match='a table with the column "patient"'):
        neighbours([1], [1, 2], Unit.column("patient"))


def test_the_patterns_of_the_literature_are_all_there() -> None:
    named = {pair.name: pair for pair in patterns(6, everywhere=True)}
    wanted = "one above|one below|one above, rest below|one below, rest above|half half|all above|all below|x-shape"
    assert set(wanted.split("|")) <= set(named)
    assert named["x-shape"].first.tolist() == [1, 1, 1, 0, 0, 0]
    assert named["x-shape"].second.tolist() == [0, 0, 0, 1, 1, 1]
    assert named["one above, rest below"].second.tolist() == [2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("everywhere", "unit"), [(True, Unit.ball(math.inf, 1)), (False, Unit.ball(1, 1))])
def test_every_pattern_is_a_pair_of_neighbours(everywhere: bool, unit: Unit) -> None:
    found = patterns(5, everywhere=everywhere, distance=20.0)
    assert all(pair.check(unit) for pair in found)
    assert len({pair.name for pair in found}) == len(found)


@pytest.mark.parametrize("unit", [Unit.row(), Unit.row(replace=True), Unit.value(), Unit.ball(2, 0.5)])
def test_pairs_to_search_are_neighbours(unit: Unit) -> None:
    assert all(pair.check(unit) for pair in default_pairs(unit))


def test_units_without_known_pairs_ask_for_one() -> None:
    with pytest.raises(InvalidParameter, match="give a pair of neighbouring tables"):
        default_pairs(Unit.column("patient"))
