"""Whether the files that a SQLite connection has open are still the ones that its path shows.

SQLite opens a database and its write-ahead log once and goes on with what it opened. A file that was
renamed, deleted or put back from a backup meanwhile is written on all the same, where nobody else
looks. So a connection remembers device and inode of the database, of the log (`-wal`) and of the index of the
log (`-shm`, which also has the locks of writers), and `check` compares them with what the path shows now. As
long as a file is open its inode is not given to another, so equal numbers are the same file.

A database that was written over in place keeps its inode. It shows by its size or its time: only a checkpoint
changes these. `check` then drops what SQLite remembers of its pages, and says so. A log that was written over
shows by its frames (`log`).

Where a file system has no inodes (FAT on Windows shows 0), only a missing file is seen. Windows itself
refuses to rename or delete a database that is open.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from deniable.errors import LedgerError
from deniable.ledger.store.identity import Identity as Identity
from deniable.ledger.store.identity import identity as identity
from deniable.ledger.store.identity import watch
from deniable.ledger.store.log import Log
from deniable.process import abandon

LOG, INDEX, KEY = "-wal", "-shm", ".key"
TRIES = 8
"""Openings until one is known to have opened what the path shows."""


class Files(NamedTuple):
    """The database and what lies beside it, each by device and inode; None for what is not there."""

    target: str
    database: Identity | None
    log: Identity | None
    log_index: Identity | None


class Pinned(sqlite3.Connection):
    """A connection that knows which files it has open."""

    path = ""
    files = Files("", None, None, None)
    stamp = (0, 0)
    log: Log | None = None

    def pin(self, path: str, files: Files) -> None:
        """Remember what is open. The connections of a process share one index of a log: where another has
        another one, this one uses that too, whatever the path shows."""
        for other in list(_PINNED):
            if other.files.database == files.database and other.files.log_index not in (
                None,
                files.log_index,
            ):
                raise move_error(path, other.files)
        _PINNED.add(self)
        self.path, self.files = path, files
        # The names and numbers of every check, once.
        self._log_path = files.target + LOG
        self._look_at_log, self._look_at_index = watch(self._log_path), watch(files.target + INDEX)
        self._is_link = files.target != path
        index = _descriptor(files.log_index)
        if files.log is not None and index is not None:
            self.log = Log(self._log_path, index)

    def close(self) -> None:
        """Close, unless the log was taken away or written over: then SQLite would write the old log, or what
        is left of it, into the database and delete the new one, with all that others have charged since."""
        if self.moved_log:
            abandon(self)
            return
        _PINNED.discard(self)
        if self.log is not None:
            self.log.close()
            self.log = None
        super().close()

    def check(self) -> bool:
        """Raise if the path shows other files. True if the database was written to since the last check, by a
        checkpoint or by somebody else; what was remembered of its pages is then forgotten."""
        files = self.files
        try:
            status = os.stat(self.path)
            if (status.st_dev, status.st_ino) != files.database or status.st_nlink > 1:
                raise self._move_error()
            if files.log is not None and (
                self._look_at_log() != files.log or self._look_at_index() != files.log_index
            ):
                raise self._move_error()
            if self._is_link and _target(self.path) != files.target:
                raise self._move_error()
            if self.log is not None and not self.log.is_intact(after_commit=not self.in_transaction):
                raise move_error(self.path, files, LOG_LOST)
        except OSError:
            raise self._move_error() from None
        stamp = status.st_size, status.st_mtime_ns
        if stamp == self.stamp:
            return False
        self.stamp = stamp
        self.execute("PRAGMA shrink_memory")
        return True

    @property
    def pages_of_log(self) -> int:
        """At most so many pages are in the log."""
        return _size(self._log_path) // 4096

    @property
    def moved_log(self) -> bool:
        """Whether the database is where it was and its log is not, or is not what it was."""
        if self.files.log is None:
            return False
        now = look(self.path)
        if now.database != self.files.database:
            return False
        return now != self.files or (self.log is not None and not self.log.is_intact())

    def _move_error(self) -> LedgerError:
        return move_error(self.path, self.files)


_PINNED: weakref.WeakSet[Pinned] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """What is still open when the process ends is closed by nobody, if it must not be."""
    for connection in list(_PINNED):
        if connection.moved_log:
            abandon(connection)


LOG_LOST = f"has a log ({LOG} beside it) that was emptied, cut off or written over by another program"


def move_error(path: str, files: Files, words: str | None = None) -> LedgerError:
    """The error that says what happened to the files of an open database, in `words` if they are known, and
    what to do."""
    now = look(path)
    if words is not None:
        what = words
    elif now.database is None:
        what = "is no longer there: it was deleted or renamed, or its folder was"
    elif now.database != files.database:
        what = "is another file than the one that was opened: it was replaced, or restored from a backup"
    elif _links(path) > 1:
        what = (
            "has a second name (a hard link). Each name has a log of its own, so one would not know what the "
            "other was charged"
        )
    else:
        what = f"has lost its log ({LOG} or {INDEX} beside it): it was deleted, replaced, or stayed behind"
    return LedgerError(
        f"The file {path} {what}. Nothing was released. A charge that was under way may be in the file "
        "that was opened, and nowhere else. Stop every process that uses it, put the newest file back "
        f"together with its {LOG} file, check it with `deniable ledger verify`, and start again."
    )


def connect(path: Path, *arguments: Any, **options: Any) -> Pinned:
    """Open a database, and know exactly which files that opened.

    The path may be swapped while it is opened. Where the system lists the open files of a process (Linux,
    macOS), the files must be among those opened meanwhile; elsewhere the path must show the same before and
    after.
    """
    name, spare = os.path.abspath(path), []
    try:
        for attempt in range(TRIES):
            before, handles = look(name), _handles()
            connection = sqlite3.connect(*arguments, factory=Pinned, **options)
            spare.append(connection)
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # opens the log
            after = look(name)
            # SQLite follows links once, when it opens: this is the file it came to.
            real = connection.execute("PRAGMA database_list").fetchone()[2]
            if after.database == identity(real) and _are_proved(
                before, after, handles, last=attempt == TRIES - 1
            ):
                connection.pin(name, after)
                spare.remove(connection)
                return connection
    finally:
        for connection in spare:
            connection.close()
    raise LedgerError(
        f"The file {name} changes while it is opened. Nothing was opened and nothing was released. Try again "
        "when whoever moves it has finished."
    )


def _are_proved(earlier: Files, later: Files, handles: set[int] | None, *, last: bool) -> bool:
    """Whether the files `later` an opening are those that it opened. SQLite may use again what it has open
    already, an index always, a database sometimes: that is taken, in the `last` attempt, where nothing
    changed."""
    if later.database is None or later.target != earlier.target:
        return False
    identities = _opened_since(handles)
    if identities is None or last:
        return all(a in (None, b) for a, b in zip(earlier[1:], later[1:], strict=True))
    new_log = later.log is None or later.log in identities
    return later.database in identities and new_log and later.log_index in (earlier.log_index, *identities)


def look(path: str) -> Files:
    """What the path shows now."""
    target = _target(path)
    return Files(target, identity(path), identity(target + LOG), identity(target + INDEX))


def check_complete(path: Path) -> None:
    """Refuse to begin a database where a log or a key says that there was one: what was charged in it would
    count no more. Log and key are made after the database, so that no crash at the first creation leaves them
    alone."""
    left = [name for name in (_target(str(path)) + LOG, str(path) + KEY) if _size(name)]
    if left and not _size(str(path)):
        names = " and ".join(left)
        raise LedgerError(
            f"There is no ledger in {path}, but {names} of one that was there. The ledger was moved, deleted "
            "or emptied, and what was charged in it would no longer count. Nothing was created and nothing "
            "was released. Put the file back, together with its log if it had one. If this is a new start, "
            f"on data of which nothing was released, remove {names} first."
        )


def _target(path: str) -> str:
    """The file behind a name that is a symbolic link: SQLite keeps the log beside that one."""
    for _ in range(40):
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            return path
    return path


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _links(path: str) -> int:
    try:
        return os.stat(path).st_nlink
    except OSError:
        return 0


def _size(path: str) -> int:
    return _stamp(path)[0]


def _handles() -> set[int] | None:
    """The numbers of the files that this process has open; None where the system does not tell."""
    try:
        return {int(name) for name in os.listdir("/dev/fd")}
    except (OSError, ValueError):
        return None


def _descriptor(identity: Identity | None) -> int | None:
    """The number by which this process has a file open; None where it has not, or where nobody can tell."""
    for handle in _handles() or ():
        try:
            status = os.fstat(handle)
        except OSError:  # closed meanwhile
            continue
        if (status.st_dev, status.st_ino) == identity:
            return handle
    return None


def _opened_since(handles: set[int] | None) -> set[Identity] | None:
    now = _handles()
    if handles is None or now is None or not now - handles:
        return None
    identities = set()
    for handle in now - handles:
        try:
            status = os.fstat(handle)
        except OSError:  # closed meanwhile
            continue
        identities.add((status.st_dev, status.st_ino))
    return identities
