"""How answers are written: numbers with their ±, tables for a terminal and for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from deniable.sql.profile.rows import RowBound
from deniable.sql.tree import Bounding
from deniable.units import Unit, UnitKind

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[Sequence[str]]

ALIKE = 0.1
"""Sides of an interval that differ by less than this share of the larger one are written as one ±."""


def write_value(value: Any) -> str:
    """A value without an interval.

    >>> write_value(None), write_value("flu"), write_value(12345), write_value(0.1 + 0.2)
    ('NULL', 'flu', '12345', '0.3')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6g}"
        case datetime():
            return value.isoformat(sep=" ")
        case _:
            return str(value)


def _middle(count: int, low: float, high: float) -> float:
    """A count is released as a whole number; its interval lies around the number that was rounded."""
    centre = (low + high) / 2
    if abs(float(count) - centre) <= 0.5:
        return centre
    return float(count)


def number(value: Any, low: float | None, high: float | None) -> str:
    """A number with what noise may have done to it: the ± to two digits or to whole numbers, rounded up.

    >>> number(1234, 1222.0, 1246.0), number(3.14159, 3.1, 3.18), number(12, -math.inf, math.inf)
    ('1,234 ± 12', '3.142 ± 0.042', '12 (unbounded)')
    >>> number(0.2, 0.1, 0.9), number(None, None, None)
    ('0.20 (0.10 … 0.90)', 'NULL')
    >>> number(4, 3.0, 4.0), number(4, 3.0, 5.0), number(4, 3.2, 5.0)
    ('4 (3 … 4)', '4 ± 1', '4.00 ± 0.90')
    """
    if value is None:
        return "NULL"
    if low is None or high is None:
        return write_value(value)
    x = float(value)
    is_whole = isinstance(value, int) and float(low).is_integer() and float(high).is_integer()
    middle = x
    if isinstance(value, int) and not is_whole:
        middle = _middle(value, low, high)
    below, above = middle - low, high - middle
    half = max(below, above)
    if not math.isfinite(half):
        places = 0 if x.is_integer() else 4
        return f"{_group_digits(x, places)} (unbounded)"
    places = 0 if is_whole else _places(half)
    figure = round(x, places)
    if min(below, above) >= (1 - ALIKE) * half:
        return f"{_group_digits(figure, places)} ± {_group_digits(_ceil(half, places), places)}"
    ends = (_group_digits(-_ceil(-low, places), places), _group_digits(_ceil(high, places), places))
    return f"{_group_digits(figure, places)} ({ends[0]} … {ends[1]})"


def _places(half: float) -> int:
    """Decimal places that show two digits of `half`; whole numbers keep all of theirs."""
    if half <= 0:
        return 0
    return min(max(0, 1 - math.floor(math.log10(half))), 12)


def _ceil(x: float, places: int) -> float:
    """Rounded up, but for the last bits of a float."""
    step: float = 10.0**places
    return math.ceil(x * step - 1e-6) / step


def _group_digits(x: float, places: int) -> str:
    return f"{x + 0.0:,.{places}f}"


# ------------------------------------------------------------------------------------------------ tables


def bounding(told: Bounding, columns: Collection[str]) -> str:
    """What a bound on the rows of a person leaves out, and under which assumption.

    >>> print(bounding(Bounding(4, 16, 120, 31), ["n"]).replace(". ", ".\\n"))
    Each person counts for at most 4 rows; about 120 ± 31 people have more.
    ± allows for what that leaves out if nobody has more than 16: that is assumed.
    What was added for it is in n_left_out.
    >>> print(bounding(Bounding(16, 16, 0, 0), []))
    Each person counts for at most 16 rows. Nobody was seen to have more: that is assumed.
    """
    if told.hidden_people is not None:
        return _from_profile(told)
    if told.most <= told.rows:
        unseen = "Nobody is said to have more"
        if told.people is not None:
            unseen = "Nobody was seen to have more"
        return f"Each person counts for at most {told.rows:,} rows. {unseen}: that is assumed."
    about = ""
    if told.people is not None:
        about = f"; about {told.people:,} ± {told.within:,} people have more"
    extra_columns = ", ".join(f"{name}_left_out" for name in columns)
    where = ""
    if extra_columns:
        where = f" What was added for it is in {extra_columns}."
    return (
        f"Each person counts for at most {told.rows:,} rows{about}. ± allows for what that leaves out if "
        f"nobody has more than {told.most:,}: that is assumed.{where}"
    )


def _from_profile(told: Bounding) -> str:
    """What the profile says of people with many rows, and of large values."""
    sentences = [str(RowBound(told.rows, told.covers_all, told.hidden_people or 0))]
    sentences += [
        f"Values of {name} are clamped to {low:,.6g} … {high:,.6g}; the profile shows none beyond."
        for name, low, high in told.values
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def rows_of_nobody(unit: Unit) -> list[str]:
    """What becomes of rows that name no unit.

    >>> rows_of_nobody(Unit.column("Person ID")), rows_of_nobody(Unit.row())
    (['Rows with an empty Person ID are not counted.'], [])
    """
    if unit.kind is not UnitKind.COLUMN:
        return []
    return [f"Rows with an empty {_clean(str(unit.column_name))} are not counted."]


def text_table(columns: Sequence[str], rows: Rows, right: Collection[str]) -> str:
    """Columns aligned by spaces.

    >>> print(text_table(["who", "n"], [["flu", "12 ± 3"], ["asthma", "9 ± 3"]], {"n"}))
    who          n
    ──────────────
    flu     12 ± 3
    asthma   9 ± 3
    """
    widths = [max(len(name), *(len(row[i]) for row in rows), 1) for i, name in enumerate(columns)]
    lines = [_line(columns, columns, widths, right), "─" * (sum(widths) + 2 * (len(widths) - 1))]
    return "\n".join([*lines, *(_line(row, columns, widths, right) for row in rows)])


def _line(cells: Sequence[str], columns: Sequence[str], widths: Sequence[int], right: Collection[str]) -> str:
    texts = []
    for cell, name, width in zip(cells, columns, widths, strict=True):
        align = str.rjust if name in right else str.ljust
        texts.append(align(_clean(cell), width))
    return "  ".join(texts).rstrip()


def _clean(cell: str) -> str:
    """Without line breaks and other characters that move a cursor: a released key is
    text that somebody once wrote."""
    return "".join(c if c.isprintable() else "�" for c in cell)


def rich_table(columns: Sequence[str], rows: Rows, right: Collection[str], caption: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        caption=Text(caption),
        caption_justify="left",
    )
    for name in columns:
        grid.add_column(Text(_clean(name)), justify="right" if name in right else "left")
    for row in rows:
        grid.add_row(*(Text(_clean(cell)) for cell in row))
    return grid


def html_table(columns: Sequence[str], rows: Rows, right: Collection[str], notes: Sequence[str]) -> str:
    """For notebooks; everything that stands in it is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{_cells(columns, row, right)}</tr>" for row in rows)
    foot = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _cells(columns: Sequence[str], row: Sequence[str], right: Collection[str]) -> str:
    side = {name: ' style="text-align:right"' if name in right else "" for name in columns}
    return "".join(
        f"<td{side[name]}>{html.escape(cell)}</td>" for name, cell in zip(columns, row, strict=True)
    )
