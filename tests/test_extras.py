"""The command that brings an extra is one that works where it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deniable import extras
from deniable.errors import MissingExtra


class Noted:
    """An installation whose installer noted `origin` (PEP 610)."""

    def __init__(self, origin: dict[str, Any] | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "deniable[plot]"'),
        (
            {"url": "file:///home/my%20clone", "dir_info": {"editable": True}},
            'pip install -e "/home/my clone[plot]"',
        ),
        ({"url": "file:///home/clone", "dir_info": {}}, 'pip install "/home/clone[plot]"'),
        (
            {"url": "file:///home/deniable-0.2.0-py3-none-any.whl", "archive_info": {}},
            'pip install "deniable[plot] @ file:///home/deniable-0.2.0-py3-none-any.whl"',
        ),
        (
            {"url": "https://example.org/deniable", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            'pip install "deniable[plot] @ git+https://example.org/deniable"',
        ),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(
    origin: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras.metadata, "distribution", lambda _: Noted(origin))
    assert extras.install("plot") == command


def test_in_the_clone_itself_the_folder_is_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(extras.metadata, "distribution", lambda _: Noted(origin))
    monkeypatch.chdir(tmp_path)
    assert extras.install("learn") == 'pip install -e ".[learn]"'


def test_never_installed_it_comes_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> Noted:
        raise extras.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras.metadata, "distribution", unknown)
    error = extras.missing("Pictures need matplotlib", "plot")
    assert isinstance(error, MissingExtra)
    assert str(error) == 'Pictures need matplotlib: pip install "deniable[plot]".'
