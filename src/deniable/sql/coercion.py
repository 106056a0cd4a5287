"""Types that meet: what an operator wants of its operands, and how they become one type. Nothing is cast
silently but numbers to wider numbers, dates to timestamps and literals to the type beside them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Column, Expr, Kind, Literal, Type, Value
from deniable.sql.types import BOOLEAN, INTEGER, NUMBERS, TEXT, TIMES, WHOLE


class NodeReader(Protocol):
    """Gives the meaning of a node where it stands: `check_expressions.Translator`."""

    def __call__(self, node: exp.Expr) -> Expr: ...

    def all(self, nodes: Sequence[exp.Expr]) -> list[Expr]: ...


_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)


def condition(of: NodeReader, node: exp.Expr, where: str) -> Expr:
    return boolean(of(node), where)


def convert(expr: Expr, to: Type) -> Expr:
    """As a value of type `to`; a literal becomes a literal."""
    if expr.type == to or (expr.type.kind is to.kind and to.kind is not Kind.DECIMAL):
        return expr
    if isinstance(expr, Literal):
        value = expr.value
        if to.kind is Kind.TIMESTAMP:
            value = _in_utc(value)
        literal = types.literal_as(value, to)
        if literal is None:
            refuse(f"{shown_literal(expr)} is not of type {types.name(to)}.", "Write a literal of that type.")
        return literal
    return Call("cast", (expr,), to)


def _in_utc(value: Value) -> Value:
    """A literal moment with a zone, or without seconds, as a clock in UTC shows it."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return value
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC).replace(tzinfo=None)
        return moment
    except (ValueError, OverflowError):
        return value


def meet(exprs: Sequence[Expr], where: str) -> tuple[list[Expr], Type]:
    """All of them in their common type. A literal text beside another type is read as
    that type; NULL has every type."""
    values = [e for e in exprs if not types.is_null(e)]
    firm = [e.type for e in values if not is_loose(e)]
    to = _common(firm, [e.type for e in values])
    if to is None:
        kinds = ", ".join(sorted({types.name(t) for t in firm}))
        text = next((hint for e in exprs if (hint := text_way_out(e, firm))), "Use CAST(x AS …).")
        refuse(f"{where} got values of types that do not go together: {kinds}.", text)
    return [convert(e, to) for e in exprs], to


def _common(firm: list[Type], every: list[Type]) -> Type | None:
    """The common type of what is no literal text; beside texts those count too, for their length."""
    if not every:
        return TEXT
    to = types.common(firm or every)
    if to is not None and to.kind is Kind.TEXT:
        return types.common(every)
    return to


def text_way_out(expr: Expr, beside: Sequence[Type] = ()) -> str | None:
    """What to do about a column of text that stands where another type is expected: each column of a CSV file
    is text until its owner says what it is."""
    if not (isinstance(expr, Column) and expr.type.kind is Kind.TEXT):
        return None
    # c0, c1, … are the columns of a subquery, which has no other names for them here.
    name = "x"
    if not re.fullmatch("c[0-9]+", expr.name):
        name = expr.name
    identifier = name if re.fullmatch(r"\w+", name) else f'"{name}"'
    times = [kind.kind for kind in beside if kind.kind in TIMES]
    bounds = ""
    if not times:
        bounds = f" --bounds {shlex.quote(name)}=LOW:HIGH makes it a number;"
    return (
        f"The column {identifier} is TEXT, as every column of a CSV file is until its owner says "
        f"otherwise:{bounds} `deniable schema init` declares all types. Or write "
        f"CAST({identifier} AS {times[0].upper() if times else 'DOUBLE'})."
    )


def is_loose(expr: Expr) -> bool:
    return isinstance(expr, Literal) and isinstance(expr.value, str)


def shown_literal(expr: Literal) -> str:
    return shown(str(expr.value))


def boolean(expr: Expr, where: str) -> Expr:
    if types.is_null(expr):
        return Literal(None, BOOLEAN)
    if expr.type.kind is not Kind.BOOLEAN:
        refuse(f"{where} expects a condition, got {types.name(expr.type)}.", "Compare it, such as x <> 0.")
    return expr


def number(expr: Expr, where: str, kinds: frozenset[Kind] = NUMBERS) -> Expr:
    if types.is_null(expr):
        return Literal(None, INTEGER)
    if expr.type.kind not in kinds:
        names = "a number"
        if kinds == WHOLE:
            names = "a whole or decimal number"
        hint = text_way_out(expr) or "Use CAST(x AS …)."
        refuse(f"{where} expects {names}, got {types.name(expr.type)}.", hint)
    return expr


def a_text(expr: Expr, where: str) -> Expr:
    if types.is_null(expr):
        return Literal(None, TEXT)
    if expr.type.kind is not Kind.TEXT:
        refuse(f"{where} expects a TEXT, got {types.name(expr.type)}.", "Use CAST(x AS VARCHAR).")
    return expr


def a_time(expr: Expr, where: str) -> Expr:
    if expr.type.kind not in TIMES:
        way_out = "Use CAST(x AS DATE)."
        if expr.type.kind is Kind.INTEGER:
            way_out = "A difference of dates is a number of days already."
        refuse(f"{where} expects a DATE or TIMESTAMP, got {types.name(expr.type)}.", way_out)
    return expr


def whole(node: exp.Expr | None, where: str, low: int, high: int) -> int:
    value = whole_number(node)
    if value is None or not low <= value <= high:
        refuse(f"{where} expects a whole number from {low} to {high:,}, written as a literal.")
    return value


def whole_number(node: exp.Expr | None) -> int | None:
    """Of a literal, with or without a minus."""
    if isinstance(node, exp.Neg):
        value = whole_number(node.this)
        return None if value is None else -value
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    digits = str(node.this)
    if digits.isdecimal() and len(digits) < 20:
        return int(digits)
    return None


def string(node: exp.Expr | None, where: str) -> str:
    if not (isinstance(node, exp.Literal) and node.is_string) or len(str(node.this)) > 256:
        refuse(f"{where} expects a text of at most 256 characters, written as a literal.")
    return str(node.this)


def negation(expr: Expr) -> Expr:
    return Call("not", (expr,), BOOLEAN)
