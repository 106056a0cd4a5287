"""Rows beside every value of a list that the query writes out: who was in the house on each of 14 days.

    FROM generate_series(DATE '2026-01-01', DATE '2026-01-14', INTERVAL 1 DAY) AS g(d)
    JOIN stays ON admitted <= d AND discharged > d

That is the UNION ALL, over the values of the list, of the private rows with that value as a column. So
nothing is to be proved beside UNION ALL (`from_clause`): each row of the result belongs to the unit of one
private row, and the bound on a unit's rows is on those of the result. As there, a unit that is a row is
refused."""

from __future__ import annotations

from dataclasses import replace

from deniable.sql.read.names import Scope
from deniable.sql.read.relations.joins import MAX_READINGS, Meeting
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Column, Expr, JoinKind, Listed, Literal, Project, Relation, Union
from deniable.sql.types_relations import columns, readings
from deniable.units import Unit, UnitKind

_Row = dict[str, Expr]


def crossed(meeting: Meeting, unit: Unit) -> Scope | None:
    """Every private row beside every listed one; None where equalities join the two, where neither is a list,
    and where private rows without a match are to stay."""
    left, right, kind = meeting.left, meeting.right, meeting.kind
    if not left.private:
        left, right = right, left
        kind = {JoinKind.LEFT: JoinKind.RIGHT, JoinKind.RIGHT: JoinKind.LEFT}.get(kind, kind)
    rows = _listed_rows(right.relation)
    if meeting.pairs or rows is None or not left.private or kind in (JoinKind.LEFT, JoinKind.FULL):
        return None
    _check(left.relation, len(rows), unit)
    own: tuple[tuple[str, Expr], ...] = tuple((column.name, column) for column in columns(left.relation))
    parts = (Project(left.relation, (*own, *row.items())) for row in rows)
    # A key that named one row names as many as the list has.
    fields = (replace(field, key=None, identifies=False) for field in left.fields)
    return Scope(Union(tuple(parts)), (*fields, *right.fields), left.private)


def _check(relation: Relation, many: int, unit: Unit) -> None:
    if unit.kind is UnitKind.ROW:
        refuse(
            "A list is joined by an equality where the unit of privacy is a row: one row would become many.",
            "Use JOIN … ON a.x = b.x.",
        )
    if readings(relation) * many > MAX_READINGS:
        refuse(
            f"A join without an equality reads its table once for each of {many:,} listed values, and tables "
            f"are read at most {MAX_READINGS} times in one query.",
            "Take fewer values or longer steps.",
        )


def _listed_rows(relation: Relation) -> list[_Row] | None:
    """The rows of a list, each column as what it is there."""
    match relation:
        case Listed(column, values):
            return [{column.name: Literal(value, column.type)} for value in values]
        case Project(of, items):
            rows = _listed_rows(of)
            if rows is not None:
                return [{name: _fill_in(expr, row) for name, expr in items} for row in rows]
    return None


def _fill_in(expr: Expr, row: _Row) -> Expr:
    match expr:
        case Column(name=name):
            return row[name]
        case Call(args=args):
            return replace(expr, args=tuple(_fill_in(arg, row) for arg in args))
    return expr
