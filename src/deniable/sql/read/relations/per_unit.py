"""Subqueries that group by the unit: one row for each unit and value of the keys, a
function of that unit's own rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import expressions as exp

from deniable.sql.coercion import condition
from deniable.sql.intervals import Interval
from deniable.sql.read.aggregates import aggregate, held, holding
from deniable.sql.read.expressions.translator import Translator
from deniable.sql.read.names import Field, Scope, fold
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Aggregate, Column, Expr, Filter, PerUnit, Project, Relation, Statistic
from deniable.sql.types_relations import aggregate_type, columns, has_unit, hoisted
from deniable.units import Unit


def has_aggregate(node: exp.Expr) -> bool:
    """Of its own: those of a subquery inside belong to that."""
    return any(isinstance(n, (exp.AggFunc, exp.WithinGroup)) for n in node.walk(prune=_is_subquery))


def _is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def plain(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Alias, exp.Paren)):
        node = node.this
    return node


def per_unit(scope: Scope, select: exp.Select, unit: Unit) -> Scope:
    """SELECT unit, x, COUNT(*) … GROUP BY unit, x; SELECT DISTINCT unit, x; the same without the unit, where
    a key belongs to one unit alone."""
    _check_unit(scope)
    nodes = _group_nodes(scope, select)
    units = [n for n in nodes if isinstance(n, exp.Column) and scope.find(n).unit]
    if not units and not any(belongs_to_one_unit(scope, n) for n in nodes):
        refuse(
            f"A subquery that groups must group by the unit of privacy {shown(str(unit.column_name))}.",
            "Add it to GROUP BY, or group at the end of the query.",
        )
    keys = _keys(scope, [n for n in nodes if n not in units])
    return _group_by_unit(scope, select, keys, unit.max_rows)


def belongs_to_one_unit(scope: Scope, node: exp.Expr) -> bool:
    """Whether the owner declared that each value of a column leads to one unit: an order to its customer.
    Then grouping by it is grouping by the unit and it. Where the declaration is wrong, each unit has a
    group of its own, so the guarantee does not rest on it."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return False
    return scope.find(node).key is not None


def grouped_for_each_unit(scope: Scope, select: exp.Select) -> Scope:
    """SELECT x … GROUP BY x, where x belongs to one unit alone: for each unit by itself."""
    _check_unit(scope)
    nodes = _group_nodes(scope, select)
    units = [n for n in nodes if isinstance(n, exp.Column) and scope.find(n).unit]
    return _group_by_unit(scope, select, _keys(scope, [n for n in nodes if n not in units]))


def _check_unit(scope: Scope) -> None:
    if not has_unit(scope.relation):
        refuse(
            "A subquery that groups is answered only for a unit of privacy that is a column.",
            "Group at the end.",
        )


def _keys(scope: Scope, nodes: list[exp.Expr]) -> list[Expr]:
    keys: list[Expr] = []
    for node in nodes:
        if (key := scope.rows(node)) not in keys:
            keys.append(key)
    return keys


def aliases(select: exp.Select) -> dict[str, exp.Expr]:
    items = [item for item in select.expressions if isinstance(item, exp.Alias)]
    return {fold(str(item.alias)): plain(item) for item in items}


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
    nodes = []
    for node in map(plain, group.expressions):
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            refuse(
                "Totals beside groups are not answered inside a subquery.",
                "Use them at the end of the query.",
            )
        nodes.append(meant(node, scope, select))
    return nodes


