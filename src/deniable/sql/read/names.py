"""Names and what they stand for: the columns in sight of an expression, with their bounds and public values.

Names resolve against the owner's schema only, and as DuckDB does without regard to the case of ASCII letters;
no other letters are folded, so a look-alike is an unknown name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import product

from sqlglot import expressions as exp

from deniable.errors import InvalidQuery
from deniable.sql import types
from deniable.sql.deductions import interval
from deniable.sql.functions import FUNCTIONS
from deniable.sql.functions.conditions import absence
from deniable.sql.functions.function import Inexact, Values
from deniable.sql.intervals import EVERYTHING, Interval
from deniable.sql.read import hints
from deniable.sql.read.expressions.translator import Translator, decimal_places
from deniable.sql.refusals import refuse, shown
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import Call, Column, Expr, Kind, Literal, Relation, Value

MAX_DOMAIN = 1_000
MAX_EVALUATED = 2_000
"""How often an operation is evaluated to know its values."""
NO_SUBQUERY = "A subquery is not answered in this place."
Lookup = Callable[[exp.Expr, "Scope"], Expr]
_FOLD = {ord(c): ord(c.lower()) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def fold(name: str) -> str:
    return name.translate(_FOLD)


def is_subquery(node: exp.Expr) -> bool:
    """In an expression: (SELECT …), EXISTS (SELECT …), x IN (SELECT …)."""
    return isinstance(node, (exp.Query, exp.Exists)) or node.args.get("query") is not None


@dataclass(frozen=True)
class Field:
    """A name in sight. `unit`: it is the unit of privacy; `column` is None where only the relation's `_unit`
    holds it. `hidden`: found only by its qualified name (the right side of USING). `key`: the declared table
    and column that its values name, on the way to the unit; `identifies`: it is that column itself.
    `presence`: of a unit without a column, one that is NULL where an outer join found no row of its side.
    `capped`: its upper bound is what the rows of a unit that count give, and values may lie above it."""

    name: str
    table: str
    column: Column | None
    bounds: Interval = EVERYTHING
    domain: tuple[Value, ...] | None = None
    unit: bool = False
    hidden: bool = False
    key: tuple[str, str] | None = None
    identifies: bool = False
    presence: Column | None = None
    capped: bool = False


@dataclass(frozen=True)
class Scope:
    """A relation with the names of its columns. `private` are the private tables it reads; `unique` the
    columns of a public relation that together identify a row of it. `lookup` gives meaning to a subquery in
    an expression, and `inside` says that this is one."""

    relation: Relation
    fields: tuple[Field, ...]
    private: frozenset[str] = frozenset()
    unique: frozenset[str] = frozenset()
    lookup: Lookup | None = field(default=None, compare=False, repr=False)
    inside: bool = False

    def find(self, node: exp.Column) -> Field:
        if isinstance(node.this, exp.Star):
            refuse(
                "SELECT * is not answered.",
                "Rows never leave: aggregate them, such as COUNT(*) or AVG(x); in a subquery name the "
                "columns.",
            )
        name = str(node.name)
        fields = self._find_fields(name, str(node.table))
        if not fields:
            around = ""
            if self.inside:
                around = "A subquery in an expression does not see the columns around it. "
            hint = hints.of_column(node, self._names()) + self._of_field(node)
            refuse(f"There is no column {shown(name)} here.", f"{around}{hint}")
        if len(fields) > 1 and not all(f.unit for f in fields):
            refuse(f"The column {shown(name)} is ambiguous.", "Write the table's name before it.")
        return fields[0]

    def _of_field(self, node: exp.Column) -> str:
        """What to do where a.b names no column of a table a: it may be meant as a field of a struct."""
        if not node.table or any(fold(f.table) == fold(str(node.table)) for f in self.fields):
            return ""
        return " " + hints.of_struct_field(f"{node.table}.{node.name}")

    def _names(self) -> set[str]:
        return {f.name for f in self.fields}

    def named_by(self, node: exp.Column) -> Field | None:
        """The field that a column names; None where it names none here, or several."""
        fields = self._find_fields(str(node.name), str(node.table))
        if len(fields) == 1 or (fields and all(f.unit for f in fields)):
            return fields[0]
        return None

    def visible(self, table: str) -> list[Field]:
        """What * stands for, or table.*."""
        fields = [f for f in self.fields if not table or fold(f.table) == fold(table)]
        if table and not fields:
            refuse(f"There is no table {shown(table)} here.")
        return [f for f in fields if (table or not f.hidden) and not f.name.startswith("_")]

    def _find_fields(self, name: str, table: str) -> list[Field]:
        fields = [f for f in self.fields if fold(f.name) == fold(name)]
        if table:
            return [f for f in fields if fold(f.table) == fold(table)]
        return [f for f in fields if not f.hidden]

    def bounds(self, column: Column) -> Interval:
        return next((f.bounds for f in self.fields if f.column == column), EVERYTHING)

    def interval(self, expr: Expr) -> Interval:
        return interval(expr, self.bounds)

    @property
    def rows(self) -> Translator:
        """The meaning of an expression that is computed for each row."""
        return Translator(self._leaf)

    def attempt(self, node: exp.Expr) -> Expr | None:
        """A group key is found by its whole expression. What has no meaning as one is
        refused where its parts are read."""
        try:
            return self.rows(node)
        except InvalidQuery:
            return None

    def _leaf(self, node: exp.Expr) -> Expr | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Is) and (missing := self._missing(node)) is not None:
            return missing
        if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
            refuse(
                "An aggregate stands here inside a condition or another aggregate.",
                "Use HAVING, or a subquery.",
            )
        if is_subquery(node):
            if self.lookup is None:
                refuse(NO_SUBQUERY, "Put it into WHERE, or join the table.")
            return self.lookup(node, self)
        if isinstance(node, exp.Star):
            refuse(
                "SELECT * is not answered.",
                "Rows never leave: aggregate them, such as COUNT(*) or AVG(x); in a subquery name the "
                "columns.",
            )
        return None

    def _missing(self, node: exp.Is) -> Expr | None:
        """unit IS NULL, where the unit has no column: of the row's own unit never, else where its side has no
        row."""
        if not isinstance(node.expression, exp.Null) or not isinstance(node.this, exp.Column):
            return None
        field = self.named_by(node.this)
        if field is None or field.column is not None:
            return None
        if field.unit:
            return Literal(False, types.BOOLEAN)
        if field.presence is None:
            return None
        return absence(field.presence)

    def _column(self, node: exp.Column) -> Expr:
        field = self.find(node)
        if field.column is None:
            refuse(
                f"The unit of privacy {shown(field.name)} cannot be used here.",
                "Use it to join, in COUNT(DISTINCT …), or to group a subquery.",
            )
        return field.column

    def named(self, table: str, names: list[str]) -> Scope:
        """The same under another name: FROM … AS table (names…)."""
        if len(names) > len(self.fields):
            refuse(f"{shown(table)} has {len(self.fields)} columns, but {len(names)} names are given.")
        all_names = names + [f.name for f in self.fields[len(names) :]]
        fields = (
            replace(f, name=n, table=table, hidden=False) for f, n in zip(self.fields, all_names, strict=True)
        )
        return replace(self, fields=tuple(fields))


def domain(expr: Expr, scope: Scope) -> Values | None:
    """The public list of values that an expression takes, if the schema or its own form gives one."""
    match expr:
        case Column():
            values = _find_declared_values(expr, scope)
            if values is None:
                return _by_type(expr, scope)
            return values
        case Literal():
            return (expr.value,)
        case Call(op=op):
            rule = FUNCTIONS[op].keys.domain
            if rule is not None:
                return rule(expr, lambda part: domain(part, scope))
            return _keep_values_taken(_by_type(expr, scope), expr, scope)
    return _by_type(expr, scope)


def _keep_values_taken(values: Values | None, call: Call, scope: Scope) -> Values | None:
    """Those of the values between a call's bounds that it takes: of floor(age / 10) * 10 on 0 … 100
    eleven."""
    if values is None or call.type.kind is Kind.BOOLEAN:
        return values
    computed_values = _evaluate_call(call, scope)
    if computed_values is None:
        return values
    return tuple(value for value in values if value is None or value in computed_values)


def _evaluate_call(call: Call, scope: Scope) -> frozenset[Value] | None:
    """All values of a call, by evaluation, where those of its arguments are few, and engines agree on it."""
    exact = FUNCTIONS[call.op].keys.exact
    domains = [_list_values(arg, scope) for arg in call.args]
    known_domains = [each for each in domains if each is not None]
    if exact is None or len(known_domains) < len(domains):
        return None
    if math.prod(map(len, known_domains)) > MAX_EVALUATED:
        return None
    try:
        return frozenset(exact(call, values) for values in product(*known_domains))
    except Inexact:
        return None


def _list_values(expr: Expr, scope: Scope) -> Collection[Value] | None:
    """A list that holds every value of an expression, by its type and bounds or by evaluation. Not by the
    declared values of a column: a row may have another one."""
    if isinstance(expr, Literal):
        return (expr.value,)
    computed_values = _evaluate_call(expr, scope) if isinstance(expr, Call) else None
    if computed_values is not None:
        return computed_values
    if expr.type.kind is not Kind.FLOAT or decimal_places(expr) != 0:
        return _by_type(expr, scope)
    numbers = _whole_numbers(scope.interval(expr), 1)
    return None if numbers is None else (*map(float, numbers), None)


def _find_declared_values(column: Column, scope: Scope) -> Values | None:
    return next((f.domain for f in scope.fields if f.column == column), None)


def _by_type(expr: Expr, scope: Scope) -> Values | None:
    """Booleans, and whole numbers with few values between their bounds. NULL is a key like any other."""
    if expr.type.kind is Kind.BOOLEAN:
        return (False, True, None)
    if expr.type.kind not in types.WHOLE:
        return None
    numbers = _whole_numbers(scope.interval(expr), 10**expr.type.scale)
    if numbers is None:
        return None
    if expr.type.kind is Kind.INTEGER:
        return (*numbers, None)
    return (*(Decimal(n).scaleb(-expr.type.scale) for n in numbers), None)


def _whole_numbers(between: Interval, unit: int) -> range | None:
    """The multiples of 1 / unit in an interval, where they are few."""
    if between.bounds is None:
        return None
    low, high = -(-between.bounds[0] * unit // 1), between.bounds[1] * unit // 1
    if high - low >= MAX_DOMAIN:
        return None
    return range(int(low), int(high) + 1)


# ---------------------------------------------------------------------------- fields of struct columns

_STEPS = (exp.Dot, exp.Bracket, exp.StructExtract)


def with_declared_fields(tree: exp.Expr, schema: Schema) -> exp.Expr:
    """The same query with declared fields as columns, each under the last part of its name where it is
    selected.

    >>> import sqlglot
    >>> from deniable.sql.schema.declare import ColumnInfo, TableInfo
    >>> from deniable.sql.types import TEXT
    >>> schema = Schema((TableInfo("visits", (ColumnInfo("address.city", TEXT),)),))
    >>> text = "SELECT v.address.city FROM visits AS v WHERE (address).city <> 'x'"
    >>> print(with_declared_fields(sqlglot.parse_one(text, read="duckdb"), schema).sql())
    SELECT "v"."address.city" AS "city" FROM visits AS v WHERE "address.city" <> 'x'
    """
    paths = _declared_fields(tree, schema)
    for node in list(tree.find_all(exp.Column, *_STEPS)):
        parts = [] if _is_inside(node) else _parts(node)
        column = None
        if len(parts) > 1:
            column = _resolve_path(node, parts, paths)
        if column is None and parts and isinstance(node, _STEPS):
            name = ".".join(parts)
            refuse(f"There is no column {shown(name)} here.", hints.of_struct_field(name))
        if column is None:
            continue
        # As engines name it; the name that is declared would need quotes.
        is_item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        node.replace(exp.alias_(column, parts[-1], quoted=True) if is_item else column)
    return tree


def _declared_fields(tree: exp.Expr, schema: Schema) -> dict[str, str]:
    """The fields that are declared of tables which the query names, by folded name."""
    tables = {fold(str(table.name)) for table in tree.find_all(exp.Table)}
    return {
        fold(column.name): column.name
        for table in schema.tables
        if fold(table.name) in tables
        for column in table.columns
        if "." in column.name
    }


def _is_inside(node: exp.Expr) -> bool:
    """A part of a longer name."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return isinstance(above, _STEPS) and _parts(above) != []


def _parts(node: exp.Expr) -> list[str]:
    """The names that are written one after another; none where something else is written."""
    match node:
        case exp.Column():
            if isinstance(node.this, exp.Star):
                return []
            return [str(part.name) for part in node.parts]
        case exp.Paren():
            return _parts(node.this)
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return _longer(node.this, node.expression)
        case exp.StructExtract() if node.expression.is_string:
            return _longer(node.this, node.expression)
        case exp.Bracket() if len(node.expressions) == 1 and node.expressions[0].is_string:
            return _longer(node.this, node.expressions[0])
    return []


def _longer(base: exp.Expr, step: exp.Expr) -> list[str]:
    before = _parts(base)
    if before:
        return [*before, str(step.name)]
    return []


def _resolve_path(node: exp.Expr, parts: list[str], declared: dict[str, str]) -> exp.Column | None:
    name, rest = (declared.get(fold(".".join(each))) for each in (parts, parts[1:]))
    is_qualified = fold(parts[0]) in _in_sight(node)
    if name is not None and is_qualified:
        refuse(
            f"{shown('.'.join(parts))} may be a field of the column {shown(parts[0])}, or a column of the "
            "table of that name.",
            f"Give the table another name, like FROM {parts[0]} AS t.",
        )
    if name is not None:
        return exp.column(exp.to_identifier(name, quoted=True))
    if rest is not None and is_qualified and len(parts) > 2:
        return exp.column(
            exp.to_identifier(rest, quoted=True), table=exp.to_identifier(parts[0], quoted=True)
        )
    return None


def _in_sight(node: exp.Expr) -> set[str]:
    """The names of tables here and around, folded."""
    names: set[str] = set()
    select = node.find_ancestor(exp.Select)
    while select is not None:
        sources = [select.args.get("from_"), *(select.args.get("joins") or [])]
        names |= {fold(str(source.this.alias_or_name)) for source in sources if source is not None}
        select = select.find_ancestor(exp.Select)
    return names
