"""How the command line prints: tables that fit the terminal, numbers rounded to the safe side, JSON with every digit."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

Item = TypeVar("Item")


def console() -> Console:
    return Console(highlight=False, emoji=False, markup=False)


def say(*lines: str) -> None:
    """Print sentences, wrapped at the width of the terminal."""
    for line in lines:
        console().print(line)


def bullets(sentences: Iterable[str]) -> None:
    """Print a list, each sentence wrapped beside its dot."""
    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(" ·", sentence)
    console().print(grid)


def heading(line: str) -> None:
    console().print(line, style="bold")


def as_json(value: Mapping[str, object]) -> None:
    """Print JSON with every digit; ∞ is the string "inf", as in certificates."""
    sys.stdout.write(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case Path():
            return str(value)
        case _:
            return value


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    fixed: Sequence[int] = (),
    best: int | None = None,
) -> None:
    """A table without walls; the columns `right` are numbers, those in `fixed` never wrap, row `best` stands out."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for i, name in enumerate(columns):
        numeric = i in right
        grid.add_column(name, justify="right" if numeric else "left", no_wrap=numeric or i in fixed, overflow="fold")
    for i, row in enumerate(rows):
        grid.add_row(*map(str, row), style="bold green" if i == best else None)
    console().print(grid)


def up(x: float, digits: int = 4) -> str:
    """`x` to so many digits, rounded up: what is printed never claims less than what was computed.

    >>> up(0.946901), up(1e-5), up(26.39), up(12345.6), up(float("inf"))
    ('0.9470', '1e-05', '26.39', '12350', '∞')
    """
    return _rounded(x, digits, ROUND_CEILING)


def down(x: float, digits: int = 4) -> str:
    """`x` to so many digits, rounded down.

    >>> down(0.946999), down(0.0)
    ('0.9469', '0')
    """
    return _rounded(x, digits, ROUND_FLOOR)


def percent_up(x: float, digits: int = 4) -> str:
    """A probability as a percentage, rounded up.

    >>> percent_up(0.6444041), percent_up(1.0)
    ('64.45 %', '100 %')
    """
    return f"{_rounded(_percent(x), digits, ROUND_CEILING)} %"


def percent_down(x: float, digits: int = 4) -> str:
    return f"{_rounded(_percent(x), digits, ROUND_FLOOR)} %"


def _percent(x: float) -> Decimal:
    return Decimal(repr(float(x))).scaleb(2)


def ceiling(x: float, digits: int) -> float:
    """`x` to so many digits, rounded up, as a number.

    >>> ceiling(1.68012345, 6), floor(0.0123456789, 6)
    (1.68013, 0.0123456)
    """
    return float(_decimal(x, digits, ROUND_CEILING))


def floor(x: float, digits: int) -> float:
    return float(_decimal(x, digits, ROUND_FLOOR))


def _decimal(x: float | Decimal, digits: int, mode: str) -> Decimal:
    # The shortest decimal that means this float: 1e-5 is not 1.0000000000000000818e-05, and rounds to itself.
    return Context(prec=digits, rounding=mode).create_decimal(x if isinstance(x, Decimal) else repr(float(x)))


def _rounded(x: float | Decimal, digits: int, mode: str) -> str:
    if math.isinf(x):
        return "∞"
    number = _decimal(x, digits, mode)
    plain = number and -4 <= number.adjusted() < 7
    return f"{number:f}".removesuffix(".0") if plain else f"{float(number):.{digits}g}"


def progress(items: Sequence[Item], label: str) -> Iterable[Item]:
    """The items, with a bar on stderr while they pass; nothing of it stays, and nothing is drawn into a pipe."""
    screen = Console(stderr=True)
    return track(items, description=label, console=screen, transient=True, disable=not screen.is_terminal)
