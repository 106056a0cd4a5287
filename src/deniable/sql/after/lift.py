"""One SELECT over private rows as two: what is released (keys and aggregates), and what is said over that.

    SELECT ward, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY ward HAVING COUNT(*) > 9

releases ward and COUNT(*) of each ward, and says RANK() OVER (ORDER BY n) … WHERE n > 9 over the two columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from sqlglot import expressions as exp

from deniable.errors import InvalidQuery
from deniable.sql.read.names import Scope, fold
from deniable.sql.read.parse import name_of
from deniable.sql.read.relations.per_unit import aliases, meant, plain
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Expr

Nested = Callable[[exp.Expr], exp.Expr]
"""What becomes of a query inside an expression over released numbers."""

_OUTSIDE = ("having", "qualify", "windows", "order", "limit", "offset", "distinct", "with_", "expressions")
"""Parts of a SELECT that are said over what it releases."""


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, (exp.AggFunc, exp.WithinGroup)) or (
        isinstance(node, exp.Filter) and is_aggregate(node.this)
    )


def aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates of a node's own: not those over a window, nor those of queries inside."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        yield from chain.from_iterable(aggregates(part) for part in _list_read(node))
    elif is_aggregate(node):
        yield node
    else:
        for child in node.iter_expressions():
            yield from aggregates(child)


def _list_read(window: exp.Window) -> Iterator[exp.Expr]:
    """What a window reads: the arguments of its function, and what it is over."""
    function = window.this
    while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        yield from (c for c in function.iter_expressions() if c is not function.this)
        function = function.this
    yield from function.iter_expressions()
    yield from (child for child in window.iter_expressions() if child is not window.this)


def says_more(select: exp.Select) -> bool:
    """Whether a SELECT that aggregates says something over its own numbers that only SQL can say."""
    if any(select.args.get(part) for part in ("qualify", "windows")):
        return True
    outside = [*select.expressions, *(select.args[p] for p in ("having", "order") if select.args.get(p))]
    return any(isinstance(n, (exp.Window, exp.Query)) for part in outside for n in part.walk())


def keys_of(select: exp.Select, scope: Scope) -> list[exp.Expr]:
    """What a SELECT groups by, each as it is meant: positions and aliases resolved."""
    group = select.args.get("group")
    if group is None and not select.args.get("distinct"):
        return []
    if group is None or group.args.get("all"):
        items = [plain(item) for item in select.expressions]
        return [item for item in items if not any(aggregates(item)) and not item.find(exp.Window)]
    return [meant(node, scope, select) for node in _leaves(group)]


def _leaves(node: exp.Expr) -> Iterator[exp.Expr]:
    forms = chain.from_iterable(node.args.get(part) or [] for part in ("grouping_sets", "cube", "rollup"))
    for part in chain(node.expressions, forms):
        if isinstance(part, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            yield from _leaves(part)
        else:
            yield plain(part)


@dataclass
class Lifted:
    """A SELECT of private rows as it is taken apart: `items` are what it releases, by the names they have
    there."""

    select: exp.Select
    scope: Scope
    nested: Nested
    items: dict[str, exp.Expr] = field(default_factory=dict)
    keys: list[tuple[str, Expr]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._aliases = aliases(self.select)
        for node in keys_of(self.select, self.scope):
            read = self.scope.rows(node)
            if all(read != key for _, key in self.keys):
                name = self._key_name(node)
                self.items[name] = node.copy()
                self.keys.append((name, read))

    def _key_name(self, node: exp.Expr) -> str:
        """As the column is called, else by its alias: other parts of the query name it so."""
        alias = next((str(i.alias) for i in self.select.expressions if i.alias and plain(i) == node), "")
        name = alias
        if isinstance(node, exp.Column):
            name = self.scope.find(node).name
        return self._free(name or f"_k{len(self.items)}")

    def _free(self, name: str) -> str:
        folds = {fold(other) for other in self.items}
        return next(n for n in (name, *(f"{name}_{i}" for i in range(2, 999))) if fold(n) not in folds)

    # ----------------------------------------------------------------------------------------- the two halves

    def inner(self) -> exp.Select:
        """What is released. To be called after `outer`, which finds what that needs."""
        parts = {part: value for part, value in self.select.args.items() if value and part not in _OUTSIDE}
        query = exp.Select(**{part: _copy_node(value) for part, value in parts.items() if part != "group"})
        query.set("expressions", [node.copy() for node in self.items.values()])
        group = self.select.args.get("group")
        if self.keys:
            query.set("group", self._group(group))
        return query

    def _group(self, group: exp.Expr | None) -> exp.Expr:
        """The same grouping sets, of expressions: a position or an alias means another item inside."""
        if group is None or group.args.get("all"):
            return exp.Group(expressions=[self.items[name].copy() for name, _ in self.keys])
        new_group = group.copy()
        for leaf, origin in zip(list(_leaves(new_group)), list(_leaves(group)), strict=True):
            leaf.replace(meant(origin, self.scope, self.select).copy())
        return new_group

    def outer(self, source: exp.Expr) -> exp.Select:
        """What is said over the released items, which `source` holds under their names."""
        query = exp.Select(expressions=self._items(), from_=exp.From(this=source))
        having, qualify = self.select.args.get("having"), self.select.args.get("qualify")
        if having is not None:
            query.set("where", exp.Where(this=self.lift_node(having.this, aliased=True)))
        if qualify is not None:
            query.set("qualify", exp.Qualify(this=self.lift_node(qualify.this, aliased=True)))
        for part in ("limit", "offset"):
            query.set(part, _copy_node(self.select.args.get(part)))
        if self.select.args.get("windows"):
            query.set("windows", [self._window(window) for window in self.select.args["windows"]])
        if self.select.args.get("distinct"):
            query.set("distinct", self._children(self.select.args["distinct"], False))
        if self.select.args.get("order") is not None:
            query.set("order", self._order(self.select.args["order"]))
        return query

    def _items(self) -> list[exp.Expr]:
        outputs, folds = [], set[str]()
        for i, item in enumerate(self.select.expressions):
            node = self.lift_node(plain(item))
            name = str(item.alias) if isinstance(item, exp.Alias) else self._name_item(plain(item), node, i)
            free = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 999))) if fold(n) not in folds)
            folds.add(fold(free))
            outputs.append(exp.alias_(node, free, quoted=True))
        return outputs

    def _name_item(self, written: exp.Expr, node: exp.Expr, index: int) -> str:
        if isinstance(node, exp.Column) and not is_aggregate(written):
            return str(node.name)
        return _name(written, index)

    def _order(self, order: exp.Expr) -> exp.Expr:
        """An alias or a position stays: it names a column of the answer."""
        new_order = order.copy()
        for item, origin in zip(new_order.expressions, order.expressions, strict=True):
            node = plain(origin.this)
            bare = isinstance(node, exp.Column) and not node.table and fold(str(node.name)) in self._aliases
            if not bare and not isinstance(node, (exp.Literal, exp.Var)):
                item.set("this", self.lift_node(node, aliased=True))
        return new_order

    def _window(self, window: exp.Expr) -> exp.Expr:
        new_window = window.copy()
        new_window.set(
            "partition_by", [self.lift_node(part) for part in window.args.get("partition_by") or []]
        )
        if window.args.get("order") is not None:
            new_window.set("order", self._children(window.args["order"], False))
        return new_window

    # -------------------------------------------------------------------------------------------- expressions

    def lift_node(self, node: exp.Expr, aliased: bool = False) -> exp.Expr:
        """An expression of the SELECT as one of released columns. `aliased`: an alias of an item comes
        first."""
        if isinstance(node, exp.Query):
            return self.nested(node)
        if isinstance(node, exp.Window):
            return self._lift_window(node)
        if is_aggregate(node):
            return _column(self._note_item(node))
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean, exp.Star, exp.Var, exp.DataType)):
            return node.copy()
        alias = self._alias(node)
        if aliased and alias is not None:
            return self.lift_node(alias)
        if (key := self._key(node)) is not None:
            return _column(key)
        if isinstance(node, exp.Column):
            if alias is not None and alias is not node:
                return self.lift_node(alias)
            self._refuse(node)
        return self._children(node, aliased)

    def _alias(self, node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column) or node.table:
            return None
        return self._aliases.get(fold(str(node.name)))

    def _children(self, node: exp.Expr, aliased: bool) -> exp.Expr:
        clone = node.copy()
        for ours, origin in zip(list(clone.iter_expressions()), list(node.iter_expressions()), strict=True):
            if not isinstance(origin, exp.Identifier):
                ours.replace(self.lift_node(origin, aliased))
        return clone

    def _lift_window(self, node: exp.Window) -> exp.Expr:
        clone = node.copy()
        for ours, origin in zip(list(_list_read(clone)), list(_list_read(node)), strict=True):
            if not isinstance(origin, (exp.Identifier, exp.WindowSpec)):
                ours.replace(self.lift_node(origin))
        return clone

    def _note_item(self, node: exp.Expr) -> str:
        for name, item in self.items.items():
            if item == node:
                return name
        name = self._free(f"_a{len(self.items)}")
        self.items[name] = node.copy()
        return name

    def _key(self, node: exp.Expr) -> str | None:
        if not self.keys or any(isinstance(n, (exp.Query, exp.Window)) for n in node.walk()):
            return None
        try:
            read = self.scope.rows(node)
        except InvalidQuery:
            return None
        return next((name for name, key in self.keys if key == read), None)

    def _refuse(self, node: exp.Column) -> None:
        if self.scope.find(node).unit:
            refuse(
                f"The unit of privacy {shown(str(node.name))} is never released.", "Use COUNT(DISTINCT …)."
            )
        refuse(
            f"The column {shown(str(node.name))} is neither grouped nor inside an aggregate.",
            "Add it to GROUP BY, or aggregate it, such as AVG(x).",
        )


def name_items(query: exp.Expr) -> exp.Expr:
    """The query with a name for every item of its first SELECT, as answers name them."""
    select = query
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if isinstance(select, exp.Select):
        items = []
        for i, item in enumerate(select.expressions):
            bare = isinstance(item, (exp.Alias, exp.Column, exp.Star)) or item.is_star
            if not bare:
                item = exp.alias_(item, _name(plain(item), i), quoted=True)
            items.append(item)
        select.set("expressions", items)
    return query


def _name(written: exp.Expr, index: int) -> str:
    if is_aggregate(written):
        return _aggregate_name(written)
    if isinstance(written, exp.Window):
        return name_of(_function(written)).lower()
    return f"column{index + 1}"


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _function(window: exp.Window) -> exp.Expr:
    function: exp.Expr = window.this
    while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
        function = function.this
    return function


def _aggregate_name(node: exp.Expr) -> str:
    """As an answer names it: count, avg_days."""
    of = node
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        of = node.this
    columns = list(dict.fromkeys(str(c.name) for c in node.find_all(exp.Column)))
    distinct = ""
    if isinstance(of.this, exp.Distinct):
        distinct = "_distinct"
    return "_".join([name_of(of).lower() + distinct, *(columns if len(columns) == 1 else [])])


def _copy_node(value: object) -> object:
    if isinstance(value, exp.Expr):
        return value.copy()
    if isinstance(value, list):
        return [_copy_node(each) for each in value]
    return value
