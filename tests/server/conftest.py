"""A real service on loopback, on free ports, with its people and a data set; one for the tests that only ask,
new ones for the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from deniable.server.people import secrets
from tests.server.hospital import Hospital, hospital, opened, settings


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Argon2 with a small memory: its strength is not what these tests are about, and they log in often."""
    before = secrets._HASHER, secrets._NOBODY
    secrets._HASHER = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    secrets._NOBODY = secrets._HASHER.hash("nobody")
    yield
    secrets._HASHER, secrets._NOBODY = before


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    """One service for many tests: with limits that they do not reach together."""
    with hospital(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The files of a service whose people and data set were entered once, and their tokens."""
    folder = tmp_path_factory.mktemp("furnished")
    with hospital(folder) as running:
        return folder, running.tokens


@pytest.fixture
def fresh(tmp_path: Path, furnished: tuple[Path, dict[str, str]]) -> Iterator[Hospital]:
    """A service that nobody has asked: it opens a copy of those files. A copy is another source: who asks what has been
    granted builds a `hospital`."""
    folder, tokens = furnished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with opened(settings(tmp_path)) as running:
        yield Hospital(**vars(running), tokens=dict(tokens))
