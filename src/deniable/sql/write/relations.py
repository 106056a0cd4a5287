"""A checked tree as SQL of an engine: every expression total, every name quoted, nothing
of the analyst's text but literals.

An expression may hold a subquery over public tables, and a relation holds expressions: so both are here.
Operators are in `expressions`.

>>> from deniable.sql.dialects import DUCKDB
>>> from deniable.sql.types import INTEGER
>>> days = Column("days", INTEGER)
>>> expression(Call("gt", (days, Literal(3, INTEGER)), BOOLEAN), DUCKDB)
'("days" > CAST(3 AS BIGINT))'
>>> relation(Scan("visits", (days,), unit="patient_id"), DUCKDB)
'SELECT "patient_id" AS "_unit", "days" FROM "visits" WHERE "patient_id" IS NOT NULL'
"""

from __future__ import annotations

from dataclasses import replace

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.choices import choice
from deniable.sql.tree import (
    Aggregate,
    Among,
    Call,
    Column,
    Expr,
    Filter,
    Join,
    JoinKind,
    Kind,
    Listed,
    Literal,
    Order,
    OwnWindow,
    PerUnit,
    Project,
    Relation,
    Scalar,
    Scan,
    Statistic,
    Union,
)
from deniable.sql.types import BOOLEAN as BOOLEAN
from deniable.sql.types import INTEGER
from deniable.sql.types_relations import columns, has_unit
from deniable.sql.write.expressions import operation

UNIT = "_unit"


def expression(expr: Expr, dialect: Dialect) -> str:
    """A total SQL expression over the columns of the relation that it is computed on."""
    match expr:
        case Literal():
            return dialect.literal(expr.value, expr.type)
        case Column():
            return dialect.quote(expr.name)
        case Call():
            return operation(expr, [expression(arg, dialect) for arg in expr.args], dialect)
        case Scalar():
            return _scalar(expr.relation, expr.aggregates, expression(expr.value, dialect), dialect)
        case Among():
            return _among(expr, dialect)
        case OwnWindow():
            return _own_window(expr, dialect)
    raise TypeError(f"A reference to a released result cannot be rendered: {expr!r}.")


# -------------------------------------------------------------------------------- a unit's own rows in order


def _own_window(of: OwnWindow, dialect: Dialect) -> str:
    keys = ", ".join([dialect.quote(UNIT), *(expression(key, dialect) for key in of.keys)])
    order = [_ordered(each, dialect) for each in of.order]
    order += [text for each in of.ties for text in _tie(each, dialect)]
    parts = [f"PARTITION BY {keys}", of.frame]
    if order:
        parts.insert(1, f"ORDER BY {', '.join(order)}")
    over = f" OVER ({' '.join(part for part in parts if part)})"
    if of.aggregate is not None:
        return _own(_without_filter(of.aggregate), dialect, over)
    args = [expression(arg, dialect) for arg in of.args]
    if of.op in ("lag", "lead"):
        args.insert(1, str(of.offset))
    call = f"{of.op.upper()}({', '.join(args)}){over}"
    if of.args:
        return call
    return f"CAST({call} AS BIGINT)"


def _ordered(of: Order, dialect: Dialect) -> str:
    """Texts by their bytes, and NULLs where it is said: engines differ in both."""
    by = expression(of.by, dialect)
    by = dialect.by_bytes(by) if of.by.type.kind is Kind.TEXT else by
    direction, nulls = ("ASC", "DESC")[of.descending], ("LAST", "FIRST")[of.nulls_first]
    return f"{by} {direction} NULLS {nulls}"


def _tie(of: Order, dialect: Dialect) -> list[str]:
    """Zeros of both signs are equal floats, but not equal texts."""
    texts = [_ordered(of, dialect)]
    if of.by.type.kind is Kind.FLOAT:
        text = dialect.by_bytes(dialect.as_text(expression(of.by, dialect)))
        texts.append(f"{text} ASC NULLS LAST")
    return texts


