"""Stated sensitivities against every neighbour of small tables."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from deniable.errors import InvalidParameter
from deniable.mechanisms import clamped_sum, sensitivity
from deniable.mechanisms.sensitivity import Sensitivity
from deniable.units import Unit

ROW, OTHER, FOUR = Unit.row(), Unit.row(replace=True), Unit.column("id", max_rows=4)
VALUES = (-7.0, 0.0, 2.0, 3.0, 50.0, math.nan, math.inf)


def test_counts() -> None:
    assert sensitivity.count(ROW) == Sensitivity(1, 1)
    assert sensitivity.count(ROW, queries=9) == Sensitivity(9, 3)
    assert sensitivity.count(OTHER, queries=4) == Sensitivity(4, 2)
    assert sensitivity.count(FOUR, queries=4) == Sensitivity(16, 8)


def test_histograms() -> None:
    assert sensitivity.histogram(ROW) == Sensitivity(1, 1)
    assert sensitivity.histogram(OTHER) == Sensitivity(2, math.sqrt(2))
    assert sensitivity.histogram(FOUR) == Sensitivity(4, 4)
    assert sensitivity.histogram(ROW, tables=4) == Sensitivity(4, 2)
    replaced = sensitivity.histogram(Unit.column("id", max_rows=3, replace=True))
    assert replaced.l1 == 6
    assert Fraction(str(replaced.l2)) ** 2 >= 18


def test_sums() -> None:
    assert sensitivity.sum(0, 10, ROW).l1 == 10
    assert sensitivity.sum(-20, 10, ROW).l1 == 20
    assert sensitivity.sum(-20, 10, OTHER).l1 == 30
    assert sensitivity.sum(5, 10, OTHER).l1 == 5
    assert sensitivity.sum(5, 10, OTHER, filtered=True).l1 == 10
    assert sensitivity.sum(5, 10, FOUR).l1 == 40
    assert sensitivity.sum(-5, 10, Unit.column("id", max_rows=4, replace=True)).l1 == 60


def test_shares_of_a_public_number_of_rows() -> None:
    assert sensitivity.mean(0, 1, 8, ROW) == Sensitivity(Fraction(1, 8), Fraction(1, 8))
    assert sensitivity.mean(20, 60, 10, OTHER).l1 == 4
    assert sensitivity.proportion(100, FOUR).l1 == Fraction(1, 25)


@pytest.mark.parametrize("bounds", [(-4, 3), (2, 3), (-4, -1), (0, 3)])
def test_no_row_moves_a_clamped_sum_further(bounds: tuple[int, int]) -> None:
    added = max(abs(clamped_sum([v], *bounds)) for v in VALUES)
    replaced = max(
        abs(clamped_sum([a], *bounds) - clamped_sum([b], *bounds)) for a, b in product(VALUES, VALUES)
    )
    assert added == sensitivity.sum(*bounds, ROW).l1
    assert replaced == sensitivity.sum(*bounds, OTHER).l1


@pytest.mark.sampled
@pytest.mark.parametrize("bounds", [(-4, 3), (2, 3), (-4, -1), (0, 3)])
@pytest.mark.parametrize("replace", [False, True])
def test_no_person_moves_a_clamped_sum_further(bounds: tuple[int, int], replace: bool) -> None:
    people = [rows for n in range(3) for rows in product(VALUES, repeat=n)]
    others = people if replace else [()]
    moved = max(abs(clamped_sum(a, *bounds) - clamped_sum(b, *bounds)) for a, b in product(people, others))
    assert moved == sensitivity.sum(*bounds, Unit.column("id", max_rows=2, replace=replace)).l1


@pytest.mark.parametrize("replace", [False, True])
def test_no_person_moves_a_histogram_further(replace: bool) -> None:
    people = [np.bincount(rows, minlength=3) for n in range(3) for rows in product(range(3), repeat=n)]
    others = people if replace else [np.zeros(3, int)]
    stated = sensitivity.histogram(Unit.column("id", max_rows=2, replace=replace))
    assert max(np.abs(a - b).sum() for a, b in product(people, others)) == stated.l1
    furthest = max(((a - b) ** 2).sum() for a, b in product(people, others))
    assert furthest <= Fraction(str(stated.l2)) ** 2 <= furthest * (1 + Fraction(1, 10**12))


def test_what_is_not_bounded_is_refused() -> None:
    for call in (
        lambda: sensitivity.sum(0, math.inf, ROW),
        lambda: sensitivity.sum(3, 3, ROW),
        lambda: sensitivity.sum(math.nan, 3, ROW),
        lambda: sensitivity.mean(0, 1, 0, ROW),
        lambda: sensitivity.proportion(0, ROW),
        lambda: sensitivity.count(Unit.client()),
        lambda: sensitivity.count(Unit.column("id")),
        lambda: sensitivity.count(ROW, queries=0),
    ):
        with pytest.raises(InvalidParameter, match="Expected"):
            call()
