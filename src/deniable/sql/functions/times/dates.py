"""Parts of dates and timestamps, where these begin, and the time between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, a_time, convert, is_loose
from deniable.sql.dialects.dialect import Dialect, whole
from deniable.sql.functions.function import (
    BINARY,
    Form,
    Function,
    KeyRules,
    Reading,
    Syntax,
    Values,
    literal_value,
)
from deniable.sql.functions.times.periods import (
    MOST_MOVED,
    Period,
    literal_days,
    moved,
    part_name,
    period,
    today,
    unit_name,
)
from deniable.sql.intervals import Interval
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import DATE, FLOAT, INTEGER, TEXT, TIMESTAMP

PARTS: dict[str, tuple[int, int]] = {
    "year": (1, 9999),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "isoyear": (0, 9999),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


FEW: dict[str, range] = {part: range(low, high + 1) for part, (low, high) in PARTS.items() if high <= 366}
"""The parts that have few values, and these."""

# Units that date_diff counts, and at most how many a day has.
DIFFERENCES: dict[str, Fraction] = {
    "year": Fraction(1, 365),
    "quarter": Fraction(1, 90),
    "month": Fraction(1, 28),
    "week": Fraction(1, 7),
    "day": Fraction(1),
    "hour": Fraction(24),
    "minute": Fraction(1_440),
    "second": Fraction(86_400),
    "millisecond": Fraction(86_400_000),
    "microsecond": Fraction(86_400_000_000),
}


PERIODS = {"year": 1, "quarter": 4, "month": 12}
"""Periods that are counted by the calendar, and how many of them a year has."""
FINE = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""Short periods, in microseconds."""
EPOCH = datetime(1970, 1, 1)


# ------------------------------------------------------------------------------------------------ reading


def moved_by_days(op: str, a: Expr, b: Expr) -> Expr:
    """DATE ± whole days, DATE - DATE."""
    if op == "subtract" and a.type.kind is Kind.DATE and b.type.kind in (Kind.DATE, Kind.TEXT):
        return Call("date_diff", (Literal("day", TEXT), convert(b, DATE), a), INTEGER)
    if op == "add" and b.type.kind is Kind.DATE:
        a, b = b, a
    days = literal_days(b)
    if op not in ("add", "subtract") or a.type.kind is not Kind.DATE or days is None:
        refuse(
            "Dates are moved by a literal number of whole days, or by a literal INTERVAL.",
            "Write d + 7 or d + INTERVAL '3 months'; for the time between two use date_diff('minute', a, b).",
        )
    return moved(a, Period(days=days if op == "add" else -days))


def _read_trunc(of: NodeReader, node: exp.Expr) -> Expr:
    unit, x = part_name(node.args.get("unit")), node.this
    if unit_name(unit) not in TRUNCATED and unit_name(part_name(x)) in TRUNCATED:
        # DATE_TRUNC(x, MONTH), as BigQuery has it.
        unit, x = part_name(x), exp.column(unit)
    return truncated(of(x), unit)


TRUNCATED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def truncated(x: Expr, part: str) -> Expr:
    x, part = as_time(x, "DATE_TRUNC"), unit_name(part)
    fine = part in ("hour", "minute", "second")
    if part not in ("year", "quarter", "month", "week", "day") and not fine:
        refuse(
            f"DATE_TRUNC does not know {shown(part)}.",
            "Use year, quarter, month, week, day, hour, minute or second.",
        )
    if fine and x.type.kind is Kind.DATE:
        refuse(f"A DATE has no {part}.", "Use day or a longer part.")
    return Call("date_trunc", (Literal(part, TEXT), x), x.type)


def as_time(x: Expr, where: str) -> Expr:
    """A date or timestamp; a literal text is read as one."""
    if is_loose(x) and isinstance(x, Literal):
        x = convert(x, TIMESTAMP if len(str(x.value)) > 10 else DATE)
    return a_time(x, where)


def _read_extract(of: NodeReader, node: exp.Expr) -> Expr:
    return date_part(of, part_name(node.this), node.args["expression"])


_SAME_PARTS = {
    "dayofweek": "dow", "weekday": "dow", "dw": "dow", "dayofweekiso": "isodow", "dayofweek_iso": "isodow",
    "dayofyear": "doy",
}  # fmt: skip


def date_part(of: NodeReader, part: str, node: exp.Expr) -> Expr:
    part = _SAME_PARTS.get(part, unit_name(part))
    between = duration(of, node)
    if between is not None:
        return _part_of_duration(between, part)
    x = as_time(of(node), "EXTRACT")
    if part == "epoch":
        seconds = convert(Call("epoch", (convert(x, TIMESTAMP),), INTEGER), FLOAT)
        return Call("divide", (seconds, Literal(1e6, FLOAT)), FLOAT)
    if part in ("decade", "century"):
        year = Call("date_part", (Literal("year", TEXT), x), INTEGER)
        dividend = year
        if part != "decade":
            dividend = Call("add", (year, Literal(99, INTEGER)), INTEGER)
        width = Literal(10 if part == "decade" else 100, INTEGER)
        return Call("int_divide", (dividend, width), INTEGER)
    if part not in PARTS:
        refuse(f"EXTRACT does not know {shown(part)}.", f"Use one of {', '.join(PARTS)}, epoch.")
    if part in ("hour", "minute", "second") and x.type.kind is Kind.DATE:
        refuse(f"A DATE has no {part}.", "Use day or a longer part.")
    return Call("date_part", (Literal(part, TEXT), x), INTEGER)


