"""A small hospital, opened once more for each test, with a ledger that is forgotten afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from deniable.curator import Curator
from deniable.datasets.people import DIAGNOSES
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.randomness import SeededRandom
from deniable.units import Unit

PATIENT = Unit.column("patient_id", max_rows=4)
LIMIT = Budget(epsilon=3, delta=1e-6)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return visits(3000)


@pytest.fixture
def hospital(table: pa.Table) -> Iterator[Callable[..., Curator]]:
    """Opens the hospital; keyword arguments change how."""
    opened: list[Curator] = []

    def open_(source: Any = table, **changes: Any) -> Curator:
        how = {
            "name": "visits",
            "unit": PATIENT,
            "limit": LIMIT,
            "ledger": "sqlite://",
            "bounds": {"days": (0, 60), "age": (0, 100), "cost": (0, 50_000)},
            "keys": {"diagnosis": DIAGNOSES},
            "rng": SeededRandom(1),
        }
        opened.append(Curator.open(source, **(how | changes)))
        return opened[-1]

    yield open_
    for curator in opened:
        curator.close()
