"""Aggregates over groups with private keys, which are refused.

Rare values of a private key are not released. So a count of such groups, or a sum or an average over them,
would be of the common ones alone and would not say so. What is grouped by the same private keys again is
aggregated over public ones, and is answered.

A key is followed from the block that releases it through every query that reads it, by what a column is and
not by what it is called: an alias, a join or a UNION changes names and not rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql.after.lift import aggregates, is_aggregate
from deniable.sql.read.names import fold
from deniable.sql.read.parse import name_of
from deniable.sql.read.relations.per_unit import plain
from deniable.sql.refusals import refuse

MOST_KEYS = 200
MOST_COLUMNS = 1_000
"""A query that joins another with itself, again and again, doubles both. Beyond these, keys are forgotten by
the columns that hold them, and can be grouped by no longer."""
UNNAMED = frozenset({"MEAN", "PRODUCT", "ENTROPY", "MAD"})
"""Aggregates over released numbers that the parser takes for any function."""
_OF_PLACES = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
"""Functions over a window that tell a place, or a value of one row."""


@dataclass(frozen=True, eq=False)
class PrivateKey:
    """The private key of one reading of a block, as it is called there."""

    name: str


Held = frozenset[PrivateKey]
"""Keys that do not differ between two rows where a column does not."""
Columns = tuple[tuple[str, Held], ...]
NOTHING: Held = frozenset()


@dataclass(frozen=True)
class Groups:
    """The rows of a query: the private keys that tell them apart, and what its columns hold of these."""

    keys: tuple[PrivateKey, ...] = ()
    columns: Columns = ()

    @classmethod
    def of_block(cls, private: Mapping[str, str]) -> Groups:
        """A released table: its private columns, each with the name that a person knows it by."""
        keys = {column: PrivateKey(name) for column, name in private.items()}
        return cls(tuple(keys.values()), tuple((column, frozenset({key})) for column, key in keys.items()))

    def read_anew(self) -> Groups:
        """Another reading of the same: its rows are others than those of the first."""
        keys = {key: PrivateKey(key.name) for key in self.keys}
        columns = tuple(
            (name, frozenset(keys[each] for each in keys_held)) for name, keys_held in self.columns
        )
        return Groups(tuple(keys.values()), columns)

    def rename(self, alias: exp.Expr | None) -> Groups:
        """Under the names of AS t (a, b)."""
        names = [fold(str(each.name)) for each in alias.args.get("columns") or []] if alias else []
        columns = [
            (names[i] if i < len(names) else name, keys_held)
            for i, (name, keys_held) in enumerate(self.columns)
        ]
        return Groups(self.keys, tuple(columns))

    def limit(self) -> Groups:
        if len(self.keys) > MOST_KEYS:
            return Groups(self.keys[:1])
        return Groups(self.keys, self.columns[:MOST_COLUMNS])


Named = Mapping[str, Groups]
"""Queries and released tables by their folded names."""


def check_groups(after: exp.Expr, blocks: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse what `after` aggregates over groups with private keys. `blocks` are released tables by name,
    each with its private columns."""
    _read(after, {name: Groups.of_block(private) for name, private in blocks.items()})


def _refuse(key: PrivateKey) -> NoReturn:
    name = key.name if len(key.name) <= 60 else f"{key.name[:60]}…"
    refuse(
        f"This aggregates over groups by {name}, whose values are private. Rare values are not released, so "
        "the result would be of the common ones alone.",
        f"If each {name} belongs to one person, add the unit of privacy to the inner GROUP BY. Ask for the "
        "groups themselves, or have their public values declared (keys=, --keys).",
    )


def _check_kept(keys: Sequence[PrivateKey], keys_held: Held) -> None:
    missing = next((key for key in keys if key not in keys_held), None)
    if missing is not None:
        _refuse(missing)


# ------------------------------------------------------------------------------------------------ queries


