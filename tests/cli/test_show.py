"""What is printed is rounded to the safe side, and JSON keeps every digit."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.cli import show

POSITIVE = st.floats(1e-300, 1e300)


def number(text: str) -> Fraction:
    return Fraction(text.removesuffix(" %")) / (100 if text.endswith("%") else 1)


@given(POSITIVE, st.integers(1, 12))
def test_up_is_never_below_and_down_never_above(x: float, digits: int) -> None:
    truth = Fraction(repr(x))
    assert truth <= number(show.up(x, digits)) <= truth * (1 + Fraction(1, 10 ** (digits - 1)))
    assert number(show.down(x, digits)) <= truth


@given(st.floats(1e-300, 1))
def test_percentages_are_rounded_outward_too(x: float) -> None:
    assert number(show.percent_down(x)) <= Fraction(repr(x)) <= number(show.percent_up(x))


@given(POSITIVE, st.integers(1, 12))
def test_ceiling_and_floor_are_what_is_printed(x: float, digits: int) -> None:
    assert show.floor(x, digits) <= x <= show.ceiling(x, digits)


def test_zero_infinity_and_whole_numbers_look_as_people_write_them() -> None:
    assert [show.up(x) for x in (0.0, math.inf, 1.0, 10.0)] == ["0", "∞", "1", "10"]


def test_json_has_every_digit_and_no_bare_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json({"a": 0.1 + 0.2, "b": [math.inf, {"c": (1.5,)}]})
    assert json.loads(capsys.readouterr().out) == {"a": 0.1 + 0.2, "b": ["inf", {"c": [1.5]}]}


def test_no_progress_bar_is_drawn_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(show.progress([1, 2, 3], "Counting")) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_a_fixed_column_does_not_wrap(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show.table(("bar", "words"), [("█" * 20, "many words " * 5)], fixed=(0,))
    assert "█" * 20 in capsys.readouterr().out
