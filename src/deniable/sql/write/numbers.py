"""Arithmetic that never raises: NULL where the result does not exist or does not fit. One function per operator.

Assumes:   columns hold canonical values (64-bit integers, finite doubles).
Reference: IEEE 754-2019 for the operations that all three engines share; overflow and underflow raise in PostgreSQL, integer
           overflow raises in all three, division by zero in DuckDB 2, PostgreSQL and Spark 4.
"""

from __future__ import annotations

from collections.abc import Callable

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.words import double, finite, let, literal, narrow, type_name, whole, wide
from deniable.sql.intervals import interval, physical
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import FLOAT, LOWEST, WHOLE

Rule = Callable[[Call, list[str], Dialect], str]

_SIGN = {"add": "+", "subtract": "-", "multiply": "*"}
# Two units in the last place below the largest double: quotients by it, rounded up, stay below the largest.
_TOP, _TINY = 1.7976931348623153e308, 1e-300


def cannot_overflow(call: Call) -> bool:
    """By the ranges of the types alone; declared bounds are not relied on, since the data may not keep to them."""
    limits = physical(call.type).bounds
    return limits is not None and interval(call, lambda column: physical(column.type)).within(*limits)


def arithmetic(call: Call, args: list[str], dialect: Dialect) -> str:
    a, b = args
    raw = f"({a} {_SIGN[call.op]} {b})"
    if call.type.kind is Kind.FLOAT:
        return _float_arithmetic(call, args, raw, dialect)
    if cannot_overflow(call):
        return raw
    if dialect is Dialect.SPARK:
        return f"try_{call.op}({a}, {b})"
    return narrow(f"({wide(a, dialect)} {_SIGN[call.op]} {b})", dialect)


def _float_arithmetic(call: Call, args: list[str], raw: str, dialect: Dialect) -> str:
    if dialect is not Dialect.POSTGRES:
        return raw if cannot_overflow(call) else finite(raw, dialect)
    if call.op == "multiply":
        return let(dialect, args, _postgres_product)
    if cannot_overflow(call):
        return raw
    return let(dialect, args, lambda a, b: _postgres_sum(a, b, _SIGN[call.op]))


def _pg(value: float) -> str:
    return double(value, Dialect.POSTGRES)


def _postgres_sum(a: str, b: str, sign: str) -> str:
    apart = "=" if sign == "-" else "<>"
    return f"CASE WHEN ({a} < 0) {apart} ({b} < 0) OR abs({a}) <= {_pg(_TOP)} - abs({b}) THEN {a} {sign} {b} END"


def _postgres_product(a: str, b: str) -> str:
    return (
        f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {a} = 0 OR {b} = 0 THEN {_pg(0)} "
        f"WHEN abs({b}) < 1 AND abs({a}) < {_pg(_TINY)} / abs({b}) THEN {_pg(0)} "
        f"WHEN abs({b}) > 1 AND abs({a}) > {_pg(_TOP)} / abs({b}) THEN NULL ELSE {a} * {b} END"
    )


def _postgres_quotient(a: str, b: str) -> str:
    return (
        f"CASE WHEN {a} IS NULL OR {b} IS NULL OR {b} = 0 THEN NULL WHEN {a} = 0 THEN {_pg(0)} "
        f"WHEN abs({b}) < 1 AND abs({a}) > {_pg(_TOP)} * abs({b}) THEN NULL "
        f"WHEN abs({b}) > 1 AND abs({a}) < {_pg(_TINY)} * abs({b}) THEN {_pg(0)} ELSE {a} / {b} END"
    )


def divide(call: Call, args: list[str], dialect: Dialect) -> str:
    a, b = args
    match dialect:
        case Dialect.DUCKDB:
            return finite(f"({a} / {b})", dialect)
        case Dialect.SPARK:
            return finite(f"try_divide({a}, {b})", dialect)
        case Dialect.POSTGRES:
            return let(dialect, args, _postgres_quotient)


