"""Intervals carried along: beside each number of a query over released tables, two columns with its ends.

Interval arithmetic, written as SQL. What it does not cover (ranks, counts of released rows, conditions on noisy
numbers, DISTINCT, INTERSECT, PIVOT) has no interval, and the answer says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import expressions as exp

from deniable.sql.after.allowed import RESERVED
from deniable.sql.after.arithmetic import Ends, Noisy, ends
from deniable.sql.after.lift import aggregates
from deniable.sql.after.reach import Reach
from deniable.sql.read.names import fold
from deniable.sql.read.per_unit import plain

LOW, HIGH = f"{RESERVED}low_", f"{RESERVED}high_"


@dataclass(frozen=True)
class AnswerColumn:
    """A column of a query's answer; `reach` is None where it has no interval, `key` says that no number of a
    release is in it."""

    name: str
    reach: Reach | None = None
    key: bool = False


AnswerColumns = tuple[AnswerColumn, ...]
Names = Mapping[str, "AnswerColumns | None"]
"""Tables by their folded names; None where their columns are not known before they are run."""


def annotated(
    node: exp.Expr, names: Names, want: frozenset[int] | None = None
) -> tuple[exp.Expr, AnswerColumns | None]:
    """The query with the ends of its numbers after its own columns, and what those are. `want`: the positions that
    must have ends, NULL where none follow."""
    node = node.copy()
    names = dict(names)
    for cte in node.args["with_"].expressions if node.args.get("with_") else ():
        body, columns = annotated(cte.this, names)
        cte.set("this", body)
        names[fold(str(cte.alias))] = _renamed(columns, cte.args.get("alias"))
    match node:
        case exp.Select():
            return _select(node, names, want)
        case exp.Subquery() if not node.args.get("pivots"):
            inner, columns = annotated(node.this, names, want)
            node.set("this", inner)
            return node, columns
        case exp.Union() if not node.args.get("distinct") and not node.args.get("by_name"):
            return _union(node, names, want)
    return node, None


def _union(
    node: exp.Union, names: Names, want: frozenset[int] | None
) -> tuple[exp.Expr, AnswerColumns | None]:
    sides = [annotated(side, names)[1] for side in (node.this, node.expression)]
    if sides[0] is None or sides[1] is None or len(sides[0]) != len(sides[1]):
        return node, None
    both = [_either(a, b) for a, b in zip(*sides, strict=True)]
    positions = frozenset(i for i, column in enumerate(both) if column.reach is not None)
    targets = positions if want is None else want
    for part in ("this", "expression"):
        node.set(part, annotated(node.args[part], names, targets)[0])
    return node, tuple(both)


def _either(left: AnswerColumn, right: AnswerColumn) -> AnswerColumn:
    """A row of a union comes from one of its sides: the larger of the two reaches covers it."""
    reaches = [side.reach for side in (left, right) if side.reach is not None]
    if not reaches:
        return left
    if len(reaches) == 1:
        return replace(left, reach=reaches[0])
    return replace(left, reach=reaches[0].alike(reaches[1]))


# ------------------------------------------------------------------------------------------------ SELECT


def _select(
    select: exp.Select, names: Names, want: frozenset[int] | None
) -> tuple[exp.Expr, AnswerColumns | None]:
    sources = _sources(select, names)
    if sources is None or not _expanded(select, sources):
        return select, None
    lookup = _seen(sources)
    has_groups = select.args.get("group") is not None or any(
        True for e in select.expressions for _ in aggregates(e)
    )
    is_closed = bool(select.args.get("distinct")) or _orders_all(select)
    columns, companions = [], dict[int, Ends]()
    for i, item in enumerate(select.expressions):
        name = str(item.alias_or_name) or f"column{i + 1}"
        interval = (
            None
            if is_closed
            else ends(plain(item), lookup, grouped=has_groups, nested=lambda q: _scalar(q, names))
        )
        reach = None if interval is None or not interval.reach.bases else interval.reach
        columns.append(AnswerColumn(name, reach, _is_key(plain(item), sources)))
        if interval is not None and reach is not None:
            companions[i] = interval
    targets = frozenset(companions) if want is None else want
    if is_closed and targets:
        return select, None
    items = [part for i in sorted(targets) for part in _items(columns[i].name, companions.get(i))]
    select.set("expressions", [*select.expressions, *items])
    return select, tuple(columns)


def _is_key(node: exp.Expr, sources: Sequence[Source]) -> bool:
    """Whether an item is computed from keys alone."""
    keys = {fold(column.name) for _, columns in sources for column in columns if column.key}
    inside = list(node.walk())
    if any(isinstance(part, (exp.Query, exp.Window, exp.AggFunc)) for part in inside):
        return False
    return all(fold(str(part.name)) in keys for part in inside if isinstance(part, exp.Column))


def _items(name: str, found: Ends | None) -> list[exp.Expr]:
    low, high = (exp.Null(), exp.Null()) if found is None else (found.low, found.high)
    pairs = ((f"{LOW}{name}", low), (f"{HIGH}{name}", high))
    return [exp.alias_(exp.cast(end.copy(), "DOUBLE"), alias, quoted=True) for alias, end in pairs]


def _orders_all(select: exp.Select) -> bool:
    order = select.args.get("order")
    group = select.args.get("group")
    by_all = order is not None and any(isinstance(plain(o.this), exp.Var) for o in order.expressions)
    return by_all or (group is not None and bool(group.args.get("all")))


Source = tuple[str, AnswerColumns]


def _sources(select: exp.Select, names: Names) -> list[Source] | None:
    """What FROM holds, with its columns; None where those are not known."""
    first = select.args.get("from_")
    origins = [] if first is None else [first]
    sources: list[Source] = []
    for holder in [*origins, *(select.args.get("joins") or [])]:
        node = holder.this
        if (
            isinstance(node, exp.Table)
            and isinstance(node.this, exp.Identifier)
            and not node.args.get("pivots")
        ):
            columns = names.get(fold(str(node.name)))
        elif (
            isinstance(node, exp.Subquery)
            and not node.args.get("pivots")
            and isinstance(node.this, exp.Query)
        ):
            body, columns = annotated(node.this, names)
            node.set("this", body)
        else:
            columns = None
        columns = _renamed(columns, node.args.get("alias"))
        if columns is None:
            return None
        sources.append((fold(str(node.alias_or_name)), columns))
    return sources


def _given_names(alias: exp.Expr | None) -> list[str]:
    columns = (alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []
    return [str(column.name) for column in columns]


def _renamed(columns: AnswerColumns | None, alias: exp.Expr | None) -> AnswerColumns | None:
    """Under the names of AS t (a, b), to which those of the ends are added."""
    new_names = _given_names(alias)
    if columns is None or not new_names:
        return columns
    if len(new_names) != len(columns) or not isinstance(alias, exp.TableAlias):
        return None
    new_columns = tuple(replace(column, name=name) for name, column in zip(new_names, columns, strict=True))
    ends_too = [
        end + column.name for column in new_columns if column.reach is not None for end in (LOW, HIGH)
    ]
    alias.set("columns", [exp.to_identifier(name, quoted=True) for name in (*new_names, *ends_too)])
    return new_columns


def _expanded(select: exp.Select, sources: Sequence[Source]) -> bool:
    """SELECT * of one table, written out; False where it cannot be. (Ends of other tables would be in it.)"""
    stars = [item for item in select.expressions if isinstance(item, exp.Star) or item.is_star]
    if not stars:
        return True
    marks = [star.this if isinstance(star, exp.Column) else star for star in stars]
    bare = all(isinstance(mark, exp.Star) and not any(mark.args.values()) for mark in marks)
    if not bare or len(sources) != 1 or len(select.expressions) != 1:
        return False
    names = [exp.column(column.name, quoted=True) for column in sources[0][1]]
    select.set("expressions", [exp.alias_(name, name.name, quoted=True) for name in names])
    return True


def _seen(sources: Sequence[Source]) -> dict[tuple[str, str], Noisy | None]:
    """What a column's name stands for, with its table's name and, where it is the only one, without."""
    lookup: dict[tuple[str, str], Noisy | None] = {}
    for table, columns in sources:
        for column in columns:
            noisy = None
            if column.reach is not None:
                low, high = (
                    exp.column(end + column.name, table=table or None, quoted=True) for end in (LOW, HIGH)
                )
                noisy = Noisy(low, high, column.reach)
            lookup[(table, fold(column.name))] = noisy
            bare = ("", fold(column.name))
            lookup[bare] = (
                noisy
                if bare not in lookup
                else None
                if noisy is None and lookup[bare] is None
                else lookup[bare]
            )
    return lookup


def _scalar(query: exp.Expr, names: Names) -> Noisy | None:
    """A query in brackets that is one number: its ends are two queries more. None where they do not follow."""
    body, columns = annotated(query.this if isinstance(query, exp.Subquery) else query, names)
    if columns is None or len(columns) != 1 or columns[0].reach is None:
        return None
    sides = []
    for end in (LOW, HIGH):
        column = exp.column(end + columns[0].name, quoted=True)
        inner = exp.Subquery(
            this=body.copy(), alias=exp.TableAlias(this=exp.to_identifier(f"{RESERVED}value"))
        )
        sides.append(exp.Subquery(this=exp.Select(expressions=[column], from_=exp.From(this=inner))))
    return Noisy(sides[0], sides[1], columns[0].reach.computed)