def _read(node: exp.Expr, tables: Named) -> Groups:
    with_ = node.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        tables = {**tables, fold(str(cte.alias)): _read(cte.this, tables).rename(cte.args.get("alias"))}
    match node:
        case exp.Select():
            groups = _read_select(node, tables)
        case exp.SetOperation():
            groups = _unite_groups(_read(node.this, tables), _read(node.expression, tables))
        case exp.Subquery():
            groups = _read(node.this, tables)
        case exp.Pivot():
            groups = _pivot_groups(_read(node.this, tables), node)
        case exp.Table(this=exp.Identifier()):
            groups = tables.get(fold(str(node.name)), Groups()).read_anew()
        case _:
            groups = Groups()
    for pivot in node.args.get("pivots") or []:
        groups = _pivot_groups(groups, pivot)
    return groups.limit()


def _unite_groups(left: Groups, right: Groups) -> Groups:
    """A row comes from one side, and has no value of the other's keys."""
    common = set(left.keys) & set(right.keys)
    columns = [
        (name, (keys_held - common) | (other - common) | (keys_held & other))
        for (name, keys_held), (_, other) in zip(left.columns, right.columns, strict=False)
    ]
    return Groups((*left.keys, *right.keys), tuple(columns))


def _pivot_groups(groups: Groups, pivot: exp.Expr) -> Groups:
    """PIVOT groups by the columns that it does not name, or by those of its own GROUP BY; a value that is
    written out chooses one group of its key."""
    in_brackets = bool(pivot.args.get("fields"))
    fields = pivot.args["fields"] if in_brackets else pivot.expressions
    values = pivot.expressions if in_brackets else pivot.args.get("using") or []
    if pivot.args.get("unpivot"):
        return Groups(groups.keys, _drop_columns(groups.columns, _names_in(fields)))
    group = pivot.args.get("group")
    rest = _drop_columns(groups.columns, _names_in([*fields, *values]))
    if group is not None:
        rest = _pick_columns(groups.columns, _names_of(group.expressions))
    names = _names_of([each.this for each in fields if isinstance(each, exp.In)])
    choices = _keys_of(_pick_columns(groups.columns, names))
    _check_kept(groups.keys, choices | _keys_of(rest))
    return Groups(tuple(key for key in groups.keys if key not in choices), rest)


def _keys_of(columns: Columns) -> Held:
    return NOTHING.union(*(keys_held for _, keys_held in columns))


def _pick_columns(columns: Columns, names: set[str]) -> Columns:
    return tuple((name, keys_held) for name, keys_held in columns if name in names)


def _drop_columns(columns: Columns, names: set[str]) -> Columns:
    return tuple((name, keys_held) for name, keys_held in columns if name not in names)


def _names_in(nodes: Sequence[exp.Expr]) -> set[str]:
    """All columns that are named."""
    return {fold(str(each.name)) for node in nodes for each in node.find_all(exp.Column)}


def _names_of(nodes: Sequence[exp.Expr]) -> set[str]:
    """Those that are columns as they are: what is made of one may be alike where it is not."""
    return {fold(str(each.name)) for each in map(plain, nodes) if isinstance(each, exp.Column)}


# ------------------------------------------------------------------------------------------------ SELECT


@dataclass
class _Source:
    name: str
    groups: Groups


