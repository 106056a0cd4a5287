"""Tables as texts, for what is kept as JSON."""

from __future__ import annotations

import base64

import pyarrow as pa


def packed(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def unpacked(text: str) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()