def position(node: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """GROUP BY 2 and ORDER BY 2 mean the second column."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = 0
        if str(node.this).isdecimal() and len(str(node.this)) < 6:
            at = int(node.this)
        if not 1 <= at <= len(items):
            refuse(f"Expected the position of one of {len(items)} columns, got {shown(str(node.this))}.")
        return items[at - 1]
    return node


@dataclass(frozen=True)
class _Groups:
    """The rows that grouping makes of a scope: keys k0, k1, … and aggregates a0, a1, …,
    the latter noted as the items and HAVING name them."""

    scope: Scope
    keys: list[Expr]
    aliases: dict[str, exp.Expr]
    max_rows: int | None = None
    aggregates: list[Aggregate] = field(default_factory=list)

    def leaf(self, node: exp.Expr) -> Expr | None:
        """A key or an aggregate as a column of the grouped rows; None for what is made of such."""
        if isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
            return held(self._note_aggregate(holding(node, self.scope)))
        statistic = aggregate(node, self.scope, inner=True)
        if statistic is not None:
            return self._note_aggregate(statistic)
        if has_aggregate(node) or _is_unit_alone(self.scope, node):
            return None
        expr = self.scope.attempt(node)
        if expr is not None and expr in self.keys:
            return Column(f"k{self.keys.index(expr)}", expr.type)
        if isinstance(node, exp.Column):
            self.scope.find(node)
            refuse(
                f"The column {shown(str(node.name))} is neither grouped nor inside an aggregate.",
                "Add it to GROUP BY.",
            )
        return None

    def leaf_or_alias(self, node: exp.Expr) -> Expr | None:
        """In HAVING: the alias of an item stands for that item."""
        if isinstance(node, exp.Column) and not node.table:
            item = self.aliases.get(fold(str(node.name)))
            if item is not None:
                return Translator(self.leaf)(item)
        return self.leaf(node)

    def _note_aggregate(self, statistic: Aggregate) -> Column:
        if statistic not in self.aggregates:
            self.aggregates.append(statistic)
        return Column(f"a{self.aggregates.index(statistic)}", aggregate_type(statistic))

    def bounds(self) -> dict[str, Interval]:
        """Of every column of the grouped rows."""
        keys = {f"k{i}": self.scope.interval(key) for i, key in enumerate(self.keys)}
        return keys | {f"a{i}": inner_bounds(each, self.max_rows) for i, each in enumerate(self.aggregates)}

    def is_capped(self, expr: Expr) -> bool:
        """Whether it is a count that may be larger than the rows of a unit that count."""
        if self.max_rows is None or not isinstance(expr, Column) or not expr.name.startswith("a"):
            return False
        return self.aggregates[int(expr.name[1:])].statistic in (Statistic.COUNT, Statistic.COUNT_DISTINCT)


def _is_unit_alone(scope: Scope, node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and scope.find(node).column is None


def _group_by_unit(scope: Scope, select: exp.Select, keys: list[Expr], max_rows: int | None = None) -> Scope:
    groups = _Groups(scope, keys, aliases(select), max_rows)
    items, outputs = _items(groups, select)
    having = select.args.get("having")
    where = None
    if having is not None:
        where = condition(Translator(groups.leaf_or_alias), having.this, "HAVING")
    relation: Relation = _per_unit(scope.relation, keys, groups.aggregates)
    if where is not None:
        relation = Filter(relation, where)
    bounds = groups.bounds()
    inner = Scope(relation, tuple(Field(c.name, "", c, bounds[c.name]) for c in columns(relation)))
    intervals = {name: inner.interval(expr) for name, expr in outputs}
    fields = (f if f.column is None else replace(f, bounds=intervals[f.column.name]) for f in items)
    return Scope(Project(relation, tuple(outputs)), tuple(fields), scope.private)


def _items(groups: _Groups, select: exp.Select) -> tuple[list[Field], list[tuple[str, Expr]]]:
    """The fields that SELECT names, and for all but the unit its column with its expression."""
    rows = Translator(groups.leaf)
    items: list[Field] = []
    outputs: list[tuple[str, Expr]] = []
    for i, item in enumerate(select.expressions):
        node = plain(item)
        name = str(item.alias_or_name) or f"column{i + 1}"
        if isinstance(node, exp.Column) and groups.scope.find(node).unit:
            items.append(Field(name, "", None, unit=True))
            continue
        expr = rows(node)
        outputs.append((f"c{i}", expr))
        origin = None
        if isinstance(node, exp.Column):
            origin = groups.scope.named_by(node)
        key = None if origin is None else origin.key
        items.append(Field(name, "", Column(f"c{i}", expr.type), key=key, capped=groups.is_capped(expr)))
    return items, outputs


def _per_unit(relation: Relation, keys: list[Expr], made: list[Aggregate]) -> PerUnit:
    relation, exprs = hoisted(relation, [*keys, *(x for a in made for x in (a.of, a.where))])
    key_items = tuple((f"k{i}", key) for i, key in enumerate(exprs[: len(keys)]) if key is not None)
    pairs = zip(exprs[len(keys) :: 2], exprs[len(keys) + 1 :: 2], strict=True)
    ours = [replace(a, of=of, where=where) for a, (of, where) in zip(made, pairs, strict=True)]
    return PerUnit(relation, key_items, tuple((f"a{i}", a) for i, a in enumerate(ours)))


def _sign(low: Fraction | None, high: Fraction | None) -> Interval:
    """What is known of a sum of any number of values between `low` and `high`."""
    positive, negative = low is not None and low >= 0, high is not None and high <= 0
    lower, upper = (Fraction(0) if is_on_side else None for is_on_side in (positive, negative))
    return Interval(lower, upper)


def inner_bounds(made: Aggregate, max_rows: int | None) -> Interval:
    """Of a unit's own aggregate: counts are not negative, sums of numbers of one sign keep it, the others
    stay within. A unit counts with at most the rows that the owner declared for one, here as everywhere: what
    is above is clamped to it."""
    low, high = made.bounds or (None, None)
    if max_rows is not None and made.statistic is Statistic.SUM and low is not None and high is not None:
        return Interval(min(Fraction(0), low * max_rows), max(Fraction(0), high * max_rows))
    match made.statistic:
        case Statistic.AVG | Statistic.MIN | Statistic.MAX:
            return Interval(low, high)
        case Statistic.SUM:
            return _sign(low, high)
    return Interval(Fraction(0), None if max_rows is None else Fraction(max_rows))