def int_divide(call: Call, args: list[str], dialect: Dialect) -> str:
    a, b = args
    if _plain_divisor(call.args[1]):
        return quotient(a, b, dialect)
    match dialect:
        case Dialect.DUCKDB:
            return narrow(f"TRY({wide(a, dialect)} // {b})", dialect)
        case Dialect.POSTGRES:
            return narrow(f"div({wide(a, dialect)}, {wide(f'NULLIF({b}, 0)', dialect)})", dialect)
        case Dialect.SPARK:
            return let(dialect, args, _spark_quotient)


def _spark_quotient(a: str, b: str) -> str:
    return f"({a} div CASE WHEN {b} = 0 OR ({b} = -1 AND {a} = {whole(LOWEST)}) THEN NULL ELSE {b} END)"


def modulo(call: Call, args: list[str], dialect: Dialect) -> str:
    a, b = args
    if _plain_divisor(call.args[1]):
        return f"({a} % {b})"
    match dialect:
        case Dialect.DUCKDB:
            return narrow(f"TRY({wide(a, dialect)} % {b})", dialect)
        case Dialect.POSTGRES:
            return f"({a} % NULLIF({b}, 0))"
        case Dialect.SPARK:
            return let(dialect, args, lambda a, b: f"({a} % CASE WHEN {b} <> 0 THEN {b} END)")


