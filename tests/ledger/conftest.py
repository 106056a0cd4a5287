"""A real SQLite file and a real PostgreSQL server for every test that asks for a ledger."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deniable.ledger import Ledger
from deniable.ledger.store import migrate
from tests.postgres import server
from tests.running import remembered

BACKENDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres")))


@pytest.fixture(autouse=True)
def _by_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, where ledgers are what is tested, every one of them is migrated."""
    monkeypatch.setattr(migrate, "_upgrade", remembered.by_migrations)


@pytest.fixture
def postgres_url() -> str:
    """A new, empty schema of its own: to a ledger as good as a new database, and made much faster."""
    name = f"ledger_{uuid.uuid4().hex[:12]}"
    server().psql(f"CREATE SCHEMA {name};")
    address = str(server().get_uri())
    return f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{name}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/privacy.db"


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a new ledger, once in each kind of database."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "ledger.key"))
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url, analyst="ada") as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[Ledger]:
    with Ledger.open("sqlite://", analyst="ada") as opened:
        yield opened


@pytest.fixture
def crowd() -> Callable[..., object]:
    """Processes that start from a fresh server process in which our modules are loaded already."""
    import multiprocessing
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.ledger.workers"])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The server keeps the environment of the test that starts it, for all that come after: no key of its own.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DENIABLE_LEDGER_KEY", raising=False)
        forkserver.ensure_running()
    return context.Process
