"""A text in two: what is released of private rows, block by block, and what is said over those releases.

A block is a SELECT that aggregates private rows, and not by the unit of privacy. It is read, planned and
charged as any query. Whatever reads a block reads a released table: that is post-processing, and costs
nothing. A SELECT that reads private rows and groups by the unit, or does not aggregate, is rows: it may only
stand inside a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from fractions import Fraction
from functools import cached_property

from sqlglot import expressions as exp

from deniable.errors import InvalidQuery
from deniable.sql.after.allowed import RESERVED, check_after, check_reserved
from deniable.sql.after.canonical import OwnBlock, canonical, normal, own_block
from deniable.sql.after.groups import check_groups
from deniable.sql.after.lift import Lifted, aggregates, keys_of, name_items, says_more
from deniable.sql.functions import refused
from deniable.sql.read import hints
from deniable.sql.read.clause import without_clause
from deniable.sql.read.names import fold, with_declared_fields
from deniable.sql.read.parse import check_nodes, name_of, syntax
from deniable.sql.read.query import MAX_OUTPUTS, query_of
from deniable.sql.read.relations.from_clause import Sources, rows_of, subquery
from deniable.sql.read.relations.per_unit import belongs_to_one_unit, plain
from deniable.sql.refusals import refuse
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import Query
from deniable.units import Unit

MAX_BLOCKS = 16
TABLE = f"{RESERVED}release_"
MIXED = "A released result and private rows are not read together."
APART = "Aggregate the rows first, in WITH or in FROM, and join the two results."


class _Kind(Enum):
    """What a query or a table in FROM is: rows of private tables, a block that releases of them, or
    released."""

    ROWS = auto()
    PUBLIC = auto()
    BLOCK = auto()
    RELEASED = auto()


@dataclass(frozen=True)
class SplitQuery:
    """What a text asks: the blocks that are released, and what is said over them, in DuckDB's SQL with the
    tables `table_name(i)`. Without that there is one block, and its answer is the answer."""

    blocks: tuple[Query, ...]
    after: exp.Expr | None = None
    stated: Mapping[str, Fraction | int] = field(default_factory=dict)
    """The terms that the text says itself."""

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """Of each block the text that is the same for all ways to write it."""
        return tuple(normal(block) for block in self.blocks)

    @cached_property
    def own(self) -> OwnBlock | None:
        """A text that is one block by itself as the block of any other text, if it can be that."""
        if self.after is not None:
            return None
        return own_block(self.blocks[0])


def table_name(index: int) -> str:
    return f"{TABLE}{index}"


def split_query(text: str, schema: Schema, unit: Unit, *, apart: bool = False) -> SplitQuery:
    """What `text` asks of private tables and of what is released of them; `apart`: a text that is one block
    by itself is taken apart as well.

    >>> from deniable.sql.schema.declare import ColumnInfo, TableInfo
    >>> from deniable.sql.types import TEXT
    >>> schema = Schema((TableInfo("visits", (ColumnInfo("ward", TEXT),)),))
    >>> text = "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY n) AS r FROM visits GROUP BY ward"
    >>> asked = split_query(text, schema, Unit.row())
    >>> len(asked.blocks), [str(item.alias) for item in asked.after.expressions]
    (1, ['ward', 'n', 'r'])
    """
    text, clause = without_clause(text)
    clause.check(unit)
    tree = with_declared_fields(syntax(text, schema.names), schema)
    try:
        if apart:
            check_reserved(tree)
            split = _Splitter().split_query(Sources(schema, unit), tree)
        else:
            split = _split(tree, schema, unit)
        return replace(split, stated=clause.terms)
    except InvalidQuery as refusal:
        suggestion = hints.of_call(str(refusal), text, schema.names)
        raise InvalidQuery(suggestion or hints.reworded(str(refusal), tree)) from None


def _split(tree: exp.Expr, schema: Schema, unit: Unit) -> SplitQuery:
    sources, splitter = Sources(schema, unit), _Splitter()
    if not isinstance(tree, (exp.Query, exp.Pivot)):
        refuse(f"{name_of(tree)} is not answered.", "Write a SELECT.")
    if not _has_more(tree):
        return _read_block(sources, tree, splitter)
    check_reserved(tree)
    kind = splitter.kind(sources, tree)
    if kind in (_Kind.ROWS, _Kind.PUBLIC):
        check_nodes(tree)
        return SplitQuery((query_of(sources, tree),))
    if kind is _Kind.BLOCK and isinstance(tree, exp.Select) and not says_more(tree):
        return _read_block(sources, tree, splitter)
    return splitter.split_query(sources, tree)


def _read_block(sources: Sources, tree: exp.Expr, splitter: _Splitter) -> SplitQuery:
    """A text that is one block by itself. What cannot be computed from its numbers here is said over them in
    SQL, if that can be; else the first refusal stands."""
    try:
        check_nodes(tree)
        return SplitQuery((query_of(sources, tree),))
    except InvalidQuery as refusal:
        try:
            check_reserved(tree)
            if splitter.kind(sources, tree) is not _Kind.BLOCK:
                raise refusal
            return splitter.split_query(sources, tree)
        except InvalidQuery:
            raise refusal from None


def _has_more(tree: exp.Expr) -> bool:
    """Whether there may be more in a text than one block: seen without its schema."""
    if not isinstance(tree, exp.Select):
        return True
    if says_more(tree) or any(node.args.get("pivots") for node in tree.find_all(exp.Table, exp.Subquery)):
        return True
    inside = (node for node in tree.find_all(exp.Select) if node is not tree)
    return any(_aggregates(select) for select in inside)


def _aggregates(select: exp.Select) -> bool:
    parts = list(select.expressions)
    if select.args.get("having"):
        parts.append(select.args["having"])
    grouping = select.args.get("group") or select.args.get("distinct")
    return bool(grouping) or any(True for part in parts for _ in aggregates(part))


@dataclass
class _Splitter:
    """Takes a text apart, block by block. Blocks that are the same are released once."""

    blocks: dict[str, Query] = field(default_factory=dict)
    known: dict[int, _Kind] = field(default_factory=dict)
    private_keys: dict[str, dict[str, str]] = field(default_factory=dict)
    """The private columns of blocks, with what those who read them call them, by the names of their
    tables."""

    def split_query(self, sources: Sources, tree: exp.Expr) -> SplitQuery:
        after = self.rewrite(sources, tree)
        check_after(after, [table_name(i) for i in range(len(self.blocks))])
        if not self.blocks:
            refuse(
                "The query reads no private table.", "There is nothing to protect: ask the database itself."
            )
        check_groups(after, self.private_keys)
        keys = sorted(self.blocks)
        places = {table_name(i): table_name(keys.index(key)) for i, key in enumerate(self.blocks)}
        for table in after.find_all(exp.Table):
            if str(table.name) in places:
                table.set("this", exp.to_identifier(places[str(table.name)]))
        return SplitQuery(tuple(self.blocks[key] for key in keys), name_items(after))

    # -------------------------------------------------------------------------------------------- kinds

    def kind(self, sources: Sources, node: exp.Expr) -> _Kind:
        if id(node) not in self.known:
            self.known[id(node)] = self._kind(sources, node)
        return self.known[id(node)]

    def _kind(self, sources: Sources, node: exp.Expr) -> _Kind:
        if isinstance(node, (exp.Pivot, exp.SetOperation)):
            sources = self._read_names(sources, node)[0]
        match node:
            case exp.Subquery() if isinstance(node.this, (exp.Query, exp.Table)):
                sources = self._read_names(sources, node)[0]
                kind = self.kind(sources, node.this)
                if node.args.get("pivots") and kind is _Kind.BLOCK:
                    return _Kind.RELEASED
                return kind
            case exp.SetOperation():
                sides = {self.kind(sources, node.this), self.kind(sources, node.expression)}
                return _unite_kinds(sides)
            case exp.Select():
                return self._select_kind(sources, node)
            case exp.Pivot():
                return _Kind.RELEASED
            case exp.Values():
                return _Kind.PUBLIC
            case exp.Lateral() if node.find(exp.Query):
                refuse("LATERAL is not answered.", refused.LATERAL)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._table_kind(sources, node)
        return _Kind.RELEASED

    def _table_kind(self, sources: Sources, node: exp.Table) -> _Kind:
        name = fold(str(node.name))
        for cte, scope in reversed(sources.ctes):
            if cte == name:
                if scope is None:
                    return _Kind.RELEASED
                if scope.private:
                    return _Kind.ROWS
                return _Kind.PUBLIC
        tables = [table for table in sources.schema.tables if fold(table.name) == name]
        if tables and all(table.public for table in tables):
            return _Kind.PUBLIC
        return _Kind.ROWS

    def _select_kind(self, sources: Sources, select: exp.Select) -> _Kind:
        sources = self._read_names(sources, select)[0]
        inputs = _list_sources(select)
        kinds = {self.kind(sources, each) for each in inputs}
        kinds = {_Kind.RELEASED if kind is _Kind.BLOCK else kind for kind in kinds}
        if not kinds or _Kind.RELEASED in kinds:
            if _Kind.ROWS in kinds:
                refuse(MIXED, APART)
            return _Kind.RELEASED
        if not _aggregates(select):
            if _Kind.ROWS in kinds:
                return _Kind.ROWS
            return _Kind.PUBLIC
        if self._by_unit(sources, select):
            return _Kind.ROWS
        return _Kind.BLOCK

    def _by_unit(self, sources: Sources, select: exp.Select) -> bool:
        """Whether its groups are rows of one unit each. A key that leads to one unit says so inside a query
        alone: at its end the values of the key are asked for, which are private."""
        scope = rows_of(sources, _known_rows(select))
        keys = keys_of(select, scope)
        if _is_read_on(select) and any(belongs_to_one_unit(scope, key) for key in keys):
            return True
        return any(
            isinstance(key, exp.Column) and not isinstance(key.this, exp.Star) and scope.find(key).unit
            for key in keys
        )

    def _read_names(self, sources: Sources, node: exp.Expr) -> tuple[Sources, list[tuple[Sources, exp.Expr]]]:
        """The names of WITH: those of rows are seen by blocks, those of released results stay in SQL."""
        with_, stay = node.args.get("with_"), list[tuple[Sources, exp.Expr]]()
        if with_ is not None and with_.args.get("recursive"):
            refuse("A recursive WITH is not answered.", refused.RECURSIVE)
        for cte in with_.expressions if with_ is not None else ():
            kind = self.kind(sources, cte.this)
            if kind in (_Kind.ROWS, _Kind.PUBLIC):
                check_nodes(cte.this)
                sources = sources.with_cte(cte, subquery(sources, cte.this))
            else:
                stay.append((sources, cte))
                sources = sources.with_cte(cte, None)
        return sources, stay

    # -------------------------------------------------------------------------------------------- released

    def rewrite(self, sources: Sources, node: exp.Expr) -> exp.Expr:
        """A query as it is said over released tables."""
        kind = self.kind(sources, node)
        if kind in (_Kind.ROWS, _Kind.PUBLIC):
            self._refuse_rows(sources, node)
        inner, stay = self._read_names(sources, node)
        ctes = []
        for view, cte in stay:
            tree = cte.copy()
            tree.set("this", self.rewrite(view, cte.this))
            ctes.append(tree)
        if isinstance(node, exp.Select) and kind is _Kind.BLOCK:
            tree = self._block(inner, node)
        else:
            tree = self._rewritten(inner, node, top=True)
        tree.set("with_", exp.With(expressions=ctes) if ctes else None)
        return tree

    def _refuse_rows(self, sources: Sources, node: exp.Expr) -> None:
        """Rows at the end of a query: as its own reader would refuse it, or in general."""
        check_nodes(node)
        query_of(sources, node)
        refuse("Rows of private tables never leave.", "Aggregate them, such as COUNT(*) or AVG(x).")

    def _rewritten(self, sources: Sources, node: exp.Expr, top: bool = False) -> exp.Expr:
        """The same tree, in which every query and table is a released one."""
        if not top and isinstance(node, exp.Query):
            return self.rewrite(sources, node)
        if isinstance(node, exp.Table):
            if self.kind(sources, node) is not _Kind.RELEASED:
                refuse(MIXED, APART)
            if not isinstance(node.this, exp.Identifier):
                return node.copy()
        tree = node.copy()
        tree.set("with_", None)
        pairs = zip(
            list(tree.iter_expressions()),
            [c for c in node.iter_expressions() if not isinstance(c, exp.With)],
            strict=True,
        )
        for ours, origin in list(pairs):
            ours.replace(self._rewritten(sources, origin))
        return tree

    def _block(self, sources: Sources, select: exp.Select) -> exp.Expr:
        if len(select.expressions) > MAX_OUTPUTS:
            refuse(f"Expected at most {MAX_OUTPUTS} columns, got {len(select.expressions)}.")
        scope = rows_of(sources, _known_rows(select))
        lift = Lifted(select, scope, lambda node: self.rewrite(sources, node))
        placeholder = exp.Subquery(this=exp.Select(), alias=exp.TableAlias(this=exp.to_identifier("t")))
        outer = lift.outer(placeholder)
        inner = lift.inner()
        check_nodes(inner)
        query, columns = canonical(query_of(sources, inner))
        key = normal(query)
        if key not in self.blocks and len(self.blocks) >= MAX_BLOCKS:
            refuse(f"Expected at most {MAX_BLOCKS} private results in one query.", "Ask for less at once.")
        self.blocks.setdefault(key, query)
        name = table_name(list(self.blocks).index(key))
        names = dict(zip(lift.items, columns, strict=True))
        private = {key.name for key in query.keys if key.domain is None}
        self.private_keys.setdefault(
            name,
            {
                column: _name_key(select, lift.items[item])
                for item, column in names.items()
                if column in private
            },
        )
        placeholder.replace(_reading(name, names, select))
        return outer


def _is_read_on(select: exp.Select) -> bool:
    """Whether it stands in FROM or WITH, so that its rows are read by another query."""
    node = select.parent
    while isinstance(node, (exp.Subquery, exp.SetOperation)):
        node = node.parent
    return isinstance(node, (exp.From, exp.Join, exp.CTE))


def _name_key(select: exp.Select, key: exp.Expr) -> str:
    """A key as it is called by who reads the block; its own text where it is not among the items."""
    names = (str(item.alias_or_name) for item in select.expressions if plain(item) == key)
    return next(names, "") or key.sql("duckdb")


def _unite_kinds(sides: set[_Kind]) -> _Kind:
    if sides <= {_Kind.ROWS, _Kind.PUBLIC}:
        if _Kind.ROWS in sides:
            return _Kind.ROWS
        return _Kind.PUBLIC
    if _Kind.ROWS in sides:
        refuse(MIXED, "Aggregate each part of it.")
    return _Kind.RELEASED


def _list_sources(select: exp.Select) -> list[exp.Expr]:
    first = select.args.get("from_")
    holders = [first, *(select.args.get("joins") or [])]
    return [holder.this for holder in holders if holder is not None]


def _known_rows(select: exp.Select) -> exp.Select:
    """FROM with its joins and WHERE, every node of which is known."""
    for part in ("from_", "where", "group"):
        if select.args.get(part) is not None:
            check_nodes(select.args[part])
    for join in select.args.get("joins") or []:
        check_nodes(join)
    return select


def _reading(table: str, columns: dict[str, str], select: exp.Select) -> exp.Subquery:
    """The released table under the names of the block's items; called as the one table that was read."""
    items = [
        exp.alias_(exp.column(column, quoted=True), name, quoted=True) for name, column in columns.items()
    ]
    query = exp.Select(expressions=items, from_=exp.From(this=exp.to_table(table)))
    sources = _list_sources(select)
    alias = "released"
    if len(sources) == 1 and sources[0].alias_or_name:
        alias = str(sources[0].alias_or_name)
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
