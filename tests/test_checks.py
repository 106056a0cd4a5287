"""Parameters outside their range are refused in one sentence, before data."""

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.units import Unit


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "1", None, True])
def test_what_is_no_positive_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidParameter, match=r"Expected epsilon="):
        checks.number("epsilon", value, above=0)


def test_the_message_names_the_value_and_the_range() -> None:
    with pytest.raises(InvalidParameter, match=r"^Expected rate=1\.2 in \(0, 1\)\.$"):
        checks.number("rate", 1.2, above=0, below=1)
    with pytest.raises(InvalidParameter, match=r"^Expected x=-1 in \[0, ∞\)\.$"):
        checks.number("x", -1, at_least=0)


def test_numpy_numbers_become_plain_ones() -> None:
    assert type(checks.number("x", np.float64(0.5))) is float
    assert type(checks.number("x", np.int64(3))) is int
    assert checks.number("x", Fraction(6, 3)) == 2


def test_failure_is_exact() -> None:
    assert checks.failure(0.99999) == Fraction(1, 100_000)


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1])
def test_a_confidence_outside_0_1_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameter, match="Expected confidence="):
        checks.failure(value)


@pytest.mark.parametrize("values", [(), "abc", 3, ("a", "a"), ([1], [2])])
def test_candidates_must_be_different_hashable_things(values: object) -> None:
    with pytest.raises(InvalidParameter, match="candidates"):
        checks.choices("candidates", values)


def test_monotone_scores_need_a_unit_that_comes_or_goes() -> None:
    assert checks.monotone(True, Unit.row())
    with pytest.raises(InvalidParameter, match="monotone=False"):
        checks.monotone(True, Unit.row(replace=True))


@pytest.mark.parametrize("unit", [Unit.client(), Unit.column("id"), Unit.ball(2, 1)])
def test_a_unit_without_a_bound_on_its_rows_has_no_sensitivity(unit: Unit) -> None:
    with pytest.raises(InvalidParameter, match="bounded number of rows"):
        checks.rows_of(unit)
