"""Which picture shows an answer: bars for groups, lines over time and numbers, a field for two keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import product
from typing import Any

from markupsafe import Markup

from deniable.curator import Answer
from deniable.curator.answers.words import number, write_value
from deniable.plots import svg
from deniable.server.console.page import trust_picture

MOST_BARS, MOST_POINTS, MOST_FIELDS = 40, 1000, 12
MOST_PICTURES = 3
MANY = 8
"""Whole numbers as keys are drawn as a line from so many on."""


def pictures(answer: Answer) -> list[Markup]:
    """A picture of each of the first columns of numbers; none where a table says all."""
    rows = answer.value.num_rows
    keys = [name for name in answer.value.column_names if name not in answer.numbers]
    if not keys or rows < 2:
        return []
    drawings = (_picture(answer, keys, name) for name in answer.numbers[:MOST_PICTURES])
    return [trust_picture(picture) for picture in drawings if picture]


def _picture(answer: Answer, keys: list[str], name: str) -> str:
    label = f"{name} by {', '.join(keys)}, with intervals of probability {answer.confidence:.6g}"
    columns = [answer.value.column(key).to_pylist() for key in keys]
    rows = range(answer.value.num_rows)
    if len(keys) == 1 and _has_order(columns[0]) and len(rows) <= MOST_POINTS:
        places = list(map(_place, columns[0]))
        order = sorted(rows, key=places.__getitem__)
        words = [write_value(columns[0][i]) for i in order]
        return svg.lines(sorted(places), words, *_sides(answer, name, order), name=name, label=label)
    picture = ""
    if len(keys) == 2:
        picture = _field(answer, columns, name, label)
    if picture or len(rows) > MOST_BARS:
        return picture
    words = [" · ".join(map(write_value, cells)) for cells in zip(*columns, strict=True)]
    return svg.bars(words, *_sides(answer, name, rows), name=name, label=label)


def _sides(answer: Answer, name: str, order: Iterable[int]) -> Iterator[list[float | None]]:
    """The values of a column, and the two ends of their intervals, row by row in this order."""
    rows = list(order)
    for side in (answer.value, answer.low, answer.high):
        cells = side.column(name).to_pylist()
        yield [_number(cells[i]) for i in rows]


def _field(answer: Answer, columns: list[list[Any]], name: str, label: str) -> str:
    """Two keys as a field, if each has few values; the longer side goes down."""
    sides = [sorted({write_value(x) for x in column}) for column in columns]
    down, across = (0, 1) if len(sides[0]) >= len(sides[1]) else (1, 0)
    if len(sides[across]) > MOST_FIELDS or len(sides[down]) > MOST_BARS:
        return ""
    if answer.value.num_rows * 3 < math.prod(map(len, sides)):
        return ""
    low, high, value = (side.column(name).to_pylist() for side in (answer.low, answer.high, answer.value))
    cells: dict[tuple[int, int], tuple[float, str]] = {}
    for i in range(answer.value.num_rows):
        place = (
            sides[down].index(write_value(columns[down][i])),
            sides[across].index(write_value(columns[across][i])),
        )
        cells[place] = (_number(value[i]) or 0.0, number(value[i], low[i], high[i]))
    if len(cells) < answer.value.num_rows:
        return ""  # two keys that are written alike
    assert set(cells) <= set(product(range(len(sides[down])), range(len(sides[across]))))
    return svg.heat(sides[down], sides[across], cells, name=name, label=label)


def _has_order(keys: list[Any]) -> bool:
    """Dates, or many whole numbers: what has a place on a line."""
    dates = all(isinstance(key, date) for key in keys)
    integers = all(isinstance(key, int) and not isinstance(key, bool) for key in keys)
    return len(set(map(str, keys))) == len(keys) and (dates or (integers and len(keys) >= MANY))


def _place(key: Any) -> float:
    if isinstance(key, datetime):
        return (key - datetime(1970, 1, 1, tzinfo=key.tzinfo)).total_seconds()
    if isinstance(key, date):
        return float(key.toordinal() * 86_400)
    return float(key)


def _number(x: Any) -> float | None:
    if x is None:
        return None
    return float(x)
