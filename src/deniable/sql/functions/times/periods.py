"""Periods and what moves by them: INTERVAL '3 months', date arithmetic, the day of today."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, convert, whole
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.floats import half_up
from deniable.sql.functions.function import (
    Form,
    Function,
    ReleasedRule,
    Syntax,
    literal_value,
    strict,
)
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import DATE, INTEGER, TIMESTAMP

FIRST, LAST = "0001-01-01", "9999-12-31"
DAY = 86_400_000_000
"""Microseconds."""
MOST_MONTHS, MOST_DAYS = 120_000, 3_652_059
MOST_MOVED = 3_652_058
"""Days from 0001-01-01 to 9999-12-31."""
_UNITS: dict[str, tuple[str, int]] = {
    "year": ("months", 12),
    "quarter": ("months", 3),
    "month": ("months", 1),
    "week": ("days", 7),
    "day": ("days", 1),
    "hour": ("micros", DAY // 24),
    "minute": ("micros", DAY // 1440),
    "second": ("micros", 1_000_000),
    "millisecond": ("micros", 1_000),
    "microsecond": ("micros", 1),
}
_SHORT = {
    "y": "year", "yr": "year", "yyyy": "year", "q": "quarter", "qtr": "quarter", "mon": "month",
    "w": "week", "wk": "week", "weekofyear": "week", "isoweek": "week",
    "d": "day", "dayofmonth": "day", "h": "hour", "hr": "hour", "m": "minute", "min": "minute",
    "sec": "second", "ms": "millisecond", "us": "microsecond",
}  # fmt: skip


def unit_name(given: str) -> str:
    """One name for each unit of time.

    >>> unit_name("Hours"), unit_name("yr")
    ('hour', 'year')
    """
    name = given.lower()
    for spelling in (name, name.removesuffix("s")):
        if spelling in _UNITS or spelling in _SHORT:
            return _SHORT.get(spelling, spelling)
    return name


@dataclass(frozen=True)
class Period:
    months: int = 0
    days: int = 0
    micros: int = 0

    def times(self, factor: int) -> Period:
        return Period(self.months * factor, self.days * factor, self.micros * factor)


def period(node: exp.Expr | None) -> Period | None:
    """The period that a node is: INTERVAL 3 DAY, - INTERVAL '1 month', 3 * INTERVAL '1 day'; None for what is
    none."""
    match node:
        case exp.Paren():
            return period(node.this)
        case exp.Neg():
            inner = period(node.this)
            if inner is None:
                return None
            return inner.times(-1)
        case exp.Mul():
            return _multiple(node.this, node.args["expression"])
        case exp.Interval():
            return _checked(_interval(node))
    return None


def _multiple(a: exp.Expr, b: exp.Expr) -> Period | None:
    for interval, other in ((a, b), (b, a)):
        inner = period(interval)
        if inner is not None:
            digits = ""
            if isinstance(other, exp.Literal) and not other.is_string:
                digits = str(other.this)
            if not digits.isdecimal() or len(digits) > 7:
                refuse("An INTERVAL is multiplied by a whole number only, written as a literal.")
            return _checked(inner.times(int(digits)))
    return None


def _interval(node: exp.Interval) -> Period:
    unit, of = node.args.get("unit"), node.this
    while isinstance(of, exp.Paren):
        of = of.this
    sign = ""
    if isinstance(of, exp.Neg):
        sign, of = "-", of.this
    if not isinstance(of, exp.Literal):
        _refuse("")
    text = sign + str(of.this)
    # DAY (3) says how many digits there may be, which a literal shows.
    name = ""
    if unit is not None:
        name = unit.key if isinstance(unit, exp.Func) else str(unit.name)
    return written(f"{text} {name}")


def written(text: str) -> Period:
    """
    >>> written("2 weeks 3 days"), written("-1 hour")
    (Period(months=0, days=17, micros=0), Period(months=0, days=0, micros=-3600000000))
    """
    total = Period()
    rest = text.strip()
    while rest:
        part = re.match(r"([+-]?[0-9]{1,9}(?:[.][0-9]{1,6})?)\s*([A-Za-z]+)\s*", rest)
        if part is None or unit_name(part[2]) not in _UNITS:
            _refuse(text)
        name, factor = _UNITS[unit_name(part[2])]
        size = Fraction(part[1]) * factor
        if size.denominator != 1:
            _refuse(text)
        total = Period(**{**vars(total), name: getattr(total, name) + int(size)})
        rest = rest[part.end() :]
    return total


def _refuse(text: str) -> NoReturn:
    quote = f" {shown(text)}" if text else ""
    refuse(
        f"The INTERVAL{quote} cannot be read.",
        "Write a literal such as INTERVAL '3 months' or INTERVAL 90 DAY.",
    )


def _checked(given: Period) -> Period:
    if abs(given.months) > MOST_MONTHS or abs(given.days) + abs(given.micros) // DAY > MOST_DAYS:
        refuse("Expected an INTERVAL of at most 9,999 years.")
    return given


def days_later(start: Expr, days: Expr) -> Expr:
    """A date, so many days later."""
    return Call("add_days", (start, days), DATE)


def micros_later(start: Expr, micros: Expr) -> Expr:
    """A timestamp, so many microseconds later."""
    return Call("add_micros", (start, micros), TIMESTAMP)


def moved(start: Expr, by: Period) -> Expr:
    """A date or timestamp, later or earlier; NULL outside the years 1 to 9999. A month that has no such day
    ends it: 31 January and a month is 28 or 29 February."""
    if start.type.kind is Kind.TEXT and isinstance(start, Literal):
        start = convert(start, TIMESTAMP if len(str(start.value)) > 10 else DATE)
    if start.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        refuse("An INTERVAL is added to a DATE or TIMESTAMP.", "Use CAST(x AS DATE).")
    days, micros = by.days + by.micros // DAY, by.micros % DAY
    if start.type.kind is Kind.DATE and micros:
        start = convert(start, TIMESTAMP)
    if isinstance(start, Literal):
        return Literal(_moved_value(start.value, by.months, days, micros), start.type)
    if by.months:
        start = Call("add_months", (start, Literal(by.months, INTEGER)), start.type)
    if start.type.kind is Kind.DATE:
        if days:
            return days_later(start, Literal(days, INTEGER))
        return start
    total = days * DAY + micros
    if total:
        return micros_later(start, Literal(total, INTEGER))
    return start


def _moved_value(start: object, months: int, days: int, micros: int) -> date | datetime | None:
    if not isinstance(start, date):
        return None
    index = start.year * 12 + start.month - 1 + months
    year, month = index // 12, index % 12 + 1
    if not 1 <= year <= 9999:
        return None
    day = min(start.day, monthrange(year, month)[1])
    try:
        return start.replace(year=year, month=month, day=day) + timedelta(days=days, microseconds=micros)
    except OverflowError:
        return None


# ------------------------------------------------------------------------------------------------ today


def today() -> date:
    """In UTC."""
    return datetime.now(UTC).date()


def current_day(node: exp.Expr) -> Expr:
    """CURRENT_DATE as a literal: the same question on one day is one release, and on the next day another."""
    return Literal(today(), DATE)


def current_moment(node: exp.Expr) -> Expr:
    """now(), where only its day counts."""
    above = node.parent
    while isinstance(above, (exp.Paren, exp.Add, exp.Sub)) or _is_moment(above):
        above = above.parent if above is not None else None
    whole_days = isinstance(above, exp.Date) or _casts_to_date(above) or _cuts_to_days(above)
    if not whole_days or _moves_by_hours(node, above):
        refuse(
            "now() is another moment each time, so that every look would be a new question with a new "
            "charge.",
            "Write CURRENT_DATE, CAST(now() AS DATE), or the moment as a literal.",
        )
    return Literal(datetime.combine(today(), datetime.min.time()), TIMESTAMP)


def _is_moment(node: exp.Expr | None) -> bool:
    return (
        isinstance(node, exp.Cast)
        and not _casts_to_date(node)
        and "TIMESTAMP" in node.args["to"].sql().upper()
    )


def _casts_to_date(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Cast) and node.args["to"].sql().upper() == "DATE"


def _cuts_to_days(node: exp.Expr | None) -> bool:
    if not isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        return False
    unit = node.args.get("unit")
    return unit is not None and unit_name(str(unit.name)) in ("year", "quarter", "month", "week", "day")


def _moves_by_hours(node: exp.Expr, above: exp.Expr | None) -> bool:
    intervals = above.find_all(exp.Interval) if above is not None else ()
    periods = [period(interval) for interval in intervals]
    return any(interval is not None and interval.micros % DAY for interval in periods)


# ------------------------------------------------------------------------------------------------ functions


def part_name(node: exp.Expr | None) -> str:
    if isinstance(node, exp.Column) and not node.table:
        return str(node.name).lower()
    if isinstance(node, (exp.Var, exp.Literal, exp.Identifier)):
        return str(node.this).lower()
    return ""


def literal_days(expr: Expr) -> int | None:
    days = expr.value if isinstance(expr, Literal) else None
    if type(days) is int and abs(days) <= MOST_MOVED:
        return days
    return None


def _read_add(of: NodeReader, node: exp.Expr, sign: int = 1) -> Expr:
    """date_add(d, INTERVAL 1 DAY), date_add(d, 7)."""
    by, start = node.args.get("expression"), of(node.this)
    step = period(by)
    if step is None and by is not None and node.args.get("unit") is None:
        days = literal_days(of(by))
        step = None if days is None else Period(days=days)
    if step is None:
        refuse("Dates are moved by a literal INTERVAL.", "Write d + INTERVAL '3 months'.")
    return moved(start, step.times(sign))


def _read_dateadd(of: NodeReader, args: Sequence[exp.Expr]) -> Expr:
    """dateadd('month', 3, d)."""
    number = whole(args[1], "The number of DATEADD", -MOST_MOVED, MOST_MOVED)
    return moved(of(args[2]), written(f"{number} {part_name(args[0])}"))


def _add_days(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL outside the years 1 to 9999, the range of dates that all engines have."""
    days = int(literal_value(call, 1))

    def body(x: str) -> str:
        end, within = (LAST, "<=") if days > 0 else (FIRST, ">=")
        room = dialect.plus_days(f"CAST('{end}' AS DATE)", -days)
        inside = f"CASE WHEN {x} {within} {room} THEN {x} END"
        return f"CAST({dialect.plus_days(inside, days)} AS DATE)"

    return dialect.let(args[:1], body)


