"""Windows over private rows, each within the rows of one unit: ROW_NUMBER() OVER (PARTITION BY person ORDER
BY day).

Why each is sound: the unit is among the keys of PARTITION BY, so what a window says of a row is a function
of the rows of that row's own unit. It must be a function of their values alone, never of the order in which
an engine reads them, which other people's rows may change: where rows that are equal in ORDER BY would be
told apart, every column of the relation follows in ORDER BY. Rows that are equal in all of these are one row
written twice, so that whichever is numbered first, the numbered rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import condition, convert
from deniable.sql.intervals import EVERYTHING, Interval, hull
from deniable.sql.read.aggregates import aggregate
from deniable.sql.read.names import Field, Scope, domain, fold
from deniable.sql.read.parse import name_of
from deniable.sql.read.relations.per_unit import aliases, inner_bounds, plain
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Column, Expr, Filter, Literal, Order, OwnWindow, Project, Statistic, Value
from deniable.sql.types_relations import aggregate_type, asks, columns, has_unit, hoisted
from deniable.units import Unit

MOST_ROWS_BACK = 1_000
"""How far LAG, LEAD and a frame may look."""
_NUMBERS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}
_VALUES: dict[type[exp.Expr], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}
_BY_VALUE = ("rank", "dense_rank")
"""Equal in ORDER BY is equal here."""
_AGGREGATES = (Statistic.COUNT, Statistic.SUM, Statistic.AVG, Statistic.MIN, Statistic.MAX)
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_FROM_FIRST = {
    (True, "CURRENT ROW"): _ROWS,
    (False, "CURRENT ROW"): "",
    (True, "UNBOUNDED FOLLOWING"): WHOLE,
    (False, "UNBOUNDED FOLLOWING"): WHOLE,
}
"""Frames from a unit's first row, by whether they are counted in ROWS and where they end."""
_UNFRAMED = ("row_number", "rank", "dense_rank", "lag", "lead")
"""What looks at no frame, whichever is written."""


@dataclass(frozen=True)
class _Read:
    """A window as it is computed, with what is known of its values."""

    expr: OwnWindow
    bounds: Interval = EVERYTHING
    domain: tuple[Value, ...] | None = None


def with_windows(scope: Scope, select: exp.Select, unit: Unit) -> tuple[Scope, exp.Select]:
    """The rows of a SELECT with each of its windows as a column of its own, those that QUALIFY keeps; and the
    SELECT that names these columns."""
    qualify = select.args.get("qualify")
    if qualify is None and not any(True for item in select.expressions for _ in _windows(item)):
        return scope, select
    if select.args.get("group") or select.args.get("having"):
        refuse(
            "A window over the groups of a subquery is not answered.",
            "Group in one subquery, and write the window in a second one around it.",
        )
    new_select = select.copy()
    new_select.set("expressions", [_name_item(item) for item in new_select.expressions])
    parts = list(new_select.expressions)
    if qualify is not None:
        parts.append(new_select.args["qualify"])
    wider = _add_columns(scope, parts, unit.max_rows)
    if qualify is None:
        return wider, new_select
    test = _resolve_aliases(wider, new_select.args["qualify"].this, aliases(new_select))
    new_select.set("qualify", None)
    relation, [where] = hoisted(wider.relation, [condition(wider.rows, test, "QUALIFY")])
    assert where is not None
    return replace(wider, relation=Filter(relation, where)), new_select


def _windows(node: exp.Expr) -> Iterator[exp.Window]:
    """Of its own: those of a query inside belong to that."""
    for each in node.walk(prune=lambda n: isinstance(n, (exp.Query, exp.Window))):
        if isinstance(each, exp.Window):
            yield each


def _name_item(item: exp.Expr) -> exp.Expr:
    if isinstance(item, exp.Window):
        return exp.alias_(item, name_of(item.this).lower())
    return item


