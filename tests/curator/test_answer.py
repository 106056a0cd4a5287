"""An answer shows every number with its interval, rounds to the safe side, and can be kept and read again."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from deniable.curator import Answer, Curator, Preview
from deniable.curator.answers import words
from deniable.curator.answers.answer import NOT_FOUND
from deniable.curator.answers.kept import KeptText
from deniable.errors import InvalidParameter, MissingExtra
from deniable.ledger.releases import Kept
from deniable.loss import DiscreteLaplaceNoise
from deniable.mechanism import Release
from deniable.randomness import SeededRandom
from deniable.sql.plan.bounds.values import ValueBounds
from deniable.sql.plan.measures.totals import Sum
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.sql.tree import Bounding, Result
from deniable.units import Unit

LOSS = DiscreteLaplaceNoise(2, 1)


def answer(**changes: object) -> Answer:
    table = pa.table({"diagnosis": ["flu", "asthma"], "visits": [1234, 90], "days": [3.14159, None]})
    result = Result(
        table,
        {"visits": [1222.0, 78.0], "days": [3.1, -math.inf]},
        {"visits": [1246.0, 102.0], "days": [3.18, math.inf]},
        0.95,
        {"days": (0.0, 60.0)},
    )
    release = Release(result, LOSS, Unit.row(), None, "7:" + "0f" * 32, True)
    made = Answer.from_release(release, epsilon=0.5, delta=1e-8)
    return Answer(**{**made.__dict__, **changes})


def test_it_is_a_release_whose_value_is_the_table_asked_for() -> None:
    made = answer()
    assert isinstance(made, Release)
    assert made.value.column_names == ["diagnosis", "visits", "days"]
    assert (made.loss, made.unit, made.private) == (LOSS, Unit.row(), True)


def test_every_number_has_its_interval_beside_it_in_every_format() -> None:
    made = answer()
    columns = ["diagnosis", "visits", "visits_low", "visits_high", "days", "days_low", "days_high"]
    assert made.table.column_names == columns
    assert list(made.to_pandas().columns) == columns
    assert made.to_polars().columns == columns
    assert made.to_polars()["visits_low"].to_list() == [1222.0, 78.0]


def test_a_column_that_is_called_like_an_interval_keeps_its_name() -> None:
    table = pa.table({"n_low": ["a"], "n": [5]})
    result = Result(table, {"n": [4.0]}, {"n": [6.0]}, 0.95, {})
    made = Answer.from_release(Release(result, LOSS, Unit.row()), epsilon=1, delta=0)
    assert made.table.column_names == ["n_low", "n", "n_low_", "n_high"]
    assert made.table.column("n_low").to_pylist() == ["a"]


def test_it_prints_numbers_with_their_error_and_says_what_is_left_out() -> None:
    said = str(answer())
    assert "flu        1,234 ± 12  3.142 ± 0.042" in said
    assert "asthma        90 ± 12           NULL" in said
    assert "Cost: ε = 0.5 at δ = 1e-08, paid by entry 7 of the ledger." in said
    assert "leaves out what clamping to bounds and the bound on rows per person took away" in said
    assert "The bounds of days were discovered privately, and paid for: 0 to 60." in said
    assert "stands out" not in said


def test_bounds_that_were_not_found_are_said_to_be_no_bounds() -> None:
    made = replace(answer(), bounds={"days": (-1.0, 1.0)})
    assert "no value of days stands out of the noise: ask with more ε" in str(made)
    result = ValueBounds(Sum(), Noise(Family.LAPLACE, 10, IntegerSensitivity(1, 1)))
    assert tuple(map(float, result({}, rng=SeededRandom(1)))) == NOT_FOUND


def test_a_seeded_answer_says_that_it_protects_nobody() -> None:
    assert any("protects nobody" in note for note in answer(private=False).notes)
    assert not any("protects nobody" in note for note in answer().notes)


def test_a_terminal_and_a_notebook_show_the_same_cells() -> None:
    console = Console(width=100, color_system=None, force_terminal=False, record=True)
    with console.capture() as seen:
        console.print(answer())
    assert "1,234 ± 12" in seen.get()
    assert "<td>flu</td>" in answer()._repr_html_()
    assert "1,234 ± 12</td>" in answer()._repr_html_()


def test_a_released_key_can_neither_write_html_nor_move_the_cursor() -> None:
    hostile = pa.table({"k": ["<script>alert(1)</script>", "a\x1b[2Jb\nc"], "n": [1, 2]})
    result = Result(hostile, {"n": [0.0, 1.0]}, {"n": [2.0, 3.0]}, 0.95, {})
    made = Answer.from_release(Release(result, LOSS, Unit.row()), epsilon=1, delta=0)
    assert "<script>" not in made._repr_html_()
    assert "\x1b" not in str(made)
    assert len(str(made).splitlines()) == 2 + 2 + 2 + len(made.notes)


def test_it_is_kept_and_read_again_bit_for_bit() -> None:
    table = pa.table({"day": [date(2024, 3, 1), None], "n": [1, -2], "x": [0.1, math.nan]})
    result = Result(table, {"n": [0.0, -3.0]}, {"n": [2.0, math.inf]}, 0.9, {"x": (0.0, 1.0)})
    made = Answer.from_release(
        Release(result, LOSS, Unit.column("p", max_rows=3), None, "7:ab"), epsilon=0.1, delta=1e-9
    )
    kept = Kept.from_release("key", "7:ab", LOSS, None, True, made.to_text())
    again = KeptText(kept).read_answer("7:ab", "key").answer(None, again=True)
    assert again.value.equals(made.value) or again.value.slice(0, 1).equals(made.value.slice(0, 1))
    assert again.value.schema == made.value.schema
    assert (again.low, again.high) == (made.low, made.high)
    for part in ("loss", "unit", "entry", "private", "confidence", "epsilon", "delta", "bounds"):
        assert getattr(again, part) == getattr(made, part)
    assert again.again
    assert any("given before" in note for note in again.notes)


def test_it_is_sent_and_read_again_with_all_that_is_said_of_it() -> None:
    table = pa.table({"day": [date(2024, 3, 1), None], "n": [1, -2], "x": [0.1, 2.0]})
    left_out = {"n": [0.5, 1.5]}
    result = Result(
        table,
        {"n": [0.0, -3.0]},
        {"n": [2.0, math.inf]},
        0.9,
        {"x": (0.0, 1.0)},
        left_out,
        Bounding(4, 16, 9, 3),
    )
    made = Answer.from_release(
        Release(result, LOSS, Unit.column("p", max_rows=3), None, "7:ab", False), epsilon=0.1, delta=1e-9
    )
    made = replace(made, computed=("x",), remarks=("Read this.",), again=True)
    content = json.loads(json.dumps(made.to_dict(arrow=True), default=str))
    assert Answer.from_dict(content) == made
    assert content["rows"][0] == ["2024-03-01", 1, 0.1]
    assert content["notes"] == list(made.notes)
    assert "arrow" not in made.to_dict()


def test_an_earlier_service_said_less_of_it(hospital: Callable[..., Curator]) -> None:
    """What version 0.2 sent is read: it knew neither `left_out` nor remarks, and of a preview no ρ."""
    curator = hospital()
    answer = curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
    content = answer.to_dict(arrow=True)
    for name in ("left_out", "private", "bounding", "computed", "remarks"):
        del content[name]
    del content["arrow"]["left_out"]
    assert Answer.from_dict(content).table.column("n") == answer.table.column("n")
    preview = curator.preview("SELECT COUNT(*) AS n FROM visits", epsilon=0.5, of=20)
    assert Preview.from_dict(preview.to_dict()) == preview
    short = preview.to_dict()
    del short["more"], short["shares"], short["left"]["rho"], short["left"]["mu"]
    assert Preview.from_dict(short).left.epsilon == preview.left.epsilon


finite = st.floats(-1e12, 1e12, allow_nan=False)


@given(finite, st.floats(0, 1e9), st.floats(0, 1e9))
def test_what_is_printed_never_claims_more_than_the_interval(
    value: float, below: float, above: float
) -> None:
    """Up to half a unit of the last digit that is shown, by which the number itself is rounded."""
    said = words.number(value, value - below, value + above).replace(",", "")
    if "±" in said:
        shown, half = map(Fraction, said.split(" ± "))
        ends = shown - half, shown + half
    else:
        inner = said[said.index("(") + 1 : -1]
        ends = tuple(map(Fraction, inner.split(" … ")))
    digits = len(said.split(" ")[0].partition(".")[2])
    slack = Fraction(1, 2 * 10**digits) + Fraction(1, 10**5) + abs(Fraction(value)) / 10**14
    assert ends[0] <= Fraction(value - below) + slack
    assert ends[1] >= Fraction(value + above) - slack


def test_the_picture_has_a_bar_and_an_error_bar_for_each_row(tmp_path: Path) -> None:
    made = answer()
    figure = made.plot(made.numbers[0], path=tmp_path / "answer.png")
    (plane,) = figure.axes
    assert [bar.get_height() for bar in plane.patches] == [1234, 90]
    assert [text.get_text() for text in plane.get_xticklabels()] == ["flu", "asthma"]
    (segments,) = [c.get_segments() for c in plane.collections]
    assert [(s[0][1], s[1][1]) for s in segments] == [(1222.0, 1246.0), (78.0, 102.0)]
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG")


def test_an_unbounded_interval_is_drawn_as_a_hollow_bar() -> None:
    table = pa.table({"k": ["a", "b"], "m": [1.0, 2.0]})
    result = Result(table, {"m": [0.5, -math.inf]}, {"m": [1.5, math.inf]}, 0.95, {})
    (plane,) = Answer.from_release(Release(result, LOSS, Unit.row()), epsilon=1, delta=0).plot().axes
    assert [bar.get_fill() for bar in plane.patches] == [True, False]


def test_a_column_that_is_no_number_is_not_drawn() -> None:
    with pytest.raises(InvalidParameter, match="There are: visits, days"):
        answer().plot("diagnosis")


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=f"pip install {package}"):
        getattr(answer(), f"to_{package}")()
