"""Rules for dates and casts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlglot import expressions as exp

from deniable.sql import date_formats, types
from deniable.sql.intervals import DIFFERENCES, PARTS
from deniable.sql.read.expressions.coercion import NodeReader, a_time, convert, is_loose, string, whole
from deniable.sql.read.parse import refuse, shown
from deniable.sql.read.times.date_formats import by_strftime, by_to_char
from deniable.sql.read.times.periods import (
    Period,
    current_day,
    current_moment,
    moved,
    period,
    today,
    unit_name,
    written,
)
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, TEXT, TIMESTAMP

MAX_DAYS = 3_652_058
Rule = Callable[[NodeReader, exp.Expr], Expr]


def moved_by_days(op: str, a: Expr, b: Expr) -> Expr:
    """DATE ± whole days, DATE - DATE."""
    if op == "subtract" and a.type.kind is Kind.DATE and b.type.kind in (Kind.DATE, Kind.TEXT):
        return Call("date_diff", (Literal("day", TEXT), convert(b, DATE), a), INTEGER)
    if op == "add" and b.type.kind is Kind.DATE:
        a, b = b, a
    days = _literal_days(b)
    if op not in ("add", "subtract") or a.type.kind is not Kind.DATE or days is None:
        refuse(
            "Dates are moved by a literal number of whole days, or by a literal INTERVAL.",
            "Write d + 7 or d + INTERVAL '3 months'; for the time between two use date_diff('minute', a, b).",
        )
    return moved(a, Period(days=days if op == "add" else -days))


def _literal_days(expr: Expr) -> int | None:
    days = expr.value if isinstance(expr, Literal) else None
    if type(days) is int and abs(days) <= MAX_DAYS:
        return days
    return None


def _add(of: NodeReader, node: exp.Expr, sign: int = 1) -> Expr:
    """date_add(d, INTERVAL 1 DAY), date_add(d, 7)."""
    by, start = node.args.get("expression"), of(node.this)
    step = period(by)
    if step is None and by is not None and node.args.get("unit") is None:
        days = _literal_days(of(by))
        step = None if days is None else Period(days=days)
    if step is None:
        refuse("Dates are moved by a literal INTERVAL.", "Write d + INTERVAL '3 months'.")
    return moved(start, step.times(sign))


def added(of: NodeReader, args: list[exp.Expr]) -> Expr:
    """dateadd('month', 3, d)."""
    number = whole(args[1], "The number of DATEADD", -MAX_DAYS, MAX_DAYS)
    return moved(of(args[2]), written(f"{number} {part_name(args[0])}"))


def _trunc(of: NodeReader, node: exp.Expr) -> Expr:
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


def part_name(node: exp.Expr | None) -> str:
    if isinstance(node, exp.Column) and not node.table:
        return str(node.name).lower()
    if isinstance(node, (exp.Var, exp.Literal, exp.Identifier)):
        return str(node.this).lower()
    return ""


def _extract(of: NodeReader, node: exp.Expr) -> Expr:
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


def _fixed_part(part: str) -> Callable[[NodeReader, exp.Expr], Expr]:
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


def _date_diff(of: NodeReader, node: exp.Expr) -> Expr:
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


# --------------------------------------------------------------------------------------------- texts and bins


def formatted(x: Expr, form: str) -> Expr:
    x = as_time(x, "STRFTIME")
    if x.type.kind is Kind.DATE and date_formats.parts(form) & {"hour", "minute", "second"}:
        x = convert(x, TIMESTAMP)
    return Call("date_format", (Literal(form, TEXT), x), types.text(date_formats.length(form)))


def _strftime(of: NodeReader, node: exp.Expr) -> Expr:
    moment, form = of(node.this), node.args.get("format")
    if isinstance(moment, Literal) and isinstance(moment.value, str):
        refuse(
            "STRFTIME expects a date and then a format, written as a literal.", "Write strftime(d, '%Y-%m')."
        )
    return formatted(moment, by_strftime(string(form, "STRFTIME")))


def _to_char(of: NodeReader, node: exp.Expr) -> Expr:
    return formatted(of(node.this), by_to_char(string(node.args.get("format"), "TO_CHAR")))


def _day(of: NodeReader, node: exp.Expr) -> Expr:
    return _cast_to(of(node.this), DATE)


def _last_day(of: NodeReader, node: exp.Expr) -> Expr:
    month = truncated(_cast_to(of(node.this), DATE), "month")
    return moved(moved(month, Period(months=1)), Period(days=-1))


def _months_bin(x: Expr, by: Period, origin: exp.Expr | None) -> Expr:
    unit = {1: "month", 3: "quarter", 12: "year"}.get(by.months)
    if unit is None or by.days or by.micros or origin is not None:
        refuse("TIME_BUCKET of this many months is not answered.", "Use date_trunc('month', t).")
    return truncated(x, unit)


def _bin(of: NodeReader, node: exp.Expr) -> Expr:
    """time_bucket(INTERVAL '15 minutes', t), date_bin('15 minutes', t, origin)."""
    interval, origin = node.this, node.args.get("unit")
    by = written(str(interval.this)) if isinstance(interval, exp.Literal) else period(interval)
    x = of(node.args["expression"])
    if by is None or by.months < 0 or by.days < 0 or by.micros < 0:
        refuse("TIME_BUCKET expects a literal INTERVAL.", "Write time_bucket(INTERVAL '15 minutes', t).")
    if by.months:
        return _months_bin(x, by, origin)
    start = of(origin) if origin is not None else Literal(datetime(2000, 1, 3), TIMESTAMP)
    start = convert(start, TIMESTAMP)
    width = by.days * _WHOLE["day"] + by.micros
    if not isinstance(start, Literal) or not width:
        refuse("TIME_BUCKET expects an origin written as a literal, and an INTERVAL that is not empty.")
    bucket = Call(
        "time_bin", (Literal(width, INTEGER), convert(as_time(x, "TIME_BUCKET"), TIMESTAMP), start), TIMESTAMP
    )
    whole_days = x.type.kind is Kind.DATE and not width % _WHOLE["day"]
    if whole_days:
        return convert(bucket, DATE)
    return bucket


def read_as(of: NodeReader, node: exp.Expr, form: exp.Expr | None, to: Type) -> Expr:
    """to_date('2024-01-31', 'YYYY-MM-DD'): a text that is a date as it stands."""
    usual = (
        "YYYY-MM-DD",
        "%Y-%m-%d",
        "YYYY-MM-DD HH24:MI:SS",
        "YYYY-MM-DD HH24:MI:SS.US",
        "%Y-%m-%d %H:%M:%S",
    )
    if form is not None and string(form, "The format") not in usual:
        refuse("A text is read as a date in the form 2026-01-31 only.", "Use CAST(x AS DATE).")
    return _cast_to(of(node), to)


_TYPES: dict[str, Type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), TEXT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "DATETIME"), TIMESTAMP),
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
}


def data_type(node: exp.DataType) -> Type:
    kind = node.this.name if hasattr(node.this, "name") else str(node.this)
    numbers = [whole(p.this, "A type", 0, 38) for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if kind == "DECIMAL":
        # DECIMAL is DECIMAL(18, 3), and DECIMAL(18) has no decimals.
        digits, scale, *_ = [*numbers, 0] if numbers else [18, 3]
        if scale > types.MAX_SCALE or digits > 18:
            refuse("Expected DECIMAL of at most 18 digits.", "Use DECIMAL(18, s) or DOUBLE.")
        return types.decimal(scale)
    if kind == "TIME":
        refuse(
            "The type TIME is answered beside literals only.",
            "Write x::time >= '07:30', or compare extract(hour FROM x) with a number.",
        )
    if kind not in _TYPES:
        refuse(
            f"The type {kind} is not answered.",
            "Use BOOLEAN, BIGINT, DECIMAL(18, s), DOUBLE, VARCHAR, DATE or TIMESTAMP.",
        )
    return _TYPES[kind]


# From each kind: the kinds that a cast reaches.
CASTS: dict[Kind, frozenset[Kind]] = {
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.TEXT}),
    Kind.INTEGER: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.TEXT}),
    Kind.DECIMAL: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.FLOAT: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.TEXT: frozenset(Kind),
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}),
    Kind.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}),
}


def _cast(of: NodeReader, node: exp.Expr) -> Expr:
    return _cast_to(of(node.this), data_type(node.args["to"]))


def _cast_to(x: Expr, to: Type) -> Expr:
    if types.is_null(x):
        return Literal(None, to)
    if to.kind not in CASTS[x.type.kind]:
        refuse(
            f"CAST from {types.name(x.type)} to {types.name(to)} is not answered.", "Keep the value as it is."
        )
    if isinstance(x, Literal):
        return types.literal_as(x.value, to) or Literal(None, to)
    if x.type.kind is Kind.BOOLEAN and to.kind in (Kind.FLOAT, Kind.DECIMAL):
        x = convert(x, INTEGER)
    if x.type.kind is Kind.TIMESTAMP and to.kind is Kind.TEXT:
        return formatted(x, "%Y-%m-%d %H:%M:%S")
    if x.type.kind is to.kind and to.kind is not Kind.DECIMAL:
        return x
    return convert(x, to)


RULES: dict[type[exp.Expr], Rule] = {
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
    exp.Extract: _extract,
    exp.Year: _fixed_part("year"),
    exp.Quarter: _fixed_part("quarter"),
    exp.Month: _fixed_part("month"),
    exp.Week: _fixed_part("week"),
    exp.WeekOfYear: _fixed_part("week"),
    exp.Day: _fixed_part("day"),
    exp.DayOfMonth: _fixed_part("day"),
    exp.DayOfWeek: _fixed_part("dow"),
    exp.DayOfWeekIso: _fixed_part("isodow"),
    exp.DayOfYear: _fixed_part("doy"),
    exp.Hour: _fixed_part("hour"),
    exp.Minute: _fixed_part("minute"),
    exp.Second: _fixed_part("second"),
    exp.DateDiff: _date_diff,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Date: _day,
    exp.LastDay: _last_day,
    exp.DateAdd: _add,
    exp.DateSub: lambda of, node: _add(of, node, -1),
    exp.DateBin: _bin,
    exp.TimeToStr: _strftime,
    exp.ToChar: _to_char,
    exp.Dayname: lambda of, node: formatted(of(node.this), "%A"),
    exp.Monthname: lambda of, node: formatted(of(node.this), "%B"),
    exp.UnixToTime: lambda of, node: read_as(of, node.this, node.args.get("scale"), TIMESTAMP),
    exp.TimeToUnix: lambda of, node: date_part(of, "epoch", node.this),
    exp.CurrentDate: lambda of, node: current_day(node),
    exp.CurrentTimestamp: lambda of, node: current_moment(node),
}
