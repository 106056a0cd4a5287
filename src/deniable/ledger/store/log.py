"""Whether the write-ahead log on disk still holds what SQLite believes to be in it.

A process goes on with what it remembers of pages, and with the index of the log in shared memory. A log that
was emptied, cut off or written over in place keeps its inode, so neither notices: charges are then written
behind a gap, and whoever reads the log anew finds nothing beyond the gap. So every frame that the index calls
committed is looked at once, by its salts, and the last one, by its checksum of all before it, in each look.

SQLite takes no lock on the log, so it may be opened and closed here. The index has all locks of a process,
which closing it would drop: it is read through the descriptor that SQLite itself has open.
Reference: sqlite.org/walformat.html, sections 2.1 and 4.
"""

from __future__ import annotations

import os
import struct
import weakref
from typing import NamedTuple

HEADER, FRAME = 32, 24
"""Bytes before the first frame of a log, and before the page in each frame."""
INDEX_HEADER = 48
"""Bytes of one of the two equal copies in which the index says what is committed."""

TRIES = 100
"""Readings of the index until its two copies are the same: a writer changes both in a moment."""
LARGEST_PAGE = 1 << 16
"""Bytes of a page, which two bytes cannot say."""


class Committed(NamedTuple):
    """What the index of a log says, byte by byte: its last committed frame, that frame's checksum, and the
    salts that all frames have since the log was last begun anew."""

    copies: bytes
    page: int
    frames: int
    checksum: bytes
    salts: bytes

    def place(self, frame: int) -> int:
        """Where the frame of a number, from 1, begins."""
        return HEADER + (frame - 1) * (FRAME + self.page)


class Log:
    """The log of one connection. `index` is SQLite's own descriptor of the index."""

    def __init__(self, path: str, index: int) -> None:
        self._index, self._file = index, os.open(path, os.O_RDONLY)
        self._last_look: tuple[bytes, int, bytes] = (b"", 0, b"")
        """Salts, number and bytes of the last committed frame at the last look."""
        self._last_index, self._last_place = b"", 0
        """What the index said at that look, both copies, and where that frame begins."""
        self.close = weakref.finalize(self, os.close, self._file)
        self.close.atexit = False  # whoever is still open then has a last look

    def is_intact(self, *, after_commit: bool = False) -> bool:
        """Whether every committed frame is on disk. Another process may write meanwhile: what the index says
        must be the same before and after a frame was missed. Right after a commit of this connection the
        frames between the last look, at its beginning, and the last one are its own, and just written."""
        if self._is_unchanged():
            return True
        while True:
            frames = self._read_commit()
            if frames is None or self._holds(frames, is_walked=not after_commit):
                return True
            if self._read_commit() == frames:
                return False

    def _is_unchanged(self) -> bool:
        """Whether index, header and last frame are byte by byte what they were when all of it was on disk."""
        salts, _, frame = self._last_look
        return (
            frame != b""
            and os.pread(self._index, 2 * INDEX_HEADER, 0) == self._last_index
            and os.pread(self._file, HEADER, 0)[16:24] == salts
            and os.pread(self._file, FRAME, self._last_place) == frame
        )

    def _holds(self, commit: Committed, *, is_walked: bool) -> bool:
        if commit.frames == 0:
            return True
        if os.pread(self._file, HEADER, 0)[16:24] != commit.salts:
            return False
        salts, first, last = self._last_look
        if salts != commit.salts:  # begun anew, after all of it was written into the database
            first, last = 0, b""
        if first > commit.frames or (first and self._frame(commit, first) != last):
            return False
        start = first + 1
        if first and not is_walked:
            start = max(start, commit.frames)
        for number in range(start, commit.frames + 1):
            last = self._frame(commit, number)
            if last[8:16] != commit.salts:
                return False
        if last[16:24] != commit.checksum:
            return False
        self._last_look = commit.salts, commit.frames, last
        self._last_index, self._last_place = commit.copies, commit.place(commit.frames)
        return True

    def _frame(self, commit: Committed, number: int) -> bytes:
        return os.pread(self._file, FRAME, commit.place(number))

    def _read_commit(self) -> Committed | None:
        """None before there is any, or where a writer ended between the two copies: SQLite then reads the log
        anew before it goes on."""
        for _ in range(TRIES):
            header = os.pread(self._index, 2 * INDEX_HEADER, 0)
            if header[:INDEX_HEADER] == header[INDEX_HEADER:]:
                break
        else:
            return None
        if not any(header):
            return None
        page, frames, _, *checksum = struct.unpack_from("=HIIII", header, 14)
        page = LARGEST_PAGE if page == 1 else page
        return Committed(header, page, frames, struct.pack(">2I", *checksum), header[32:40])
