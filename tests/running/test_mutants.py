"""The list of guards that are put out by hand is whole, and the command that puts them out does what it says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.meta.source import ROOT
from tools import mutants

ROOMS = ("ledger", "accounting", "mechanisms", "sql", "learn/clip", "federated", "smooth", "server", "audit")


def test_there_are_forty_from_every_room_and_their_tests_exist() -> None:
    """That each text still stands where it did is looked at when they run: a renaming shall not wait for it."""
    entries = tomllib.loads(mutants.LIST.read_text(encoding="utf-8"))["mutant"]
    assert len(entries) >= 40
    assert [room for room in ROOMS if not any(entry["file"].startswith(room) for entry in entries)] == []
    assert [test for entry in entries for test in entry["tests"] if not (ROOT / test).exists()] == []
    assert len({entry["what"] for entry in entries}) == len(entries)


def mutant(old: str, new: str) -> mutants.Mutant:
    return mutants.Mutant("a planted one", "small.py", old, new, ("tests/test_small.py",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in (
        ("src/deniable/small.py", "def double(x):\n    return 2 * x\n\n\ndef idle():\n    return 1\n"),
        ("tests/test_small.py", "from small import double\n\n\ndef test_it():\n    assert double(3) == 6\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['src/deniable']\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_guard_with_a_test_is_noticed_and_one_without_is_not(tree: Path) -> None:
    before = (tree / "src/deniable/small.py").read_text(encoding="utf-8")
    assert mutants.is_noticed(mutant("2 * x", "3 * x"), tree)
    assert not mutants.is_noticed(mutant("return 1", "return 2"), tree)
    assert (tree / "src/deniable/small.py").read_text(encoding="utf-8") == before


def test_what_cannot_be_imported_is_no_notice(tree: Path) -> None:
    assert not mutants.is_noticed(mutant("def double(x):", "def double(x:"), tree)


@pytest.mark.parametrize("old", ["4 * x", "return"])
def test_a_text_that_does_not_stand_there_once_is_an_error(tree: Path, old: str) -> None:
    with pytest.raises(ValueError, match="times in"):
        mutants.is_noticed(mutant(old, "pass"), tree)
