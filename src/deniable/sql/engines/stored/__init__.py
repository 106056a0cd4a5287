"""Rows as they are stored, read so that no value in them can make a statement fail."""
