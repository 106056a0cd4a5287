"""Arithmetic that never raises: NULL where the result does not exist or does not fit.

Assumes:   columns hold canonical values (64-bit integers, finite doubles).
Reference: IEEE 754-2019 for the operations that all three engines share; overflow and
           underflow raise in PostgreSQL, integer overflow raises in all three, division
           by zero in DuckDB 2, PostgreSQL and Spark 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql import intervals, types
from deniable.sql.coercion import NodeReader, convert, meet, number
from deniable.sql.dialects.dialect import SIGNS, Dialect
from deniable.sql.functions.function import (
    BINARY,
    Cell,
    Ends,
    Form,
    Function,
    KeyRules,
    Laws,
    Reading,
    ReleasedRule,
    Syntax,
    lifted,
    strict,
    unknown,
)
from deniable.sql.functions.times.dates import moved_by_days
from deniable.sql.functions.times.periods import moved, period
from deniable.sql.intervals import EVERYTHING, Interval, add_ends, map_end
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import FLOAT, INTEGER, TIMES, WHOLE

MOST_PLACES = 6
"""Decimal places of a float that is a group key."""


def sum_of(a: Expr, b: Expr) -> Expr:
    """Of whole numbers."""
    return Call("add", (a, b), INTEGER)


def product_of(a: Expr, b: Expr) -> Expr:
    """Of whole numbers."""
    return Call("multiply", (a, b), INTEGER)


# ------------------------------------------------------------------------------------------------ reading


def _read_negate(of: NodeReader, node: exp.Expr) -> Expr:
    x = number(of(node.this), "Minus")
    if isinstance(x, Literal) and isinstance(x.value, (int, float, Decimal)):
        return Literal(-x.value, x.type)
    return Call("negate", (x,), x.type)


def _read_sum(op: str) -> Reading:
    """A sum or a difference, of dates and periods too."""

    def rule(of: NodeReader, node: exp.Expr) -> Expr:
        later = _read_moved(of, node, op)
        if later is not None:
            return later
        a, b = of(node.this), of(node.args["expression"])
        if a.type.kind in TIMES or b.type.kind in TIMES:
            return moved_by_days(op, a, b)
        operands = [number(a, op.capitalize()), number(b, op.capitalize())]
        (a, b), to = meet(operands, op.capitalize())
        return Call(op, (a, b), to)

    return rule


def _read_moved(of: NodeReader, node: exp.Expr, op: str) -> Expr | None:
    """A date and a literal INTERVAL; None for other sums."""
    left, right = node.this, node.args["expression"]
    by = period(right)
    if by is not None and period(left) is None:
        return moved(of(left), by.times(1 if op == "add" else -1))
    if op != "add":
        return None
    by = period(left)
    if by is None:
        return None
    return moved(of(right), by)


def _read_multiply(of: NodeReader, node: exp.Expr) -> Expr:
    a, b = of(node.this), of(node.args["expression"])
    if a.type.kind in TIMES or b.type.kind in TIMES:
        return moved_by_days("multiply", a, b)
    a, b = number(a, "Multiply"), number(b, "Multiply")
    scale = a.type.scale + b.type.scale
    if {a.type.kind, b.type.kind} <= WHOLE and scale <= types.MAX_SCALE:
        return Call("multiply", (a, b), types.decimal(scale) if scale else INTEGER)
    if Kind.DECIMAL in (a.type.kind, b.type.kind):
        return Call("multiply", (convert(a, FLOAT), convert(b, FLOAT)), FLOAT)
    (a, b), to = meet([a, b], "Multiply")
    return Call("multiply", (a, b), to)


def _read_divide(of: NodeReader, node: exp.Expr) -> Expr:
    a, b = (number(of(x), "Division") for x in (node.this, node.args["expression"]))
    return Call("divide", (convert(a, FLOAT), convert(b, FLOAT)), FLOAT)


def _read_int_divide(of: NodeReader, node: exp.Expr) -> Expr:
    operands = [number(of(x), "//", WHOLE) for x in (node.this, node.args["expression"])]
    (a, b), _ = meet(operands, "//")
    return Call("int_divide", (a, b), INTEGER)


def _read_modulo(of: NodeReader, node: exp.Expr) -> Expr:
    operands = [number(of(x), "%", WHOLE) for x in (node.this, node.args["expression"])]
    (a, b), to = meet(operands, "%")
    return Call("modulo", (a, b), to)


def _read_abs(of: NodeReader, node: exp.Expr) -> Expr:
    x = number(of(node.this), "ABS")
    return Call("abs", (x,), x.type)


def _read_sign(of: NodeReader, node: exp.Expr) -> Expr:
    return Call("sign", (number(of(node.this), "SIGN"),), INTEGER)


# ------------------------------------------------------------------------------------------------ words


def _signed(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT:
        return dialect.float_result(call.op, *args, fits=True)
    return f"({args[0]} {SIGNS[call.op]} {args[1]})"


def _signed_or_null(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT:
        return dialect.float_result(call.op, *args, fits=False)
    return dialect.exact(call.op, *args)


def _int_divide(call: Call, args: list[str], dialect: Dialect) -> str:
    if _harmless(call.args[1]):
        return dialect.quotient(*args)
    return dialect.divided(*args)


def _modulo(call: Call, args: list[str], dialect: Dialect) -> str:
    if _harmless(call.args[1]):
        return f"({args[0]} % {args[1]})"
    return dialect.remainder(*args)


def _harmless(divisor: Expr) -> bool:
    return isinstance(divisor, Literal) and divisor.value not in (None, 0, -1)


def _negative(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"(- {args[0]})"


def _negative_or_null(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT:
        return f"(- {args[0]})"
    return dialect.negative(args[0])


def _size(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"abs({args[0]})"


def _size_or_null(call: Call, args: list[str], dialect: Dialect) -> str:
    if call.type.kind is Kind.FLOAT:
        return f"abs({args[0]})"
    return dialect.size(args[0])


# ------------------------------------------------------------------------------------------------ ranges


def _sum_range(args: list[Interval], call: Call) -> Interval:
    return Interval(add_ends(args[0].lower, args[1].lower), add_ends(args[0].upper, args[1].upper))


def _difference_range(args: list[Interval], call: Call) -> Interval:
    return _sum_range([args[0], intervals.opposite(args[1])], call)


def _product_range(args: list[Interval], call: Call) -> Interval:
    a, b = args
    if a.bounds is None or b.bounds is None:
        is_positive = all(x.lower is not None and x.lower >= 0 for x in args)
        if is_positive:
            return Interval(Fraction(0), None)
        return EVERYTHING
    ends = [x * y for x in a.bounds for y in b.bounds]
    return Interval(min(ends), max(ends))


def _quotient_range(args: list[Interval], call: Call) -> Interval:
    a, b = args
    if a.bounds is None or b.bounds is None or not b.without_zero():
        return EVERYTHING
    ends = [x / y for x in a.bounds for y in b.bounds]
    return Interval(min(ends), max(ends))


def _int_quotient_range(args: list[Interval], call: Call) -> Interval:
    """Rounded towards zero, so never further from it than the quotient; a divisor is at
    least one unit of its scale in size."""
    if args[1].without_zero():
        quotient = _quotient_range(args, call)
        return Interval(add_ends(quotient.lower, Fraction(-1)), add_ends(quotient.upper, Fraction(1)))
    size = intervals.sizes(args[0]).upper
    return intervals.symmetric(map_end(lambda s: s * 10 ** call.args[1].type.scale, size))


def _remainder_range(args: list[Interval], call: Call) -> Interval:
    size = intervals.sizes(args[1]).upper
    low, high = args[0].lower, args[0].upper
    both = intervals.symmetric(size)
    lower, upper = both.lower, both.upper
    if low is not None and low >= 0:
        lower = Fraction(0)
    if high is not None and high <= 0:
        upper = Fraction(0)
    return Interval(lower, upper)


# ---------------------------------------------------------------------------------------- after the release


def _truncated(a: Fraction, b: Fraction) -> int | None:
    return math.trunc(a / b) if b else None


def _sum_ends(args: list[Cell], call: Call) -> Ends:
    return args[0].low + args[1].low, args[0].high + args[1].high


def _difference_ends(args: list[Cell], call: Call) -> Ends:
    return args[0].low - args[1].high, args[0].high - args[1].low


def _product_ends(args: list[Cell], call: Call) -> Ends:
    low, high = _products(args)
    if call.args[0] != call.args[1]:
        return low, high
    # Of a number by itself, which is one number and not two: never below 0.
    smallest, largest = size_ends(args, call)
    return max(low, _times(smallest, smallest)), min(high, _times(largest, largest))


def _products(args: list[Cell]) -> Ends:
    ends = [_times(a, b) for a in (args[0].low, args[0].high) for b in (args[1].low, args[1].high)]
    return min(ends), max(ends)


def _times(a: float, b: float) -> float:
    return 0.0 if not a or not b else a * b


def _quotient_ends(args: list[Cell], call: Call) -> Ends:
    """A denominator that may be 0 leaves nothing to say."""
    top, bottom = args
    if bottom.low <= 0 <= bottom.high:
        return unknown(args, call)
    return _products([top, Cell(None, 1 / bottom.high, 1 / bottom.low)])


def size_ends(args: list[Cell], call: Call) -> Ends:
    low, high = abs(args[0].low), abs(args[0].high)
    if args[0].low <= 0 <= args[0].high:
        return 0.0, max(low, high)
    return min(low, high), max(low, high)


_ADD = strict(lambda a, b: a + b)
_SUBTRACT = strict(lambda a, b: a - b)
_MULTIPLY = strict(lambda a, b: a * b)
_DIVIDE = strict(lambda a, b: a / b)
_INT_DIVIDE = strict(_truncated)
_MODULO = strict(lambda a, b: a - b * math.trunc(a / b))
_NEGATE = strict(lambda a: -a)
_ABS = strict(abs)
_SIGN = strict(lambda a: (a > 0) - (a < 0))


# --------------------------------------------------------------------------------------------- places of keys

Places = Callable[[Expr], "int | None"]


def same_places(call: Call, places: Places) -> int | None:
    return places(call.args[0])


def most_places(call: Call, places: Places) -> int | None:
    counts = [places(arg) for arg in call.args]
    known_counts = [count for count in counts if count is not None]
    if known_counts and len(known_counts) == len(counts):
        return max(known_counts)
    return None


def _product_places(call: Call, places: Places) -> int | None:
    a, b = (places(arg) for arg in call.args)
    if a is None or b is None:
        return None
    return a + b


def _quotient_places(call: Call, places: Places) -> int | None:
    """Of a number divided by a whole one, where that has an end: by 2, 5, 10, 1000000."""
    dividend, divisor = places(call.args[0]), call.args[1]
    if dividend is None or not isinstance(divisor, Literal) or not isinstance(divisor.value, float):
        return None
    if not divisor.value.is_integer() or not 1 <= divisor.value <= 10**MOST_PLACES:
        return None
    more = next((n for n in range(MOST_PLACES + 1) if 10**n % int(divisor.value) == 0), None)
    if more is None:
        return None
    return dividend + more


_UNORDERED = Laws(arranged=sorted)

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "add",
        (
            Form(
                "a + b",
                "sum; NULL where 64 bits or a float's range do not hold it; DATE + whole days",
                (Syntax(exp.Add, _read_sum("add"), BINARY),),
            ),
        ),
        words=_signed,
        guarded=_signed_or_null,
        range=_sum_range,
        released=ReleasedRule(_ADD, _sum_ends),
        keys=KeyRules(places=most_places, exact=lifted(_ADD)),
        laws=_UNORDERED,
    ),
    Function(
        "subtract",
        (
            Form(
                "a - b",
                "difference; NULL as for +; DATE - DATE is a number of days",
                (Syntax(exp.Sub, _read_sum("subtract"), BINARY),),
            ),
        ),
        words=_signed,
        guarded=_signed_or_null,
        range=_difference_range,
        released=ReleasedRule(_SUBTRACT, _difference_ends),
        keys=KeyRules(places=most_places, exact=lifted(_SUBTRACT)),
    ),
    Function(
        "multiply",
        (
            Form(
                "a * b",
                "product; the decimal places of decimals add up; NULL as for +",
                (Syntax(exp.Mul, _read_multiply, BINARY),),
                {("square", 1): lambda of, args: of(exp.Mul(this=args[0], expression=args[0]))},
            ),
        ),
        words=_signed,
        guarded=_signed_or_null,
        range=_product_range,
        released=ReleasedRule(_MULTIPLY, _product_ends),
        keys=KeyRules(places=_product_places, exact=lifted(_MULTIPLY)),
        laws=_UNORDERED,
    ),
    Function(
        "divide",
        (
            Form(
                "a / b",
                "quotient as a float; NULL where b = 0",
                (Syntax(exp.Div, _read_divide, BINARY), Syntax(exp.SafeDivide, _read_divide, BINARY)),
                {("try_divide", 2): lambda of, args: of(exp.Div(this=args[0], expression=args[1]))},
            ),
        ),
        words=lambda call, args, dialect: dialect.ratio(*args),
        range=_quotient_range,
        released=ReleasedRule(_DIVIDE, _quotient_ends),
        keys=KeyRules(places=_quotient_places, exact=lifted(_DIVIDE)),
    ),
    Function(
        "int_divide",
        (
            Form(
                "a // b",
                "quotient rounded towards zero; NULL where b = 0; not for floats",
                (Syntax(exp.IntDiv, _read_int_divide, BINARY),),
            ),
        ),
        words=_int_divide,
        range=_int_quotient_range,
        released=ReleasedRule(_INT_DIVIDE),
        keys=KeyRules(exact=lifted(_INT_DIVIDE)),
    ),
    Function(
        "modulo",
        (
            Form(
                "a % b, mod(a, b)",
                "remainder with the sign of a; NULL where b = 0; not for floats",
                (Syntax(exp.Mod, _read_modulo, BINARY),),
            ),
        ),
        words=_modulo,
        range=_remainder_range,
        released=ReleasedRule(_MODULO),
        keys=KeyRules(exact=lifted(_MODULO)),
    ),
    Function(
        "negate",
        (Form("-a", "the number with the other sign", (Syntax(exp.Neg, _read_negate),)),),
        words=_negative,
        guarded=_negative_or_null,
        range=lambda args, call: intervals.opposite(args[0]),
        released=ReleasedRule(_NEGATE, lambda args, call: (-args[0].high, -args[0].low)),
        keys=KeyRules(places=same_places, exact=lifted(_NEGATE)),
    ),
    Function(
        "abs",
        (Form("abs(a), @a", "the size of a number", (Syntax(exp.Abs, _read_abs),)),),
        words=_size,
        guarded=_size_or_null,
        range=lambda args, call: intervals.sizes(args[0]),
        released=ReleasedRule(_ABS, size_ends),
        keys=KeyRules(places=same_places, exact=lifted(_ABS)),
    ),
    Function(
        "sign",
        (Form("sign(a)", "-1, 0 or 1", (Syntax(exp.Sign, _read_sign),)),),
        words=lambda call, args, dialect: f"CAST(sign({args[0]}) AS BIGINT)",
        range=lambda args, call: Interval.of(-1, 1),
        released=ReleasedRule(_SIGN, lambda args, call: (-1.0, 1.0)),
        keys=KeyRules(exact=lifted(_SIGN)),
    ),
)
