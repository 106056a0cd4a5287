"""What the README and the guide show is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.pages import blocks, failures
from tests.meta.source import ROOT

FOLDERS = ("guide", "coming", "course", "tutorials")
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).glob("*.md")),
]

LONG = {
    "recipes.md": ("patches.features(", "principal.of_drawn(", "colours("),
    "cli.md": ("attack reconstruct --people 4096", "reproduce abadi-figure2"),
}
"""Statements and commands that take many seconds and have tests of their own: `make soak` runs them on the page too."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_the_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not (wrong := failures(page, LONG.get(page.name, ()))), "\n".join(wrong)


@pytest.mark.soak
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in LONG], ids=lambda page: page.name)
def test_a_long_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not (wrong := failures(page)), "\n".join(wrong)


def test_what_is_left_out_stands_on_its_page() -> None:
    for name, words in LONG.items():
        (page,) = [page for page in PAGES if page.name == name and page.parent.name == "guide"]
        text = page.read_text(encoding="utf-8")
        assert [word for word in words if word not in text] == []


def test_the_readme_shows_commands_and_python() -> None:
    assert {block.language for block in blocks((ROOT / "README.md").read_text(encoding="utf-8"))} >= {
        "console",
        "python",
    }


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("python\n>>> 1 + 1\n3\n", "Expected:\n    3\nGot:\n    2"),
        ("console\n$ deniable --version\ndeniable 9.9\n", "stands there:\ndeniable 9.9"),
        ("console\n$ curl example.org\n", "curl is not run here"),
    ],
)
def test_a_planted_falsehood_is_found(tmp_path: Path, block: str, told: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```{block}```\n", encoding="utf-8")
    (said,) = failures(page)
    assert told in said


@pytest.mark.parametrize(
    ("shown", "right"), [("flu  8,310 ± 89", True), ("flu  ± 89", False), ("flu", False)]
)
def test_noise_may_differ_and_nothing_else(tmp_path: Path, shown: str, right: bool) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\n>>> print('flu  -7.25 ± 91')\n{shown}\n```\n", encoding="utf-8")
    assert (failures(page) == []) is right


def test_names_live_on_from_block_to_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 20\n```\n\n```python\n>>> x + 1\n21\n```\n", encoding="utf-8")
    assert failures(page) == []
