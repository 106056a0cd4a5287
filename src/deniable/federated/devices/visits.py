"""Which rounds a device took part in: each number once, and no more of them than its run declares."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deniable.errors import InvalidParameter


class Visits:
    """The last round that was taken, and how many were. In a file they outlive the process that took them.

    The file is read anew and written under a lock: of two processes that hold one file, and of two threads,
    one gets a round.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._last = self._count = 0
        self._read()

    def take(self, turn: int, limit: int | None) -> bool:
        """Whether round `turn` is taken now. It is on disk before this returns."""
        with self._lock, self._lock_file():
            self._read()
            if turn <= self._last or (limit is not None and self._count >= limit):
                return False
            self._last, self._count = turn, self._count + 1
            self._write()
            return True

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        if self._path is None:
            yield
            return
        with self._path.with_name(self._path.name + ".lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self) -> None:
        """What this process took counts also where somebody has put an older file in place, or none."""
        if self._path is None or not self._path.exists():
            return
        try:
            last, count = map(int, self._path.read_text(encoding="ascii").split())
        except (OSError, ValueError):
            raise InvalidParameter(
                f"Expected the memory of a device in {self._path}: it cannot be read."
            ) from None
        self._last, self._count = max(self._last, last), max(self._count, count)

    def _write(self) -> None:
        if self._path is None:
            return
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w", encoding="ascii") as file:
            file.write(f"{self._last} {self._count}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)  # the new name, too, must outlive a power cut
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
