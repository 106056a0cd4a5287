"""FROM, JOIN, UNION ALL and subqueries: relations in which every row belongs to one unit
of privacy, or that are public.

Why each form is sound, for a unit that is a column: Project, Filter and Union act row by
row; a join of two private relations is on the unit, and PerUnit groups by it, so the rows
of a unit in the result are a function of that unit's rows alone (and of public tables). For
the unit `row`: each row yields at most one row, since public tables are joined on columns
that identify theirs, and a private table occurs in at most one part of a UNION ALL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.intervals import Interval, hull
from deniable.sql.read.coercion import condition, convert, meet
from deniable.sql.read.expressions import Translator
from deniable.sql.read.join_sizes import bounded
from deniable.sql.read.names import Field, Scope, domain, fold
from deniable.sql.read.parse import refuse, refuse_node, shown
from deniable.sql.read.per_unit import has_aggregate, per_unit, plain
from deniable.sql.read.public_subqueries import read_public
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import (
    Column,
    Expr,
    Filter,
    Join,
    Project,
    Scan,
    Union,
)
from deniable.sql.types_relations import columns, hoisted, readings, several
from deniable.units import Unit, UnitKind

MAX_TABLES = 32
MAX_READINGS = 256
"""How often tables may be read in all: a WITH that is named twice, in one that is named twice, … grows
fast."""


@dataclass(frozen=True)
class Sources:
    """The tables that may be named: the schema's and the CTEs before this point; None stands for one that is
    a released result, which hides what else has its name. `inside` a subquery in an expression."""

    schema: Schema
    unit: Unit
    ctes: tuple[tuple[str, Scope | None], ...] = ()
    inside: bool = False

    def with_ctes(self, query: exp.Expr) -> Sources:
        made, given = self, query.args.get("with_")
        for cte in given.expressions if given is not None else ():
            made = made.with_cte(cte, subquery(made, cte.this))
        return made

    def with_cte(self, cte: exp.Expr, scope: Scope | None) -> Sources:
        """With one more name in sight, for rows or for a released result."""
        named = None if scope is None else scope.named(str(cte.alias), _names(cte))
        return replace(self, ctes=(*self.ctes, (fold(str(cte.alias)), named)))

    def is_released(self, name: str) -> bool:
        """Whether a table's name stands for a released result."""
        known = [scope for cte, scope in self.ctes if cte == fold(name)]
        return bool(known) and known[-1] is None


