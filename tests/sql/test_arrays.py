"""Arrays by way of texts hold what pyarrow's own hold, and need no pandas."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.sql.arrays import column

COLUMNS: list[tuple[list[Any], pa.DataType]] = [
    ([1, None, 2**63 - 1, -(2**63)], pa.int64()),
    ([True, None, False], pa.bool_()),
    (["a", None, "", "é\x00", "None"], pa.string()),
    ([Decimal("1.25"), None, Decimal("-1E-2"), Decimal(10**28 - 1).scaleb(-2)], pa.decimal128(38, 2)),
    ([float("inf"), float("-inf"), None], pa.float64()),
    ([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    ([datetime(1, 1, 1, 2, 3, 4, 5), None, datetime(9999, 12, 31)], pa.timestamp("us")),
    ([], pa.int64()),
]


@pytest.mark.parametrize(("values", "of"), COLUMNS)
def test_an_array_is_the_one_that_pyarrow_makes(values: list[Any], of: pa.DataType) -> None:
    assert column(values, of).equals(pa.array(values, of))


@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_doubles_are_held_to_the_last_bit(values: list[float | None]) -> None:
    assert list(map(repr, column(values, pa.float64()).to_pylist())) == list(map(repr, values))


def test_no_array_needs_pandas() -> None:
    code = (
        "import sys, pyarrow as pa; from deniable.sql.arrays import column; column([1.5, None], pa.float64()); "
        "column(['a'], pa.string()); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
