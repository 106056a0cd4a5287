"""Subqueries in expressions that look around them: EXISTS (SELECT … WHERE o.person = p.id), x IN (…), a
value.

Why each is sound: an equality ties the subquery's unit to the row's, so what it says of a row is a function
of the rows of that row's own unit. It is computed for each unit (and other columns that are equated) once,
and joined to the row: at most one row is found, none is multiplied, and none is lost. Of a public table at
most one row is found because the equalities name the columns that identify its rows. Conditions that are no
equalities are met beside the unit's equality: `inequalities`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import expressions as exp

from deniable.sql.functions.choices import choice, first_present, largest
from deniable.sql.functions.conditions import absence, disjunction, equality, more
from deniable.sql.read.aggregates import aggregate, held, holding
from deniable.sql.read.expressions.translator import Translator
from deniable.sql.read.names import Field, Scope
from deniable.sql.read.relations.inequalities import Tie, beside
from deniable.sql.read.relations.joins import conjuncts, same_types, tied
from deniable.sql.read.relations.per_unit import grouped_for_each_unit, has_aggregate, plain
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import (
    Aggregate,
    Column,
    Expr,
    Literal,
    PerUnit,
    Project,
    Relation,
    Statistic,
    Tied,
)
from deniable.sql.types import BOOLEAN, INTEGER
from deniable.sql.types_relations import aggregate_type, asks, has_unit
from deniable.units import Unit

Rows = Callable[[exp.Select], Scope]
"""FROM, its joins and WHERE, of a SELECT."""
Names = Callable[[exp.Select], list[Scope]]
"""What stands between the commas of FROM."""

COUNTED = ((("n", Aggregate(Statistic.COUNT))),)
_ZERO, _ONE = Literal(0, INTEGER), Literal(1, INTEGER)


def _find_query(node: exp.Expr) -> exp.Expr:
    """The query of EXISTS (…), of x IN (…), or that is a value itself."""
    inside = node
    if isinstance(node, exp.In):
        inside = node.args["query"]
    elif isinstance(node, exp.Exists):
        inside = node.this
    return inside


def read_tied(node: exp.Expr, rows: Rows, names: Names, outer: Scope, unit: Unit) -> Expr | None:
    """What `node` means if it reads columns around it, or the same unit's rows by IN; else None."""
    select = _select(_find_query(node))
    if select is None:
        return None
    around = _looking_out(select, names, outer)
    member = None
    if isinstance(node, exp.In):
        member = _member(node, outer)
    if not around and member is None:
        return None
    inner = rows(_remove_conditions(select, around))
    ties, loose = _ties(around, inner, outer)
    subject = _Subquery(inner, select, ties, has_unit(outer.relation))
    if loose:
        subject = _add_loose_ties(subject, outer, loose, unit)
    if member is not None:
        is_meant = around or (inner.private and subject.is_tied(member))
        if is_meant:
            return subject.member(member)
        return None
    if isinstance(node, exp.Exists):
        return subject.exists()
    return subject.value()


def _select(node: exp.Expr) -> exp.Select | None:
    while isinstance(node, (exp.Subquery, exp.Paren)) and not node.args.get("with_"):
        node = node.this
    parts = ("order", "limit", "offset", "with_")
    if isinstance(node, exp.Select) and not any(node.args.get(part) for part in parts):
        return node
    return None


