"""Relations that keep each row of one prepared table at most once, so that its stored weights, and their sums, serve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deniable.sql.tree import Column, Expr, Filter, Kind, Project, Relation, Scan, Type
from deniable.sql.types_relations import prune, read
from deniable.sql.write.weights import WEIGHT

STORED = Column(WEIGHT, Type(Kind.INTEGER))
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


def carrying(relation: Relation, *more: Column) -> Relation:
    """The same rows, with their stored weight, or with `more` stored columns."""
    extra = more or (STORED,)
    match relation:
        case Scan(_, columns, _, _):
            return replace(relation, columns=(*columns, *extra))
        case Project(of, columns):
            return Project(carrying(of, *extra), (*columns, *((column.name, column) for column in extra)))
        case Filter(of, where):
            return Filter(carrying(of, *extra), where)
        case _:
            return relation


def summarised(relation: Relation, name: str, keys: frozenset[str], exprs: Iterable[Expr | None]) -> Relation | None:
    """The same rows put together by `keys` in the table `name`; None where they must be told apart by more than `keys`, by
    `exprs` or by what decides about rows."""
    pruned = prune(relation, frozenset(column for expr in exprs for column in read(expr)))
    scan = pruned
    while isinstance(scan, Project | Filter):
        scan = scan.of
    if not isinstance(scan, Scan) or not keys.issuperset(column.name for column in scan.columns):
        return None
    return _onto(pruned, replace(scan, table=name, unit=None))


def _onto(relation: Relation, scan: Scan) -> Relation:
    match relation:
        case Project(of, columns):
            return Project(_onto(of, scan), columns)
        case Filter(of, where):
            return Filter(_onto(of, scan), where)
        case _:
            return scan


def source(relation: Relation, of: Expr | None) -> str | None:
    """The column of the table that an expression is, under whatever name; None for anything else."""
    match relation, of:
        case Scan(_, _, _, _), Column(name, _):
            return name
        case Filter(inner, _), Column(_, _):
            return source(inner, of)
        case Project(inner, columns), Column(name, _):
            return source(inner, dict(columns).get(name))
        case _:
            return None
