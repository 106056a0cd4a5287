"""How many rows of one unit a join makes, and who is left out of it because there would be too many.

A table that is joined with itself makes n² rows of a unit's n, and each further join multiplies again: one
unit could keep an engine busy, and a clock, or a time limit, would tell of it. So a unit takes part in a
chain of joins only if it makes at most MOST_JOINED rows for each row that it has in the table where it has
the most of them. Whether it does is a function of that unit's own rows, whatever is joined, in whatever
order, through subqueries and UNION ALL.
"""

from __future__ import annotations

from functools import reduce
from itertools import chain, product

from deniable.sql import types
from deniable.sql.coercion import negation
from deniable.sql.functions.arithmetic import product_of, sum_of
from deniable.sql.functions.choices import first_present, largest
from deniable.sql.functions.conditions import absence, at_most, more
from deniable.sql.refusals import refuse
from deniable.sql.tree import (
    Aggregate,
    Column,
    Expr,
    Filter,
    Join,
    JoinKind,
    JoinSide,
    Listed,
    Literal,
    PerUnit,
    Project,
    Relation,
    Scan,
    Statistic,
    Union,
)
from deniable.sql.types_relations import columns, has_unit, prune

MOST_JOINED = 256
"""Rows that a unit may make in a chain of joins for each row of its longest table."""
MOST_TERMS = 64
MOST_REPEATED = 16
"""Rows of a unit that may share the key that other tables name them by."""

Rows = tuple[tuple[Relation, ...], ...]
"""At most how many rows a unit has: a sum of products of its numbers of rows in leaves,
which are tables as they are filtered."""


def rows(relation: Relation) -> Rows:
    """An upper bound by the relation's form. A row is multiplied by joins on the unit
    only: public sides are unique."""
    match relation:
        case Scan():
            return ((prune(relation, frozenset()),),)
        case Listed():
            return ((),)
        case Filter(of, _) | Project(of, _):
            if _is_leaf(relation):
                return ((prune(relation, frozenset()),),)
            return rows(of)
        case PerUnit(of, keys, _):
            return rows(of) if keys else ((),)
        case Union(parts):
            return _check_few(tuple(term for part in parts for term in rows(part)))
        case Join():
            return _joined_rows(relation)


def _joined_rows(join: Join) -> Rows:
    left, right = (rows(side) if has_unit(side) else () for side in (join.left, join.right))
    if not left or not right:
        return left or right
    if join.matched is None:
        return _multiply_rows([left, right])
    many, few = (left, right) if join.matched is JoinSide.RIGHT else (right, left)
    if join.kind is JoinKind.INNER:
        return many
    return _check_few((*many, *few))


def _multiply_rows(sides: list[Rows]) -> Rows:
    return _check_few(tuple(tuple(chain.from_iterable(terms)) for terms in product(*sides)))


def _is_leaf(relation: Relation) -> bool:
    while isinstance(relation, Filter | Project):
        relation = relation.of
    return isinstance(relation, Scan)


def _check_few(terms: Rows) -> Rows:
    if len(terms) > MOST_TERMS:
        refuse(
            f"Expected at most {MOST_TERMS} combinations of the parts of UNION ALL in a join.",
            "Ask about them apart.",
        )
    return terms


def bounded(left: Relation, right: Relation) -> tuple[Relation, Relation]:
    """Both sides of a join on the unit without the units that would make too many rows of it.

    Without them on one side there are none in the result. Where a side is a join itself, they are taken from
    both: an engine may begin with any two tables.
    """
    sides = rows(left), rows(right)
    terms = _check_few(tuple(a + b for a, b in product(*sides)))
    if all(len(set(term)) + (len(term) > len(set(term))) < 2 for term in terms):
        return left, right
    many = _find_large_units(terms)
    is_chain = any(len(term) > 1 for side in sides for term in side)
    return _remove_units(left, many), _remove_units(right, many) if is_chain else right


def rarely_repeated(relation: Relation, names: tuple[str, ...]) -> Relation:
    """Without the units that have the same values of these columns in more than MOST_REPEATED rows.

    The columns identify rows where the owner's declaration is true, so that nobody is left out.
    """
    keys = tuple((c.name, c) for c in columns(relation) if c.name in names)
    counts = PerUnit(prune(relation, frozenset(names)), keys, (("_n0", Aggregate(Statistic.COUNT)),))
    many = Filter(counts, more(Column("_n0", types.INTEGER), _integer_literal(MOST_REPEATED)))
    units = PerUnit(many, (), (("_n1", Aggregate(Statistic.COUNT)),))
    return _remove_units(relation, units)


def _product(factors: list[Expr]) -> Expr:
    if not factors:
        return _integer_literal(1)
    return reduce(product_of, factors)


def _find_large_units(terms: Rows) -> Relation:
    """One row for each unit that makes more rows than it may."""
    leaves = list(dict.fromkeys(leaf for term in terms for leaf in term))
    names = [f"_n{i}" for i in range(len(leaves))]
    numbers: dict[Relation, Expr] = {
        leaf: largest(Column(name, types.INTEGER), _integer_literal(1))
        for leaf, name in zip(leaves, names, strict=True)
    }
    products: list[Expr] = [_product([numbers[leaf] for leaf in term]) for term in terms]
    size = reduce(sum_of, products)
    longest = numbers[leaves[0]]
    if len(leaves) > 1:
        longest = largest(*numbers.values())
    fits = at_most(size, product_of(_integer_literal(MOST_JOINED), longest))
    # A product beyond 64 bits is NULL, and so is its comparison.
    check = first_present(types.BOOLEAN, fits, Literal(False, types.BOOLEAN))
    return Filter(_counts(leaves, names), negation(check))


def _counts(leaves: list[Relation], names: list[str]) -> Relation:
    """How many rows each unit has in each leaf, by one grouping of all of them together."""
    marks = [f"_m{i}" for i in range(len(leaves))]

    def marked(at: int) -> Relation:
        values = (
            _integer_literal(1) if i == at else Literal(None, types.INTEGER) for i in range(len(leaves))
        )
        return Project(leaves[at], tuple(zip(marks, values, strict=True)))

    parts = [marked(i) for i in range(len(leaves))]
    counts = (Aggregate(Statistic.COUNT, Column(mark, types.INTEGER)) for mark in marks)
    return PerUnit(
        parts[0] if len(parts) == 1 else Union(tuple(parts)), (), tuple(zip(names, counts, strict=True))
    )


def _remove_units(relation: Relation, units: Relation) -> Relation:
    """The rows of all other units. `units` has few rows, mostly none, so that looking
    each row up costs little."""
    first = columns(units)[0]
    join = Join(relation, units, (), True, JoinKind.LEFT, JoinSide.RIGHT)
    items = tuple((column.name, column) for column in columns(relation))
    return Project(Filter(join, absence(first), first=True), items)


def _integer_literal(number: int) -> Literal:
    return Literal(number, types.INTEGER)
