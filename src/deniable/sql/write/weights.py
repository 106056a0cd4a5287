"""What a row weighs. Every sensitivity of a query rests on these numbers, so they are written here and nowhere else.

No sum can overflow: a weight is at most TOTAL = 2^24 and a grid unit at most 2^(VALUE_BITS − 1) = 2^30, so a product fits in 64
bits, and fewer than 2^40 of them sum to less than 2^94, which 128 bits and 38 decimal digits hold.
"""

from __future__ import annotations

from deniable.sql.dialects.dialect import Dialect, whole

ONE = 1 << 20
"""The weight of a row that counts in full."""
TOTAL = 1 << 24
"""What a unit's rows weigh together where their number is bounded privately: the loss must not depend on the choice."""
VALUE_BITS = 31
"""Values are put on a grid on which none is beyond ±2^(VALUE_BITS − 1)."""
MOST_ROWS_DECLARED = 1 << 40
"""The largest max_rows: no table has more rows, and ONE times it fits in 64 bits on every engine."""
WEIGHT = "_weight"
"""The column that `prepare` adds: what a row counts, in units of 1/ONE."""


def weight(one: int, rows: int, dialect: Dialect) -> str:
    """The weight of each row of a unit, as an aggregate over the unit's rows: min(one, ⌊one·rows/n⌋) for n of them.

    n times it is at most one·rows, whatever n is (docs/theory/curator.md, Theorem 1).
    """
    shared = f"LEAST({one}, {dialect.quotient(whole(one * rows), 'COUNT(*)')})"
    return dialect.small(shared)  # at most 2^24
