"""What a process that runs statements over released tables is sent, and what it sends back: a header in JSON,
and tables as Arrow streams. Whoever reads says how much it takes, so that the other side cannot fill it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa

HEADER = 16 * 1024 * 1024
"""Bytes of a header at most: it holds a statement of ours."""
_LENGTH = struct.Struct("!I")


def write(stream: IO[bytes], header: dict[str, Any], tables: Sequence[pa.Buffer] = ()) -> None:
    content = json.dumps(header | {"sizes": [table.size for table in tables]}).encode()
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    for table in tables:
        stream.write(table)
    stream.flush()


def read(stream: IO[bytes], most: int, header_most: int = HEADER) -> tuple[dict[str, Any], list[bytes]]:
    """A header and its tables, of `most` bytes together; EOFError where the other side has ended, ValueError
    where it sends anything else."""
    (length,) = _LENGTH.unpack(_read_bytes(stream, _LENGTH.size))
    if length > header_most:
        raise ValueError("a header that is too long")
    header = json.loads(_read_bytes(stream, length))
    if not isinstance(header, dict):
        raise ValueError("a header that is none")
    sizes = header.get("sizes")
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a header without sizes")
    if sum(sizes) > most:
        raise ValueError("more than was asked for")
    return header, [_read_bytes(stream, size) for size in sizes]


def _read_bytes(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def packed(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpacked(content: bytes) -> pa.Table:
    """In this thread alone: a process may be forbidden to start others."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(content, options=options) as reader:
        return reader.read_all()