def _add_months(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL outside the years 1 to 9999. The day of the month stays, or the month ends."""
    months = int(literal_value(call, 1))
    top, low = 9999 * 12 + 11 - months, 12 - months
    edge, limit = low, f">= {_month(low, dialect, call.type)}"
    if months > 0:
        edge, limit = top, f"<= {_month(top, dialect, call.type, last=True)}"
    if not 12 <= edge <= 9999 * 12 + 11:
        return dialect.literal(None, call.type)

    def body(x: str) -> str:
        target = dialect.plus_months(f"CASE WHEN {x} {limit} THEN {x} END", months)
        return f"CAST({target} AS {dialect.type_name(call.type)})"

    return dialect.let(args[:1], body)


def _month(index: int, dialect: Dialect, of: Type, *, last: bool = False) -> str:
    """The first moment of a month, or the last; by the number of months since the year 0."""
    if not 12 <= index <= 9999 * 12 + 11:
        return dialect.literal(None, of)
    year, month = divmod(index, 12)
    moment = datetime(year, month + 1, 1)
    if last:
        moment = datetime(year, month + 1, monthrange(year, month + 1)[1], 23, 59, 59, 999_999)
    return dialect.literal(moment.date() if of.kind is Kind.DATE else moment, of)


def _add_micros(call: Call, args: list[str], dialect: Dialect) -> str:
    micros = timedelta(microseconds=int(literal_value(call, 1)))
    ends = datetime.min, datetime.max
    if micros < timedelta():
        inside = f">= {dialect.literal(ends[0] - micros, call.type)}"
    else:
        inside = f"<= {dialect.literal(ends[1] - micros, call.type)}"
    return dialect.let(
        args[:1],
        lambda x: dialect.plus_micros(f"CASE WHEN {x} {inside} THEN {x} END", int(literal_value(call, 1))),
    )


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "add_months",
        (
            Form(
                "a + INTERVAL '3 months', dateadd('day', 3, a)",
                "later by a literal period, of a month without such a day its last; NULL outside the years 1 "
                "to 9999",
                (
                    Syntax(exp.DateAdd, _read_add, frozenset({"this", "expression", "unit"})),
                    Syntax(
                        exp.DateSub,
                        lambda of, node: _read_add(of, node, -1),
                        frozenset({"this", "expression", "unit"}),
                    ),
                ),
                {("dateadd", 3): _read_dateadd},
            ),
        ),
        words=_add_months,
    ),
    Function(
        "add_days",
        (),
        words=_add_days,
        released=ReleasedRule(strict(lambda start, days: start + timedelta(days=int(half_up(days))))),
    ),
    Function(
        "add_micros",
        (),
        words=_add_micros,
        released=ReleasedRule(
            strict(lambda start, micros: start + timedelta(microseconds=int(half_up(micros))))
        ),
    ),
)
