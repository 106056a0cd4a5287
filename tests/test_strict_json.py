"""What is no JSON is made JSON in one place: ∞, arrays, tables, dates, decimals, paths."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deniable.strict_json import plain

CASES: list[tuple[Any, Any]] = [
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (math.nan, "nan"),
    (np.float64("inf"), "inf"),
    (np.array([1.5, np.inf]), [1.5, "inf"]),
    (np.int64(3), 3),
    (np.bool_(True), True),
    (Decimal("0.25"), 0.25),
    (Decimal("Infinity"), "inf"),
    (date(2024, 3, 1), "2024-03-01"),
    (datetime(2024, 3, 1, 12, tzinfo=UTC), "2024-03-01T12:00:00+00:00"),
    (Path("a") / "b", "a/b"),
    (pa.table({"n": [1, None]}), {"n": [1, None]}),
    ({1: (None, True, "x")}, {"1": [None, True, "x"]}),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[repr(value)[:30] for value, _ in CASES])
def test_every_value_becomes_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected
