"""A made-up town: zip code, birth date, sex, and a diagnosis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from deniable.datasets.sizes import at_least

DIAGNOSES = ("asthma", "cancer", "diabetes", "flu", "fracture", "heart disease", "HIV", "migraine")
SHARES = (0.14, 0.09, 0.16, 0.22, 0.13, 0.14, 0.01, 0.11)

FIRST_ZIP, ZIP_STEP = 10_001, 7
FIRST, LAST = np.datetime64("1930-01-01"), np.datetime64("2010-01-01")


def people(size: int = 20_000, *, zips: int = 4, seed: int = 0) -> Any:
    """`size` people over `zips` zip codes, as an Arrow table: person, zip, birth, sex, diagnosis.

    Birth dates are uniform over eighty years and independent of all else, so that what an attack learns about
    a diagnosis beyond its share in the town it has learnt from the person's own row.

    >>> people(100).column_names
    ['person', 'zip', 'birth', 'sex', 'diagnosis']
    """
    at_least(1, size=size, zips=zips)
    rng = np.random.default_rng(seed)
    born = FIRST + rng.integers(0, int((LAST - FIRST).astype(int)), size)
    return pa.table(
        {
            "person": np.arange(size),
            "zip": FIRST_ZIP + ZIP_STEP * rng.integers(0, zips, size),
            "birth": born.astype("datetime64[D]"),
            "sex": rng.choice(np.array(["F", "M"]), size).tolist(),
            "diagnosis": rng.choice(np.array(DIAGNOSES), size, p=SHARES).tolist(),
        }
    )
