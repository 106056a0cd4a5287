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

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import condition, convert, meet
from deniable.sql.functions import refused
from deniable.sql.functions.conditions import equality, less
from deniable.sql.intervals import Interval, hull
from deniable.sql.read import hints
from deniable.sql.read.expressions.translator import Translator
from deniable.sql.read.names import Field, Scope, domain, fold
from deniable.sql.read.parse import PARTS, refuse_node
from deniable.sql.read.relations.joins import Meeting, apart, bounded_readings, conjuncts, pairs_of
from deniable.sql.read.relations.listed_joins import crossed
from deniable.sql.read.relations.own_windows import with_windows
from deniable.sql.read.relations.per_unit import has_aggregate, per_unit, plain
from deniable.sql.read.relations.public_subqueries import read_public
from deniable.sql.read.relations.series import listed_rows, series
from deniable.sql.read.relations.tied_subqueries import read_tied
from deniable.sql.refusals import refuse, shown
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import (
    Aggregate,
    Column,
    Expr,
    Filter,
    JoinKind,
    JoinSide,
    Literal,
    PerUnit,
    Project,
    Relation,
    Scan,
    Statistic,
    Union,
)
from deniable.sql.types_relations import columns, has_unit, hoisted
from deniable.units import Unit, UnitKind

MAX_TABLES = 32
MAX_COLUMNS = 1_000
MAX_NAMES = 64
SCHEMAS = frozenset({"main", "public", "dbo", "default"})
"""What databases call the schema that is meant where none is named."""


@dataclass(frozen=True)
class Sources:
    """The tables that may be named: the schema's and the CTEs before this point; None stands for one that is
    a released result, which hides what else has its name. `inside` a subquery in an expression."""

    schema: Schema
    unit: Unit
    ctes: tuple[tuple[str, Scope | None], ...] = ()
    inside: bool = False

    def with_ctes(self, query: exp.Expr) -> Sources:
        sources, clause = self, query.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            sources = sources.with_cte(cte, subquery(sources, cte.this))
        return sources

    def with_cte(self, cte: exp.Expr, scope: Scope | None) -> Sources:
        """With one more name in sight, for rows or for a released result."""
        if len(self.ctes) >= MAX_NAMES:
            refuse(f"Expected at most {MAX_NAMES} names in WITH.", "Ask for less at once.")
        view = None
        if scope is not None:
            view = scope.named(str(cte.alias), _names(cte))
        return replace(self, ctes=(*self.ctes, (fold(str(cte.alias)), view)))

    def is_released(self, name: str) -> bool:
        """Whether a table's name stands for a released result."""
        scopes = [scope for cte, scope in self.ctes if cte == fold(name)]
        return bool(scopes) and scopes[-1] is None


