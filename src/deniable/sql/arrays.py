"""Arrow arrays of Python's values, without pandas: pyarrow imports it, where it is installed, for its first
array that is made of such values, and that would be most of what the first query of a process costs. Tables
as texts.

>>> column([1, None], pa.int64()).to_pylist(), column([0.1, -0.0], pa.float64()).to_pylist()
([1, None], [0.1, -0.0])
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def column(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    """Numbers, truth values and texts go by way of their texts, which say them in full; the rest as pyarrow
    does."""
    if pa.types.is_temporal(of):
        return pa.array(values, of)
    texts = pa.lib.StringBuilder()
    texts.append_values([None if value is None else str(value) for value in values])
    return texts.finish().cast(of)


def pack_table(table: pa.Table) -> str:
    """A table as a text, for what is kept as JSON."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def unpack_table(text: str) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()