_FIXED: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.DayOfYear: "doy",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}


def _fixed_part(part: str) -> Reading:
    return lambda of, node: date_part(of, part, node.this)


# ------------------------------------------------------------------------------------------- the time between


@dataclass(frozen=True)
class Duration:
    """The time from `start` to `end`, two timestamps or dates: a - b, age(a, b)."""

    start: Expr
    end: Expr
    calendar: bool
    """Counted in months and days, as age() does."""

    @property
    def micros(self) -> Expr:
        start, end = (convert(x, TIMESTAMP) for x in (self.start, self.end))
        return Call("date_diff", (Literal("microsecond", TEXT), start, end), INTEGER)


def duration(of: NodeReader, node: exp.Expr) -> Duration | None:
    """What a difference of timestamps is; None for other nodes."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "age":
        args = [as_time(of(arg), "AGE") for arg in node.expressions]
        if len(args) == 1:
            args = [Literal(today(), DATE), *args]
        return Duration(args[1], args[0], calendar=True)
    if isinstance(node, exp.Sub) and period(node.args["expression"]) is None:
        end, start = of(node.this), of(node.args["expression"])
        if Kind.TIMESTAMP in (end.type.kind, start.type.kind):
            return Duration(as_time(start, "-"), as_time(end, "-"), calendar=False)
    return None


_WHOLE = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}


def _part_of_duration(of: Duration, part: str) -> Expr:
    if part == "epoch":
        return Call("divide", (convert(of.micros, FLOAT), Literal(1e6, FLOAT)), FLOAT)
    if of.calendar and part in ("year", "month"):
        months = Call("full_months", (convert(of.start, DATE), convert(of.end, DATE)), INTEGER)
        return Call("int_divide" if part == "year" else "modulo", (months, Literal(12, INTEGER)), INTEGER)
    if part == "day" and not of.calendar:
        return Call("int_divide", (of.micros, Literal(_WHOLE[part], INTEGER)), INTEGER)
    refuse(
        f"The part {shown(part)} of the time between two dates is not answered.",
        "Use date_diff('minute', a, b), or EXTRACT(epoch FROM a - b).",
    )


def compared(of: NodeReader, node: exp.Expr) -> tuple[Expr, Expr] | None:
    """A difference of timestamps beside an INTERVAL, both in microseconds."""
    sides = [node.this, node.args["expression"]]
    for at in (0, 1):
        by = period(sides[at])
        if by is not None:
            between = duration(of, sides[1 - at])
            if between is None or by.months:
                refuse(
                    "An INTERVAL is compared only with a difference of timestamps, in days or shorter units.",
                    "Use date_diff('month', a, b) with a number.",
                )
            size: Expr = Literal(by.days * _WHOLE["day"] + by.micros, INTEGER)
            if at == 0:
                return (size, between.micros)
            return (between.micros, size)
    return None


def _read_date_diff(of: NodeReader, node: exp.Expr) -> Expr:
    return difference(part_name(node.args.get("unit")), of(node.args["expression"]), of(node.this))


def difference(part: str, a: Expr, b: Expr) -> Expr:
    """How many boundaries of a unit lie between two dates or timestamps."""
    part = unit_name(part)
    if part not in DIFFERENCES:
        refuse(f"DATE_DIFF does not know {shown(part)}.", f"Use {', '.join(DIFFERENCES)}.")
    to = TIMESTAMP
    if part in ("year", "quarter", "month", "week", "day"):
        to = DATE
    a, b = (convert(as_time(x, "DATE_DIFF"), to) for x in (a, b))
    return Call("date_diff", (Literal(part, TEXT), a, b), INTEGER)


def _read_julian(x: Expr) -> Expr:
    days = difference("day", Literal(date(2000, 1, 1), DATE), x)
    return Call("add", (days, Literal(2_451_545, INTEGER)), INTEGER)


# ------------------------------------------------------------------------------------------------ words


def _date_trunc(call: Call, args: list[str], dialect: Dialect) -> str:
    inside = f"CAST({args[1]} AS TIMESTAMP)"
    return f"CAST(date_trunc('{literal_value(call, 0)}', {inside}) AS {dialect.type_name(call.type)})"


def _date_part(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.date_part(literal_value(call, 0), args[1])


def remainder(x: str, width: int) -> str:
    """The remainder that is not negative."""
    w = whole(width)
    return f"((({x} % {w}) + {w}) % {w})"


def _full_months(call: Call, args: list[str], dialect: Dialect) -> str:
    def body(a: str, b: str) -> str:
        months = f"({_periods('month', b, dialect)} - {_periods('month', a, dialect)})"
        day, other = (dialect.date_part("day", x) for x in (a, b))
        early = (
            f"CASE WHEN {b} >= {a} AND {other} < {day} THEN -1 WHEN {b} < {a} AND {other} > {day} THEN 1 "
            "ELSE 0 END"
        )
        return f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {months} + {early} END"

    return dialect.let(args, body)


def _date_diff(call: Call, args: list[str], dialect: Dialect) -> str:
    name, a, b = literal_value(call, 0), *args[1:]
    if name in FINE:
        return dialect.let([a, b], lambda a, b: f"({_index(name, b, dialect)} - {_index(name, a, dialect)})")
    if name in PERIODS:
        return dialect.let(
            [a, b], lambda a, b: f"({_periods(name, b, dialect)} - {_periods(name, a, dialect)})"
        )
    if name == "week":
        a, b = (f"CAST(date_trunc('week', CAST({x} AS TIMESTAMP)) AS DATE)" for x in (a, b))
    days = dialect.days_between(a, b)
    if name == "week":
        return dialect.quotient(days, "7")
    return days


def _index(name: str, x: str, dialect: Dialect) -> str:
    """How many of a short period since 1970, rounded down."""
    micros, width = dialect.epoch_micros(x), FINE[name]
    if width == 1:
        return micros
    return dialect.let([micros], lambda t: dialect.quotient(f"({t} - {remainder(t, width)})", whole(width)))


def _periods(name: str, x: str, dialect: Dialect) -> str:
    """How many since the year 0."""
    year = dialect.date_part("year", x)
    if name == "year":
        return year
    return f"({year} * {PERIODS[name]} + {dialect.date_part(name, x)})"


# ------------------------------------------------------------------------------------------- ranges and keys


def _difference_range(args: list[Interval], call: Call) -> Interval:
    most = math.ceil((MOST_MOVED + 1) * DIFFERENCES[literal_value(call, 0)]) + 1
    return Interval.of(-most, most)


def _part_domain(call: Call, domain: Callable[[Expr], Values | None]) -> Values | None:
    part = literal_value(call, 0)
    if part in FEW:
        return (*FEW[part], None)
    return None


_UNIT = frozenset({"this", "unit"})

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "date_trunc",
        (
            Form(
                "date_trunc('month', a)",
                "start of the year, quarter, month, week, day, hour, minute, second",
                (Syntax(exp.TimestampTrunc, _read_trunc, _UNIT), Syntax(exp.DateTrunc, _read_trunc, _UNIT)),
                {("datetrunc", 2): lambda of, args: truncated(of(args[1]), part_name(args[0]))},
            ),
        ),
        words=_date_trunc,
    ),
    Function(
        "date_part",
        (
            Form(
                "extract(year FROM a), date_part('year', a), year(a)",
                "year, quarter, month, week (ISO), day, dow (Sunday 0), isodow (Monday 1), doy, hour, "
                "minute, second",
                (
                    Syntax(exp.Extract, _read_extract, BINARY),
                    *(Syntax(kind, _fixed_part(part)) for kind, part in _FIXED.items()),
                    Syntax(exp.TimeToUnix, _fixed_part("epoch")),
                ),
                {
                    ("date_part", 2): lambda of, args: date_part(of, part_name(args[0]), args[1]),
                    ("datepart", 2): lambda of, args: date_part(of, part_name(args[0]), args[1]),
                    ("isoyear", 1): lambda of, args: date_part(of, "isoyear", args[0]),
                    ("weekday", 1): lambda of, args: date_part(of, "dow", args[0]),
                },
            ),
        ),
        words=_date_part,
        range=lambda args, call: Interval.of(*PARTS[literal_value(call, 0)]),
        keys=KeyRules(domain=_part_domain),
    ),
    Function(
        "date_diff",
        (
            Form(
                "date_diff('day', a, b)",
                "boundaries of year, quarter, month, week, day, hour, minute, second, … between a and b",
                (Syntax(exp.DateDiff, _read_date_diff, frozenset({"this", "expression", "unit"})),),
                {("julian", 1): lambda of, args: _read_julian(of(args[0]))},
            ),
        ),
        words=_date_diff,
        range=_difference_range,
    ),
    Function(
        "full_months",
        (Form("extract(year FROM age(a, b))", "full years (or months) from the day of b to that of a"),),
        words=_full_months,
        range=lambda args, call: Interval.of(-120_000, 120_000),
    ),
    Function(
        "epoch",
        (),
        words=lambda call, args, dialect: dialect.epoch_micros(args[0]),
        range=lambda args, call: Interval.of(-(10**18), 10**18),
    ),
)