def _names(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return []
    return [str(column.name) for column in alias.args.get("columns") or []]


def rows_of(sources: Sources, select: exp.Select) -> Scope:
    """FROM with its joins, and WHERE."""
    origin = select.args.get("from_")
    if origin is None:
        refuse("A query without FROM is not answered.", "Name a declared table.")
    joins = select.args.get("joins") or []
    if len(joins) >= MAX_TABLES:
        refuse(f"Expected at most {MAX_TABLES} tables in one FROM.")
    where = select.args.get("where")
    chains = _chains(sources, origin.this, joins)
    conditions = conjuncts(where and where.this)
    scope, equalities = _join_sources(sources, chains, conditions)
    scope = replace(scope, lookup=partial(_lookup, sources), inside=sources.inside)
    if where is None:
        return scope
    if not equalities:
        return _filter(scope, condition(scope.rows, where.this, "WHERE"))
    rest = [part for part in _parts(where.this) if part not in equalities]
    if rest:
        return _filter(scope, condition(scope.rows, exp.and_(*rest, copy=False), "WHERE"))
    return scope


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """What AND holds together, from left to right."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        return list(node.flatten())
    return [node]


def _chains(sources: Sources, first: exp.Expr, joins: list[exp.Join]) -> list[Scope]:
    """FROM a JOIN b ON …, c JOIN d ON …: what stands between commas."""
    chains = [_source(sources, first)]
    for join in joins:
        if _is_comma(join):
            chains.append(_source(sources, join.this))
        else:
            chains[-1] = _join(sources, chains[-1], join)
    return chains


def _is_comma(node: exp.Join) -> bool:
    """FROM a, b and FROM a CROSS JOIN b."""
    parts = [node.args.get(part) for part in ("on", "using", "side", "method")]
    return not any(parts) and str(node.args.get("kind") or "") in ("", "CROSS")


def _join_sources(
    sources: Sources, chains: list[Scope], conditions: list[exp.Expr]
) -> tuple[Scope, list[exp.Expr]]:
    """All of them joined by the equalities among the conditions, which are told: first those that can be."""
    scope, *waiting = chains
    equalities: list[exp.Expr] = []
    while waiting:
        meetings = [_meeting(scope, other, conditions, waiting) for other in waiting]
        free = [i for i, (m, _) in enumerate(meetings) if m.obstacle(sources.unit) is None]
        at = free[0] if free else next((i for i, (m, _) in enumerate(meetings) if m.pairs), 0)
        meeting, parts = meetings[at]
        product = crossed(meeting, sources.unit)
        scope, waiting = product or meeting.joined(sources.unit), waiting[:at] + waiting[at + 1 :]
        equalities += parts
    return scope, equalities


def _meeting(
    scope: Scope, other: Scope, conditions: list[exp.Expr], waiting: list[Scope]
) -> tuple[Meeting, list[exp.Expr]]:
    right = apart(other, scope)
    beside = [each for each in waiting if each is not other]
    plain_ones = [part for part in conditions if not _names_another(part, beside)]
    pairs, rest = pairs_of(scope, right, plain_ones)
    return Meeting(scope, right, pairs), [part for part in plain_ones if part not in rest]


def _names_another(node: exp.Expr, scopes: list[Scope]) -> bool:
    """Whether a column without a table's name before it may be another table's."""
    fields = [scope.named_by(c) for c in node.find_all(exp.Column) for scope in scopes]
    # A unit that lies behind a path has a name of another table's column.
    return isinstance(node, exp.EQ) and any(f is not None and f.column is not None for f in fields)


def _lookup(sources: Sources, node: exp.Expr, outer: Scope) -> Expr:
    inner = replace(sources, inside=True)

    def rows(select: exp.Select) -> Scope:
        if select.args.get("qualify"):
            refuse("QUALIFY in a subquery in an expression is not answered.", "Use a subquery in FROM.")
        return rows_of(inner.with_ctes(select), select)

    def names(select: exp.Select) -> list[Scope]:
        source = select.args.get("from_")
        if source is None:
            refuse("A query without FROM is not answered.", "Name a declared table.")
        return _chains(inner.with_ctes(select), source.this, select.args.get("joins") or [])

    return read_tied(node, rows, names, outer, sources.unit) or read_public(node, rows, outer.rows)


def _filter(scope: Scope, where: Expr) -> Scope:
    relation, [test] = hoisted(scope.relation, [where])
    if test is None:
        return scope
    return replace(scope, relation=Filter(relation, test))


def _source(sources: Sources, node: exp.Expr) -> Scope:
    if isinstance(node, exp.Table):
        return _table(sources, node)
    if isinstance(node, exp.Subquery):
        read = _source if isinstance(node.this, exp.Table) else subquery
        inner = read(sources, node.this)
        return inner.named(str(node.alias or ""), _names(node))
    if isinstance(node, exp.Values):
        return listed_rows(node).named(str(node.alias or "values"), _names(node))
    refuse(f"{type(node).__name__.upper()} in FROM is not answered.", "Name a declared table.")


def _table(sources: Sources, node: exp.Table) -> Scope:
    if isinstance(node.this, exp.GenerateSeries):
        return series(node.this).named(str(node.alias or "generate_series"), _names(node))
    if not isinstance(node.this, exp.Identifier):
        refuse_node(node.this)
    _check_prefix(node)
    name = fold(str(node.name))
    for cte, scope in reversed(sources.ctes):
        if cte == name:
            return _private_rows(node, scope).named(str(node.alias or node.name), _names(node))
    matches = [table for table in sources.schema.tables if fold(table.name) == name]
    if len(matches) != 1:
        names = [t.name for t in sources.schema.tables]
        refuse(f"There is no table {shown(str(node.name))}.", hints.of_table(str(node.name), names))
    return _scan(sources, matches[0]).named(str(node.alias or matches[0].name), _names(node))


def _check_prefix(node: exp.Table) -> None:
    """All declared tables lie in one schema, which goes by the usual names."""
    prefix = [fold(str(part)) for part in (node.db, node.catalog) if str(part)]
    if any(name not in SCHEMAS for name in prefix[:1]) or len(prefix) > 1:
        refuse("A name in another schema or catalog is not answered.", refused.FILE)


def _private_rows(node: exp.Table, cte: Scope | None) -> Scope:
    if cte is None:
        refuse(
            f"{shown(str(node.name))} is a released result, and private rows are not read together with one.",
            "Aggregate the rows first, in WITH or in FROM, and join the two results.",
        )
    return cte


def _scan(sources: Sources, table: TableInfo) -> Scope:
    if any(c.name.startswith("_") for c in table.columns):
        refuse(
            f"The table {shown(table.name)} declares a column that begins with _.",
            "Ask the owner to rename it.",
        )
    unit, path = _unit(sources, table)
    fields = [_field(table, column, unit if not path else None) for column in table.columns]
    if unit is not None:
        fields = [_mark_key(sources.schema, table, f) for f in fields]
        if path and fold(unit) not in {fold(f.name) for f in fields}:
            fields.append(Field(unit, table.name, None, unit=True))
    relation = Scan(table.name, tuple(Column(c.name, c.type) for c in table.columns), unit, path)
    if table.public:
        return Scope(relation, tuple(fields), frozenset(), frozenset(table.unique))
    return Scope(relation, tuple(fields), frozenset({table.name}), frozenset())


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
    column = None
    if last is not None:
        column = _unit_column(last, str(sources.unit.column_name))
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


def _mark_key(schema: Schema, table: TableInfo, f: Field) -> Field:
    """A column with the table and column whose rows it names on the way to the unit, as the owner
    declared."""
    here = (table.name, f.name)
    if table.path and table.path[0][0] == f.name:
        return replace(f, key=table.path[0][1:])
    is_target = any(step[1:] == here for other in schema.tables for step in other.path)
    if is_target:
        return replace(f, key=here, identifies=True)
    return f


# ------------------------------------------------------------------------------------------------ joins


def _join_kind(node: exp.Join) -> JoinKind:
    side, kind = str(node.args.get("side") or ""), str(node.args.get("kind") or "")
    if str(node.args.get("method") or "") not in ("", "NATURAL"):
        refuse(*PARTS["method"])
    if side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "INNER", "OUTER"):
        refuse(
            f"{' '.join(x for x in (side, kind) if x)} JOIN is not answered.",
            "Use JOIN or LEFT JOIN … ON a.x = b.x.",
        )
    return JoinKind(side.lower() or "inner")


def _join(sources: Sources, left: Scope, node: exp.Join) -> Scope:
    kind = _join_kind(node)
    right = apart(_source(sources, node.this), left)
    if using := _using(left, right, node):
        pairs = [(left.find(c), right.find(c)) for c in using]
        names = frozenset(fold(str(c.name)) for c in using)
        return Meeting(left, right, pairs, kind, names).joined(sources.unit)
    left, right, parts = _compute_equated(left, right, conjuncts(node.args.get("on")))
    pairs, rest = pairs_of(left, right, parts)
    product = crossed(Meeting(left, right, pairs, kind), sources.unit)
    if kind is JoinKind.INNER or product is not None:
        scope = product or Meeting(left, right, pairs).joined(sources.unit)
        for part in rest:
            scope = _filter(scope, condition(scope.rows, part, "ON"))
        return scope
    left, right = _filter_sides(left, right, rest, kind)
    return Meeting(left, right, pairs, kind).joined(sources.unit)


def _compute_equated(left: Scope, right: Scope, parts: list[exp.Expr]) -> tuple[Scope, Scope, list[exp.Expr]]:
    """Both sides with the expressions that ON equates as columns of their own: CAST(a.t AS DATE) = b.day."""
    equations: list[exp.Expr] = []
    for part in parts:
        sides = [part.this, part.args["expression"]] if isinstance(part, exp.EQ) else []
        if all(isinstance(side, exp.Column) for side in sides):
            equations.append(part)
            continue
        for a, b in (sides, sides[::-1]):
            if _reads_one(left, a) and _reads_one(right, b):
                (left, mine), (right, other) = _with_column(left, a, "l"), _with_column(right, b, "r")
                part = exp.EQ(this=mine, expression=other)
                break
        equations.append(part)
    return left, right, equations


def _reads_one(scope: Scope, node: exp.Expr) -> bool:
    """Whether an expression reads this side, and nothing else."""
    return node.find(exp.Column) is not None and node.find(exp.Query) is None and _reads_only(scope, node)


def _with_column(scope: Scope, node: exp.Expr, side: str) -> tuple[Scope, exp.Expr]:
    if isinstance(node, exp.Column):
        return scope, node
    expr, own = scope.rows(node), columns(scope.relation)
    same = next((f for f in scope.fields if f.column == expr), None)
    if same is not None:
        return scope, exp.column(same.name, table=same.table or None, quoted=True)
    column = Column(f"_{side}{len(own)}", expr.type)
    items = (*((c.name, c) for c in own), (column.name, expr))
    field = Field(column.name, "", column, scope.interval(expr), domain(expr, scope))
    extension = replace(scope, relation=Project(scope.relation, items), fields=(*scope.fields, field))
    return extension, exp.column(column.name)


def _using(left: Scope, right: Scope, node: exp.Join) -> list[exp.Column]:
    """The names of USING, or of NATURAL JOIN: those that both sides have."""
    if str(node.args.get("method") or "") == "NATURAL":
        here = {fold(f.name) for f in left.visible("")}
        names = [f.name for f in right.visible("") if fold(f.name) in here]
        return [exp.column(name, quoted=True) for name in names]
    return [exp.Column(this=exp.to_identifier(str(c.name))) for c in node.args.get("using") or []]


def _filter_sides(left: Scope, right: Scope, rest: list[exp.Expr], kind: JoinKind) -> tuple[Scope, Scope]:
    """Both sides of an outer join, with the conditions of ON that concern only rows which do not stay by
    themselves."""
    for part in rest:
        if kind is JoinKind.LEFT and _reads_only(right, part):
            right = _filter(right, condition(right.rows, part, "ON"))
        elif kind is JoinKind.RIGHT and _reads_only(left, part):
            left = _filter(left, condition(left.rows, part, "ON"))
        else:
            side = JoinSide.LEFT if kind is JoinKind.RIGHT else JoinSide.RIGHT
            refuse(
                f"{kind.upper()} JOIN is on equal columns, with conditions on its {side} side.",
                "Put other conditions into a subquery.",
            )
    return left, right


def _reads_only(scope: Scope, node: exp.Expr) -> bool:
    return all(scope.named_by(column) is not None for column in node.find_all(exp.Column))


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
    if isinstance(node, exp.SetOperation):
        return _set_operation(sources.with_ctes(node), node)
    if not isinstance(node, exp.Select):
        refuse(f"{type(node).__name__.upper()} in FROM is not answered.", "Write a SELECT.")
    scope, node = with_windows(rows_of(sources.with_ctes(node), node), node, sources.unit)
    has_groups = (
        node.args.get("group") or node.args.get("distinct") or any(has_aggregate(e) for e in node.expressions)
    )
    if has_groups or node.args.get("having"):
        return per_unit(scope, node, sources.unit)
    return _project(scope, node)


def _project(scope: Scope, select: exp.Select) -> Scope:
    outputs: list[tuple[str, Expr]] = []
    spread = [each for item in select.expressions for each in _spread(scope, item)]
    fields = [_item(scope, item, scope.rows, outputs, i) for i, item in enumerate(spread)]
    names = {e.name: name for name, e in outputs if isinstance(e, Column)}
    unique: frozenset[str] = frozenset()
    if scope.unique <= names.keys():
        unique = frozenset(names[u] for u in scope.unique)
    relation, exprs = hoisted(scope.relation, [expr for _, expr in outputs])
    items = tuple((name, expr) for (name, _), expr in zip(outputs, exprs, strict=True) if expr is not None)
    return Scope(Project(relation, items), tuple(fields), scope.private, unique)


def _spread(scope: Scope, item: exp.Expr) -> list[exp.Expr]:
    """The columns that * stands for, or the item itself."""
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        return [item]
    without = {fold(str(c.name)) for c in star.args.get("except_") or []}
    table = ""
    if isinstance(item, exp.Column):
        table = str(item.table)
    fields = [f for f in scope.visible(table) if fold(f.name) not in without]
    if len(fields) > MAX_COLUMNS:
        refuse(f"Expected * to stand for at most {MAX_COLUMNS} columns.", "Name the columns.")
    return [exp.column(f.name, table=f.table or None, quoted=True) for f in fields]


def _item(scope: Scope, item: exp.Expr, rows: Translator, made: list[tuple[str, Expr]], i: int) -> Field:
    node, name = plain(item), str(item.alias_or_name) or f"column{i + 1}"
    origin = None
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        origin = scope.find(node)
    if origin is not None and origin.unit and origin.column is None:
        return Field(name, "", None, unit=True)
    expr = rows(node)
    column = Column(f"c{i}", expr.type)
    made.append((column.name, expr))
    key_domain = None
    if isinstance(expr, Column):
        key_domain = domain(expr, scope)
    of = Field(name, "", column, scope.interval(expr), key_domain)
    if origin is None:
        return of
    of = replace(of, unit=origin.unit, key=origin.key, identifies=origin.identifies)
    return replace(of, capped=origin.capped)


def _set_operation(sources: Sources, node: exp.SetOperation) -> Scope:
    if isinstance(node, exp.Union) and not node.args.get("distinct"):
        return _union(sources, node)
    return _of_each_unit(node, [subquery(sources, side) for side in (node.this, node.expression)])


def _of_each_unit(node: exp.SetOperation, sides: list[Scope]) -> Scope:
    """UNION, INTERSECT and EXCEPT of rows that name their unit: a unit's rows are compared with its own
    alone, so that each row of a unit is there once, by the sides that it comes from."""
    _check_sides(node, sides)
    union = _unite_parts(
        [_from_side(side, i) for i, side in enumerate(sides)], sides[0].private | sides[1].private
    )
    *fields, side = union.fields
    keys = tuple((f.column.name, f.column) for f in fields if f.column is not None)
    ends = tuple((end, Aggregate(Statistic(end[1:]), side.column)) for end in ("_min", "_max"))
    relation = _on_asked_sides(node, PerUnit(union.relation, keys, ends))
    return Scope(Project(relation, keys), tuple(fields), union.private)


def _check_sides(node: exp.SetOperation, sides: list[Scope]) -> None:
    name = type(node).__name__.upper()
    pairs = zip(*(side.fields for side in sides), strict=False)
    if not all(has_unit(side.relation) for side in sides) or not any(a.unit and b.unit for a, b in pairs):
        refuse(
            f"{name} of private rows is answered where both sides select the unit of privacy in the same "
            "place.",
            "Select it, use UNION ALL, or aggregate each side first.",
        )
    if not node.args.get("distinct"):
        refuse(f"{name} ALL is not answered.", f"Write {name}.")
    if len({len(side.fields) for side in sides}) > 1:
        refuse(f"The parts of {name} have different numbers of columns.")


def _on_asked_sides(node: exp.SetOperation, rows: PerUnit) -> Relation:
    """Of rows with the least and the largest number of the sides that they come from, those that the
    operation keeps: the rows of either side (UNION), of both (INTERSECT), of the first alone (EXCEPT)."""
    low, high = (Column(end, types.INTEGER) for end in ("_min", "_max"))
    if isinstance(node, exp.Intersect):
        return Filter(rows, less(low, high))
    if isinstance(node, exp.Except):
        return Filter(rows, equality(high, Literal(0, types.INTEGER)))
    return rows


def _from_side(scope: Scope, number: int) -> Scope:
    """The same rows, each with the number of the side that it comes from."""
    own, side = columns(scope.relation), Column("_side", types.INTEGER)
    items: list[tuple[str, Expr]] = [(c.name, c) for c in own]
    items.append((side.name, Literal(number, types.INTEGER)))
    field = Field(side.name, "", side, Interval.of(number, number))
    return replace(scope, relation=Project(scope.relation, tuple(items)), fields=(*scope.fields, field))


def _union(sources: Sources, node: exp.Union) -> Scope:
    parts = [subquery(sources, part) for part in _union_parts(node)]
    if len({len(part.fields) for part in parts}) > 1:
        refuse("The parts of a UNION ALL have different numbers of columns.")
    if len({bool(part.private) for part in parts}) > 1:
        refuse("A UNION ALL of private and public tables is not answered.", "Ask about them apart.")
    tables = [table for part in parts for table in part.private]
    if sources.unit.kind is UnitKind.ROW and len(tables) > len(set(tables)):
        refuse("Where the unit of privacy is a row, a private table may occur once in a UNION ALL.")
    return _unite_parts(parts, frozenset(tables))


def _union_parts(node: exp.Union) -> Iterator[exp.Expr]:
    """From left to right; a union with names of its own (WITH) is one part."""
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop()
        is_plain = isinstance(part, exp.Union) and not part.args.get("distinct")
        if is_plain and (part is node or not part.args.get("with_")):
            waiting += [part.args["expression"], part.this]
        else:
            yield part


def _unite_parts(parts: list[Scope], private: frozenset[str]) -> Scope:
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
    return bounded_readings(Scope(Union(tuple(relations)), tuple(fields), private))


def _united_unit(i: int, same: tuple[Field, ...]) -> Field:
    if not all(f.unit for f in same):
        refuse(f"Column {i + 1} of a UNION ALL is the unit of privacy in one part only.")
    return Field(same[0].name, "", None, unit=True)