@dataclass
class _Rows:
    """What a SELECT reads, and which columns follow from which: where rows are joined by a = b, whatever is
    grouped by a is grouped by b."""

    sources: list[_Source] = field(default_factory=list)
    follows: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)
    merged: dict[str, list[int]] = field(default_factory=dict)
    choices: list[Groups] = field(default_factory=list)
    """Queries that choose rows, as IN and EXISTS do."""

    @property
    def keys(self) -> tuple[PrivateKey, ...]:
        groups = (*(source.groups for source in self.sources), *self.choices)
        return tuple(key for each in groups for key in each.keys)

    def place(self, node: exp.Expr) -> tuple[int, str] | None:
        """Of which source a column is, and its name there."""
        if not isinstance(node, exp.Column):
            return None
        table, name = fold(str(node.table)), fold(str(node.name))
        for i, source in enumerate(self.sources):
            if table in ("", source.name) and any(name == each for each, _ in source.groups.columns):
                return i, name
        return None

    def hold(self, node: exp.Expr) -> Held:
        """What a column holds, with all that follows from it."""
        place = self.place(node)
        if place is None:
            return NOTHING
        waiting, places = [place], {place}
        if not node.args.get("table"):  # that of USING is the one that has a value
            waiting += [(i, place[1]) for i in self.merged.get(place[1], ())]
        keys_held: set[PrivateKey] = set()
        while waiting:
            i, name = waiting.pop()
            keys_held |= dict(self.sources[i].groups.columns).get(name, NOTHING)
            new = [each for each in self.follows.get((i, name), ()) if each not in places]
            places.update(new)
            waiting += new
        return frozenset(keys_held)

    def follow(self, first: tuple[int, str] | None, then: tuple[int, str] | None) -> None:
        if first is not None and then is not None:
            self.follows.setdefault(first, []).append(then)

    def equate(self, condition: exp.Expr | None, side: str = "") -> None:
        """Take a condition's equations of columns, as far as they hold in all rows. After an outer join those
        of the other side hold where it has a row."""
        for each in _conjuncts(condition):
            if isinstance(each, exp.EQ):
                places = sorted(
                    filter(None, (self.place(plain(each.this)), self.place(plain(each.expression))))
                )
                if len(places) == 2:
                    self._join(places[0], places[1], side)

    def _join(self, left: tuple[int, str], right: tuple[int, str], side: str) -> None:
        if side in ("", "LEFT"):
            self.follow(left, right)
        if side in ("", "RIGHT"):
            self.follow(right, left)

    def add(self, node: exp.Expr, groups: Groups, join: exp.Expr | None) -> None:
        """One more source, and what joins it with those before."""
        self.sources.append(_Source(fold(str(node.alias_or_name)), groups))
        if join is None:
            return
        side, last = str(join.args.get("side") or "").upper(), len(self.sources) - 1
        self.equate(join.args.get("on"), side)
        for name in self._common_names(join, groups):
            first = next((i for i in range(last) if self._has(i, name)), None)
            if first is not None:
                self._join((first, name), (last, name), side)
                self.merged.setdefault(name, [first]).append(last)

    def _common_names(self, join: exp.Expr, groups: Groups) -> list[str]:
        if str(join.args.get("method") or "").upper() == "NATURAL":
            return [name for name, _ in groups.columns]
        return [fold(str(each.name)) for each in join.args.get("using") or []]

    def _has(self, source: int, name: str) -> bool:
        return any(name == each for each, _ in self.sources[source].groups.columns)

    def choose(self, query: exp.Expr, groups: Groups) -> None:
        """A query chooses rows. By x IN (SELECT y …) they have y where they have x."""
        self.choices.append(groups)
        if isinstance(query.parent, exp.In) and groups.columns:
            place = self.place(plain(query.parent.this))
            self.sources.append(_Source("", Groups((), (("", groups.columns[0][1]),))))
            self.follow(place, (len(self.sources) - 1, ""))


def _read_select(select: exp.Select, tables: Named) -> Groups:
    rows = _Rows()
    for holder in (select.args.get("from_"), *(select.args.get("joins") or [])):
        if holder is not None:
            node = holder.this
            groups = _read(node, tables).rename(node.args.get("alias"))
            rows.add(node, groups, holder if isinstance(holder, exp.Join) else None)
    where = select.args.get("where")
    rows.equate(where and where.this)
    _read_inside(select, rows, tables, BEFORE)
    _check_aggregates(select, rows)
    _read_inside(select, rows, tables, AFTER)
    items = tuple(_items(select, rows))
    _check_windows(select, rows, items)
    return Groups(rows.keys, items)


BEFORE = ("joins", "where", "group", "expressions")
AFTER = ("having", "qualify", "windows", "order", "limit", "offset", "distinct")
"""Parts of a SELECT that say of which rows it aggregates, or what; and those that are said of the result."""


def _read_inside(select: exp.Select, rows: _Rows, tables: Named, parts: Sequence[str]) -> None:
    """Queries inside expressions are read too. Some choose rows."""
    for part in parts:
        value = select.args.get(part)
        for holder in value if isinstance(value, list) else [value]:
            for query in _queries(holder.args.get("on") if isinstance(holder, exp.Join) else holder):
                groups = _read(query, tables)
                if _chooses(query, select):
                    rows.choose(query, groups)


def _chooses(query: exp.Expr, select: exp.Select) -> bool:
    """Whether it is in an aggregate, or says whether a row is among others. A query that is one number is
    neither."""
    if isinstance(query.parent, (exp.In, exp.Exists, exp.Any, exp.All)):
        return True
    node = query.parent
    while node is not None and node is not select and not is_aggregate(node):
        node = node.parent
    return node is not None and node is not select


