"""Which picture an answer gets: bars for groups, a line over dates and many numbers, a field for two keys."""

from __future__ import annotations

from datetime import date, timedelta

import pyarrow as pa

from deniable.curator import Answer
from deniable.loss import Pure
from deniable.server.console.pictures import pictures
from deniable.units import Unit


def answer(**columns: list[object]) -> Answer:
    """With an interval of ± 1 around every number in a column that begins with n."""
    value = pa.table(columns)
    low, high = (
        pa.table(
            {name: [float(x) + side for x in cells] for name, cells in columns.items() if name[0] == "n"}
        )
        for side in (-1, 1)
    )
    return Answer(value=value, loss=Pure(1), unit=Unit.row(), entry="1:ff", private=True, low=low, high=high)


def test_groups_are_bars_with_their_intervals() -> None:
    (picture,) = pictures(answer(ward=["a", "b"], n=[3, 4]))
    assert picture.count('class="mark"') == 2
    assert picture.count('class="error"') == 6


def test_dates_are_a_line_in_their_order_with_a_band() -> None:
    days = [date(2024, 1, 1) + timedelta(days=i) for i in (3, 1, 2)]
    (picture,) = pictures(answer(day=days, n=[30, 10, 20]))
    assert 'class="soft"' in picture
    assert picture.index("2024-01-02") < picture.index("2024-01-03") < picture.index("2024-01-04")


def test_many_whole_numbers_are_a_line_and_few_are_bars() -> None:
    assert "<path" in pictures(answer(age=list(range(20)), n=list(range(20))))[0]
    assert "<path" not in pictures(answer(age=[1, 2, 3], n=[1, 2, 3]))[0]


def test_two_keys_are_a_field_with_its_intervals_in_words() -> None:
    (picture,) = pictures(answer(ward=["a", "a", "b", "b"], sex=["F", "M", "F", "M"], n=[1, 2, 3, 400]))
    assert picture.count('class="heat"') == 4
    assert "400 ± 1" in picture
    assert 'fill-opacity="0.50"' in picture


def test_each_column_of_numbers_has_its_picture() -> None:
    assert len(pictures(answer(ward=["a", "b"], n=[3, 4], n2=[5, 6]))) == 2


def test_one_row_needs_no_picture_and_too_many_bars_are_none() -> None:
    assert pictures(answer(n=[3])) == []
    many = [f"key {i}" for i in range(200)]
    assert pictures(answer(key=many, n=list(range(200)))) == []


def test_missing_and_equal_keys_are_drawn_too() -> None:
    (picture,) = pictures(answer(ward=[None, "NULL"], n=[3, 4]))
    assert picture.count("NULL") >= 2
    assert pictures(answer(a=[None, "NULL"], b=["x", "x"], n=[3, 4]))  # two keys that are written alike: bars
