"""The bytes of the protocol: messages that are sent, and parts of those that are read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.errors import ProtocolError


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: object) -> bytes:
    """A text that ends with a zero byte, and holds none."""
    return str(value).encode(errors="replace").replace(b"\0", b"") + b"\0"


@dataclass(frozen=True)
class ColumnDescription:
    """A column of a result: its name and the number of its type."""

    name: str
    oid: int


def row_description(columns: Sequence[ColumnDescription], formats: Sequence[int]) -> bytes:
    parts = (
        text(column.name) + struct.pack("!ihihih", 0, 0, column.oid, -1, -1, code)
        for column, code in zip(columns, formats, strict=True)
    )
    return message(b"T", struct.pack("!h", len(columns)) + b"".join(parts))


def report(kind: bytes, severity: str, state: str, sentence: str) -> bytes:
    """An error (`E`) or a notice (`N`)."""
    # S may be translated by a server, V may not (since 9.6): drivers branch on V, older ones on S.
    fields = ((b"S", severity), (b"V", severity), (b"C", state), (b"M", sentence))
    return message(kind, b"".join(code + text(value) for code, value in fields) + b"\0")


def authentication(step: int, body: bytes = b"") -> bytes:
    return message(b"R", struct.pack("!i", step) + body)


class MessageReader:
    """The parts of one message. What is missing or too much is a `ProtocolError`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._offset = 0

    def string(self) -> str:
        end = self._body.find(b"\0", self._offset)
        if end < 0:
            raise ProtocolError("A text of the message does not end.")
        part = self._body[self._offset : end]
        self._offset = end + 1
        try:
            return part.decode()
        except UnicodeDecodeError:
            raise ProtocolError("A text of the message is not UTF-8.") from None

    def numbers(self, code: str) -> tuple[int, ...]:
        size = struct.calcsize(f"!{code}")
        return struct.unpack(f"!{code}", self.take(size))

    def count(self) -> int:
        (number,) = self.numbers("h")
        if number < 0:
            raise ProtocolError("A count of the message is negative.")
        return number

    def take(self, size: int) -> bytes:
        part = self._body[self._offset : self._offset + size]
        if size < 0 or len(part) != size:
            raise ProtocolError("The message is shorter than it says.")
        self._offset += size
        return part

    def value(self) -> bytes | None:
        (size,) = self.numbers("i")
        if size == -1:  # NULL; any other negative length is refused by `take`
            return None
        return self.take(size)

    def rest(self) -> bytes:
        part = self._body[self._offset :]
        self._offset = len(self._body)
        return part
