"""Operators as SQL of an engine, over operands that are SQL already: total, whatever the operands are."""

from __future__ import annotations

from deniable.sql.deductions import cannot_overflow
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions import FUNCTIONS
from deniable.sql.tree import Call


def operation(call: Call, args: list[str], dialect: Dialect) -> str:
    """One operator over its operands."""
    function = FUNCTIONS.get(call.op)
    if function is None:
        raise TypeError(f"The operator {call.op!r} is not on the list.")
    if function.guarded is not None and not cannot_overflow(call):
        return function.guarded(call, args, dialect)
    return function.words(call, args, dialect)
