"""Both halves of every protocol: a client that turns one value into one short report, a
server that counts reports.

A report is `HEADER` bytes followed by the protocol's payload. Byte 0 holds the version of the wire form (3
bits) and the protocol (5 bits), byte 1 a fingerprint of the parameters, so reports of another version,
protocol or (but for one in 256) another setting are told apart on receipt. The loss, the size and the header
depend on parameters only, never on a value.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.loss import Loss, Number, Pure, exact
from deniable.mechanism import Random
from deniable.units import Unit

Result = TypeVar("Result")
Reports: TypeAlias = bytes | Iterable[bytes] | NDArray[np.uint8]

VERSION = 1
HEADER = 2
CHUNK = 1 << 15
"""Values encoded at a time: intermediate arrays stay in the processor's cache."""
ROWS = 1 << 16
MAGIC = b"DNBL\x01"
CHECK = 16
_HEAD = struct.Struct("<5s32sqq")


class Client(ABC, Generic[Result]):
    """What runs on the device. Subclasses are frozen dataclasses; `Result` is what the server estimates."""

    code: ClassVar[int]
    """The protocol's number in the header, below 32 and never used again."""
    epsilon: Number
    """One report's loss is at most this, by certified rounding."""

    # ------------------------------------------------------------------------------------------ the mechanism

    @property
    def loss(self) -> Loss:
        """What one report may reveal about the value behind it."""
        return Pure(self.epsilon)

    @property
    def unit(self) -> Unit:
        return Unit.value()

    def error(self, confidence: float = 0.95) -> None:
        """A report alone has none to speak of: the error is that of the server's estimate."""
        return None

    def __call__(self, data: Any, *, rng: Random) -> bytes:
        return self.report(data, rng=rng)

    def report(self, value: Any, *, rng: Random) -> bytes:
        """One report about one value."""
        return bytes(self.reports([value], rng=rng)[0])

    def reports(self, values: Any, *, rng: Random) -> Bytes:
        """One report for each value, as the rows of an array of bytes."""
        inputs = self.inputs(values)
        rows = np.empty((len(inputs), self.size), np.uint8)
        rows[:, :HEADER] = np.frombuffer(self.header, np.uint8)
        for start in range(0, len(inputs), CHUNK):
            part = slice(start, start + CHUNK)
            rows[part, HEADER:] = self.encode(inputs[part], rng)
        return rows

    # ---------------------------------------------------------------------------------------------- memory

    @property
    def memo_loss(self) -> Loss:
        """What all reports made from one memo may reveal together, however many there are."""
        return self.loss

    @property
    def memo_epsilon(self) -> Number:
        """A bound on the ε of `memo_loss`."""
        return self.epsilon

    def memoise(self, value: Any, *, rng: Random) -> bytes:
        """The permanent state of a device that will report `value` again and again: here the report
        itself."""
        return self.report(value, rng=rng)

    def replay(self, memo: bytes, *, rng: Random) -> bytes:
        """A report from a memo, at no further loss."""
        if len(memo) != self.size or memo[:HEADER] != self.header:
            raise InvalidParameter(
                "Expected a memo of this protocol and its parameters. Nothing was reported."
            )
        return memo

    # ---------------------------------------------------------------------------------------------- the wire

    @property
    def size(self) -> int:
        """Bytes of one report."""
        return HEADER + self.payload

    @property
    def digest(self) -> bytes:
        """32 bytes that name the protocol and its parameters."""
        return hashlib.blake2b(canonical(self).encode(), digest_size=32).digest()

    @property
    def header(self) -> bytes:
        return bytes([VERSION << 5 | self.code, self.digest[0]])

    def server(self) -> Server[Result]:
        """An empty server for this client's reports."""
        return Server(self)

    # --------------------------------------------------------------------------------------- of each protocol

    @property
    @abstractmethod
    def payload(self) -> int:
        """Bytes of one report beyond the header."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """Counters of the server's summary."""

    @abstractmethod
    def inputs(self, values: Any) -> NDArray[Any]:
        """The values in the form that `encode` takes, one row each. Total: any value of
        the right type has one."""

    @abstractmethod
    def encode(self, inputs: NDArray[Any], rng: Random) -> Bytes:
        """One private payload for each row."""

    @abstractmethod
    def valid(self, payloads: Bytes) -> Booleans:
        """Which payloads this client could have sent."""

    @abstractmethod
    def tally(self, payloads: Bytes) -> Integers:
        """What valid payloads add to the counters: a sum over payloads, so summaries merge."""

    @abstractmethod
    def estimate(self, counts: Integers, users: int, *question: Any) -> Result:
        """What the counters of `users` reports say."""


