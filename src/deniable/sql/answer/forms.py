"""Which parts of an output have an interval of their own: what is linear in noisy numbers, and quotients of
that.

`COUNT(*) FILTER (…) / COUNT(*)` or `SUM(x) - SUM(y)` depend on several noises at once, and `joint_noise`
knows how far those reach together. Whatever else is written around such pieces is computed from their
intervals (`evaluate`). The pieces follow from the text of the query alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from deniable.sql.answer.estimate import INFINITE, Interval
from deniable.sql.answer.evaluate import aggregates_in
from deniable.sql.answer.joint_noise import Ends, LinearForm, quotients
from deniable.sql.floats import nearest
from deniable.sql.tree import Aggregate, AggregateRef, Call, Expr, Kind, Literal, Statistic

Known = Callable[[int], LinearForm | None]
"""The form of an aggregate, None where it has none."""


def pieces(expr: Expr, known: Known) -> tuple[Expr, ...]:
    """The largest parts of `expr` with an interval of their own, each once; each aggregate is one at the
    least."""
    if not aggregates_in(expr):
        return ()
    if isinstance(expr, AggregateRef) or form(expr, known) is not None or _quotient(expr, known) is not None:
        return (expr,)
    inner = (piece for arg in getattr(expr, "args", ()) for piece in pieces(arg, known))
    return tuple(dict.fromkeys(inner))


def ends(expr: Expr, known: Known, beta: float, aggregates: Sequence[Aggregate] = ()) -> Interval:
    """The interval of a piece, of failure `beta`; of these `aggregates` more may be certain."""
    whole_form = form(expr, known)
    pair = _quotient(expr, known)
    try:
        limits = None
        if whole_form is not None:
            limits = whole_form.ends(beta)
        elif pair is not None:
            between = certain(expr, aggregates)
            limits = _inside(quotients(*pair, beta, between), between)
        if limits is not None:
            return nearest(limits[0]), nearest(limits[1])
    except ArithmeticError:
        pass  # no interval follows
    return INFINITE


def form(expr: Expr, known: Known) -> LinearForm | None:
    """`expr` as a sum of multiples of noisy numbers, if it is one."""
    match expr:
        case Literal(value=value):
            return _constant(value)
        case AggregateRef(index, _):
            return known(index)
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return form(arg, known)
        case Call("negate", (arg,), _):
            inner = form(arg, known)
            if inner is None:
                return None
            return inner.times(Fraction(-1))
        case Call("add" | "subtract" | "multiply" | "divide" as op, (left, right), _):
            return _joined(op, form(left, known), form(right, known))
    return None


def _constant(value: object) -> LinearForm | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return None
    return LinearForm(Fraction(value))


def _joined(op: str, left: LinearForm | None, right: LinearForm | None) -> LinearForm | None:
    if left is None or right is None:
        return None
    match op:
        case "add":
            return left.plus(right)
        case "subtract":
            return left.plus(right.times(Fraction(-1)))
        case "multiply" if left.known or right.known:
            if left.known:
                return right.times(left.value)
            return left.times(right.value)
        case "divide" if right.known and right.value:
            return left.times(1 / right.value)
    return None


def _quotient(expr: Expr, known: Known) -> tuple[LinearForm, LinearForm] | None:
    if not isinstance(expr, Call) or expr.op != "divide":
        return None
    top, bottom = form(expr.args[0], known), form(_nonzero(expr.args[1]), known)
    if top is None or bottom is None or bottom.known:
        return None
    return (top, bottom)


def _nonzero(divisor: Expr) -> Expr:
    """NULLIF(x, 0) is x wherever there is a quotient."""
    match divisor:
        case Call("nullif", (of, Literal(value=0)), _):
            return of
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return _nonzero(arg)
    return divisor


# -------------------------------------------------------------------------------------------- what is certain


def certain(expr: Expr, aggregates: Sequence[Aggregate]) -> Ends | None:
    """Where a quotient lies whatever the rows are: a count of some rows by that of all of them is a share,
    and a sum of values between bounds by a count of no fewer rows lies between those bounds and 0. It is so
    of all rows and of those that count alike."""
    match expr:
        case Call("divide", (top, bottom), _):
            match _bare(_nonzero(bottom)):
                case AggregateRef(index, _) if index < len(aggregates):
                    return _certain(top, aggregates[index], aggregates)
    return None


def _certain(top: Expr, rows: Aggregate, aggregates: Sequence[Aggregate]) -> Ends | None:
    match _bare(top):
        case AggregateRef(index, _):
            return _by_rows(aggregates[index], rows)
        case Call("multiply", (Literal(value=factor), of) | (of, Literal(value=factor)), _):
            inner, by = _certain(of, rows, aggregates), _constant(factor)
            if inner is not None and by is not None:
                return min(by.value * end for end in inner), max(by.value * end for end in inner)
    return None


def _by_rows(part: Aggregate, rows: Aggregate) -> Ends | None:
    if not _is_among(part, rows):
        return None
    if part.statistic is rows.statistic:
        return Fraction(0), Fraction(1)
    if part.statistic is Statistic.SUM and part.bounds is not None:
        return min(Fraction(0), part.bounds[0]), max(Fraction(0), part.bounds[1])
    return None


def _is_among(part: Aggregate, rows: Aggregate) -> bool:
    """Whether every row of `part` is one of the counted `rows`."""
    if rows.statistic is not Statistic.COUNT or rows.of not in (None, part.of):
        return False
    return rows.where in (None, part.where)


def _inside(limits: Ends | None, between: Ends | None) -> Ends | None:
    if limits is None or between is None:
        return limits or between
    low, high = (max(between[0], min(end, between[1])) for end in limits)
    return low, high


def _bare(expr: Expr) -> Expr:
    match expr:
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return _bare(arg)
    return expr
