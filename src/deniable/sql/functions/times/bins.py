"""What is cut by periods: time_bucket, date_bin."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlglot import expressions as exp

from deniable.sql.coercion import NodeReader, convert
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import Form, Function, Syntax, literal_value
from deniable.sql.functions.times.dates import EPOCH, as_time, remainder, truncated
from deniable.sql.functions.times.periods import DAY, Period, period, written
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import DATE, INTEGER, TIMESTAMP


def _read_months(x: Expr, by: Period, origin: exp.Expr | None) -> Expr:
    unit = {1: "month", 3: "quarter", 12: "year"}.get(by.months)
    if unit is None or by.days or by.micros or origin is not None:
        refuse("TIME_BUCKET of this many months is not answered.", "Use date_trunc('month', t).")
    return truncated(x, unit)


def _read_bin(of: NodeReader, node: exp.Expr) -> Expr:
    """time_bucket(INTERVAL '15 minutes', t), date_bin('15 minutes', t, origin)."""
    interval, origin = node.this, node.args.get("unit")
    by = written(str(interval.this)) if isinstance(interval, exp.Literal) else period(interval)
    x = of(node.args["expression"])
    if by is None or by.months < 0 or by.days < 0 or by.micros < 0:
        refuse("TIME_BUCKET expects a literal INTERVAL.", "Write time_bucket(INTERVAL '15 minutes', t).")
    if by.months:
        return _read_months(x, by, origin)
    start = of(origin) if origin is not None else Literal(datetime(2000, 1, 3), TIMESTAMP)
    start = convert(start, TIMESTAMP)
    width = by.days * DAY + by.micros
    if not isinstance(start, Literal) or not width:
        refuse("TIME_BUCKET expects an origin written as a literal, and an INTERVAL that is not empty.")
    bucket = Call(
        "time_bin", (Literal(width, INTEGER), convert(as_time(x, "TIME_BUCKET"), TIMESTAMP), start), TIMESTAMP
    )
    whole_days = x.type.kind is Kind.DATE and not width % DAY
    if whole_days:
        return convert(bucket, DATE)
    return bucket


def _words(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL for a period that began before the year 1."""
    width, origin = int(literal_value(call, 0)), call.args[2]
    start = EPOCH
    if isinstance(origin, Literal) and isinstance(origin.value, datetime):
        start = origin.value
    first, shift = ((moment - EPOCH) // timedelta(microseconds=1) for moment in (datetime.min, start))

    def body(t: str) -> str:
        begin = f"({t} - {remainder(f'({t} - ({shift}))', width)})"
        return dialect.from_epoch_micros(f"CASE WHEN {begin} >= {first} THEN {begin} END")

    return dialect.let([dialect.epoch_micros(args[1])], body)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "time_bin",
        (
            Form(
                "time_bucket(INTERVAL '15 minutes', a), date_bin('15 minutes', a, origin)",
                "start of the literal period that a lies in, counted from 2000-01-03 or the origin",
                (Syntax(exp.DateBin, _read_bin, frozenset({"this", "expression", "unit"})),),
            ),
        ),
        words=_words,
    ),
)
