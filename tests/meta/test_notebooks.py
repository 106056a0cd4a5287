"""The notebooks are those of the tutorials, and every cell runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tools.notebooks import NOTEBOOKS, PAGES, text_of


def test_there_is_a_notebook_for_each_newcomer() -> None:
    assert {page.stem for page in PAGES} == {"steward", "analyst", "engineer", "officer", "lecturer"}
    assert {page.stem for page in PAGES} == {path.stem for path in NOTEBOOKS.glob("*.ipynb")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_its_page(page: Path) -> None:
    path = NOTEBOOKS / f"{page.stem}.ipynb"
    assert path.read_text(encoding="utf-8") == text_of(page), "python -m tools.notebooks writes it anew"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the cells do is tested with the pages; that a kernel does it too, with one of them."""
    # As in an activated environment, where the command is on the path.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    book = nbformat.read(NOTEBOOKS / f"{page.stem}.ipynb", as_version=4)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(str(cell.get("outputs", "")) for cell in book.cells)
    assert "command not found" not in printed
    assert "Traceback" not in printed
