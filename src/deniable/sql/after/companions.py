"""Intervals carried along: beside each number of a query over released tables, two columns with its ends.

Interval arithmetic, written as SQL. What it does not cover (ranks, counts of released rows, conditions on
noisy numbers, DISTINCT, INTERSECT, PIVOT) has no interval, and the answer says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import expressions as exp

from deniable.sql.after.allowed import RESERVED
from deniable.sql.after.arithmetic import Ends, NodeAllowance, Noisy, OwnNoise, Seen, ends
from deniable.sql.after.lift import aggregates
from deniable.sql.after.reach import Reach
from deniable.sql.read.names import fold
from deniable.sql.read.relations.per_unit import plain

LOW, HIGH = f"{RESERVED}low_", f"{RESERVED}high_"
_NO_ENDS = (exp.Null(), exp.Null())


@dataclass(frozen=True)
class AnswerColumn:
    """A column of a query's answer; `reach` is None where it has no interval, `key` says that no number of a
    release is in it. `noise`: each row has a cell of its own in it. `origin` is the key of the
    release that it is, unchanged."""

    name: str
    reach: Reach | None = None
    key: bool = False
    noise: OwnNoise | None = None
    origin: str | None = None


AnswerColumns = tuple[AnswerColumn, ...]
Names = Mapping[str, "AnswerColumns | None"]
"""Tables by their folded names; None where their columns are not known before they are run."""


def annotate(
    node: exp.Expr, names: Names, space: NodeAllowance, want: frozenset[int] | None = None
) -> tuple[exp.Expr, AnswerColumns | None]:
    """The query with the ends of its numbers after its own columns, and what those are. `want`: the positions
    that must have ends, NULL where none follow. `space` is taken from for every node that is copied."""
    space.take(node)
    node = node.copy()
    names = dict(names)
    ctes = node.ctes if isinstance(node, exp.Query) else []
    for cte in ctes:
        body, columns = annotate(cte.this, names, space)
        cte.set("this", body)
        names[fold(str(cte.alias))] = _rename_columns(columns, cte.args.get("alias"))
    match node:
        case exp.Select():
            return _select(node, names, space, want)
        case exp.Subquery() if not node.args.get("pivots"):
            inner, columns = annotate(node.this, names, space, want)
            node.set("this", inner)
            return node, columns if _has_only(node, {"this", "alias"}) else _drop_noises(columns)
        case exp.Union() if not node.args.get("distinct") and not node.args.get("by_name"):
            return _union(node, names, space, want)
    return node, None


def _union(
    node: exp.Union, names: Names, space: NodeAllowance, want: frozenset[int] | None
) -> tuple[exp.Expr, AnswerColumns | None]:
    sides = {part: annotate(node.args[part], names, space) for part in ("this", "expression")}
    left, right = (columns for _, columns in sides.values())
    if left is None or right is None or len(left) != len(right):
        return node, None
    both = tuple(_cover_both(a, b) for a, b in zip(left, right, strict=True))
    targets = _with_ends(both) if want is None else want
    for part, (body, columns) in sides.items():
        if _with_ends(columns or ()) != targets:
            body = annotate(node.args[part], names, space, targets)[0]
        node.set(part, body)
    return node, _drop_noises(both)


def _with_ends(columns: AnswerColumns) -> frozenset[int]:
    return frozenset(i for i, column in enumerate(columns) if column.reach is not None)


def _cover_both(left: AnswerColumn, right: AnswerColumn) -> AnswerColumn:
    """A row of a union comes from one of its sides: the larger of the two reaches covers it."""
    reaches = [side.reach for side in (left, right) if side.reach is not None]
    if not reaches:
        return left
    if len(reaches) == 1:
        return replace(left, reach=reaches[0])
    return replace(left, reach=reaches[0].alike(reaches[1]))


# ------------------------------------------------------------------------------------------------ SELECT


def _select(
    select: exp.Select, names: Names, space: NodeAllowance, want: frozenset[int] | None
) -> tuple[exp.Expr, AnswerColumns | None]:
    sources = _sources(select, names, space)
    if sources is None or not _expand_star(select, sources):
        return select, None
    rows = _Rows.read(select, sources)
    if not rows.whole:
        sources = [(table, _drop_noises(columns) or ()) for table, columns in sources]
    companions = _companions(select, names, _find_columns(sources), rows, space)
    targets = frozenset(companions) if want is None else want
    if targets and _is_closed(select):
        return select, None
    columns = _columns(select, companions, sources, rows)
    for i in sorted(targets):
        select.set("expressions", [*select.expressions, *_items(columns[i].name, companions.get(i))])
    return select, columns if _has_only(select, _PASSED_ON) else _drop_noises(columns)


def _columns(
    select: exp.Select, companions: Mapping[int, Ends], sources: Sequence[Source], rows: _Rows
) -> AnswerColumns:
    columns = []
    for i, item in enumerate(map(plain, select.expressions)):
        name = str(select.expressions[i].alias_or_name) or f"column{i + 1}"
        column = AnswerColumn(name, key=_is_key(item, sources), origin=rows.origin(item))
        if i in companions:
            column = replace(column, reach=companions[i].reach, noise=companions[i].noise)
        columns.append(column)
    return tuple(columns)


def _is_closed(select: exp.Select) -> bool:
    """Whether a column more would change what it says."""
    return bool(select.args.get("distinct")) or _orders_all(select)


_PASSED_ON = {"expressions", "from_", "where", "with_"}
_READ = _PASSED_ON | {"group", "having", "qualify", "order", "limit", "offset"}
"""Parts of a SELECT with which every row still has a cell of its own, and with which it had one before."""


def _has_only(node: exp.Expr, parts: set[str]) -> bool:
    return all(part in parts for part, value in node.args.items() if value)


def _drop_noises(columns: AnswerColumns | None) -> AnswerColumns | None:
    """Of which it is not known that each row has a cell of its own, or that noise has not chosen the rows."""
    if columns is None:
        return None
    return tuple(replace(column, noise=None) for column in columns)


@dataclass(frozen=True)
class _Rows:
    """The rows of a SELECT: whether they are those of one table, each once at most, chosen and grouped by its
    keys; and the names that stand for what is made of these alone. Noises of rows that noise has chosen would
    be neither independent nor centred."""

    whole: bool
    table: str = ""
    keys: frozenset[str] = frozenset()
    origins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, select: exp.Select, sources: Sequence[Source]) -> _Rows:
        if not _reads_one_table(select, sources):
            return cls(False)
        base = cls._of_table(*sources[0])
        items = [(fold(str(item.alias)), plain(item)) for item in select.expressions if item.alias]
        key_items = {name for name, of in items if base._is_key(of)}
        if any(name in base.keys and name not in key_items for name, _ in items):
            return cls(False)
        rows = replace(base, keys=base.keys | key_items)
        if rows._choose(select):
            return rows
        return cls(False)

    @classmethod
    def _of_table(cls, table: str, columns: AnswerColumns) -> _Rows:
        times = Counter(fold(column.name) for column in columns)
        keys = {fold(c.name): c.origin for c in columns if c.key and times[fold(c.name)] == 1}
        origins = {name: origin for name, origin in keys.items() if origin is not None}
        return cls(True, table, frozenset(keys), origins)

    def _choose(self, select: exp.Select) -> bool:
        """Whether keys alone choose and group the rows of a SELECT."""
        where, group = select.args.get("where"), select.args.get("group")
        if where is not None and not self._of_keys(where):
            return False
        return group is None or (_has_only(group, {"expressions"}) and self._groups_by_keys(select, group))

    def origin(self, node: exp.Expr) -> str | None:
        """The key of the release that an expression is."""
        if not isinstance(node, exp.Column) or not self._of_keys(node):
            return None
        return self.origins.get(fold(str(node.name)))

    def by_keys(self, node: exp.Expr, noise: OwnNoise) -> bool:
        """Whether keys alone choose the rows of a function. Frames that are counted in ROWS go by the order
        of rows, which noise may have made where the keys do not tell them apart."""
        windows = list(node.find_all(exp.Window))
        return self._of_keys(node) and all(
            not each.args.get("alias") and (_by_peers(each) or noise.keys <= self._order_keys(each))
            for each in windows
        )

    def _order_keys(self, window: exp.Window) -> set[str | None]:
        order = window.args.get("order")
        keys = list(window.args.get("partition_by") or [])
        if order is not None:
            keys += [plain(each.this) for each in order.expressions]
        return {self.origin(plain(each)) for each in keys}

    def _is_key(self, node: exp.Expr) -> bool:
        """Whether what is computed for one row stays a key."""
        return self._of_keys(node) and not node.find(exp.Window, exp.AggFunc)

    def _of_keys(self, node: exp.Expr) -> bool:
        inside = list(node.walk())
        columns = [part for part in inside if isinstance(part, exp.Column)]
        return not any(isinstance(part, exp.Query) for part in inside) and all(
            fold(str(each.name)) in self.keys and fold(str(each.table)) in ("", self.table)
            for each in columns
        )

    def _groups_by_keys(self, select: exp.Select, group: exp.Expr) -> bool:
        """By keys, or by the places of items that are made of these."""
        several = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
        targets = [_item(select, plain(each)) for each in group.expressions]
        return all(
            each is not None
            and not isinstance(each, several)
            and self._of_keys(each)
            and not each.find(exp.Window)
            for each in targets
        )


def _reads_one_table(select: exp.Select, sources: Sequence[Source]) -> bool:
    if len(sources) != 1 or not _has_only(select, _READ):
        return False
    return _has_only(select.args["from_"].this, {"this", "alias"})


def _by_peers(window: exp.Window) -> bool:
    """Whether rows that are alike in the window's order are in a frame together."""
    spec = window.args.get("spec")
    return spec is None or str(spec.args.get("kind")).upper() in ("RANGE", "GROUPS")