class Server(Generic[Result]):
    """Counts of what was reported. Its memory does not grow with the number of reports.

    Reports come from anybody: what is malformed, of another version or protocol, or outside the domain is
    counted in `dropped` and changes nothing else. It never raises.
    """

    def __init__(self, client: Client[Result]) -> None:
        self.client = client
        self.counts = np.zeros(client.cells, np.int64)
        self.users = 0
        self.dropped = 0

    def add(self, reports: Reports) -> int:
        """Count one report (bytes), several (an iterable of bytes) or many (rows of an
        array); how many were accepted."""
        rows, rejects = self._rows(reports)
        before = self.users
        step = max(ROWS, self.client.cells)
        for start in range(0, len(rows), step):
            self._count(rows[start : start + step])
        count = self.users - before
        self.dropped += rejects + len(rows) - count
        return count

    def _count(self, rows: Bytes) -> None:
        rows = _select_rows(
            rows, (rows[:, 0] == self.client.header[0]) & (rows[:, 1] == self.client.header[1])
        )
        payloads = rows[:, HEADER:]
        payloads = _select_rows(payloads, self.client.valid(payloads))
        self.counts += self.client.tally(payloads)
        self.users += len(payloads)

    def _rows(self, reports: Reports) -> tuple[Bytes, int]:
        """The reports of the right length as rows, and how many are not."""
        size = self.client.size
        if isinstance(reports, np.ndarray):
            if reports.ndim == 2 and reports.shape[1] == size and reports.dtype == np.uint8:
                return reports, 0
            return np.empty((0, size), np.uint8), len(reports) if reports.ndim else 1
        several = isinstance(reports, Iterable) and not isinstance(reports, bytes | bytearray | str)
        each: list[object] = list(reports) if several else [reports]
        good = [bytes(r) for r in each if isinstance(r, bytes | bytearray) and len(r) == size]
        return np.frombuffer(b"".join(good), np.uint8).reshape(-1, size), len(each) - len(good)

    def estimate(self, *question: Any) -> Result:
        """What the reports say: about the whole domain, or about the items asked for
        where the domain is open."""
        return self.client.estimate(self.counts, self.users, *question)

    # ---------------------------------------------------------------------------------------------- shards

    def merge(self, server: Server[Result]) -> Server[Result]:
        """A server that has seen the reports of both. Associative and commutative."""
        if self.client.digest != server.client.digest:
            raise InvalidParameter(
                "Only servers of one protocol with the same parameters merge. Nothing was merged."
            )
        both = Server(self.client)
        both.counts = self.counts + server.counts
        both.users, both.dropped = self.users + server.users, self.dropped + server.dropped
        return both

    __add__ = merge

    def to_bytes(self) -> bytes:
        """The summary: a head, the counters, a checksum."""
        body = (
            _HEAD.pack(MAGIC, self.client.digest, self.users, self.dropped)
            + self.counts.astype("<i8").tobytes()
        )
        return body + hashlib.blake2b(body, digest_size=CHECK).digest()

    @classmethod
    def from_bytes(cls, client: Client[Result], data: bytes) -> Server[Result]:
        """Load what `to_bytes` saved for the same client."""
        body, check = data[:-CHECK], data[-CHECK:]
        if (
            len(data) != _HEAD.size + 8 * client.cells + CHECK
            or hashlib.blake2b(body, digest_size=CHECK).digest() != check
        ):
            raise InvalidParameter("This is no whole summary of this client's reports. Nothing was loaded.")
        magic, digest, users, rejects = _HEAD.unpack_from(body)
        if magic != MAGIC or digest != client.digest:
            raise InvalidParameter(
                "This summary is of another version or other parameters. Nothing was loaded."
            )
        server = cls(client)
        server.counts = np.frombuffer(body, "<i8", offset=_HEAD.size).astype(np.int64)
        server.users, server.dropped = users, rejects
        return server


def _select_rows(rows: Bytes, keep: NDArray[np.bool_]) -> Bytes:
    if keep.all():
        return rows
    return rows[keep]


# ------------------------------------------------------------------------------------------------- parameters


def canonical(value: object) -> str:
    """A text that is equal for equal parameters: numbers by their exact value, the rest by repr."""
    match value:
        case bool() | bytes() | str() | None:
            return repr(value)
        case int() | float() | Fraction():
            return str(exact(value))
        case tuple():
            return "(" + ",".join(map(canonical, value)) + ")"
        case _:
            fields = dataclasses.fields(value)  # type: ignore[arg-type]
            inside = ",".join(f"{f.name}={canonical(getattr(value, f.name))}" for f in fields)
            return f"{type(value).__name__}({inside})"


# ---------------------------------------------------------------------------------------------- whole numbers


def width_of(bound: int) -> int:
    """Bytes that hold every whole number below `bound`."""
    return max(1, -(-(bound - 1).bit_length() // 8))


def pack(numbers: Integers, width: int) -> Bytes:
    """Each number as `width` bytes, lowest first."""
    return np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, 8)[:, :width]


def unpack(rows: Bytes) -> Integers:
    """The numbers that `pack` wrote in at most 7 bytes."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide.view("<i8").reshape(-1).astype(np.int64, copy=False)


def whole_numbers(values: Sequence[int] | NDArray[Any]) -> Integers:
    """Values as int64; anything but whole numbers is refused by its type."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iub" or array.dtype == np.uint64:
        raise InvalidParameter(
            f"Expected a sequence of whole numbers, got {array.ndim} dimensions of {array.dtype}. Nothing "
            "was drawn."
        )
    return array.astype(np.int64)
