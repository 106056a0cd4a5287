"""A device's memory in a file: its memo, the period it was drawn for, and what it has spent for good.

The file is written and on the disk before a report of a new period is made, under a lock. So a device that is
killed, or started twice at once, never draws two memos for one period and never spends beyond its limit. A
mark in the file of the lock says that it has reported: where the memory is gone, it does not begin again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.local.collecting.estimates import draw_stand_in, value_of
from deniable.local.longitudinal import ReportingDevice
from deniable.local.protocol import HEADER, Client
from deniable.loss import exact
from deniable.mechanism import Random

FORM = 1
MARK = b"This device has reported.\n"
"""Stands in the file of the lock once a memory is on the disk, and before the first report leaves."""


def fingerprint(client: Client[Any], domain: Sequence[str]) -> str:
    """What must stay the same for a memo to keep its meaning: the protocol and the list of values."""
    return hashlib.sha256(client.digest + json.dumps(list(domain)).encode()).hexdigest()


@dataclass(frozen=True)
class Memory:
    """What a device remembers: its state, the period it was drawn for, and which listed value stands for all
    that are not listed. Drawn anew, a change of that value would tell over many periods that it is none."""

    device: ReportingDevice
    period: str | None = None
    stand_in: int | None = None


class MemoryFields(NamedTuple):
    """What a memory file says, as it was read."""

    form: Any
    terms: Any
    limit: Any
    periods: int
    memo: bytes
    period: str
    stand_in: int | None


@dataclass(frozen=True)
class DeviceFile:
    """The file of one device that reports under one protocol, up to a limit for its whole life."""

    path: Path
    client: Client[Any]
    domain: tuple[str, ...]
    limit: Budget

    def report(self, value: str, period: str, *, rng: Random) -> bytes:
        """A report of this period. In a new period the memo is drawn anew from `value`, which costs
        `memo_epsilon`; within a period the memo is replayed, whatever `value` is by now. In place of a value
        that is not of the domain stands one and the same listed value for the device's whole life."""
        if not isinstance(value, str):
            raise InvalidParameter(
                f"Expected a value of the domain as text, got {type(value).__name__}. Nothing was reported."
            )
        with self._lock_file() as lock:
            is_marked = os.fstat(lock.fileno()).st_size > 0
            memory = self._read(is_marked)
            if period != memory.period:
                memory = self._begin(memory, value, period, rng)
                self._write(memory)
            if not is_marked:
                _put(lock, MARK)
            return memory.device.report(rng=rng)

    def _begin(self, memory: Memory, value: str, period: str, rng: Random) -> Memory:
        stand_in = draw_stand_in(self.domain, rng) if memory.stand_in is None else memory.stand_in
        own = value_of(self.client, self.domain, value, stand_in)
        return Memory(memory.device.begin(own, rng=rng), period, stand_in)

    @contextmanager
    def _lock_file(self) -> Iterator[BinaryIO]:
        with self.path.with_name(self.path.name + ".lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _read(self, is_marked: bool) -> Memory:
        if not self.path.exists():
            if is_marked:
                raise InvalidParameter(
                    f"{self.path} is gone, but this device has reported before. Nothing was reported. "
                    "Without it the device does not know what it has spent: put back the file, or "
                    "stop reporting."
                )
            return Memory(ReportingDevice(self.client, self.limit))
        content = self._read_fields()
        periods, memo, stand_in = content.periods, content.memo, content.stand_in
        is_same = content.form == FORM and content.terms == fingerprint(self.client, self.domain)
        if not is_same or content.limit != str(exact(self.limit.epsilon)) or periods < 1:
            raise InvalidParameter(
                f"{self.path} belongs to another protocol, list of values, ε or limit. Nothing was reported. "
                "Use the options with which the device began."
            )
        device = ReportingDevice(self.client, self.limit, periods, memo)
        is_possible = device.spent.epsilon <= exact(self.limit.epsilon) and self._is_memo(memo)
        if not is_possible or not 0 <= (stand_in or 0) < len(self.domain):
            raise self._unreadable()
        return Memory(device, content.period, stand_in)

    def _read_fields(self) -> MemoryFields:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            fields = MemoryFields(
                content["form"], content["terms"], content["limit"], content["periods"],
                bytes.fromhex(content["memo"]), content["period"], content.get("stand_in"),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            raise self._unreadable() from None
        kinds = type(fields.periods), type(fields.period), type(fields.stand_in)
        if kinds not in ((int, str, int), (int, str, type(None))):
            raise self._unreadable()
        return fields

    def _is_memo(self, memo: bytes) -> bool:
        """Whether the client could have drawn it."""
        if len(memo) != self.client.size or memo[:HEADER] != self.client.header:
            return False
        return bool(self.client.valid(np.frombuffer(memo, np.uint8)[None, HEADER:])[0])

    def _unreadable(self) -> InvalidParameter:
        return InvalidParameter(
            f"{self.path} cannot be read as the memory of a device. Nothing was reported. Without it the "
            "device does not know what it has spent: put back the file, or stop reporting."
        )

    def _write(self, memory: Memory) -> None:
        """On the disk when this returns. The memo tells about the value: only its owner may read it."""
        device = memory.device
        assert device.memo is not None
        content = {
            "form": FORM,
            "terms": fingerprint(self.client, self.domain),
            "limit": str(exact(self.limit.epsilon)),
            "periods": device.periods,
            "period": memory.period,
            "stand_in": memory.stand_in,
            "memo": device.memo.hex(),
        }
        beside = self.path.with_name(self.path.name + ".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            _put(file, json.dumps(content).encode())
        beside.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _put(file: BinaryIO, content: bytes) -> None:
    """Write to the disk, not only to the system's memory."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