def _conditions(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return conjuncts(where and where.this)


def _looking_out(select: exp.Select, names: Names, outer: Scope) -> list[exp.Expr]:
    return [part for part in _conditions(select) if _looks_out(part, names(select), outer)]


def _looks_out(part: exp.Expr, here: list[Scope], outer: Scope) -> bool:
    """Whether a condition reads a column that only the query around has."""
    return any(
        not any(scope.named_by(column) for scope in here) and outer.named_by(column) is not None
        for column in part.find_all(exp.Column)
    )


def _remove_conditions(select: exp.Select, parts: list[exp.Expr]) -> exp.Select:
    """The same without some of its conditions."""
    rest = [part for part in _conditions(select) if not any(part is each for each in parts)]
    copy = select.copy()
    copy.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    return copy


def _ties(parts: list[exp.Expr], inner: Scope, outer: Scope) -> tuple[list[Tie], list[exp.Expr]]:
    """The equalities of columns among the conditions that look around, and the other conditions."""
    ties, loose = [], []
    for part in parts:
        tie = _tie(part, inner, outer)
        if tie is None:
            loose.append(part)
        else:
            ties.append(tie)
    return ties, loose


def _tie(part: exp.Expr, inner: Scope, outer: Scope) -> Tie | None:
    sides = (part.this, part.args["expression"]) if isinstance(part, exp.EQ) else (None, None)
    for here, there in (sides, sides[::-1]):
        if isinstance(here, exp.Column) and isinstance(there, exp.Column):
            mine, around = inner.named_by(here), outer.named_by(there)
            if mine is not None and around is not None and inner.named_by(there) is None:
                return Tie(around, mine)
    return None


def _add_loose_ties(subject: _Subquery, outer: Scope, loose: list[exp.Expr], unit: Unit) -> _Subquery:
    """The same, tied by equal columns alone."""
    if not subject.inner.private:
        refuse(
            "A subquery over public tables is tied to the row around it by equal columns only.",
            "Join the table, and put other conditions into WHERE.",
        )
    subject.check_ties(subject.ties)
    _check_depth(subject.inner.relation)
    if any(part.find(exp.Query) for part in loose):
        refuse("A subquery in an expression inside another one is not answered.", "Use a join.")
    inner, ties = beside(subject.inner, outer, subject.ties, loose, unit)
    return replace(subject, inner=inner, ties=ties)


def _member(node: exp.In, outer: Scope) -> Field | None:
    """x of x IN (SELECT …), where it is a column."""
    of = plain(node.this)
    if isinstance(of, exp.Column):
        return outer.named_by(of)
    return None


@dataclass(frozen=True)
class _Subquery:
    inner: Scope
    select: exp.Select
    ties: list[Tie]
    rows_have_unit: bool

    # ------------------------------------------------------------------------------------------- what it says

    def exists(self) -> Expr:
        if self.select.args.get("group") or any(has_aggregate(item) for item in self.select.expressions):
            refuse("EXISTS of an aggregate is not answered.", "Write EXISTS (SELECT 1 FROM … WHERE …).")
        return _is_not_zero(self._look_up(self.ties, COUNTED, Column("n", INTEGER)))

    def value(self) -> Expr:
        items = self.select.expressions
        if len(items) != 1 or self.select.args.get("group") or self.select.args.get("distinct"):
            refuse(
                "A subquery used as a value has one column, and no groups.",
                "Write (SELECT MAX(x) FROM … WHERE …).",
            )
        item = plain(items[0])
        if not self.inner.private and not has_aggregate(item):
            return self._public_value(item)
        aggregates: list[Aggregate] = []
        value = Translator(lambda node: self._leaf(node, aggregates))(item)
        return self._look_up(self.ties, tuple((f"a{i}", a) for i, a in enumerate(aggregates)), value)

    def _leaf(self, node: exp.Expr, made: list[Aggregate]) -> Expr | None:
        if isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
            made.append(holding(node, self.inner))
            return held(Column(f"a{len(made) - 1}", INTEGER))
        reading = aggregate(node, self.inner, inner=True)
        if reading is None:
            if isinstance(node, exp.Column):
                refuse(
                    f"The column {shown(str(node.name))} is not inside an aggregate, so that the subquery "
                    "may have several rows.",
                    "Write MAX(x) or MIN(x).",
                )
            return None
        if reading not in made:
            made.append(reading)
        column = Column(f"a{made.index(reading)}", aggregate_type(reading))
        counts = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS)
        if reading.statistic not in counts:
            return column
        return largest(first_present(INTEGER, column, _ZERO), _ZERO)

    def member(self, of: Field) -> Expr:
        """x IN (SELECT y …), NULL where SQL says so."""
        inner, values = self._values()
        tie = Tie(of, values)
        match = _is_not_zero(
            replace(self, inner=inner)._look_up([*self.ties, tie], COUNTED, Column("n", INTEGER))
        )
        if tied(of, values):
            return match
        rows = tuple(
            zip(
                ("n", "m"),
                (Aggregate(Statistic.COUNT), Aggregate(Statistic.COUNT, values.column)),
                strict=True,
            )
        )
        same = replace(self, inner=inner)
        number, value_count = (
            same._look_up(self.ties, rows, first_present(INTEGER, Column(name, INTEGER), _ZERO))
            for name in "nm"
        )
        if of.column is None:
            refuse(f"The unit of privacy {shown(of.name)} is compared only with the unit of the subquery.")
        unknown = disjunction(absence(of.column), more(number, value_count))
        no, null = Literal(False, BOOLEAN), Literal(None, BOOLEAN)
        none = equality(number, _ZERO)
        return choice(BOOLEAN, none, no, match, Literal(True, BOOLEAN), unknown, null, no)

    def is_tied(self, of: Field) -> bool:
        """Whether x and y of x IN (SELECT y …) are one unit's wherever they are equal."""
        items = self.select.expressions
        item = plain(items[0]) if len(items) == 1 else None
        field = None
        if isinstance(item, exp.Column):
            field = self.inner.named_by(item)
        return field is not None and tied(of, field)

    def _values(self) -> tuple[Scope, Field]:
        """The rows of the subquery, and its one column."""
        if len(self.select.expressions) != 1:
            refuse("IN expects a subquery of one column.", "Write x IN (SELECT y FROM … WHERE …).")
        item = plain(self.select.expressions[0])
        if self.select.args.get("group") or self.select.args.get("having"):
            self._check_groups()
            inner = grouped_for_each_unit(self.inner, self.select)
            return inner, inner.fields[0]
        if has_aggregate(item):
            refuse(
                "IN expects a subquery of one column without an aggregate.",
                "Write x = (SELECT MAX(y) FROM …).",
            )
        field = None
        if isinstance(item, exp.Column):
            field = self.inner.named_by(item)
        if field is not None:
            return self.inner, field
        refuse("IN expects a column after SELECT.", "Compute it in a subquery in FROM.")

    def _check_groups(self) -> None:
        """Groups are of all rows of a unit: what else is equated with the row around would divide them
        first."""
        if any(not (tie.outer.unit and tie.inner.unit) for tie in self.ties):
            refuse(
                "IN of a subquery that groups is tied to the row around it by the unit of privacy alone.",
                "Write x IN (SELECT y FROM … GROUP BY y), or join the tables.",
            )

    # ---------------------------------------------------------------------------------------- how it is found

    def _look_up(self, ties: list[Tie], made: tuple[tuple[str, Aggregate], ...], value: Expr) -> Expr:
        """`value` of aggregates over the rows that are tied to the row around."""
        _check_depth(self.inner.relation)
        names = [tie for tie in ties if not (tie.outer.unit and tie.inner.unit)]
        pairs = [same_types(tie.outer, tie.inner) for tie in names]
        if not self.inner.private:
            return self._public(pairs, value)
        self.check_ties(ties)
        keys = tuple((f"k{i}", there) for i, (_, there) in enumerate(pairs))
        on = tuple((here, f"k{i}") for i, (here, _) in enumerate(pairs))
        return Tied(PerUnit(self.inner.relation, keys, made), on, True, value, value.type)

    def check_ties(self, ties: list[Tie]) -> None:
        """One of them says that both are one unit's."""
        if self.rows_have_unit and any(tied(tie.outer, tie.inner) for tie in ties):
            return
        names_of = ", ".join(shown(name) for name in sorted(self.inner.private))
        refuse(
            "A subquery in an expression reads public tables, or rows of the same unit of privacy, and "
            f"nothing ties {names_of} to the unit of the row.",
            "Add an equality of their units to its WHERE, or ask about it by itself.",
        )

    def _public(self, pairs: list[tuple[Column, Column]], value: Expr) -> Expr:
        """Whether there is such a row, of which there is at most one."""
        on = self._check_unique_ties(pairs)
        if value != Column("n", INTEGER):
            refuse("An aggregate of a public table that looks around is not answered.", "Join the table.")
        side = Project(self.inner.relation, (*((there.name, there) for _, there in pairs), ("n", _ONE)))
        return Tied(side, on, False, value, value.type)

    def _public_value(self, item: exp.Expr) -> Expr:
        pairs = [same_types(tie.outer, tie.inner) for tie in self.ties]
        value = self.inner.rows(item)
        return Tied(self.inner.relation, self._check_unique_ties(pairs), False, value, value.type)

    def _check_unique_ties(self, pairs: list[tuple[Column, Column]]) -> tuple[tuple[Column, str], ...]:
        if not self.inner.unique or not self.inner.unique <= {there.name for _, there in pairs}:
            refuse(
                "A subquery that looks around reads a public table by the columns that identify its rows.",
                "Ask the owner to declare them as unique, and equate all of them.",
            )
        return tuple((here, there.name) for here, there in pairs)


def _is_not_zero(number: Expr) -> Expr:
    """Whether a number of rows, NULL for none, is not zero."""
    return more(first_present(INTEGER, number, _ZERO), _ZERO)


def _check_depth(relation: Relation) -> None:
    if asks(relation):
        refuse("A subquery in an expression inside another one is not answered.", "Use a join.")
