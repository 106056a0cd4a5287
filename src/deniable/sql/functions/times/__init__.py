"""Dates and timestamps: their parts, periods, formats and bins."""
