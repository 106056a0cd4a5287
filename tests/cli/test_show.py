"""JSON keeps every digit, bars stay out of pipes, columns that must not wrap do not."""

from __future__ import annotations

import json
import math

import pytest

from deniable.cli import show


def test_json_has_every_digit_and_no_bare_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json({"a": 0.1 + 0.2, "b": [math.inf, {"c": (1.5,)}]})
    assert json.loads(capsys.readouterr().out) == {"a": 0.1 + 0.2, "b": ["inf", {"c": [1.5]}]}


def test_no_progress_bar_is_drawn_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(show.progress([1, 2, 3], "Counting")) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_a_fixed_column_does_not_wrap(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show.table(("bar", "words"), [("█" * 20, "many words " * 5)], fixed_columns=(0,))
    assert "█" * 20 in capsys.readouterr().out
