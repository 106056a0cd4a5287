"""The tutorials as notebooks: each page of docs/tutorials becomes one of examples/notebooks.

    python -m tools.notebooks

Text stays text, examples become cells without their prompts, shell commands become cells with a `!`. The page
is the source: a test compares the notebooks with it and runs them.
"""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NOTEBOOKS = ROOT / "examples" / "notebooks"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> dict[str, Any]:
    """The notebook of a page, without outputs."""
    cells, at = [], 0
    for block in BLOCK.finditer(page):
        cells += _prose(page[at : block.start()])
        at = block.end()
        cells += [_cell("code", text) for text in _code(block[1], block[2])]
    cells += _prose(page[at:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _prose(text: str) -> list[dict[str, Any]]:
    # Pages link to one another by their place in docs/.
    linked = re.sub(r"\]\(\.\./", "](../../docs/", text.strip())
    return [_cell("markdown", linked)] if linked else []


def _code(language: str, text: str) -> list[str]:
    if language == "console":
        return ["\n".join(f"!{line[2:]}" for line in text.splitlines() if line.startswith("$ "))]
    cells: list[str] = []
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(text):
        if example.exc_msg is not None:  # a refusal is shown, not an end of the notebook
            cells += ["".join(lines).rstrip()] if lines else []
            lines = []
            cells.append(_refused(example.source))
        else:
            lines.append(example.source)
    return [*cells, "".join(lines).rstrip()] if lines else cells


def _refused(source: str) -> str:
    return f"try:\n    {source.rstrip()}\nexcept dp.DeniableError as refusal:\n    print(refusal)"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def text_of(page: Path) -> str:
    return json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        (NOTEBOOKS / f"{page.stem}.ipynb").write_text(text_of(page), encoding="utf-8")


if __name__ == "__main__":
    main()