def _item(select: exp.Select, node: exp.Expr) -> exp.Expr | None:
    """What GROUP BY 2 stands for."""
    if not isinstance(node, exp.Literal):
        return node
    if node.is_string or not str(node.this).isdecimal():
        return None
    places = dict(enumerate(select.expressions, 1))
    item = places.get(int(node.this))
    return item and plain(item)


def _companions(
    select: exp.Select, names: Names, lookup: Seen, rows: _Rows, space: NodeAllowance
) -> dict[int, Ends]:
    """The ends of each item that stands on noisy numbers, by its position."""
    if _is_closed(select):
        return {}
    calls = (call for item in select.expressions for call in aggregates(item))
    is_grouped = select.args.get("group") is not None or any(True for _ in calls)
    companions = {}
    for i, item in enumerate(select.expressions):
        interval = ends(
            plain(item),
            lookup,
            grouped=is_grouped,
            nested=lambda query: _scalar(query, names, space),
            space=space,
            by_keys=rows.by_keys,
        )
        if interval is not None and interval.reach.bases:
            companions[i] = interval
    return companions


def _is_key(node: exp.Expr, sources: Sequence[Source]) -> bool:
    """Whether an item is computed from keys alone."""
    keys = {fold(column.name) for _, columns in sources for column in columns if column.key}
    inside = list(node.walk())
    if any(isinstance(part, (exp.Query, exp.Window, exp.AggFunc)) for part in inside):
        return False
    return all(fold(str(part.name)) in keys for part in inside if isinstance(part, exp.Column))


