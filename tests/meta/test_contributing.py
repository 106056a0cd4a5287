"""CONTRIBUTING's lists of files to touch (`How to add …`) name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## How to add")[2]
ITEMS = re.split(r"\n(?=- |\d\. )", SECTION.strip())


def files(item: str) -> list[str]:
    """The paths in an item; one with a <name> in it stands for any."""
    return [word for word in re.findall(r"`([\w./]+)`", item) if word.endswith((".py", ".md", ".html", "/"))]


def missing(item: str) -> list[str]:
    """Paths that lead nowhere: from the root, from the package, or from a folder that the item named before."""
    bases, lost = [ROOT, ROOT / "src" / "deniable"], []
    for name in files(item):
        places = [base / name for base in bases if (base / name).exists()]
        if not places:
            lost.append(name)
        bases += [place for place in places if place.is_dir()]
        bases += [place.parent for place in places]
    return lost


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item[:30])
def test_every_file_of_a_list_exists(item: str) -> None:
    assert missing(item) == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing("a leaf in `loss/leaves.py` or `leafs.py`, beside `noises.py`") == ["leafs.py"]
    assert sum(len(files(item)) for item in ITEMS) > 40
