"""The allow-list: every operator, function and aggregate that a query may use, one record each, and what to
say about the others. What is not listed here is refused by name.

`FUNCTIONS` is asked by all walkers of a tree; a family's file holds its records.
"""

from __future__ import annotations

from itertools import chain

from sqlglot import expressions as exp

from deniable.sql.functions import (
    arithmetic,
    casts,
    choices,
    conditions,
    json_fields,
    patterns,
    reals,
    rounding,
    texts,
)
from deniable.sql.functions.function import Form, Function, NamedReading, Syntax
from deniable.sql.functions.times import bins, dates, formats, periods

_FAMILIES: tuple[tuple[Function, ...], ...] = (
    arithmetic.FUNCTIONS,
    rounding.FUNCTIONS,
    reals.FUNCTIONS,
    conditions.FUNCTIONS,
    choices.FUNCTIONS,
    texts.FUNCTIONS,
    patterns.FUNCTIONS,
    json_fields.FUNCTIONS,
    dates.FUNCTIONS,
    periods.FUNCTIONS,
    bins.FUNCTIONS,
    formats.FUNCTIONS,
    casts.FUNCTIONS,
)

FUNCTIONS: dict[str, Function] = {function.op: function for function in chain(*_FAMILIES)}
"""Every scalar function, by its name in the tree."""

FORMS: tuple[Form, ...] = tuple(form for function in FUNCTIONS.values() for form in function.forms)
"""All that an analyst may write, in the order of the families."""

NODES: dict[type[exp.Expr], Syntax] = {node.kind: node for form in FORMS for node in form.nodes}
"""What the nodes of the parser mean."""

NAMED: dict[tuple[str, int], NamedReading] = {
    key: reading for form in FORMS for key, reading in form.named.items()
}
"""Functions that the parser has no node for, by name and number of arguments."""

OPS: frozenset[str] = frozenset(FUNCTIONS)
POST: frozenset[str] = frozenset(op for op, function in FUNCTIONS.items() if function.released is not None)
"""What may be computed from released numbers: `sql.answer.evaluate` evaluates these, and nothing else."""
