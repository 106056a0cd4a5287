"""Subqueries that group by the unit: one row for each unit and value of the keys, a
function of that unit's own rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql.intervals import Interval
from deniable.sql.read.aggregates import aggregate
from deniable.sql.read.coercion import condition
from deniable.sql.read.expressions import Translator
from deniable.sql.read.names import Field, Scope, fold
from deniable.sql.read.parse import refuse, shown
from deniable.sql.tree import Aggregate, Column, Expr, Filter, PerUnit, Project, Relation, Statistic
from deniable.sql.types_relations import aggregate_type, columns, has_unit, hoisted


def has_aggregate(node: exp.Expr) -> bool:
    """Of its own: those of a subquery inside belong to that."""
    return any(isinstance(n, (exp.AggFunc, exp.WithinGroup)) for n in node.walk(prune=_apart))


def _apart(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def plain(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Alias, exp.Paren)):
        node = node.this
    return node


def per_unit(scope: Scope, select: exp.Select, unit: str) -> Scope:
    """SELECT unit, x, COUNT(*) … GROUP BY unit, x; SELECT DISTINCT unit, x."""
    if not has_unit(scope.relation):
        refuse(
            "A subquery that groups is answered only for a unit of privacy that is a column.",
            "Group at the end.",
        )
    nodes = _group_nodes(scope, select)
    units = [n for n in nodes if isinstance(n, exp.Column) and scope.find(n).unit]
    if not units:
        refuse(
            f"A subquery that groups must group by the unit of privacy {shown(unit)}.",
            "Add it to GROUP BY, or group at the end of the query.",
        )
    keys: list[Expr] = []
    for n in nodes:
        if n not in units and (key := scope.rows(n)) not in keys:
            keys.append(key)
    return _grouped(scope, select, keys)


def aliases(select: exp.Select) -> dict[str, exp.Expr]:
    named = [item for item in select.expressions if isinstance(item, exp.Alias)]
    return {fold(str(item.alias)): plain(item) for item in named}


def meant(node: exp.Expr, scope: Scope, select: exp.Select) -> exp.Expr:
    """In GROUP BY: a position, a column, or else the alias of an item."""
    node = plain(position(node, [plain(item) for item in select.expressions]))
    if (
        not isinstance(node, exp.Column)
        or node.table
        or any(fold(f.name) == fold(str(node.name)) for f in scope.fields)
    ):
        return node
    return aliases(select).get(fold(str(node.name)), node)


def _group_nodes(scope: Scope, select: exp.Select) -> list[exp.Expr]:
    group = select.args.get("group")
    items = [plain(item) for item in select.expressions]
    if group is None or group.args.get("all"):
        return [item for item in items if not has_aggregate(item)]
    found = []
    for node in map(plain, group.expressions):
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            refuse(
                "Totals beside groups are not answered inside a subquery.",
                "Use them at the end of the query.",
            )
        found.append(meant(node, scope, select))
    return found


def position(node: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """GROUP BY 2 and ORDER BY 2 mean the second column."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(node.this) if str(node.this).isdecimal() and len(str(node.this)) < 6 else 0
        if not 1 <= at <= len(items):
            refuse(f"Expected the position of one of {len(items)} columns, got {shown(str(node.this))}.")
        return items[at - 1]
    return node


def _grouped(scope: Scope, select: exp.Select, keys: list[Expr]) -> Scope:
    made: list[Aggregate] = []
    bounds: dict[str, Interval] = {f"k{i}": scope.interval(key) for i, key in enumerate(keys)}

    def leaf(node: exp.Expr) -> Expr | None:
        if (found := aggregate(node, scope, inner=True)) is not None:
            if found not in made:
                made.append(found)
            at = made.index(found)
            bounds[f"a{at}"] = _inner_bounds(found)
            return Column(f"a{at}", aggregate_type(found))
        if has_aggregate(node) or (isinstance(node, exp.Column) and scope.find(node).column is None):
            return None
        expr = scope.attempt(node)
        if expr is not None and expr in keys:
            return Column(f"k{keys.index(expr)}", expr.type)
        if isinstance(node, exp.Column):
            scope.find(node)
            refuse(
                f"The column {shown(str(node.name))} is neither grouped nor inside an aggregate.",
                "Add it to GROUP BY.",
            )
        return None

    def aliased(node: exp.Expr) -> Expr | None:
        known = aliases(select) if isinstance(node, exp.Column) and not node.table else {}
        return rows(known[fold(str(node.name))]) if fold(str(node.name)) in known else leaf(node)

    rows, having, items = Translator(leaf), select.args.get("having"), []
    chosen: list[tuple[str, Expr]] = []
    for i, item in enumerate(select.expressions):
        node, name = plain(item), str(item.alias_or_name) or f"column{i + 1}"
        if isinstance(node, exp.Column) and scope.find(node).unit:
            items.append(Field(name, "", None, unit=True))
            continue
        expr = rows(node)
        chosen.append((f"c{i}", expr))
        items.append(Field(name, "", Column(f"c{i}", expr.type)))
    where = condition(Translator(aliased), having.this, "HAVING") if having is not None else None
    relation: Relation = _per_unit(scope.relation, keys, made)
    relation = relation if where is None else Filter(relation, where)
    inner = Scope(
        relation, tuple(Field(c.name, "", c, bounds.get(c.name, Interval())) for c in columns(relation))
    )
    known = {name: inner.interval(expr) for name, expr in chosen}
    fields = (f if f.column is None else replace(f, bounds=known[f.column.name]) for f in items)
    return Scope(Project(relation, tuple(chosen)), tuple(fields), scope.private)


def _per_unit(relation: Relation, keys: list[Expr], made: list[Aggregate]) -> PerUnit:
    relation, exprs = hoisted(relation, [*keys, *(x for a in made for x in (a.of, a.where))])
    named = tuple((f"k{i}", key) for i, key in enumerate(exprs[: len(keys)]) if key is not None)
    pairs = zip(exprs[len(keys) :: 2], exprs[len(keys) + 1 :: 2], strict=True)
    ours = [replace(a, of=of, where=where) for a, (of, where) in zip(made, pairs, strict=True)]
    return PerUnit(relation, named, tuple((f"a{i}", a) for i, a in enumerate(ours)))


def _inner_bounds(made: Aggregate) -> Interval:
    """Of a unit's own aggregate: counts are not negative, sums of numbers of one sign
    keep it, the others stay within."""
    low, high = made.bounds or (None, None)
    match made.statistic:
        case Statistic.AVG | Statistic.MIN | Statistic.MAX:
            return Interval(low, high)
        case Statistic.SUM:
            negative = high is not None and high <= 0
            return Interval(
                Fraction(0) if low is not None and low >= 0 else None, Fraction(0) if negative else None
            )
    return Interval(Fraction(0), None)