def _without_filter(of: Aggregate) -> Aggregate:
    """Spark has no FILTER in a window: what does not count is NULL instead."""
    if of.where is None:
        return of
    value = Literal(1, INTEGER) if of.of is None else of.of
    conditional = choice(value.type, of.where, value, Literal(None, value.type))
    return replace(of, of=conditional, where=None)


# ---------------------------------------------------------------------------------------------- public tables


def _scalar(of: Relation, aggregates: tuple[tuple[str, Aggregate], ...], value: str, dialect: Dialect) -> str:
    """One row whatever the tables hold: an aggregate without groups."""
    totals = ", ".join(f"{_own(a, dialect)} AS {dialect.quote(name)}" for name, a in aggregates)
    return f"(SELECT {value} FROM (SELECT {totals} FROM ({relation(of, dialect)}) AS t) AS t)"


def _among(of: Among, dialect: Dialect) -> str:
    return dialect.among(
        expression(of.of, dialect), dialect.quote(of.column.name), relation(of.relation, dialect)
    )


# ------------------------------------------------------------------------------------------------ relations


def relation(of: Relation, dialect: Dialect) -> str:
    """A SELECT of the relation's columns, with `_unit` first where a column is the unit;
    rows without a unit are not there."""
    match of:
        case Scan():
            return _scan(of, dialect)
        case Listed(column, values):
            name = dialect.quote(column.name)
            return " UNION ALL ".join(f"SELECT {dialect.literal(v, column.type)} AS {name}" for v in values)
        case Project():
            items = [f"{expression(e, dialect)} AS {dialect.quote(name)}" for name, e in of.columns]
            return f"SELECT {_items(of, items, dialect)} FROM ({relation(of.of, dialect)}) AS t"
        case Filter():
            selection = (
                f"SELECT * FROM ({relation(of.of, dialect)}) AS t WHERE {expression(of.where, dialect)}"
            )
            if of.first:
                return dialect.first(selection)
            return selection
        case Join():
            return _join(of, dialect)
        case Union():
            return " UNION ALL ".join(_part(part, dialect) for part in of.parts)
        case PerUnit():
            return _per_unit(of, dialect)


def _items(of: Relation, items: list[str], dialect: Dialect, unit: str | None = None) -> str:
    """Never an empty list, which only PostgreSQL knows."""
    first = [unit or dialect.quote(UNIT)] if has_unit(of) else []
    return ", ".join(first + items) or f"TRUE AS {dialect.quote('_row')}"


def _part(part: Relation, dialect: Dialect) -> str:
    names = [dialect.quote(c.name) for c in columns(part)]
    return f"SELECT {_items(part, names, dialect)} FROM ({relation(part, dialect)}) AS t"


def _scan(of: Scan, dialect: Dialect) -> str:
    if of.path:
        return _path(of, dialect)
    names = [dialect.quote(c.name) for c in of.columns]
    unit = ""
    if of.unit is not None:
        unit = dialect.unit(of.table, of.unit)
    items = _items(of, names, dialect, f"{unit} AS {dialect.quote(UNIT)}")
    return f"SELECT {items} FROM {dialect.quote(of.table)}" + (f" WHERE {unit} IS NOT NULL" if unit else "")


def _path(of: Scan, dialect: Dialect) -> str:
    """The rows of the table, each once for every unit that its path leads to, however many ways lead there.

    A unit may repeat the key of a step as often as it likes. Were the steps joined as
    they are, its rows would multiply at each of them; so every step is a list of keys
    and units without duplicates, made from the end of the path.
    """
    q = dialect.quote
    onward, table, there = of.path[-1]
    key, unit, person = q("_key"), q(UNIT), dialect.unit(table, of.unit or "")
    ways = (
        f"SELECT DISTINCT {q(there)} AS {key}, {person} AS {unit} FROM {q(table)} WHERE {person} IS NOT NULL"
    )
    for here, table, there in reversed(of.path[:-1]):
        steps = f"{q(table)} AS t JOIN ({ways}) AS w ON t.{q(onward)} = w.{key}"
        ways = f"SELECT DISTINCT t.{q(there)} AS {key}, w.{unit} FROM {steps}"
        onward = here
    items = _items(of, [f"t.{q(c.name)}" for c in of.columns], dialect, f"w.{unit}")
    return f"SELECT {items} FROM {q(of.table)} AS t JOIN ({ways}) AS w ON t.{q(onward)} = w.{key}"