def _items(name: str, interval: Ends | None) -> list[exp.Expr]:
    low, high = _NO_ENDS if interval is None else (interval.low, interval.high)
    pairs = ((f"{LOW}{name}", low), (f"{HIGH}{name}", high))
    return [exp.alias_(exp.cast(end.copy(), "DOUBLE"), alias, quoted=True) for alias, end in pairs]


def _orders_all(select: exp.Select) -> bool:
    order = select.args.get("order")
    group = select.args.get("group")
    by_all = order is not None and any(isinstance(plain(o.this), exp.Var) for o in order.expressions)
    return by_all or (group is not None and bool(group.args.get("all")))


Source = tuple[str, AnswerColumns]


def _sources(select: exp.Select, names: Names, space: NodeAllowance) -> list[Source] | None:
    """What FROM holds, with its columns; None where those are not known."""
    holders = [select.args.get("from_"), *(select.args.get("joins") or [])]
    sources: list[Source] = []
    for node in (holder.this for holder in holders if holder is not None):
        columns = _rename_columns(_read(node, names, space), node.args.get("alias"))
        if columns is None:
            return None
        sources.append((fold(str(node.alias_or_name)), columns))
    return sources


def _read(node: exp.Expr, names: Names, space: NodeAllowance) -> AnswerColumns | None:
    """The columns of a table or a query in brackets, whose ends are added to it."""
    if node.args.get("pivots"):
        return None
    match node:
        case exp.Table(this=exp.Identifier()):
            return names.get(fold(str(node.name)))
        case exp.Subquery(this=exp.Query() as query):
            body, columns = annotate(query, names, space)
            node.set("this", body)
            return columns
    return None


def _given_names(alias: exp.Expr | None) -> list[str]:
    if not isinstance(alias, exp.TableAlias):
        return []
    return [str(column.name) for column in alias.args.get("columns") or []]


def _rename_columns(columns: AnswerColumns | None, alias: exp.Expr | None) -> AnswerColumns | None:
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


def _expand_star(select: exp.Select, sources: Sequence[Source]) -> bool:
    """SELECT * of one table, written out; False where it cannot be. (Ends of other tables would be in it.)"""
    if not any(isinstance(item, exp.Star) or item.is_star for item in select.expressions):
        return True
    if len(sources) != 1 or len(select.expressions) != 1:
        return False
    star = select.expressions[0]
    mark = star.this if isinstance(star, exp.Column) else star
    if not isinstance(mark, exp.Star) or any(mark.args.values()):
        return False
    names = [exp.column(column.name, quoted=True) for column in sources[0][1]]
    select.set("expressions", [exp.alias_(name, name.name, quoted=True) for name in names])
    return True


def _find_columns(sources: Sequence[Source]) -> dict[tuple[str, str], Noisy | None]:
    """What a column's name stands for, with its table's name and, where it is the only one, without."""
    lookup: dict[tuple[str, str], Noisy | None] = {}
    for table, columns in sources:
        for column in columns:
            name, noisy = fold(column.name), _noisy(table, column)
            lookup[table, name] = noisy
            lookup.setdefault(("", name), noisy)
    return lookup


def _noisy(table: str, column: AnswerColumn) -> Noisy | None:
    if column.reach is None:
        return None
    names = [end + column.name for end in (LOW, HIGH)]
    low, high = (exp.column(name, table=table or None, quoted=True) for name in names)
    return Noisy(low, high, column.reach, column.noise)


def _scalar(query: exp.Expr, names: Names, space: NodeAllowance) -> Noisy | None:
    """A query in brackets that is one number: its ends are two queries more. None where they do not
    follow."""
    inside = query.this if isinstance(query, exp.Subquery) else query
    body, columns = annotate(inside, names, space)
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
