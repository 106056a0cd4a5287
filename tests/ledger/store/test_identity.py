"""Quick looks at which file a path shows: the same answer as `os.stat`, whatever happens to the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from deniable.ledger.store import identity as module
from deniable.ledger.store.identity import identity, watch


@pytest.fixture(params=["by the system's call", "without it", "refused by a filter"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    ways: dict[str, Any] = {"without it": None, "refused by a filter": lambda *_: -1}
    if request.param in ways:
        monkeypatch.setattr(module, "_statx", lambda: ways[request.param])
    return str(request.param)


def test_a_look_tells_what_the_path_shows_now(tmp_path: Path, way: str) -> None:
    file, other, folder = tmp_path / "é file", tmp_path / "other", tmp_path / "folder"
    file.touch()
    other.touch()
    folder.mkdir()
    look = watch(str(file))
    first = look()
    assert first == identity(str(file)) is not None
    os.replace(other, file)
    assert look() == identity(str(file)) != first
    file.unlink()
    assert look() is None
    file.symlink_to(folder)
    assert look() == identity(str(folder))


def test_two_looks_have_a_room_each(tmp_path: Path, way: str) -> None:
    names = [str(tmp_path), "/dev/null", str(Path(__file__))]
    looks = [watch(name) for name in names]
    assert [look() for look in looks] == [identity(name) for name in names]
    assert len({look() for look in looks}) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="the call is one of Linux")
def test_a_look_does_not_ask_for_times(tmp_path: Path) -> None:
    """Asked for its times, a file must get a new one with the next write."""
    assert module._statx() is not None
    assert module.INODE & 0x0E0 == 0  # neither STATX_ATIME, STATX_MTIME nor STATX_CTIME