def _plain_divisor(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value not in (None, 0, -1)


def quotient(a: str, b: str, dialect: Dialect) -> str:
    """Towards zero, for a divisor that is neither 0 nor -1."""
    return f"({a} {({Dialect.DUCKDB: '//', Dialect.POSTGRES: '/', Dialect.SPARK: 'div'})[dialect]} {b})"


def negate(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT or cannot_overflow(call):
        return f"(- {args[0]})"
    if dialect is Dialect.SPARK:
        return f"try_subtract({whole(0)}, {args[0]})"
    return narrow(f"(- {wide(args[0], dialect)})", dialect)


def size(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT or cannot_overflow(call):
        return f"abs({args[0]})"
    inside = f"CAST({args[0]} AS DECIMAL(20, 0))" if dialect is Dialect.SPARK else wide(args[0], dialect)
    return narrow(f"abs({inside})", dialect)


def sign(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"CAST(sign({args[0]}) AS BIGINT)"


# ------------------------------------------------------------------------------------------------ rounding


def rounded(call: Call, args: list[str], dialect: Dialect) -> str:
    digits = call.args[1]
    places = digits.value if isinstance(digits, Literal) and isinstance(digits.value, int) else 0
    if call.args[0].type.kind is Kind.DECIMAL:
        return scaled_down(args[0], call.args[0].type.scale - places, dialect)
    return let(dialect, args[:1], lambda x: _round_float(x, 10.0**places, dialect))


def _round_float(x: str, power: float, dialect: Dialect) -> str:
    """Halves away from zero. From 2^52 / power on a double has no further digits to lose."""
    p, half = double(power, dialect), double(0.5, dialect)
    up = f"CAST(floor(abs({x}) * {p} + {half}) AS {type_name(FLOAT, dialect)}) / {p}"
    return (
        f"CASE WHEN abs({x}) >= {double(2.0**52 / power, dialect)} THEN {x} WHEN {x} < 0 THEN - {up} "
        f"WHEN {x} >= 0 THEN {up} END"
    )


def scaled_down(x: str, places: int, dialect: Dialect) -> str:
    """A scaled integer with fewer decimal places, halves away from zero. By remainders, so that nothing can overflow."""
    if places <= 0:
        return x
    p, half = whole(10**places), 10**places // 2

    def body(x: str) -> str:
        step = f"CASE WHEN {x} % {p} >= {half} THEN 1 WHEN {x} % {p} <= -{half} THEN -1 ELSE 0 END"
        return f"({quotient(x, p, dialect)} + {step})"

    return let(dialect, [x], body)


def scaled_up(x: str, places: int, dialect: Dialect) -> str:
    if places <= 0:
        return x
    if dialect is Dialect.SPARK:
        return f"try_multiply({x}, {whole(10**places)})"
    return narrow(f"({wide(x, dialect)} * {10**places})", dialect)


def floor(call: Call, args: list[str], dialect: Dialect) -> str:
    return _whole_part("floor", call, args, dialect)


def ceil(call: Call, args: list[str], dialect: Dialect) -> str:
    return _whole_part("ceil", call, args, dialect)


def _whole_part(name: str, call: Call, args: list[str], dialect: Dialect) -> str:
    of = call.args[0].type
    if of.kind in WHOLE:
        p, beyond, step = whole(10**of.scale), *(("<", "- 1") if name == "floor" else (">", "+ 1"))
        return let(
            dialect,
            args,
            lambda x: f"({quotient(x, p, dialect)} + CASE WHEN {x} % {p} {beyond} 0 THEN 0 {step} ELSE 0 END)",
        )
    if dialect is not Dialect.SPARK:
        return f"{name}({args[0]})"
    return let(  # Spark's floor of a double is a 64-bit integer
        dialect, args, lambda x: f"CASE WHEN abs({x}) >= {2**52} THEN {x} ELSE CAST({name}({x}) AS DOUBLE) END"
    )


# ------------------------------------------------------------------------------------------------ functions of reals


def _guarded(name: str, condition: str) -> Rule:
    """The argument, not the result, is taken away: then no way of evaluating it can meet what is not defined."""

    def rule(call: Call, args: list[str], dialect: Dialect) -> str:
        return let(dialect, args, lambda x: f"{name}(CASE WHEN {x} {condition} THEN {x} END)")

    return rule


def exponential(call: Call, args: list[str], dialect: Dialect) -> str:
    low = double(-700.0, dialect)
    return let(dialect, args, lambda x: f"exp(CASE WHEN {x} <= 709 THEN greatest({x}, {low}) END)")


def power(call: Call, args: list[str], dialect: Dialect) -> str:
    def body(a: str, b: str) -> str:
        zero, one, log = double(0.0, dialect), double(1.0, dialect), f"{b} * ln(abs({a}))"
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {b} = 0 THEN {one} WHEN {a} = 0 AND {b} > 0 THEN {zero} "
            f"WHEN {a} = 0 THEN NULL WHEN abs({b}) > {double(1e300, dialect)} THEN NULL "
            f"WHEN {a} < 0 AND (abs({b}) > {2**52} OR {b} <> floor({b})) THEN NULL "
            f"WHEN abs({b}) < {double(1e-200, dialect)} THEN {one} WHEN {log} > 709 THEN NULL "
            f"WHEN {log} < -690 THEN {zero} ELSE power({a}, {b}) END"
        )

    return let(dialect, args, body)


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
    return let(dialect, [args[i] for i in bound], body)


def by_bytes(part: str, call: Call, dialect: Dialect) -> str:
    """In PostgreSQL texts are ordered by the database's language unless told otherwise."""
    is_text = call.args[0].type.kind is Kind.TEXT
    return f'({part} COLLATE "C")' if is_text and dialect is Dialect.POSTGRES else part


def bucket(call: Call, args: list[str], dialect: Dialect) -> str:
    """Lower edges; compared as doubles where the value is one."""
    edges = [e for e in call.args[1:] if isinstance(e, Literal)]
    is_float = call.args[0].type.kind is Kind.FLOAT
    compared = [double(float(e.value), dialect) if is_float else literal(e.value, e.type, dialect) for e in edges]  # type: ignore[arg-type]
    given = [literal(e.value, e.type, dialect) for e in edges]

    def body(x: str) -> str:
        inner = " ".join(f"WHEN {x} < {compared[i]} THEN {given[i - 1]}" for i in range(1, len(edges)))
        return f"CASE WHEN {x} < {compared[0]} THEN NULL {inner} WHEN {x} = {compared[-1]} THEN {given[-2]} END"

    return let(dialect, args[:1], body)


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
