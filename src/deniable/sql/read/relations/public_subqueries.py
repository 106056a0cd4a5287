"""Subqueries in expressions: they read public tables only, so each is one value, or one
list of values, for all rows.

Nothing about a person can depend on it, and none can fail: what is used as a value is an aggregate without
groups, which has one row whatever the tables hold.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import expressions as exp

from deniable.sql.coercion import meet
from deniable.sql.functions.conditions import more
from deniable.sql.read.aggregates import aggregate
from deniable.sql.read.expressions.translator import Translator
from deniable.sql.read.names import Scope
from deniable.sql.read.relations.per_unit import has_aggregate, plain
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Aggregate, Among, Column, Expr, Literal, Project, Scalar, Statistic
from deniable.sql.types import BOOLEAN, INTEGER
from deniable.sql.types_relations import aggregate_type, asks, prune, read

Rows = Callable[[exp.Select], Scope]
"""FROM, its joins and WHERE, of a SELECT."""


def read_public(node: exp.Expr, rows: Rows, outer: Translator) -> Expr:
    """What `node` means: EXISTS (…), x IN (…), or a value."""
    if isinstance(node, exp.Exists):
        return _exists(_select(node.this), rows)
    if isinstance(node, exp.In):
        return _read_in(outer(node.this), _select(node.args["query"]), rows)
    return _scalar(_select(node), rows)


def _select(node: exp.Expr) -> exp.Select:
    """The one SELECT that the brackets hold, without what would leave rows out by their order."""
    while isinstance(node, exp.Subquery) and not node.args.get("with_"):
        node = node.this
    if not isinstance(node, exp.Select):
        refuse(
            "A subquery in an expression is one SELECT.",
            "Name its parts by WITH before the query, or join them.",
        )
    for part in ("order", "limit", "offset", "group", "having"):
        if node.args.get(part):
            clause = {"order": "ORDER BY", "group": "GROUP BY"}.get(part, part.upper())
            refuse(
                f"{clause} in a subquery in an expression is not answered.",
                "Use an aggregate, IN or a join; the first row of each person is WHERE r = 1 over a "
                "subquery in FROM with "
                "ROW_NUMBER() OVER (PARTITION BY person ORDER BY day) AS r.",
            )
    return node


def _public(rows: Rows, select: exp.Select) -> Scope:
    scope = rows(select)
    if asks(scope.relation):
        refuse("A subquery in an expression inside another one is not answered.", "Use a join.")
    if scope.private:
        names = ", ".join(shown(name) for name in sorted(scope.private))
        refuse(
            "A subquery in an expression reads public tables, or rows of the same unit of privacy, and "
            f"nothing ties {names} to the unit of the row.",
            "Add an equality of their units to its WHERE, or ask about it by itself.",
        )
    return scope


def _exists(select: exp.Select, rows: Rows) -> Expr:
    if any(has_aggregate(item) for item in select.expressions):
        refuse("EXISTS of an aggregate is always true.", "Write EXISTS (SELECT 1 FROM … WHERE …).")
    scope = _public(rows, select)
    count = Column("a0", INTEGER)
    some = more(count, Literal(0, INTEGER))
    return Scalar(prune(scope.relation, frozenset()), (("a0", Aggregate(Statistic.COUNT)),), some, BOOLEAN)


def _read_in(x: Expr, select: exp.Select, rows: Rows) -> Expr:
    if len(select.expressions) != 1 or has_aggregate(select.expressions[0]):
        refuse("IN expects a subquery of one column.", "Write x IN (SELECT y FROM … WHERE …).")
    if asks(x):
        refuse("IN of what is itself read by a subquery is not answered.", "Join the table.")
    scope = _public(rows, select)
    (x, value), to = meet([x, scope.rows(plain(select.expressions[0]))], "IN")
    relation = Project(prune(scope.relation, frozenset(read(value))), (("c0", value),))
    return Among(x, relation, Column("c0", to))


def _scalar(select: exp.Select, rows: Rows) -> Expr:
    items = select.expressions
    if len(items) != 1 or not has_aggregate(items[0]) or select.args.get("distinct"):
        refuse(
            "A subquery used as a value is one aggregate of a public table, so that it always has one row.",
            "Write (SELECT MAX(x) FROM …), or use IN or a join.",
        )
    scope, aggregates = _public(rows, select), list[Aggregate]()

    def leaf(node: exp.Expr) -> Expr | None:
        reading = aggregate(node, scope, inner=True)
        if reading is not None:
            if reading not in aggregates:
                aggregates.append(reading)
            return Column(f"a{aggregates.index(reading)}", aggregate_type(reading))
        if isinstance(node, exp.Column):
            refuse(
                f"The column {shown(str(node.name))} is not inside an aggregate.", "Write MAX(x) or MIN(x)."
            )
        return None

    value = Translator(leaf)(plain(items[0]))
    names = frozenset(name for a in aggregates for x in (a.of, a.where) for name in read(x))
    return Scalar(
        prune(scope.relation, names), tuple((f"a{i}", a) for i, a in enumerate(aggregates)), value, value.type
    )