def _names(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    given = (alias.args.get("columns") or []) if isinstance(alias, exp.TableAlias) else []
    return [str(c.name) for c in given]


def rows_of(sources: Sources, select: exp.Select) -> Scope:
    """FROM with its joins, and WHERE."""
    given = select.args.get("from_")
    if given is None:
        refuse("A query without FROM is not answered.", "Name a declared table.")
    scope = _source(sources, given.this)
    joins = select.args.get("joins") or []
    if len(joins) >= MAX_TABLES:
        refuse(f"Expected at most {MAX_TABLES} tables in one FROM.")
    for join in joins:
        scope = _join(sources, scope, join)
    scope = replace(scope, lookup=partial(_lookup, sources), inside=sources.inside)
    where = select.args.get("where")
    return scope if where is None else _filter(scope, condition(scope.rows, where.this, "WHERE"))


def _lookup(sources: Sources, node: exp.Expr, outer: Translator) -> Expr:
    inner = replace(sources, inside=True)
    return read_public(node, lambda select: rows_of(inner.with_ctes(select), select), outer)


def _filter(scope: Scope, where: Expr) -> Scope:
    relation, [kept] = hoisted(scope.relation, [where])
    return scope if kept is None else replace(scope, relation=Filter(relation, kept))


def _source(sources: Sources, node: exp.Expr) -> Scope:
    if isinstance(node, exp.Table):
        return _table(sources, node)
    if isinstance(node, exp.Subquery):
        inner = (
            _source(sources, node.this) if isinstance(node.this, exp.Table) else subquery(sources, node.this)
        )
        return inner.named(str(node.alias or ""), _names(node))
    refuse(f"{type(node).__name__.upper()} in FROM is not answered.", "Name a declared table.")


def _table(sources: Sources, node: exp.Table) -> Scope:
    if not isinstance(node.this, exp.Identifier):
        refuse_node(node.this)
    name = fold(str(node.name))
    for cte, scope in reversed(sources.ctes):
        if cte == name:
            if scope is None:
                refuse(
                    f"{shown(str(node.name))} is a released result, and private rows are not read together "
                    "with one.",
                    "Aggregate the rows first, in WITH or in FROM, and join the two results.",
                )
            return scope.named(str(node.alias or node.name), _names(node))
    found = [table for table in sources.schema.tables if fold(table.name) == name]
    if len(found) != 1:
        have = ", ".join(sorted(t.name for t in sources.schema.tables)[:30]) or "none"
        refuse(f"There is no table {shown(str(node.name))}.", f"The tables are: {have}.")
    return _scan(sources, found[0]).named(str(node.alias or found[0].name), _names(node))


def _scan(sources: Sources, table: TableInfo) -> Scope:
    if any(c.name.startswith("_") for c in table.columns):
        refuse(
            f"The table {shown(table.name)} declares a column that begins with _.",
            "Ask the owner to rename it.",
        )
    unit, path = _unit(sources, table)
    fields = [_field(table, column, unit if not path else None) for column in table.columns]
    if unit is not None and path and not any(fold(f.name) == fold(unit) for f in fields):
        fields.append(Field(unit, table.name, None, unit=True))
    relation = Scan(table.name, tuple(Column(c.name, c.type) for c in table.columns), unit, path)
    private = frozenset() if table.public else frozenset({table.name})
    return Scope(relation, tuple(fields), private, frozenset(table.unique) if table.public else frozenset())


def _unit(sources: Sources, table: TableInfo) -> tuple[str | None, tuple[tuple[str, str, str], ...]]:
    """The column that holds the unit and the path to its table."""
    if table.public or sources.unit.kind is UnitKind.ROW:
        return None, ()
    if sources.unit.kind is not UnitKind.COLUMN:
        refuse(
            f"SQL protects rows or the values of a column, not {sources.unit}.",
            "Use Unit.row() or Unit.column(…).",
        )
    last = sources.schema.table(table.path[-1][1]) if table.path else table
    column = None if last is None else _unit_column(last, str(sources.unit.column_name))
    if last is None or column is None:
        refuse(
            f"The table {shown(table.name)} has no way to the unit of privacy "
            f"{shown(str(sources.unit.column_name))}.",
            "Ask the owner to declare its unit or the path to it, or that it is public.",
        )
    if column.type.kind is types.TEXT.kind and column.name not in sources.schema.identities(last.name):
        refuse(
            f"The table {shown(last.name)} does not declare that {shown(column.name)} is its unit, so its "
            "texts may be cut.",
            "Ask the owner to declare it: unit.",
        )
    return column.name, table.path


def _unit_column(table: TableInfo, default: str) -> ColumnInfo | None:
    """The column that the table declares as its unit, else the one of the account's own name."""
    return table.column(default if table.unit is None else table.unit)


def _field(table: TableInfo, column: ColumnInfo, unit: str | None) -> Field:
    bounds = Interval(column.lower, column.upper)
    return Field(
        column.name, table.name, Column(column.name, column.type), bounds, column.keys, column.name == unit
    )


# ------------------------------------------------------------------------------------------------ joins


def _is_outer(node: exp.Join) -> bool:
    """Whether it is LEFT JOIN; all but that and JOIN is refused."""
    side, kind = str(node.args.get("side") or ""), str(node.args.get("kind") or "")
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        refuse(
            f"{' '.join(x for x in (side, kind) if x)} JOIN is not answered.",
            "Use JOIN or LEFT JOIN … ON a.x = b.x.",
        )
    return side == "LEFT"


def _join(sources: Sources, left: Scope, node: exp.Join) -> Scope:
    outer = _is_outer(node)
    right = _apart(_source(sources, node.this), left)
    pairs, rest = _pairs(left, right, node)
    if not pairs:
        refuse(
            "A join without an equality between its two sides is not answered.", "Use JOIN … ON a.x = b.x."
        )
    names = [(a, b) for a, b in pairs if not (a.unit and b.unit)]
    on_unit = len(names) < len(pairs)
    _check_join(sources, left, right, pairs, on_unit, outer)
    if on_unit:
        left, right = _few_rows(left, right)
    on = tuple(_equal(a, b) for a, b in names)
    scope = _joined(left, right, Join(left.relation, right.relation, on, on_unit, outer), node, outer)
    if rest and outer:
        refuse(
            "LEFT JOIN is on equal columns only.",
            "Put the other conditions into a subquery on the right side.",
        )
    for part in rest:
        scope = _filter(scope, condition(scope.rows, part, "ON"))
    return scope


def _few_rows(left: Scope, right: Scope) -> tuple[Scope, Scope]:
    """Both sides of a join on the unit without the units that would make too many rows of it."""
    if not (several(left.relation) and several(right.relation)):
        return left, right
    sides = bounded(left.relation, right.relation)
    return replace(left, relation=sides[0]), replace(right, relation=sides[1])


def _apart(right: Scope, left: Scope) -> Scope:
    """The right side with its columns renamed where the left has the same names."""
    taken = {c.name for c in columns(left.relation)}
    if not taken & {c.name for c in columns(right.relation)}:
        return right
    fresh = {c: f"r{len(taken)}_{i}" for i, c in enumerate(columns(right.relation))}
    relation = Project(right.relation, tuple((name, column) for column, name in fresh.items()))
    fields = (
        replace(f, column=None if f.column is None else Column(fresh[f.column], f.column.type))
        for f in right.fields
    )
    unique = frozenset(fresh[c] for c in fresh if c.name in right.unique)
    return replace(right, relation=relation, fields=tuple(fields), unique=unique)


def _pairs(left: Scope, right: Scope, node: exp.Join) -> tuple[list[tuple[Field, Field]], list[exp.Expr]]:
    using = [exp.Column(this=exp.to_identifier(str(c.name))) for c in node.args.get("using") or []]
    if using:
        return [(left.find(c), right.find(c)) for c in using], []
    on, pairs, rest = node.args.get("on"), [], []
    waiting = [on] if on is not None else []
    while waiting:
        part = waiting.pop()
        if isinstance(part, (exp.And, exp.Paren)):
            waiting += [x for x in (part.args.get("expression"), part.this) if x is not None]
        elif (pair := _pair(left, right, part)) is not None:
            pairs.append(pair)
        else:
            rest.append(part)
    return pairs, rest


def _pair(left: Scope, right: Scope, node: exp.Expr) -> tuple[Field, Field] | None:
    sides = (node.this, node.args.get("expression")) if isinstance(node, exp.EQ) else (None, None)
    both = Scope(left.relation, left.fields + right.fields)
    found = [both.find(side) for side in sides if isinstance(side, exp.Column)]
    if len(found) != 2:
        return None
    here = [any(f is field for field in left.fields) for f in found]
    if here == [True, False]:
        return found[0], found[1]
    return (found[1], found[0]) if here == [False, True] else None


def _equal(a: Field, b: Field) -> tuple[str, str]:
    if a.column is None or b.column is None:
        refuse(
            f"The unit of privacy {shown((a if a.column is None else b).name)} joins only the unit of the "
            "other side."
        )
    if (a.column.type.kind, a.column.type.scale) != (b.column.type.kind, b.column.type.scale):
        refuse(
            f"The columns {shown(a.name)} and {shown(b.name)} have different types: "
            f"{types.name(a.column.type)} and {types.name(b.column.type)}.",
            "Use CAST in a subquery.",
        )
    return a.column.name, b.column.name


def _check_join(
    sources: Sources, left: Scope, right: Scope, pairs: list[tuple[Field, Field]], on_unit: bool, outer: bool
) -> None:
    if left.private and right.private and not on_unit:
        _refuse_mixing(sources.unit)
    if outer and not left.private:
        refuse("A LEFT JOIN needs the private table on its left side.", "Change the sides, or use JOIN.")
    public = [side for side in enumerate((left, right)) if not side[1].private]
    if public and not any(_identified(side, [pair[at] for pair in pairs]) for at, side in public):
        refuse(
            "A public table is joined on columns that identify its rows, so that a join multiplies nothing.",
            "Ask the owner to declare them as unique, and join on all of them.",
        )


def _refuse_mixing(unit: Unit) -> NoReturn:
    """Two private tables beside one another, and not on the unit."""
    if unit.kind is UnitKind.ROW:
        refuse(
            "Two private tables cannot be joined where the unit of privacy is a row.",
            "Join public tables only.",
        )
    refuse("Two private tables are joined on the unit of privacy only.", f"Add USING ({unit.column_name}).")


def _identified(public: Scope, on: list[Field]) -> bool:
    """Whether the columns of a join name at most one row of a public side."""
    names = {f.column.name for f in on if f.column is not None}
    return bool(public.unique) and public.unique <= names


def _joined(left: Scope, right: Scope, join: Join, node: exp.Join, outer: bool) -> Scope:
    merged = {fold(str(c.name)) for c in node.args.get("using") or []}
    ours = [replace(f, hidden=f.hidden or fold(f.name) in merged) for f in right.fields]
    if outer:
        ours = [_missing_too(f) for f in ours]
    # Of two public tables the right one was met on its unique columns, or else the left one was.
    on = frozenset(pair[1] for pair in join.on)
    unique = left.unique if right.unique and right.unique <= on else right.unique
    private = left.private | right.private
    return _bounded(Scope(join, left.fields + tuple(ours), private, frozenset() if private else unique))


def _missing_too(f: Field) -> Field:
    """A column of the right side of a LEFT JOIN: beside rows without a match it is NULL,
    and so is the right side's unit, which is therefore not the unit of the row."""
    values = f.domain if f.domain is None or None in f.domain else (*f.domain, None)
    return replace(f, domain=values, unit=False)


def _bounded(scope: Scope) -> Scope:
    if readings(scope.relation) > MAX_READINGS:
        refuse(
            f"Expected tables to be read at most {MAX_READINGS} times in one query.", "Ask for less at once."
        )
    return scope


# ------------------------------------------------------------------------------------------------ subqueries


def subquery(sources: Sources, node: exp.Expr) -> Scope:
    """A query in FROM or WITH: a relation that keeps the unit."""
    for part, name in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if node.args.get(part):
            refuse(
                f"{name} inside a subquery is not answered: it would mix people's rows.", "Put it at the end."
            )
    if isinstance(node, exp.Subquery):
        return subquery(sources.with_ctes(node), node.this)
    if isinstance(node, exp.Union):
        return _union(sources.with_ctes(node), node)
    if not isinstance(node, exp.Select):
        refuse(f"{type(node).__name__.upper()} in FROM is not answered.", "Write a SELECT.")
    scope = rows_of(sources.with_ctes(node), node)
    grouped = (
        node.args.get("group") or node.args.get("distinct") or any(has_aggregate(e) for e in node.expressions)
    )
    return (
        per_unit(scope, node, str(sources.unit.column_name))
        if grouped or node.args.get("having")
        else _project(scope, node)
    )


def _project(scope: Scope, select: exp.Select) -> Scope:
    made: list[tuple[str, Expr]] = []
    fields = [_item(scope, item, scope.rows, made, i) for i, item in enumerate(select.expressions)]
    kept = {e.name: name for name, e in made if isinstance(e, Column)}
    unique = frozenset(kept[u] for u in scope.unique) if scope.unique <= kept.keys() else frozenset()
    relation, exprs = hoisted(scope.relation, [expr for _, expr in made])
    items = tuple((name, expr) for (name, _), expr in zip(made, exprs, strict=True) if expr is not None)
    return Scope(Project(relation, items), tuple(fields), scope.private, unique)


def _item(scope: Scope, item: exp.Expr, rows: Translator, made: list[tuple[str, Expr]], i: int) -> Field:
    node, name = plain(item), str(item.alias_or_name) or f"column{i + 1}"
    found = scope.find(node) if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) else None
    if found is not None and found.unit and found.column is None:
        return Field(name, "", None, unit=True)
    expr = rows(node)
    column = Column(f"c{i}", expr.type)
    made.append((column.name, expr))
    known = domain(expr, scope) if isinstance(expr, Column) else None
    return Field(name, "", column, scope.interval(expr), known, found is not None and found.unit)