def _join(of: Join, dialect: Dialect) -> str:
    names = [f"l.{dialect.quote(c.name)}" for c in columns(of.left)]
    names += [f"r.{dialect.quote(c.name)}" for c in columns(of.right)]
    here = [side for side, rows in (("l", of.left), ("r", of.right)) if has_unit(rows)]
    unit = f"{here[0]}.{dialect.quote(UNIT)}" if here else ""
    if of.kind is JoinKind.FULL and len(here) > 1:
        unit = f"coalesce(l.{dialect.quote(UNIT)}, r.{dialect.quote(UNIT)}) AS {dialect.quote(UNIT)}"
    on = [f"l.{dialect.quote(a)} = r.{dialect.quote(b)}" for a, b in of.on]
    if of.on_unit:
        on.insert(0, f"l.{dialect.quote(UNIT)} = r.{dialect.quote(UNIT)}")
    left, right = relation(of.left, dialect), relation(of.right, dialect)
    kind = "JOIN"
    if of.kind is not JoinKind.INNER:
        kind = f"{of.kind.upper()} JOIN"
    sides = f"({left}) AS l {kind} ({right}) AS r ON {' AND '.join(on)}"
    return f"SELECT {_items(of, names, dialect, unit)} FROM {sides}"


def _per_unit(of: PerUnit, dialect: Dialect) -> str:
    items = [f"{_same(e, dialect)} AS {dialect.quote(name)}" for name, e in of.keys]
    items += [f"{_own(a, dialect)} AS {dialect.quote(name)}" for name, a in of.aggregates]
    groups = ", ".join(str(i + 1) for i in range(1 + len(of.keys)))
    return f"SELECT {_items(of, items, dialect)} FROM ({relation(of.of, dialect)}) AS t GROUP BY {groups}"


def _same(of: Expr, dialect: Dialect) -> str:
    """Such that values which an engine calls equal are the same one: which of them it shows depends on the
    order in which it reads them, and `_tie` tells zeros apart."""
    x = expression(of, dialect)
    if of.type.kind is Kind.FLOAT:
        return dialect.one_zero(x)
    return x


def _own(of: Aggregate, dialect: Dialect, over: str = "") -> str:
    """A unit's own aggregate, exact: whole numbers are summed in a wider type, in any order the same."""
    where = over
    if of.where is not None:
        where = f" FILTER (WHERE {expression(of.where, dialect)})"
    if of.of is None:
        return f"CAST(COUNT(*){where} AS BIGINT)"
    x = expression(of.of, dialect)
    match of.statistic:
        case Statistic.COUNT:
            return f"CAST(COUNT({x}){where} AS BIGINT)"
        case Statistic.COUNT_DISTINCT:
            return f"CAST(COUNT(DISTINCT {x}){where} AS BIGINT)"
        case Statistic.MIN | Statistic.MAX:
            return f"{of.statistic.upper()}({_same(of.of, dialect)}){where}"
    total = f"{dialect.total(x)}{where}"
    if of.statistic is Statistic.SUM:
        return dialect.narrow(total)
    number = f"NULLIF(COUNT({x}){where}, 0)"
    share = f"{dialect.as_double(total)} / {dialect.as_double(number)}"
    if of.of.type.scale:
        return f"({share} / {dialect.double(10.0**of.of.type.scale)})"
    return f"({share})"