def _resolve_aliases(scope: Scope, node: exp.Expr, items: dict[str, exp.Expr]) -> exp.Expr:
    """A condition in which the alias of an item stands for that item, where no column has its name."""
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        item = items.get(fold(str(column.name)))
        if not column.table and item is not None and scope.named_by(column) is None:
            column.replace(exp.Paren(this=item.copy()))
    return holder


def _add_columns(scope: Scope, parts: list[exp.Expr], max_rows: int | None) -> Scope:
    """With a column for each window in `parts`, which then name it."""
    own = columns(scope.relation)
    by_expr: dict[OwnWindow, Field] = {}
    for part in parts:
        for node in list(_windows(part)):
            read = _window(scope, node, max_rows)
            column = Column(f"_w{len(own) + len(by_expr)}", read.expr.type)
            field = Field(column.name, "", column, read.bounds, read.domain)
            field = by_expr.setdefault(read.expr, field)
            node.replace(exp.column(field.name))
    items: list[tuple[str, Expr]] = [(c.name, c) for c in own]
    items += [(field.name, expr) for expr, field in by_expr.items()]
    return replace(
        scope, relation=Project(scope.relation, tuple(items)), fields=(*scope.fields, *by_expr.values())
    )


# ------------------------------------------------------------------------------------------------- one window


def _window(scope: Scope, node: exp.Window, max_rows: int | None) -> _Read:
    keys = _keys(scope, node)
    order = tuple(_order(scope, each) for each in _list_order(node))
    function = node.this
    if type(function) in _NUMBERS:
        read = _read_number(_NUMBERS[type(function)], max_rows)
    elif type(function) in _VALUES:
        read = _value(scope, _VALUES[type(function)], node)
    else:
        read = _read_aggregate(scope, node, max_rows)
    op = read.expr.op
    frame = _frame(node, op, bool(order))
    if not order and op not in ("row_number", "aggregate"):
        refuse(f"{name_of(node)} expects an ORDER BY.", "Write OVER (PARTITION BY person ORDER BY day).")
    decides = op not in _BY_VALUE and not (op == "aggregate" and frame in ("", WHOLE))
    ties: tuple[Order, ...] = ()
    if decides:
        ties = tuple(Order(column) for column in columns(scope.relation))
    expr = replace(read.expr, keys=keys, order=order, ties=ties, frame=frame)
    if asks(expr):
        refuse(f"A subquery inside {name_of(node)} is not answered.", "Compute it in a subquery in FROM.")
    return replace(read, expr=expr)


def _list_order(node: exp.Window) -> list[exp.Expr]:
    order = node.args.get("order")
    if order is None:
        return []
    return list(order.expressions)