def _queries(node: object) -> Iterator[exp.Expr]:
    """The queries of an expression, not those inside of them."""
    if isinstance(node, exp.Query):
        yield node
    elif isinstance(node, exp.Expr):
        for child in node.iter_expressions():
            yield from _queries(child)


def _conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    waiting = [node] if node is not None else []
    while waiting:
        each = plain(waiting.pop())
        if isinstance(each, exp.And):
            waiting += [each.this, each.expression]
        else:
            yield each


def _check_aggregates(select: exp.Select, rows: _Rows) -> None:
    parts = [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]
    if any(part is not None and _aggregates(part) for part in parts):
        _check_kept(rows.keys, _find_group_keys(select, rows))


def _aggregates(node: exp.Expr) -> bool:
    """Whether a part of a SELECT has an aggregate of its own; a window's function is none."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Anonymous) and name_of(node) in UNNAMED:
        return not isinstance(_find_parent(node), exp.Window)
    if is_aggregate(node):
        return True
    if isinstance(node, exp.Window):
        return any(True for _ in aggregates(node)) or any(
            _aggregates(child) for child in node.iter_expressions() if child is not node.this
        )
    return any(_aggregates(child) for child in node.iter_expressions())


def _find_parent(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    while isinstance(parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        parent = parent.parent
    return parent


def _find_group_keys(select: exp.Select, rows: _Rows) -> Held:
    """What the columns hold that a SELECT groups by. Of several grouping sets one leaves keys out."""
    group = select.args.get("group")
    if group is None or any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")):
        return NOTHING
    nodes = list(map(plain, group.expressions))
    if group.args.get("all"):
        nodes = [plain(item) for item in select.expressions if not _aggregates(item)]
    return NOTHING.union(*(rows.hold(_resolve_item(node, select, rows)) for node in nodes))


def _resolve_item(node: exp.Expr, select: exp.Select, rows: _Rows) -> exp.Expr:
    """What a position or an alias in GROUP BY stands for; a column of what is read comes first."""
    if isinstance(node, exp.Literal) and str(node.this).isdecimal():
        return plain(dict(enumerate(select.expressions, 1)).get(int(node.this), node))
    if isinstance(node, exp.Column) and not node.table and rows.place(node) is None:
        aliases = {fold(str(item.alias)): plain(item) for item in select.expressions if item.alias}
        return aliases.get(fold(str(node.name)), node)
    return node


def _items(select: exp.Select, rows: _Rows) -> Iterator[tuple[str, Held]]:
    for item in select.expressions:
        node = plain(item)
        if isinstance(node, exp.Star) or node.is_star:
            table = fold(str(node.args.get("table") or "")) if isinstance(node, exp.Column) else ""
            yield from _all_columns(rows, table)
        else:
            yield fold(str(item.alias_or_name)), rows.hold(node)


def _all_columns(rows: _Rows, table: str) -> Iterator[tuple[str, Held]]:
    """Those of `*`, or of `table.*`; a column of USING stands there once."""
    for i, source in enumerate(rows.sources):
        for name, keys_held in source.groups.columns if table in ("", source.name) and source.name else ():
            places = rows.merged.get(name, [])
            if table or i not in places:
                yield name, rows.hold(exp.column(name, table=source.name or None, quoted=True)) | keys_held
            elif i == places[0]:
                yield name, rows.hold(exp.column(name, quoted=True))


def _check_windows(select: exp.Select, rows: _Rows, items: Sequence[tuple[str, Held]]) -> None:
    """A sum over a window is of the groups that the same SELECT shows, or it is one over groups that nobody
    sees."""
    visible_keys = _keys_of(tuple(items))
    for window in chain.from_iterable(map(_windows, select.expressions)):
        function: exp.Expr = window.this
        while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        if isinstance(function, exp.AggFunc) and not isinstance(function, _OF_PLACES):
            parts = (rows.hold(plain(each)) for each in window.args.get("partition_by") or [])
            _check_kept(rows.keys, visible_keys.union(*parts))


def _windows(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        yield node
    for child in node.iter_expressions():
        yield from _windows(child)
