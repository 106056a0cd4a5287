"""Bounds found privately, from a small part of ε: of values, and of how many rows of a person count."""