def _union(sources: Sources, node: exp.Union) -> Scope:
    parts = [subquery(sources, part) for part in _union_parts(node)]
    if len({len(part.fields) for part in parts}) > 1:
        refuse("The parts of a UNION ALL have different numbers of columns.")
    if len({bool(part.private) for part in parts}) > 1:
        refuse("A UNION ALL of private and public tables is not answered.", "Ask about them apart.")
    tables = [table for part in parts for table in part.private]
    if sources.unit.kind is UnitKind.ROW and len(tables) > len(set(tables)):
        refuse("Where the unit of privacy is a row, a private table may occur once in a UNION ALL.")
    return _united(parts, frozenset(tables))


def _union_parts(node: exp.Union) -> Iterator[exp.Expr]:
    """From left to right; a union with names of its own (WITH) is one part."""
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Union) and (part is node or not part.args.get("with_")):
            waiting += [part.args["expression"], part.this]
        else:
            yield part


def _united(parts: list[Scope], private: frozenset[str]) -> Scope:
    items: list[list[tuple[str, Expr]]] = [[] for _ in parts]
    fields = []
    for i, same in enumerate(zip(*(part.fields for part in parts), strict=True)):
        values = [f.column for f in same if f.column is not None]
        if len(values) < len(same):
            fields.append(_united_unit(i, same))
            continue
        exprs, to = meet(values, "UNION ALL")
        for part, expr in zip(items, exprs, strict=True):
            part.append((f"c{i}", convert(expr, to)))
        bounds, unit = hull([f.bounds for f in same]), all(f.unit for f in same)
        fields.append(Field(same[0].name, "", Column(f"c{i}", to), bounds, unit=unit))
    relations = [Project(part.relation, tuple(each)) for part, each in zip(parts, items, strict=True)]
    return _bounded(Scope(Union(tuple(relations)), tuple(fields), private))


def _united_unit(i: int, same: tuple[Field, ...]) -> Field:
    if not all(f.unit for f in same):
        refuse(f"Column {i + 1} of a UNION ALL is the unit of privacy in one part only.")
    return Field(same[0].name, "", None, unit=True)
