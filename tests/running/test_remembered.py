"""A ledger whose tables were remembered is the one that the migrations make."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deniable.ledger import Ledger
from deniable.ledger.store import migrate
from tests.running import remembered


def read_file(path: Path) -> list[object]:
    """All that a new ledger is made of, but for its own name and seals."""
    with closing(sqlite3.connect(path)) as file:
        tables = file.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
        ).fetchall()
        version = file.execute(f"SELECT * FROM {migrate.TABLE}").fetchall()
        pragmas = [file.execute(f"PRAGMA {name}").fetchall() for name in ("application_id", "user_version")]
        counts = [
            file.execute(f"SELECT COUNT(*) FROM {name}").fetchall()
            for kind, name, *_ in tables
            if kind == "table"
        ]
    return [tables, version, pragmas, counts]


def test_both_ways_make_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert migrate._upgrade is remembered.upgrade
    Ledger.open("sqlite://").close()  # from here on the statements are remembered
    assert migrate.NEWEST in remembered._tables
    Ledger.open(f"sqlite:///{tmp_path}/remembered.db").close()
    monkeypatch.setattr(migrate, "_upgrade", remembered.by_migrations)
    Ledger.open(f"sqlite:///{tmp_path}/migrated.db").close()
    assert read_file(tmp_path / "remembered.db") == read_file(tmp_path / "migrated.db")
