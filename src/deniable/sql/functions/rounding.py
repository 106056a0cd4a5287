"""Rounding, and the parts that numbers fall into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from sqlglot import expressions as exp

from deniable.sql import coercion, intervals, types
from deniable.sql.coercion import NodeReader, convert, meet, number
from deniable.sql.dialects.dialect import Dialect, whole
from deniable.sql.floats import half_up
from deniable.sql.functions.function import (
    Cell,
    Ends,
    Form,
    Function,
    KeyRules,
    Reading,
    ReleasedRule,
    Syntax,
    Values,
    lifted,
    strict,
)
from deniable.sql.functions.times.dates import truncated
from deniable.sql.intervals import Interval, hull, map_end
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal, Type, Value
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, WHOLE

MAX_PARTS = 1_000
MAX_EDGES = 257

# ------------------------------------------------------------------------------------------------ reading


def _read_whole_part(op: str) -> Reading:
    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        x = number(of(node.this), op.upper())
        if x.type.kind is Kind.INTEGER:
            return x
        return Call(op, (x,), FLOAT if x.type.kind is Kind.FLOAT else INTEGER)

    return rule


def _read_round(of: NodeReader, node: exp.Expr) -> Expr:
    x = number(of(node.this), "ROUND")
    decimals = node.args.get("decimals")
    digits = 0
    if decimals is not None:
        digits = coercion.whole(decimals, "The number of digits of ROUND", -15, 15)
    if digits < 0:
        width = Literal(float(10**-digits), FLOAT)
        units = Call("round", (Call("divide", (convert(x, FLOAT), width), FLOAT), Literal(0, INTEGER)), FLOAT)
        return Call("multiply", (units, width), FLOAT)
    if x.type.kind is Kind.INTEGER or (x.type.kind is Kind.DECIMAL and digits >= x.type.scale):
        return x
    to = types.decimal(digits) if digits else INTEGER
    if x.type.kind is Kind.FLOAT:
        to = FLOAT
    return Call("round", (x, Literal(digits, INTEGER)), to)


def _read_trunc(of: NodeReader, node: exp.Expr) -> Expr:
    argument = node.args.get("decimals")
    if isinstance(argument, exp.Literal) and argument.is_string:
        return truncated(of(node.this), str(argument.this))
    if argument is not None and str(argument.this) != "0":
        refuse("TRUNC to decimal places is not answered.", "Use round(x, 2), or floor.")
    x = number(of(node.this), "TRUNC")
    if x.type.kind is Kind.INTEGER:
        return x
    to = FLOAT if x.type.kind is Kind.FLOAT else INTEGER
    negative = Call("lt", (x, convert(Literal(0, INTEGER), x.type)), BOOLEAN)
    return Call("case", (negative, Call("ceil", (x,), to), Call("floor", (x,), to)), to)


def _read_width_bucket(of: NodeReader, node: exp.Expr) -> Expr:
    """From 0, below the first of equal parts, to one more than there are parts."""
    x = convert(number(of(node.this), "WIDTH_BUCKET"), FLOAT)
    ends = [convert(number(of(node.args[end]), "WIDTH_BUCKET"), FLOAT) for end in ("min_value", "max_value")]
    parts = coercion.whole(node.args.get("num_buckets"), "The number of parts of WIDTH_BUCKET", 1, MAX_PARTS)
    edges = [end.value for end in ends if isinstance(end, Literal) and isinstance(end.value, float)]
    if len(edges) != 2 or edges[0] >= edges[1]:
        refuse(
            "WIDTH_BUCKET expects two rising bounds, written as literals.",
            "Write width_bucket(x, 0, 100, 10).",
        )
    low, high = ends
    width = Literal((edges[1] - edges[0]) / parts, FLOAT)
    steps = Call("floor", (Call("divide", (Call("subtract", (x, low), FLOAT), width), FLOAT),), FLOAT)
    at = Call("add", (convert(steps, INTEGER), Literal(1, INTEGER)), INTEGER)
    inside = Call(
        "greatest", (Call("least", (at, Literal(parts, INTEGER)), INTEGER), Literal(1, INTEGER)), INTEGER
    )
    below, above = Call("lt", (x, low), BOOLEAN), Call("ge", (x, high), BOOLEAN)
    return Call("case", (below, Literal(0, INTEGER), above, Literal(parts + 1, INTEGER), inside), INTEGER)


def _read_bucket(of: NodeReader, args: Sequence[exp.Expr]) -> Expr | None:
    if not isinstance(args[1], exp.Array):
        return None
    x = of(args[0])
    edges, to = _read_edges(of.all(args[1].expressions), dates=x.type.kind is Kind.DATE)
    if to.kind in WHOLE:
        x = number(x, "BUCKET")
        if x.type.kind is not Kind.FLOAT:
            (x, *edges), to = meet([x, *edges], "BUCKET")
    elif x.type.kind is not Kind.DATE:
        refuse(f"BUCKET with dates expects a DATE, got {types.name(x.type)}.", "Use CAST(x AS DATE).")
    return Call("bucket", (x, *edges), to)


def _read_edges(edges: list[Expr], *, dates: bool) -> tuple[list[Expr], Type]:
    """Of a bucket: rising literals of one type."""
    if not 2 <= len(edges) <= MAX_EDGES or not all(isinstance(e, Literal) for e in edges):
        refuse(f"BUCKET expects from 2 to {MAX_EDGES} edges, written as literals.")
    if dates:
        edges = [convert(e, DATE) for e in edges]
    edges, to = meet(edges, "BUCKET")
    values = [e.value for e in edges if isinstance(e, Literal)]
    is_rising = all(a < b for a, b in pairwise(values))  # type: ignore[operator]
    if to.kind not in WHOLE | {Kind.DATE} or not is_rising:
        refuse("BUCKET expects rising edges: whole or decimal numbers, or dates.")
    return edges, to


# ------------------------------------------------------------------------------------------------ words


def _digits(call: Call) -> int:
    digits = call.args[1]
    if isinstance(digits, Literal) and isinstance(digits.value, int):
        return int(digits.value)
    return 0


def _rounded(call: Call, args: list[str], dialect: Dialect) -> str:
    places = _digits(call)
    if call.args[0].type.kind is Kind.DECIMAL:
        return scaled_down(args[0], call.args[0].type.scale - places, dialect)
    return dialect.let(args[:1], lambda x: _rounded_float(x, 10.0**places, dialect))


def _rounded_float(x: str, power: float, dialect: Dialect) -> str:
    """Halves away from zero. From 2^52 / power on a double has no further digits to lose."""
    p, half, top = (dialect.double(number) for number in (power, 0.5, 2.0**52 / power))
    up = f"{dialect.as_double(f'floor(abs({x}) * {p} + {half})')} / {p}"
    return f"CASE WHEN abs({x}) >= {top} THEN {x} WHEN {x} < 0 THEN - {up} WHEN {x} >= 0 THEN {up} END"


def scaled_down(x: str, places: int, dialect: Dialect) -> str:
    """A scaled integer with fewer decimal places, halves away from zero. By remainders,
    so that nothing can overflow."""
    if places <= 0:
        return x
    p, half = whole(10**places), 10**places // 2

    def body(x: str) -> str:
        step = f"CASE WHEN {x} % {p} >= {half} THEN 1 WHEN {x} % {p} <= -{half} THEN -1 ELSE 0 END"
        return f"({dialect.quotient(x, p)} + {step})"

    return dialect.let([x], body)


def scaled_up(x: str, places: int, dialect: Dialect) -> str:
    if places <= 0:
        return x
    return dialect.times(x, 10**places)


def _whole_part(call: Call, args: list[str], dialect: Dialect) -> str:
    of = call.args[0].type
    if of.kind not in WHOLE:
        return dialect.whole_part(call.op, args[0])
    beyond, step = ("<", "- 1") if call.op == "floor" else (">", "+ 1")
    unit = whole(10**of.scale)

    def body(x: str) -> str:
        return f"({dialect.quotient(x, unit)} + CASE WHEN {x} % {unit} {beyond} 0 THEN 0 {step} ELSE 0 END)"

    return dialect.let(args, body)


def _bucket(call: Call, args: list[str], dialect: Dialect) -> str:
    """Lower edges; compared as doubles where the value is one."""
    edges = [e for e in call.args[1:] if isinstance(e, Literal)]
    labels = [dialect.literal(e.value, e.type) for e in edges]
    thresholds = labels
    if call.args[0].type.kind is Kind.FLOAT:
        thresholds = [dialect.double(float(e.value)) for e in edges]  # type: ignore[arg-type]

    def body(x: str) -> str:
        inner = " ".join(f"WHEN {x} < {thresholds[i]} THEN {labels[i - 1]}" for i in range(1, len(edges)))
        last = f"WHEN {x} = {thresholds[-1]} THEN {labels[-2]}"
        return f"CASE WHEN {x} < {thresholds[0]} THEN NULL {inner} {last} END"

    return dialect.let(args[:1], body)


# ------------------------------------------------------------------------------ ranges, and after the release


def _floor_range(args: list[Interval], call: Call) -> Interval:
    return Interval(map_end(math.floor, args[0].lower), map_end(math.floor, args[0].upper))


def _ceil_range(args: list[Interval], call: Call) -> Interval:
    return Interval(map_end(math.ceil, args[0].lower), map_end(math.ceil, args[0].upper))


def _round_ends(args: list[Cell], call: Call) -> Ends:
    """Rounding to d digits moves a number by half of 10^-d at most."""
    digits = Fraction(0)
    if len(args) > 1 and isinstance(args[1].value, Fraction):
        digits = args[1].value
    half = 0.5 * 10.0 ** -max(-30, min(30, int(digits)))
    return args[0].low - half, args[0].high + half


_FLOOR, _CEIL, _ROUND = strict(math.floor), strict(math.ceil), strict(half_up)


# ------------------------------------------------------------------------------------------------ keys


def _exact_round(call: Call, values: Sequence[Value]) -> Value:
    """Of a double by the very steps that engines take."""
    x = values[0]
    if not isinstance(x, float):
        return lifted(_ROUND)(call, values)
    power = 10.0 ** _digits(call)
    if abs(x) >= 2.0**52 / power:
        return x
    return math.copysign(math.floor(abs(x) * power + 0.5) / power, x)


def _edges_of(call: Call) -> Values:
    return (*(e.value for e in call.args[1:-1] if isinstance(e, Literal)), None)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "round",
        (
            Form(
                "round(a [, digits])",
                "rounded, halves away from zero; digits is a literal from -15 to 15",
                (Syntax(exp.Round, _read_round, frozenset({"this", "decimals"})),),
            ),
        ),
        words=_rounded,
        range=lambda args, call: intervals.cells(args[0], Fraction(1, 10 ** _digits(call))),
        released=ReleasedRule(_ROUND, _round_ends),
        keys=KeyRules(places=lambda call, places: _digits(call), exact=_exact_round),
    ),
    Function(
        "floor",
        (
            Form("floor(a)", "the whole number below", (Syntax(exp.Floor, _read_whole_part("floor")),)),
            Form(
                "trunc(a)",
                "rounded towards zero",
                (Syntax(exp.Trunc, _read_trunc, frozenset({"this", "decimals"})),),
            ),
        ),
        words=_whole_part,
        range=_floor_range,
        released=ReleasedRule(_FLOOR, lambda args, call: (args[0].low - 1, args[0].high)),
        keys=KeyRules(places=lambda call, places: 0, exact=lifted(_FLOOR)),
    ),
    Function(
        "ceil",
        (
            Form(
                "ceil(a), ceiling(a)", "the whole number above", (Syntax(exp.Ceil, _read_whole_part("ceil")),)
            ),
        ),
        words=_whole_part,
        range=_ceil_range,
        released=ReleasedRule(_CEIL, lambda args, call: (args[0].low, args[0].high + 1)),
        keys=KeyRules(places=lambda call, places: 0, exact=lifted(_CEIL)),
    ),
    Function(
        "bucket",
        (
            Form(
                "bucket(a, [0, 10, 20])",
                "the lower edge of [0, 10) or [10, 20]; NULL outside",
                named={("bucket", 2): _read_bucket},
            ),
            Form(
                "width_bucket(a, 0, 100, 10)",
                "the number of the part of equal width; 0 below, 11 above",
                (
                    Syntax(
                        exp.WidthBucket,
                        _read_width_bucket,
                        frozenset({"this", "min_value", "max_value", "num_buckets"}),
                    ),
                ),
            ),
        ),
        words=_bucket,
        range=lambda args, call: hull(args[1:-1]),
        keys=KeyRules(domain=lambda call, domain: _edges_of(call)),
    ),
)
