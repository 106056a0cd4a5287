"""An answer copied out: COPY (SELECT …) TO STDOUT, as text, CSV or binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from deniable.server.wire.messages import ColumnDescription, message, text
from deniable.server.wire.statements import CopyForm
from deniable.server.wire.values import as_text, encode

ESCAPES = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
)
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def copy_rows(
    columns: Sequence[ColumnDescription], rows: Sequence[tuple[Any, ...]], form: CopyForm
) -> Iterator[bytes]:
    """The messages of a copy."""
    binary = form.form == "binary"
    count = len(columns)
    yield message(b"H", struct.pack(f"!bh{count}h", int(binary), count, *[int(binary)] * count))
    lines = _binary(columns, rows) if binary else _lines(columns, rows, form)
    for line in lines:
        yield message(b"d", line)
    yield message(b"c") + message(b"C", text(f"COPY {len(rows)}"))


def _binary(columns: Sequence[ColumnDescription], rows: Sequence[tuple[Any, ...]]) -> Iterator[bytes]:
    """Clients want the head and the first row in one piece."""
    head = SIGNATURE
    for row in rows:
        cells = b"".join(encode(value, column.oid, True) for value, column in zip(row, columns, strict=True))
        yield head + struct.pack("!h", len(row)) + cells
        head = b""
    yield head + struct.pack("!h", -1)


def _lines(
    columns: Sequence[ColumnDescription], rows: Sequence[tuple[Any, ...]], form: CopyForm
) -> Iterator[bytes]:
    cell = _csv if form.form == "csv" else _escape_text
    if form.header:
        yield _line((cell(column.name, form.delimiter) for column in columns), form)
    for row in rows:
        yield _line((cell(value, form.delimiter) for value in row), form)


def _line(cells: Iterator[str], form: CopyForm) -> bytes:
    return (form.delimiter.join(cells) + "\n").encode(errors="replace")


def _escape_text(value: Any, delimiter: str) -> str:
    if value is None:
        return "\\N"
    escape = f"\\{delimiter}"
    if delimiter == "\t":
        escape = "\\t"
    return as_text(value).translate(ESCAPES).replace(delimiter, escape)


def _csv(value: Any, delimiter: str) -> str:
    # PostgreSQL's CSV tells NULL from an empty text by quotes alone, and \. would end the copy.
    if value is None:
        return ""
    content = as_text(value)
    needs_quotes = (
        not content or any(sign in content for sign in (delimiter, '"', "\n", "\r")) or content == "\\."
    )
    if needs_quotes:
        return '"' + content.replace('"', '""') + '"'
    return content
