"""From text and schema to a checked query: the one door for an analyst's words.

Everything refused here is refused for a reason in the text or in the declared schema. What passes is a
tree of declared names, literals and allowed operators, in which every row belongs to one unit of privacy.

Units of several tables are compared as they are, so only where they have one type. Were a text compared
with a number, an engine would convert one of them: it fails where a text is no number, which is an error
that depends on data, and takes "1" and "01" for one person, which is twice the sensitivity.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, pairwise, product
from typing import NoReturn

from sqlglot import expressions as exp

from deniable.sql import deductions, functions, types
from deniable.sql.coercion import condition
from deniable.sql.functions.arithmetic import product_of, sum_of
from deniable.sql.functions.choices import choice
from deniable.sql.functions.conditions import absence
from deniable.sql.read.aggregates import aggregate, extreme_time, time_of
from deniable.sql.read.expressions.translator import Translator, as_key
from deniable.sql.read.names import NO_SUBQUERY, Scope, domain, fold, is_subquery, with_declared_fields
from deniable.sql.read.parse import PARTS, parse
from deniable.sql.read.relations.from_clause import Sources, rows_of
from deniable.sql.read.relations.per_unit import aliases, has_aggregate, meant, plain
from deniable.sql.refusals import refuse, shown
from deniable.sql.schema.declare import ColumnInfo, Schema
from deniable.sql.tree import (
    Aggregate,
    AggregateRef,
    Call,
    Expr,
    Key,
    KeyRef,
    Kind,
    Literal,
    Order,
    Output,
    Query,
    Relation,
    Scan,
)
from deniable.sql.types import INTEGER
from deniable.sql.types_relations import aggregate_type, hoisted, prune, read, scans, simplify
from deniable.units import Unit

MAX_KEYS = 16
MAX_SETS = 64
MAX_OUTPUTS = 256
MAX_LIMIT = 1_000_000


def check(text: str, schema: Schema, unit: Unit) -> Query:
    """The query that `text` asks, typed and resolved against `schema`.

    Raises InvalidQuery, with the way out, for whatever is not answered.

    >>> from deniable.sql.schema.declare import ColumnInfo, TableInfo
    >>> from deniable.sql.types import INTEGER
    >>> visits = TableInfo("visits", (ColumnInfo("days", INTEGER),))
    >>> query = check("SELECT COUNT(*) FROM visits WHERE days > 3", Schema((visits,)), Unit.row())
    >>> query.aggregates[0].statistic
    <Statistic.COUNT: 'count'>
    >>> check("SELECT days FROM visits", Schema((visits,)), Unit.row())
    Traceback (most recent call last):
    deniable.errors.InvalidQuery: The column "days" is neither grouped nor inside an aggregate. ...
    """
    return query_of(Sources(schema, unit), with_declared_fields(parse(text), schema))


def query_of(sources: Sources, tree: exp.Expr) -> Query:
    """The query that a tree of known nodes asks of these sources."""
    while isinstance(tree, exp.Subquery) and not tree.alias:
        sources, tree = sources.with_ctes(tree), tree.this
    if not isinstance(tree, exp.Select):
        refuse(
            "UNION ALL at the top of a query is not answered.", "Put it into FROM (…) and aggregate over it."
        )
    if tree.args.get("qualify"):
        refuse("QUALIFY is not answered.", PARTS["qualify"][1])
    sources = sources.with_ctes(tree)
    scope = rows_of(sources, tree)
    if not scope.private:
        refuse(
            "The query reads public tables only.",
            "There is nothing to protect in them: ask the database itself.",
        )
    query = _Answer(scope, tree).query()
    check_units(sources.schema, query)
    return deductions.marked(query, sources.schema)


@dataclass
class _Answer:
    """The SELECT at the top, read once: keys first, then outputs, which collect the aggregates they need."""

    scope: Scope
    select: exp.Select
    keys: list[Key] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    """For keys that GROUPING asks about, the key that marks the sets which group by them."""

    def query(self) -> Query:
        if len(self.select.expressions) > MAX_OUTPUTS:
            refuse(f"Expected at most {MAX_OUTPUTS} columns, got {len(self.select.expressions)}.")
        sets = self._sets()
        over = Translator(self._leaf, functions.POST)
        outputs = self._outputs(over)
        translator = Translator(self._alias_leaf, functions.POST)
        having = self.select.args.get("having")
        test = None
        if having is not None:
            test = condition(translator, having.this, "HAVING")
        order = tuple(self._order(translator, outputs))
        limit, offset = (_number(self.select.args.get(part), part) for part in ("limit", "offset"))
        relation, keys, aggregates = self._columns()
        marked_sets = tuple(self._with_marks(group) for group in sets)
        return Query(relation, keys, aggregates, tuple(outputs), marked_sets, test, order, limit, offset or 0)

    def _columns(self) -> tuple[Relation, tuple[Key, ...], tuple[Aggregate, ...]]:
        """The relation with the columns that are read and no others; subqueries in
        expressions are columns of it."""
        inputs: list[Expr | None] = [key.of for key in self.keys]
        inputs += [x for a in self.aggregates for x in (a.of, a.where)]
        relation, exprs = hoisted(self.scope.relation, inputs)
        many = len(self.keys)
        keys = (
            replace(key, of=of) for key, of in zip(self.keys, exprs[:many], strict=True) if of is not None
        )
        pairs = zip(exprs[many::2], exprs[many + 1 :: 2], strict=True)
        ours = (replace(a, of=of, where=where) for a, (of, where) in zip(self.aggregates, pairs, strict=True))
        relation, own_keys, own_aggregates = simplify(relation, tuple(keys), tuple(ours))
        inputs = [*(key.of for key in own_keys), *(x for a in own_aggregates for x in (a.of, a.where))]
        names = frozenset(name for expr in inputs for name in read(expr))
        return prune(relation, names), own_keys, own_aggregates

    @property
    def items(self) -> list[exp.Expr]:
        return [plain(item) for item in self.select.expressions]

    # -------------------------------------------------------------------------------------------- keys

    def _sets(self) -> tuple[tuple[int, ...], ...]:
        """GROUP BY as grouping sets; each element gives some sets, and together they give all
        combinations."""
        group, distinct = self.select.args.get("group"), self.select.args.get("distinct")
        values = [item for item in self.items if not has_aggregate(item)]
        if distinct and (group is not None or len(values) < len(self.items)):
            refuse("SELECT DISTINCT beside GROUP BY or aggregates is not answered.", "Leave DISTINCT out.")
        if distinct or _is_all(group):
            return (tuple(sorted({self._key(item) for item in values})),)
        parts = [self._element(element) for element in _elements(group)]
        grouping_sets = tuple(tuple(sorted(set(sum(choice, ())))) for choice in product(*parts))
        _check_sets(grouping_sets)
        return grouping_sets

    def _element(self, node: exp.Expr) -> list[tuple[int, ...]]:
        parts: list[tuple[int, ...]] = []
        if not isinstance(node, exp.Tuple):
            parts = [self._members(part) for part in node.expressions]
        match node:
            case exp.Rollup():
                return [sum(parts[:n], ()) for n in range(len(parts), -1, -1)]
            case exp.Cube():
                if len(parts) > 6:
                    refuse("Expected at most 6 columns in CUBE.")
                return [sum(c, ()) for n in range(len(parts), -1, -1) for c in combinations(parts, n)]
            case exp.GroupingSets():
                return [s for part in node.expressions for s in self._element(part)]
        return [self._members(node)]

    def _members(self, node: exp.Expr) -> tuple[int, ...]:
        inside = node.expressions if isinstance(node, exp.Tuple) else [node]
        return tuple(self._key(plain(element)) for element in inside)

    def _key(self, node: exp.Expr) -> int:
        node, name = self._name_group(node)
        if has_aggregate(node):
            refuse("GROUP BY an aggregate is not answered.", "Group by columns; use HAVING for aggregates.")
        if (
            isinstance(node, exp.Column)
            and not isinstance(node.this, exp.Star)
            and self.scope.find(node).unit
        ):
            refuse(
                f"The unit of privacy {shown(str(node.name))} cannot be a group: an answer would be about "
                "one person.",
                "Group by it in a subquery, and aggregate over that.",
            )
        expr = as_key(self._open_last(self.scope.rows(node)))
        exprs = [key.of for key in self.keys]
        if expr not in exprs:
            self._add_key(name, expr)
            return len(self.keys) - 1
        return exprs.index(expr)

    def _open_last(self, expr: Expr) -> Expr:
        """A number of a unit's rows as a key: the last of its values is "and more", so that whoever has more
        rows than count is in a group too."""
        field = next((f for f in self.scope.fields if f.capped and f.column == expr), None)
        if field is None or field.bounds.upper is None:
            return expr
        return Call("least", (expr, Literal(int(field.bounds.upper), INTEGER)), INTEGER)

    def _add_key(self, name: str, expr: Expr) -> None:
        values = domain(expr, self.scope)
        if expr.type.kind is Kind.FLOAT and values is None:
            refuse(
                "A float cannot be a group.",
                "Use floor(x), round(x, 1), bucket(x, [0, 10, 20]) or CAST(x AS DECIMAL(18, 2)); a // b "
                "divides whole numbers.",
            )
        if len(self.keys) >= MAX_KEYS:
            refuse(f"Expected at most {MAX_KEYS} group keys.")
        self.keys.append(Key(name or f"key{len(self.keys) + 1}", expr, values))

    def _name_group(self, node: exp.Expr) -> tuple[exp.Expr, str]:
        """What a group means, and the name it goes by."""
        node = meant(node, self.scope, self.select)
        names_by_node = {
            id(plain(item)): str(item.alias)
            for item in self.select.expressions
            if isinstance(item, exp.Alias)
        }
        name = names_by_node.get(id(node)) or ""
        if not name and isinstance(node, exp.Column):
            name = self.scope.find(node).name
        return node, name

    def _grouping(self, node: exp.Expr) -> Expr:
        """GROUPING(a, b): a binary digit for each, 1 where a row sums over it."""
        if not node.expressions:
            refuse("GROUPING expects what stands in GROUP BY.", "Write it as it stands there.")
        number, *digits = [self._is_total(self._find_grouping_key(plain(part))) for part in node.expressions]
        for digit in digits:
            number = sum_of(product_of(number, Literal(2, INTEGER)), digit)
        return number

    def _find_grouping_key(self, node: exp.Expr) -> int:
        key = self._as_key(meant(node, self.scope, self.select))
        if key is None:
            refuse("GROUPING expects what stands in GROUP BY.", "Write it as it stands there.")
        return key.index

    def _is_total(self, index: int) -> Expr:
        """A mark is a public key of one value, which the sets that group by `index` have: NULL elsewhere."""
        if index not in self.marks:
            self.marks[index] = len(self.keys)
            self.keys.append(Key(f"_grouping{index}", Literal(index, INTEGER), (index,)))
        mark = KeyRef(self.marks[index], INTEGER)
        return choice(INTEGER, absence(mark), Literal(1, INTEGER), Literal(0, INTEGER))

    def _with_marks(self, group: tuple[int, ...]) -> tuple[int, ...]:
        return (*group, *sorted(self.marks[i] for i in group if i in self.marks))

    # -------------------------------------------------------------------------------------------- outputs

    def _as_key(self, node: exp.Expr) -> KeyRef | None:
        row = self.scope.attempt(node) if self.keys else None
        row = None if row is None else as_key(self._open_last(row))
        for index, key in enumerate(self.keys):
            if key.of == row:
                return KeyRef(index, key.of.type)
        return None

    def _leaf(self, node: exp.Expr) -> Expr | None:
        if isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping(node)
        moment = extreme_time(node, self.scope)
        if moment is not None:
            return time_of(self._note_aggregate(moment[0]), moment[1])
        statistic = aggregate(node, self.scope)
        if statistic is not None:
            return self._note_aggregate(statistic)
        if isinstance(node, exp.Star):
            return self.scope.rows(node)
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean)):
            return None
        if has_aggregate(node) and not is_subquery(node):
            return None
        key = self._as_key(node)
        if key is not None:
            return key
        if is_subquery(node):
            refuse(NO_SUBQUERY, "Put it into WHERE or inside an aggregate, or join the table.")
        if isinstance(node, exp.Column):
            self._refuse_column(node)
        return None

    def _note_aggregate(self, statistic: Aggregate) -> AggregateRef:
        if statistic not in self.aggregates:
            self.aggregates.append(statistic)
        return AggregateRef(self.aggregates.index(statistic), aggregate_type(statistic))

    def _refuse_column(self, node: exp.Column) -> NoReturn:
        if self.scope.find(node).unit:
            refuse(
                f"The unit of privacy {shown(str(node.name))} is never released.",
                "Use COUNT(DISTINCT …).",
            )
        refuse(
            f"The column {shown(str(node.name))} is neither grouped nor inside an aggregate.",
            "Add it to GROUP BY, or aggregate it, such as AVG(x).",
        )

    def _alias_leaf(self, node: exp.Expr) -> Expr | None:
        """In HAVING and ORDER BY an alias of the answer comes first."""
        if (
            isinstance(node, exp.Column)
            and not node.table
            and (of := aliases(self.select).get(fold(str(node.name))))
        ):
            return Translator(self._leaf, functions.POST)(of)
        return self._leaf(node)

    def _outputs(self, over: Translator) -> list[Output]:
        outputs: list[Output] = []
        for item in self.select.expressions:
            expr = over(plain(item))
            name = str(item.alias) if isinstance(item, exp.Alias) else self._name(expr, len(outputs))
            outputs.append(Output(_unlike(name, {fold(output.name) for output in outputs}), expr))
        if not outputs:
            refuse("The query has no columns.", "Name some after SELECT.")
        if not self.aggregates and not self.keys:
            refuse("The query has no aggregate and no group.", "Use COUNT(*), SUM(x), … or GROUP BY.")
        return outputs

    def _name(self, expr: Expr, index: int) -> str:
        if isinstance(expr, KeyRef):
            return self.keys[expr.index].name
        if isinstance(expr, AggregateRef):
            entry = self.aggregates[expr.index]
            read_from = list(dict.fromkeys(read(entry.of)))
            return "_".join([entry.statistic.replace(" ", "_"), *(read_from if len(read_from) == 1 else [])])
        return f"column{index + 1}"

    def _order(self, over: Translator, outputs: list[Output]) -> list[Order]:
        orders, order = [], self.select.args.get("order")
        for term in order.expressions if order is not None else ():
            node = plain(term.this)
            if isinstance(node, exp.Var):
                orders += [Order(output.of, bool(term.args.get("desc"))) for output in outputs]
                continue
            by = outputs[_place(node, len(outputs))].of if _is_number(node) else over(node)
            if not isinstance(by, Literal):
                orders.append(Order(by, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
        return orders


def _unlike(name: str, names: Set[str]) -> str:
    """A name that is not among others: n, n_2, n_3."""
    unique, i = name, 2
    while fold(unique) in names:
        unique, i = f"{name}_{i}", i + 1
    return unique


def _is_all(group: exp.Expr | None) -> bool:
    """GROUP BY ALL: by every item that is no aggregate."""
    return group is not None and bool(group.args.get("all"))


def _check_sets(grouping_sets: tuple[tuple[int, ...], ...]) -> None:
    if len(grouping_sets) > MAX_SETS:
        refuse(f"Expected at most {MAX_SETS} grouping sets, got {len(grouping_sets)}.")
    if len(set(grouping_sets)) < len(grouping_sets):
        refuse(
            "GROUP BY lists a grouping set twice, so every row of it would come twice.",
            "Write each set once in GROUPING SETS, and no column twice in ROLLUP or CUBE.",
        )


def _elements(group: exp.Expr | None) -> list[exp.Expr]:
    """What stands after GROUP BY: expressions first, then the forms that give several sets."""
    if group is None:
        return []
    forms = [group.args.get(part) or [] for part in ("grouping_sets", "cube", "rollup")]
    return [*group.expressions, *chain.from_iterable(forms)]


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _place(node: exp.Expr, count: int) -> int:
    text = str(node.this)
    at = 0
    if text.isdecimal() and len(text) < 6:
        at = int(text)
    if not 1 <= at <= count:
        refuse(f"Expected the position of one of {count} columns, got {shown(text)}.")
    return at - 1


def _number(node: exp.Expr | None, part: str) -> int | None:
    if node is None:
        return None
    place = "count" if isinstance(node, exp.Fetch) else "expression"
    literal = node.args.get(place)
    text = ""
    if literal is not None and _is_number(literal):
        text = str(literal.this)
    if not text.isdecimal() or len(text) > 9 or int(text) > MAX_LIMIT:
        refuse(f"{part.upper()} expects a whole number up to {MAX_LIMIT:,}, written as a literal.")
    return int(text)


# ------------------------------------------------------------------------------- units of one type

_WAY_OUT = "Ask the owner to declare one type for both."


def check_units(schema: Schema, query: Query) -> None:
    """Refuse a query that compares units, or keys on the way to them, of different types."""
    ends: dict[str, ColumnInfo] = {}
    for scan in dict.fromkeys(scans(query)):
        if scan.unit is not None:
            table = _end_of_path(schema, scan)
            ends[table] = _column(schema, table, scan.unit)
    for (table, a), (other, b) in pairwise(ends.items()):
        if not _have_one_type(a, b):
            refuse(
                f"The units of privacy {shown(table)}.{shown(a.name)} and {shown(other)}.{shown(b.name)} "
                f"have different types: {types.name(a.type)} and {types.name(b.type)}.",
                _WAY_OUT,
            )


def _end_of_path(schema: Schema, scan: Scan) -> str:
    """The table that holds the unit; every step to it is between columns of one type."""
    here = scan.table
    for name, there, other in scan.path:
        mine, its = _column(schema, here, name), _column(schema, there, other)
        if not _have_one_type(mine, its):
            refuse(
                f"The step {shown(here)}.{shown(name)} to {shown(there)}.{shown(other)} on the way to the "
                f"unit of privacy is between different types: {types.name(mine.type)} and "
                f"{types.name(its.type)}.",
                _WAY_OUT,
            )
        here = there
    return here


def _column(schema: Schema, table: str, name: str) -> ColumnInfo:
    info = schema.table(table)
    column = None if info is None else info.column(name)
    if column is None:
        refuse(
            f"The table {shown(table)} does not declare the column {shown(name)}.",
            "Ask the owner to declare it.",
        )
    return column


def _have_one_type(a: ColumnInfo, b: ColumnInfo) -> bool:
    return (a.type.kind, a.type.scale) == (b.type.kind, b.type.scale)
