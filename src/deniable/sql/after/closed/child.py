"""A process that runs statements over released tables, under limits of the operating system.

    python -m deniable.sql.after.closed.child

It is started anew, never forked, with nothing but two pipes: it reads a request from one and writes the
answer to the other, until the first ends. It opens its next connection while it waits, so that a question
does not. Memory, processor time and files are limited by the kernel, since no engine counts all that it
allocates: whatever DuckDB does, this process ends before the machine notices. Whoever started it says then
what happened.

Where there is no module `resource` (Windows), what is left are DuckDB's own limit of memory and the clock of
whoever started it, who ends it.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import IO, Any

import pyarrow as pa

from deniable.errors import InvalidQuery
from deniable.sql.after.closed import messages
from deniable.sql.after.closed.connection import Closed, OutOfMemory, check_size, out_of_memory

if sys.platform != "win32":
    import resource

ADDRESS_SPACE = 700_000_000
MEMORY = "700 MB, with the program itself"
REQUEST = 1 << 30
"""Bytes of released tables at most; the address space is smaller."""
STATEMENTS = 1_000
"""After so many another process takes its place: whatever one may have leaked goes with it."""
POLITE = 10
"""How much others go before it, as `nice` counts."""


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Until the other side ends, memory has run out once, or it has served long enough: its reply says then
    that it was the `last`."""
    _try_out()
    _limit_process()
    messages.write(replies, {"ready": True})
    for rest in reversed(range(STATEMENTS)):
        connection = Closed(memory=MEMORY)
        try:
            header, contents = messages.read(requests, REQUEST)
        except EOFError:
            return
        _forbid_files(True)
        _limit_time(float(header["seconds"]))
        before = time.process_time()
        error, tables, is_sound = _run_request(connection, header, contents)
        _limit_time(None)
        is_last = not is_sound or rest == 0
        seconds = time.process_time() - before
        messages.write(replies, {"error": error, "seconds": seconds, "last": is_last}, tables)
        if is_last:
            return
        _forbid_files(False)
        connection.close()


def _run_request(
    connection: Closed, header: dict[str, Any], contents: list[bytes]
) -> tuple[str | None, list[pa.Buffer], bool]:
    """What is wrong, or the answer; and whether this process is still as it was."""
    try:
        tables = dict(zip(header["names"], map(messages.unpacked, contents), strict=True))
        connection.fill(tables, header["setup"])
        content = messages.packed(connection.answer(header["text"], lists=bool(header["lists"])))
        check_size(0, content.size)
        return None, [content], True
    except (OutOfMemory, MemoryError) as error:
        return str(error) or out_of_memory(MEMORY), [], False
    except InvalidQuery as error:
        return str(error), [], True


def _try_out() -> None:
    """All that is loaded at its first use is used before files are forbidden."""
    with Closed() as connection:
        connection.fill({"t": messages.unpacked(messages.packed(pa.table({"x": [1, 2], "y": ["a", "b"]})))})
        text = (
            "SELECT x, SUM(x) OVER (ORDER BY y) AS s, strftime(DATE '2020-01-31', '%Y-%m') AS d, [y] AS l, "
            "CAST('2020-01-31 10:00:00+02' AS TIMESTAMPTZ) AS z, regexp_matches(y, 'a+') AS r, "
            "x / 3 AS q, CAST(x AS DECIMAL(9, 2)) AS c, INTERVAL 1 DAY AS i FROM t"
        )
        messages.packed(connection.answer(text))


# ------------------------------------------------------------------------------------------------- limits


def _limit_process() -> None:
    """For good: no core, no byte in any file, no process more, an end to addresses."""
    if sys.platform == "win32":
        return
    os.nice(POLITE)
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, ADDRESS_SPACE),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _limit_time(seconds: float | None) -> None:
    """The kernel counts all seconds that a process has used, and ends it when they are over."""
    if sys.platform == "win32":
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    end = resource.RLIM_INFINITY
    if seconds is not None:
        end = math.ceil(time.process_time() + seconds)
    if hard != resource.RLIM_INFINITY:
        end = hard if end == resource.RLIM_INFINITY else min(end, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (end, hard))


def _forbid_files(forbidden: bool) -> None:
    """While a statement runs nothing can be opened, not even by an engine that were talked into it. (To open
    a connection DuckDB looks at the machine.)"""
    if sys.platform == "win32":
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (0 if forbidden else min(hard, 64), hard))


def main() -> None:
    """The pipes are kept from whatever else writes to the standard output."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with os.fdopen(os.dup(0), "rb") as requests, replies:
        serve(requests, replies)


if __name__ == "__main__":
    main()
