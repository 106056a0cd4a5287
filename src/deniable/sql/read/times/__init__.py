"""Dates, casts, formats and periods in an expression."""
