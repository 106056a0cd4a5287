"""Rules for dates and casts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from sqlglot import expressions as exp

from deniable.sql import functions, types
from deniable.sql.intervals import PARTS
from deniable.sql.read.coercion import NodeReader, a_time, convert, is_loose, whole
from deniable.sql.read.parse import refuse, shown
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
        refuse("Dates are moved by a literal number of whole days only.", functions.REFUSED["interval"])
    return _moved(a, days if op == "add" else -days)


def _literal_days(expr: Expr) -> int | None:
    days = expr.value if isinstance(expr, Literal) else None
    return days if type(days) is int and abs(days) <= MAX_DAYS else None


def _moved(start: Expr, days: int) -> Expr:
    if isinstance(start, Literal) and isinstance(start.value, date):
        try:
            return Literal(start.value + timedelta(days=days), DATE)
        except OverflowError:
            return Literal(None, DATE)
    return Call("add_days", (start, Literal(days, INTEGER)), DATE)


def _trunc(of: NodeReader, node: exp.Expr) -> Expr:
    x, part = a_time(of(node.this), "DATE_TRUNC"), part_name(node.args.get("unit"))
    fine = part in ("hour", "minute", "second")
    if part not in ("year", "quarter", "month", "week", "day") and not fine:
        refuse(
            f"DATE_TRUNC does not know {shown(part)}.",
            "Use year, quarter, month, week, day, hour, minute or second.",
        )
    if fine and x.type.kind is Kind.DATE:
        refuse(f"A DATE has no {part}.", "Use day or a longer part.")
    return Call("date_trunc", (Literal(part, TEXT), x), x.type)


def part_name(node: exp.Expr | None) -> str:
    return str(node.this).lower() if isinstance(node, (exp.Var, exp.Literal, exp.Identifier)) else ""


def _extract(of: NodeReader, node: exp.Expr) -> Expr:
    return date_part(of, part_name(node.this), node.args["expression"])


_SAME_PARTS = {"dayofweek": "dow", "dayofyear": "doy", "weekofyear": "week", "dayofmonth": "day"}


def date_part(of: NodeReader, part: str, node: exp.Expr) -> Expr:
    part, x = _SAME_PARTS.get(part, part), a_time(of(node), "EXTRACT")
    if part not in PARTS:
        refuse(f"EXTRACT does not know {shown(part)}.", f"Use one of {', '.join(PARTS)}.")
    if part in ("hour", "minute", "second") and x.type.kind is Kind.DATE:
        refuse(f"A DATE has no {part}.", "Use day or a longer part.")
    return Call("date_part", (Literal(part, TEXT), x), INTEGER)


def _fixed_part(part: str) -> Callable[[NodeReader, exp.Expr], Expr]:
    return lambda of, node: date_part(of, part, node.this)


def _date_diff(of: NodeReader, node: exp.Expr) -> Expr:
    part = part_name(node.args.get("unit"))
    if part not in ("year", "quarter", "month", "week", "day"):
        refuse(f"DATE_DIFF does not know {shown(part)}.", "Use year, quarter, month, week or day.")
    return _difference(part, of(node.args["expression"]), of(node.this))


def _difference(part: str, a: Expr, b: Expr) -> Expr:
    a, b = (convert(a_time(x, "DATE_DIFF"), DATE) if not is_loose(x) else convert(x, DATE) for x in (a, b))
    return Call("date_diff", (Literal(part, TEXT), a, b), INTEGER)


_TYPES: dict[str, Type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), TEXT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), TIMESTAMP),
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
}


def _type(node: exp.DataType) -> Type:
    kind = node.this.name if hasattr(node.this, "name") else str(node.this)
    numbers = [whole(p.this, "A type", 0, 38) for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if kind == "DECIMAL":
        scale = numbers[1] if len(numbers) > 1 else (0 if numbers else 3)
        if scale > types.MAX_SCALE or (numbers and numbers[0] > 18):
            refuse("Expected DECIMAL of at most 18 digits.", "Use DECIMAL(18, s) or DOUBLE.")
        return types.decimal(scale)
    if kind not in _TYPES:
        refuse(
            f"The type {kind} is not answered.",
            "Use BOOLEAN, BIGINT, DECIMAL(18, s), DOUBLE, VARCHAR, DATE or TIMESTAMP.",
        )
    return _TYPES[kind]


# From each kind: the kinds that a cast reaches.
CASTS: dict[Kind, frozenset[Kind]] = {
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.TEXT}),
    Kind.INTEGER: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.TEXT}),
    Kind.DECIMAL: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.FLOAT: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.TEXT: frozenset(Kind),
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}),
    Kind.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP}),
}


def _cast(of: NodeReader, node: exp.Expr) -> Expr:
    x, to = of(node.this), _type(node.args["to"])
    if types.is_null(x):
        return Literal(None, to)
    if to.kind not in CASTS[x.type.kind]:
        refuse(
            f"CAST from {types.name(x.type)} to {types.name(to)} is not answered.", "Keep the value as it is."
        )
    if isinstance(x, Literal):
        return types.literal_as(x.value, to) or Literal(None, to)
    return x if x.type.kind is to.kind and to.kind is not Kind.DECIMAL else convert(x, to)


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
}
