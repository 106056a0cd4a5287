"""Write a section of docs/benchmarks.md between its markers and leave the other sections alone."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Each section was printed and written here by one run of `make bench` (peers run in the same process and on the same
machine; ratios carry over to other machines, times do not).
"""


def write_section(name: str, markdown: str, page: Path = PAGE) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`, or add the section at the end."""
    text = page.read_text(encoding="utf-8") if page.exists() else HEAD
    section = f"<!-- {name} -->\n{markdown.strip()}\n<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {re.escape(name)} -->.*?<!-- /{re.escape(name)} -->", re.DOTALL)
    found = pattern.search(text)
    text = pattern.sub(lambda _: section, text) if found else f"{text.rstrip()}\n\n{section}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
