"""Relations that keep each row of one prepared table at most once, so that its stored weights serve."""

from __future__ import annotations

from dataclasses import replace

from deniable.sql.tree import Column, Filter, Kind, Project, Relation, Scan, Type

WEIGHT = Column("_weight", Type(Kind.INTEGER))
"""The stored weight of a row of a prepared table."""


def table(relation: Relation) -> str | None:
    """The one table that is read, row by row; None where rows are joined, put together or counted per unit."""
    match relation:
        case Scan(name, _, _, path):
            return None if path else name
        case Project(of, _) | Filter(of, _):
            return table(of)
        case _:
            return None


def carrying(relation: Relation) -> Relation:
    """The same rows, with their stored weight."""
    match relation:
        case Scan(_, columns, _, _):
            return replace(relation, columns=(*columns, WEIGHT))
        case Project(of, columns):
            return Project(carrying(of), (*columns, (WEIGHT.name, WEIGHT)))
        case Filter(of, where):
            return Filter(carrying(of), where)
        case _:
            return relation
