"""Subqueries that look around by more than equal columns: another visit of the same person, within 30 days.

    EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.day > v.day AND w.day <= v.day +
    30)

The columns of the row around that such conditions read are listed, for each unit once, and joined on the unit
to the rows of the subquery; the conditions then filter rows that stand beside one another. What is left is a
subquery tied by equal columns again: by the unit and by the listed columns.

Why that is sound: the list is grouped by the unit and the join is on the unit, so each row of the result is a
function of the rows of one unit. Without an equality of units nothing of this is done. People who would make
too many rows of the join are left out of it (`join_sizes`): for them there is no such row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import expressions as exp

from deniable.sql.coercion import condition
from deniable.sql.functions import FUNCTIONS
from deniable.sql.functions.function import Connective
from deniable.sql.read.names import Field, Scope
from deniable.sql.read.relations.joins import Meeting, apart, same_types
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Column, Expr, Filter, PerUnit
from deniable.units import Unit


@dataclass(frozen=True)
class Tie:
    """A column of the row around that equals one of the subquery."""

    outer: Field
    inner: Field


def beside(
    inner: Scope, outer: Scope, ties: list[Tie], loose: list[exp.Expr], unit: Unit
) -> tuple[Scope, list[Tie]]:
    """The rows of the subquery beside the columns around it that it reads, where the `loose` conditions hold;
    and the equalities that tie those to the row around."""
    around = _read_around(inner, outer, loose)
    tied_fields = [tie.outer for tie in ties if not (tie.outer.unit and tie.inner.unit)]
    outer_fields = list(dict.fromkeys([*around.values(), *tied_fields]))
    left = _list_combinations(outer, outer_fields)
    columns = dict(zip(outer_fields, left.fields, strict=False))
    right = apart(inner, left)
    places = dict(zip(inner.fields, right.fields, strict=True))
    pairs = [(columns.get(tie.outer, left.fields[-1]), places[tie.inner]) for tie in ties]
    scope = Meeting(left, right, pairs).joined(unit)
    for part in loose:
        scope = _filter_rows(scope, _rename_columns(part, around, columns), list(around.values()), columns)
    fields = [f for f in scope.fields if f not in left.fields]
    ours = [Tie(origin, column) for origin, column in columns.items()]
    same_unit = Field("", "", None, unit=True)
    return replace(scope, fields=tuple(fields)), [*ours, Tie(same_unit, same_unit)]


def _read_around(inner: Scope, outer: Scope, parts: list[exp.Expr]) -> dict[exp.Column, Field]:
    """The columns of the row around that conditions read."""
    around: dict[exp.Column, Field] = {}
    for column in (c for part in parts for c in part.find_all(exp.Column)):
        field = None
        if inner.named_by(column) is None:
            field = outer.named_by(column)
        if field is None:
            continue
        if field.column is None:
            refuse(
                f"The unit of privacy {shown(field.name)} is compared only with the unit of the subquery.",
                "Write an equality of both.",
            )
        around[column] = field
    return around


def _list_combinations(outer: Scope, fields: list[Field]) -> Scope:
    """Each combination of these columns of a unit once, and the unit."""
    keys, ours = [], []
    for i, field in enumerate(fields):
        column, _ = same_types(field, field)
        keys.append((f"_o{i}", column))
        ours.append(
            replace(field, name=f"_o{i}", table="", column=Column(f"_o{i}", column.type), hidden=False)
        )
    relation = PerUnit(outer.relation, tuple(keys), ())
    return Scope(relation, (*ours, Field("_unit", "", None, unit=True, hidden=True)), outer.private)


def _rename_columns(part: exp.Expr, around: dict[exp.Column, Field], columns: dict[Field, Field]) -> exp.Expr:
    clone = part.copy()
    for column in list(clone.find_all(exp.Column)):
        if column in around:
            name = exp.column(columns[around[column]].name, quoted=True)
            if column is clone:
                return name
            column.replace(name)
    return clone


def _filter_rows(scope: Scope, part: exp.Expr, around: list[Field], columns: dict[Field, Field]) -> Scope:
    test = condition(scope.rows, part, "WHERE")
    for field in around:
        column = columns[field].column
        if column is not None and _reads(test, column) and not _untrue(test, column):
            refuse(
                f"A condition of the subquery may hold where {shown(field.name)} of the row around it is "
                "NULL.",
                f"Compare {shown(field.name)} by <, <=, >, >= or <> alone, and say what is to be of NULL "
                "outside of the subquery.",
            )
    return replace(scope, relation=Filter(scope.relation, test))


def _reads(expr: Expr, column: Column) -> bool:
    return expr == column or (isinstance(expr, Call) and any(_reads(arg, column) for arg in expr.args))


def _untrue(expr: Expr, column: Column) -> bool:
    """Whether a condition does not hold where the column is NULL: an equality, by which the row around finds
    what belongs to it, does not either."""
    connective = FUNCTIONS[expr.op].laws.connective if isinstance(expr, Call) else None
    if connective is not None and isinstance(expr, Call):
        parts = [_untrue(arg, column) for arg in expr.args]
        return any(parts) if connective is Connective.EVERY else all(parts)
    return _null(expr, column)


def _null(expr: Expr, column: Column) -> bool:
    """Whether it is NULL where the column is."""
    if not isinstance(expr, Call):
        return expr == column
    return any(_null(arg, column) for arg in expr.args[: FUNCTIONS[expr.op].laws.nulls])