def _order(scope: Scope, node: exp.Expr) -> Order:
    by = scope.rows(plain(node.this))
    return Order(by, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _keys(scope: Scope, node: exp.Window) -> tuple[Expr, ...]:
    """What PARTITION BY names beside the unit."""
    parts = [plain(part) for part in node.args.get("partition_by") or []]
    units = [part for part in parts if isinstance(part, exp.Column) and scope.find(part).unit]
    if not has_unit(scope.relation):
        refuse(
            f"{name_of(node)} over private rows would look at other people's, and here each row is a "
            "person's.",
            "Aggregate first, and say it over the result: SELECT a, COUNT(*) AS n, RANK() OVER (ORDER BY "
            "n) … "
            "GROUP BY a.",
        )
    if not units:
        name = next((f.name for f in scope.fields if f.unit), "the unit")
        refuse(
            f"{name_of(node)} over private rows would look at other people's.",
            f"Within the rows of one it is answered: OVER (PARTITION BY {shown(name)[1:-1]} …). Else "
            "aggregate "
            "first, and say it over the result: SELECT a, COUNT(*) AS n, RANK() OVER (ORDER BY n) … GROUP "
            "BY a.",
        )
    return tuple(scope.rows(part) for part in parts if part not in units)


def _read_number(op: str, max_rows: int | None) -> _Read:
    """Which row, from 1. A unit counts with at most the rows that the owner declared for one: later numbers
    are none of the public ones."""
    most = None if max_rows is None else Fraction(max_rows)
    return _Read(OwnWindow(op, type=types.INTEGER), Interval(Fraction(1), most))


def _value(scope: Scope, op: str, node: exp.Window) -> _Read:
    of = scope.rows(node.this.this)
    values, interval = domain(of, scope), scope.interval(of)
    default = node.this.args.get("default")
    args: tuple[Expr, ...] = (of,)
    if default is not None:
        other = convert(scope.rows(default), of.type)
        if not isinstance(other, Literal):
            refuse(f"{name_of(node)} expects its third argument written as a literal.", "Use coalesce(…, x).")
        args, interval = (of, other), hull([interval, scope.interval(other)])
        values = None if values is None else (*values, other.value)
    public = None
    if values is not None:
        public = tuple(dict.fromkeys((*values, None)))
    return _Read(OwnWindow(op, args, _offset(node), type=of.type), interval, public)


def _offset(node: exp.Window) -> int:
    offset = node.this.args.get("offset") or exp.Literal.number(1)
    rows = _rows_back(offset)
    if not rows:
        refuse(
            f"{name_of(node)} expects a number of rows from 1 to {MOST_ROWS_BACK:,}, written as a literal."
        )
    return rows


def _rows_back(node: object) -> int | None:
    """A number of rows that is written as a literal, and no larger than any may be."""
    if not isinstance(node, exp.Literal) or not str(node.this).isdecimal():
        return None
    text = str(node.this)
    if len(text) <= 4 and int(text) <= MOST_ROWS_BACK:
        return int(text)
    return None


def _read_aggregate(scope: Scope, node: exp.Window, max_rows: int | None) -> _Read:
    statistic = aggregate(node.this, scope, inner=True)
    if statistic is None or statistic.statistic not in _AGGREGATES:
        refuse(
            f"{name_of(node)} within the rows of one person is not answered.",
            "Use ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN or "
            "MAX.",
        )
    expr = OwnWindow("aggregate", aggregate=statistic, type=aggregate_type(statistic))
    return _Read(expr, inner_bounds(statistic, max_rows))


def _frame(node: exp.Window, op: str, ordered: bool) -> str:
    """The rows that a window looks at, in words of three engines; "" for what is meant without any."""
    spec = node.args.get("spec")
    if op in _UNFRAMED or (spec is None and op != "last_value"):
        return ""
    if spec is None:
        _refuse_frame(node, f"Write {WHOLE}, or FIRST_VALUE with the order turned round.")
    words = _frame_words(spec, ordered)
    if words is None or (op == "last_value" and words != WHOLE):
        _refuse_frame(node)
    return words


def _frame_words(spec: exp.Expr, ordered: bool) -> str | None:
    """None for a frame that is not answered."""
    start, end = (_edge(spec, side) for side in ("start", "end"))
    in_rows = str(spec.args.get("kind")).upper() == "ROWS"
    if spec.args.get("exclude"):
        return None
    if start == "UNBOUNDED PRECEDING":
        return _FROM_FIRST.get((in_rows, end))
    rows = _rows_back(spec.args.get("start"))
    is_behind = in_rows and ordered and start.endswith(" PRECEDING") and end == "CURRENT ROW"
    if not is_behind or rows is None:
        return None
    return f"ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW"


def _edge(spec: exp.Expr, side: str) -> str:
    """Where a frame begins or ends, like "UNBOUNDED PRECEDING"; the current row unless it is said."""
    words = (spec.args.get(side) or "CURRENT ROW", spec.args.get(f"{side}_side") or "")
    return " ".join(str(word) for word in words).strip().upper()


def _refuse_frame(node: exp.Window, way_out: str = "") -> NoReturn:
    refuse(
        f"This frame of {name_of(node)} within the rows of one person is not answered.",
        way_out or f"Write none, {_ROWS}, ROWS BETWEEN 3 PRECEDING AND CURRENT ROW or {WHOLE}.",
    )
