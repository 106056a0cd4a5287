"""A made-up hospital: visits of patients who come once or often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from deniable.datasets.people import DIAGNOSES, SHARES
from deniable.datasets.sizes import at_least

WARDS = ("emergency", "medicine", "surgery", "children", "eyes")
WARD_SHARES = (0.35, 0.3, 0.2, 0.1, 0.05)
LONGEST = 60
FIRST, DAYS = np.datetime64("2024-01-01"), 366


def visits(patients: int = 20_000, *, seed: int = 0) -> Any:
    """Visits of so many patients, as an Arrow table: patient_id, age, sex, ward,
    diagnosis, admitted, days, cost.

    Most patients come once, some a dozen times. A stay lasts 1 to 60 days; its cost, in
    whole units of money, grows with it.

    >>> visits(100).column_names
    ['patient_id', 'age', 'sex', 'ward', 'diagnosis', 'admitted', 'days', 'cost']
    """
    at_least(1, patients=patients)
    rng = np.random.default_rng(seed)
    times = np.minimum(rng.geometric(0.5, patients), 12)
    who = np.repeat(np.arange(patients), times)
    size = len(who)
    ages, sexes = rng.integers(0, 100, patients), rng.choice(np.array(["F", "M"]), patients)
    days = np.minimum(rng.geometric(0.2, size), LONGEST)
    order = rng.permutation(size)
    return pa.table(
        {
            "patient_id": who[order],
            "age": ages[who][order],
            "sex": sexes[who][order].tolist(),
            "ward": rng.choice(np.array(WARDS), size, p=WARD_SHARES).tolist(),
            "diagnosis": rng.choice(np.array(DIAGNOSES), size, p=SHARES).tolist(),
            "admitted": (FIRST + rng.integers(0, DAYS, size)).astype("datetime64[D]"),
            "days": days,
            "cost": np.rint(days * rng.lognormal(6, 0.4, size)).astype(np.int64),
        }
    )
