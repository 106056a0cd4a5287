"""Times of day beside literals, `seen::time BETWEEN '07:00' AND '09:30'`, as microseconds since midnight: a
function from tree to tree."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import expressions as exp

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,6}))?)?")
_SINCE_MIDNIGHT = sqlglot.parse_one("date_diff('microsecond', date_trunc('day', _x), _x)", read="duckdb")
_SIDES = ("this", "expression", "low", "high")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)


def since_midnight(tree: exp.Expr) -> None:
    """Comparisons of times of day, where all but one are literals; others are left to be refused."""
    for node in list(tree.find_all(*_COMPARISONS)):
        sides = [side for part in _SIDES if (side := node.args.get(part)) is not None]
        numbers = [_microseconds(side) for side in sides]
        if numbers.count(None) == 1 and _is_time(sides[numbers.index(None)]):
            for side, number in zip(sides, numbers, strict=True):
                side.replace(_written(side, number))


def _written(side: exp.Expr, number: int | None) -> exp.Expr:
    if number is not None:
        return exp.Literal.number(number)
    since = _SINCE_MIDNIGHT.copy()
    for column in list(since.find_all(exp.Column)):
        column.replace(side.this.copy())
    return since


def _is_time(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.to.is_type("time")


def _microseconds(node: exp.Expr) -> int | None:
    literal = node.this if _is_time(node) else node
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    clock = _CLOCK.fullmatch(str(literal.this))
    if clock is None:
        return None
    hours, minutes, seconds, fraction = (part or "0" for part in clock.groups())
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 10**6 + int(fraction.ljust(6, "0"))
