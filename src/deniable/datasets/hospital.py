"""A hospital's table of nine rows, on which k-anonymity is taught and fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ROWS = (
    (47677, 29, "heart disease"),
    (47602, 22, "heart disease"),
    (47678, 27, "heart disease"),
    (47905, 43, "flu"),
    (47909, 52, "heart disease"),
    (47906, 47, "cancer"),
    (47605, 30, "heart disease"),
    (47673, 36, "cancer"),
    (47607, 32, "cancer"),
)
"""Zip code, age, disease: Table 1 of Li, Li, Venkatasubramanian 2007 (t-closeness)."""


def hospital() -> Any:
    """The nine rows as an Arrow table with the columns zip, age, disease.

    >>> hospital().num_rows
    9
    """
    zips, ages, diseases = zip(*ROWS, strict=True)
    return pa.table({"zip": zips, "age": ages, "disease": diseases})
