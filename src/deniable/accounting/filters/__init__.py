"""Whether a charge still fits: what a loss is charged, the limit on charges chosen adaptively, and the
running sum."""

from deniable.accounting.filters.filter import Filter, Left, Purpose, Spent, above, convert_order

__all__ = ["Filter", "Left", "Purpose", "Spent", "above", "convert_order"]
