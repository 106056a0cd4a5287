"""Arithmetic that never raises: NULL where the result does not exist or does not fit.
One function per operator.

Assumes:   columns hold canonical values (64-bit integers, finite doubles).
Reference: IEEE 754-2019 for the operations that all three engines share; overflow and
           underflow raise in PostgreSQL, integer overflow raises in all three, division
           by zero in DuckDB 2, PostgreSQL and Spark 4.
"""

from __future__ import annotations

from collections.abc import Callable

from deniable.sql.dialects.dialect import SIGNS, Dialect, whole
from deniable.sql.intervals import interval, physical
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import WHOLE

Rule = Callable[[Call, list[str], Dialect], str]


def cannot_overflow(call: Call) -> bool:
    """By the ranges of the types alone; declared bounds are not relied on, since the
    data may not keep to them."""
    limits = physical(call.type).bounds
    return limits is not None and interval(call, lambda column: physical(column.type)).within(*limits)


def arithmetic(call: Call, args: list[str], dialect: Dialect) -> str:
    fits = cannot_overflow(call)
    if call.type.kind is Kind.FLOAT:
        return dialect.float_result(call.op, *args, fits=fits)
    if fits:
        return f"({args[0]} {SIGNS[call.op]} {args[1]})"
    return dialect.exact(call.op, *args)


def divide(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.ratio(*args)


def int_divide(call: Call, args: list[str], dialect: Dialect) -> str:
    if _harmless(call.args[1]):
        return dialect.quotient(*args)
    return dialect.divided(*args)


def modulo(call: Call, args: list[str], dialect: Dialect) -> str:
    if _harmless(call.args[1]):
        return f"({args[0]} % {args[1]})"
    return dialect.remainder(*args)


def _harmless(divisor: Expr) -> bool:
    return isinstance(divisor, Literal) and divisor.value not in (None, 0, -1)


def negate(call: Call, args: list[str], dialect: Dialect) -> str:
    fits = call.type.kind is Kind.FLOAT or cannot_overflow(call)
    if fits:
        return f"(- {args[0]})"
    return dialect.negative(args[0])


def size(call: Call, args: list[str], dialect: Dialect) -> str:
    fits = call.type.kind is Kind.FLOAT or cannot_overflow(call)
    if fits:
        return f"abs({args[0]})"
    return dialect.size(args[0])


def sign(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"CAST(sign({args[0]}) AS BIGINT)"


# ------------------------------------------------------------------------------------------------ rounding


def rounded(call: Call, args: list[str], dialect: Dialect) -> str:
    digits = call.args[1]
    places = 0
    if isinstance(digits, Literal) and isinstance(digits.value, int):
        places = digits.value
    if call.args[0].type.kind is Kind.DECIMAL:
        return scaled_down(args[0], call.args[0].type.scale - places, dialect)
    return dialect.let(args[:1], lambda x: _round_float(x, 10.0**places, dialect))


def _round_float(x: str, power: float, dialect: Dialect) -> str:
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


def floor(call: Call, args: list[str], dialect: Dialect) -> str:
    return _whole_part("floor", call, args, dialect)


def ceil(call: Call, args: list[str], dialect: Dialect) -> str:
    return _whole_part("ceil", call, args, dialect)


def _whole_part(name: str, call: Call, args: list[str], dialect: Dialect) -> str:
    of = call.args[0].type
    if of.kind not in WHOLE:
        return dialect.whole_part(name, args[0])
    unit, beyond, step = whole(10**of.scale), *(("<", "- 1") if name == "floor" else (">", "+ 1"))

    def body(x: str) -> str:
        return f"({dialect.quotient(x, unit)} + CASE WHEN {x} % {unit} {beyond} 0 THEN 0 {step} ELSE 0 END)"

    return dialect.let(args, body)


# ----------------------------------------------------------------------------------------- functions of reals


def _guarded(name: str, condition: str) -> Rule:
    """The argument, not the result, is taken away: then no way of evaluating it can meet
    what is not defined."""

    def rule(call: Call, args: list[str], dialect: Dialect) -> str:
        return dialect.let(args, lambda x: f"{name}(CASE WHEN {x} {condition} THEN {x} END)")

    return rule


def exponential(call: Call, args: list[str], dialect: Dialect) -> str:
    low = dialect.double(-700.0)
    return dialect.let(args, lambda x: f"exp(CASE WHEN {x} <= 709 THEN greatest({x}, {low}) END)")


def power(call: Call, args: list[str], dialect: Dialect) -> str:
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


def extreme(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL if any is NULL: engines would leave NULLs out, and a clamped NULL would become a bound."""
    bound = [i for i, arg in enumerate(call.args) if not (isinstance(arg, Literal) and arg.value is not None)]

    def body(*named: str) -> str:
        texts = [named[bound.index(i)] if i in bound else arg for i, arg in enumerate(args)]
        texts = [by_bytes(t, call, dialect) for t in texts]
        missing = " OR ".join(f"{x} IS NULL" for x in named)
        return f"CASE WHEN {missing} THEN NULL ELSE {call.op}({', '.join(texts)}) END"

    if not bound:
        return f"{call.op}({', '.join(by_bytes(t, call, dialect) for t in args)})"
    return dialect.let([args[i] for i in bound], body)


def by_bytes(part: str, call: Call, dialect: Dialect) -> str:
    if call.args[0].type.kind is Kind.TEXT:
        return dialect.by_bytes(part)
    return part


def bucket(call: Call, args: list[str], dialect: Dialect) -> str:
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


RULES: dict[str, Rule] = {
    "add": arithmetic,
    "subtract": arithmetic,
    "multiply": arithmetic,
    "divide": divide,
    "int_divide": int_divide,
    "modulo": modulo,
    "negate": negate,
    "abs": size,
    "sign": sign,
    "round": rounded,
    "floor": floor,
    "ceil": ceil,
    "sqrt": _guarded("sqrt", ">= 0"),
    "ln": _guarded("ln", "> 0"),
    "log10": _guarded("log10", "> 0"),
    "exp": exponential,
    "power": power,
    "greatest": extreme,
    "least": extreme,
    "bucket": bucket,
}
