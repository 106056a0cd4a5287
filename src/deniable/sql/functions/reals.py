"""Functions of reals: roots, logarithms, exponentials, powers. Engines may differ in the last digit, so that
none of them is a group key."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, convert, number, whole
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import (
    BINARY,
    Cell,
    Ends,
    Form,
    Function,
    Range,
    Reading,
    ReleasedRule,
    Syntax,
    Words,
    strict,
)
from deniable.sql.intervals import EVERYTHING, Interval, map_end
from deniable.sql.tree import Call, Expr, Literal
from deniable.sql.types import FLOAT

# ------------------------------------------------------------------------------------------------ reading


def _read_real(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        return Call(op, (convert(number(of(node.this), op.upper()), FLOAT),), FLOAT)

    return rule


def _read_log(of: NodeReader, node: exp.Expr) -> Expr:
    base, x = node.this, node.args.get("expression")
    if x is None:
        x = base
    elif not (isinstance(base, exp.Literal) and base.this == "10"):
        number_of = whole(base, "The base of a logarithm", 2, 10**6)
        natural = Call("ln", (convert(number(of(x), "LOG"), FLOAT),), FLOAT)
        return Call("divide", (natural, Literal(math.log(number_of), FLOAT)), FLOAT)
    return Call("log10", (convert(number(of(x), "LOG10"), FLOAT),), FLOAT)


def _read_power(of: NodeReader, node: exp.Expr) -> Expr:
    a, b = (convert(number(of(x), "POWER"), FLOAT) for x in (node.this, node.args["expression"]))
    return Call("power", (a, b), FLOAT)


# ------------------------------------------------------------------------------------------------ words


def _guarded(name: str, condition: str) -> Words:
    """The argument, not the result, is taken away: then no way of evaluating it can meet
    what is not defined."""

    def rule(call: Call, args: list[str], dialect: Dialect) -> str:
        return dialect.let(args, lambda x: f"{name}(CASE WHEN {x} {condition} THEN {x} END)")

    return rule


def _exponential(call: Call, args: list[str], dialect: Dialect) -> str:
    low = dialect.double(-700.0)
    return dialect.let(args, lambda x: f"exp(CASE WHEN {x} <= 709 THEN greatest({x}, {low}) END)")


def _power(call: Call, args: list[str], dialect: Dialect) -> str:
    def body(a: str, b: str) -> str:
        zero, unity, log = dialect.double(0.0), dialect.double(1.0), f"{b} * ln(abs({a}))"
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {b} = 0 THEN {unity} "
            f"WHEN {a} = 0 AND {b} > 0 THEN {zero} WHEN {a} = 0 THEN NULL "
            f"WHEN abs({b}) > {dialect.double(1e300)} THEN NULL "
            f"WHEN {a} < 0 AND (abs({b}) > {2**52} OR {b} <> floor({b})) THEN NULL "
            f"WHEN abs({b}) < {dialect.double(1e-200)} THEN {unity} WHEN {log} > 709 THEN NULL "
            f"WHEN {log} < -690 THEN {zero} ELSE power({a}, {b}) END"
        )

    return dialect.let(args, body)


# ------------------------------------------------------------------------------------------------ ranges


def _sqrt_range(args: list[Interval], call: Call) -> Interval:
    upper = map_end(lambda end: math.isqrt(max(0, math.ceil(end))) + 1, args[0].upper)
    return Interval(Fraction(0), upper)


def _log_range(of: Callable[[float], float]) -> Range:
    """Of what grows; a little wider than floats say."""

    def rule(args: list[Interval], call: Call) -> Interval:
        low, high = (None if end is None or end <= 0 else end for end in (args[0].lower, args[0].upper))
        lower = map_end(lambda end: of(_positive(end)) - 1e-9, low)
        return Interval(lower, map_end(lambda end: of(_positive(end)) + 1e-9, high))

    return rule


def _positive(x: Fraction) -> float:
    """A positive float near it."""
    return max(float(min(x, Fraction(sys.float_info.max))), 5e-324)


def _power_range(args: list[Interval], call: Call) -> Interval:
    """To a small literal power."""
    base, exponent = args[0], call.args[1]
    if not isinstance(exponent, Literal) or not isinstance(exponent.value, float):
        return EVERYTHING
    if base.bounds is None or exponent.value not in range(1, 9):
        return EVERYTHING
    times = int(exponent.value)
    ends = [end**times for end in base.bounds]
    if times % 2 == 0 and base.bounds[0] < 0 < base.bounds[1]:
        ends.append(Fraction(0))
    return Interval(min(ends), max(ends))


# ------------------------------------------------------------------------------------------ after the release


def _real(of: Callable[[float], float]) -> Callable[..., Any]:
    return strict(lambda x: of(float(x)))


def _monotone(of: Callable[[float], float], least: float = -math.inf) -> Callable[[list[Cell], Call], Ends]:
    def ends(args: list[Cell], call: Call) -> Ends:
        return _end(of, args[0].low, least), _end(of, args[0].high, least)

    return ends


def _end(of: Callable[[float], float], x: float, least: float) -> float:
    if math.isinf(x) and x > 0:
        return math.inf
    try:
        return of(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return least


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "sqrt",
        (Form("sqrt(a)", "square root; NULL where a < 0", (Syntax(exp.Sqrt, _read_real("sqrt")),)),),
        words=_guarded("sqrt", ">= 0"),
        range=_sqrt_range,
        released=ReleasedRule(_real(math.sqrt), _monotone(math.sqrt, 0.0)),
    ),
    Function(
        "ln",
        (Form("ln(a)", "natural logarithm; NULL where a <= 0", (Syntax(exp.Ln, _read_real("ln")),)),),
        words=_guarded("ln", "> 0"),
        range=_log_range(math.log),
        released=ReleasedRule(_real(math.log), _monotone(math.log)),
    ),
    Function(
        "log10",
        (
            Form(
                "log10(a), log(a)",
                "decimal logarithm; NULL where a <= 0",
                (Syntax(exp.Log, _read_log, BINARY),),
            ),
            Form("log2(a), log(b, a)", "logarithm to a literal base; NULL where a <= 0"),
        ),
        words=_guarded("log10", "> 0"),
        range=_log_range(math.log10),
        released=ReleasedRule(_real(math.log10), _monotone(math.log10)),
    ),
    Function(
        "exp",
        (
            Form(
                "exp(a)",
                "e to the power a; NULL above 709; below -700 as at -700",
                (Syntax(exp.Exp, _read_real("exp")),),
            ),
        ),
        words=_exponential,
        range=lambda args, call: Interval(Fraction(0), None),
        released=ReleasedRule(_real(math.exp), _monotone(math.exp)),
    ),
    Function(
        "power",
        (
            Form(
                "power(a, b), pow(a, b), a ** b",
                "a to the power b; NULL where it is not a finite real number",
                (Syntax(exp.Pow, _read_power, BINARY),),
            ),
        ),
        words=_power,
        range=_power_range,
        released=ReleasedRule(strict(lambda a, b: math.pow(float(a), float(b)))),
    ),
)
