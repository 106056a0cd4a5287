"""What is known of a scalar function: one record, which every walker of a tree asks.

Each scalar function is total on every engine (NULL where it is not defined), deterministic, and its cost is
bounded by the length of its input. Reading asks a record how it is written and what types it takes and gives;
writing asks for its words; the bounds of aggregates and the keys of groups for its range and its values; the
answer for its value over released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.intervals import EVERYTHING, Interval
from deniable.sql.tree import Call, Expr, Kind, Literal, Type, Value
from deniable.sql.types import HIGHEST, LOWEST

# ------------------------------------------------------------------------------------------ how it is written

Reading = Callable[[NodeReader, exp.Expr], Expr]
NamedReading = Callable[[NodeReader, Sequence[exp.Expr]], "Expr | None"]
"""Of the arguments; None where they are none that the function takes."""
UNARY, BINARY = frozenset({"this"}), frozenset({"this", "expression"})


@dataclass(frozen=True)
class Syntax:
    """A node that the parser makes, what it means, and the parts of it that may be set."""

    kind: type[exp.Expr]
    read: Reading
    parts: frozenset[str] = UNARY


@dataclass(frozen=True)
class Form:
    """One way to write a function, as the reference shows it, with its meaning, NULL and edges included.
    `named` are the spellings that the parser has no node for, by name and number of arguments."""

    text: str
    meaning: str
    nodes: tuple[Syntax, ...] = ()
    named: Mapping[tuple[str, int], NamedReading] = field(default_factory=dict)


# ----------------------------------------------------------------------------------------- how engines say it

Words = Callable[[Call, list[str], Dialect], str]
"""SQL over operands that are SQL already: total, whatever the operands are."""
Range = Callable[[list[Interval], Call], Interval]
"""Where its values lie, by where those of its arguments do."""


def anywhere(args: list[Interval], call: Call) -> Interval:
    return EVERYTHING


# ------------------------------------------------------------------------------------------ after the release


@dataclass(frozen=True)
class Cell:
    """A released value, and the interval of what it would be without noise."""

    value: Any
    low: float = -math.inf
    high: float = math.inf


Ends = tuple[float, float]
UNDEFINED = (ArithmeticError, TypeError, ValueError, LookupError)


def unknown(args: list[Cell], call: Call) -> Ends:
    return -math.inf, math.inf


@dataclass(frozen=True)
class ReleasedRule:
    """What it is over released results: its value, numbers being exact fractions (of the type, and the values
    of its arguments; NULL where it raises), and the interval of it without noise."""

    value: Callable[..., Any]
    ends: Callable[[list[Cell], Call], Ends] = unknown


def strict(of: Callable[..., Any]) -> Callable[..., Any]:
    """NULL if any argument is."""

    def strictly(type_: Type, *args: Any) -> Any:
        if any(arg is None for arg in args):
            return None
        return of(*args)

    return strictly


def hull_of(cells: Sequence[Cell]) -> Ends:
    """Of all of them: without noise another one might be taken."""
    return min(cell.low for cell in cells), max(cell.high for cell in cells)


# ------------------------------------------------------------------------------------------------- group keys

Values = tuple[Value, ...]
Exact = Callable[[Call, Sequence[Value]], Value]


class Inexact(ArithmeticError):
    """Of values that engines may compute differently."""


@dataclass(frozen=True)
class KeyRules:
    """What it is as a group key, or to be joined on: its public list of values, where its form has one; how
    many decimal places its floats have at most, None where that is not known (what has few is a key); and its
    value for public arguments, as every engine computes it."""

    domain: Callable[[Call, Callable[[Expr], Values | None]], Values | None] | None = None
    places: Callable[[Call, Callable[[Expr], int | None]], int | None] | None = None
    exact: Exact | None = None


def lifted(rule: Callable[..., Any]) -> Exact:
    """A rule over exact fractions, for public values, in the type of the call.

    An operation of IEEE 754 is the exact one, rounded once: so is this, and every engine agrees with it. Far
    from 1 their guards against overflow and underflow differ: nothing is said there.
    """

    def exact(call: Call, values: Sequence[Value]) -> Value:
        try:
            result = rule(call.type, *(as_fraction(value) for value in values))
        except UNDEFINED:
            return None
        return as_value(result, call.type)

    return exact


def as_fraction(value: Value) -> Any:
    """Numbers as fractions; truth values, texts and dates as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return Fraction(value)


def as_value(result: Any, to: Type) -> Value:
    """A number in its type, NULL where that does not hold it; what is no number as it is."""
    if isinstance(result, bool) or not isinstance(result, int | float | Fraction):
        value: Value = result
        return value
    if to.kind is Kind.FLOAT:
        size = abs(Fraction(result))
        if size and not Fraction(1, 10**60) < size < 10**60:
            raise Inexact
        return float(result)
    units = Fraction(result) * 10**to.scale
    if units.denominator != 1:
        raise Inexact
    if not LOWEST <= units <= HIGHEST:
        return None
    return int(units) if to.kind is Kind.INTEGER else Decimal(int(units)).scaleb(-to.scale)


# ---------------------------------------------------------------------------------- what holds for all values


class Connective(Enum):
    """Whether a condition holds where every part of it does, or where one does."""

    EVERY = "every"
    SOME = "some"


def never_sure(call: Call, present: Sequence[bool]) -> bool:
    return False


def with_arguments(call: Call, present: Sequence[bool]) -> bool:
    """Never NULL where no argument is."""
    return all(present)


def as_written(args: list[str]) -> list[str]:
    return args


@dataclass(frozen=True)
class Laws:
    """What holds for all values. `nulls`: how many of its first arguments make it NULL where they are, None
    for all. `present`: whether it is known never to be NULL, by which arguments are known not to be.
    `compares`: a condition that no NULL meets. `arranged`: its arguments, as texts, in one order for all that
    mean the same."""

    nulls: int | None = None
    present: Callable[[Call, Sequence[bool]], bool] = never_sure
    compares: bool = False
    connective: Connective | None = None
    arranged: Callable[[list[str]], list[str]] = as_written


# ------------------------------------------------------------------------------------------------- the record


@dataclass(frozen=True)
class Function:
    """An operator or function of the allow-list. `op` is its name in the tree and in the keys of stored
    answers: it never changes. `words` say it where the result fits its type for certain, `guarded` where it
    may not."""

    op: str
    forms: tuple[Form, ...]
    words: Words
    guarded: Words | None = None
    range: Range = anywhere
    released: ReleasedRule | None = None
    keys: KeyRules = KeyRules()
    laws: Laws = Laws()


def literal_value(call: Call, index: int) -> str:
    """The literal that stands at a place of a call, as a text."""
    arg = call.args[index]
    if isinstance(arg, Literal):
        return str(arg.value)
    return ""
