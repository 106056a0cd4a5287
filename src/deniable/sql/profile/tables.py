"""Which table's profile serves a query, and the rows of a table that a profile is measured on."""

from __future__ import annotations

from dataclasses import replace

from deniable.sql.read.query import check
from deniable.sql.read.relations.join_sizes import rows
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import Column, Filter, Project, Query, Relation, Scan
from deniable.sql.types_relations import has_unit
from deniable.units import Unit


def only_table(relation: Relation) -> Scan | None:
    """The one private table that has, for each person, at least as many rows as the relation. Filters and
    joins with public tables add none. None where rows of several tables, or of one table twice, meet or are
    put together, and where there is no private row at all."""
    if not has_unit(relation):
        return None
    terms = rows(relation)
    if len(terms) != 1 or len(terms[0]) != 1:
        return None
    leaf = terms[0][0]
    while isinstance(leaf, Filter | Project):
        leaf = leaf.of
    return leaf if isinstance(leaf, Scan) else None


def is_one_row(relation: Relation) -> bool:
    """Whether nobody has more than one row, whatever the data: rows that are grouped by the person."""
    return has_unit(relation) and rows(relation) == ((),)


def read_table(schema: Schema, unit: Unit, table: str) -> Scan:
    """The rows of a table with those who have no unit left out, as every query reads them."""
    name = table.replace('"', '""')
    query: Query = check(f'SELECT COUNT(*) FROM "{name}"', schema, unit)
    relation = query.relation
    while isinstance(relation, Filter | Project):
        relation = relation.of
    assert isinstance(relation, Scan)
    return replace(relation, columns=())


def with_column(scan: Scan, column: Column) -> Scan:
    """The same rows with the column whose values are measured."""
    return replace(scan, columns=(column,))
