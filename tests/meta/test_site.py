"""The documentation site: it builds without a warning, shows no raw formula, and asks no other machine for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source import ROOT
from tools.site import faults, mathml

pytestmark = pytest.mark.xdist_group("site")


WITHOUT_SOURCE = f"""
INHERIT: {ROOT}/mkdocs.yml
docs_dir: {ROOT}/docs
hooks: [{ROOT}/tools/site.py]
plugins:
  - offline
  - mkdocstrings:
      handlers:
        python:
          paths: [{ROOT}/src]
          options:
            show_source: false
            docstring_style: null
            extensions: [{ROOT}/tools/docstrings.py]
            filters: ["!^_"]
            heading_level: 2
"""
"""The site but for the coloured source of every function, which takes most of the time, and the index of its words."""


@pytest.fixture(
    scope="module",
    params=[WITHOUT_SOURCE, pytest.param(None, marks=pytest.mark.soak)],
    ids=["without source", "as it is"],
)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    if request.param is not None:
        settings = tmp_path_factory.mktemp("settings") / "mkdocs.yml"
        settings.write_text(request.param, encoding="utf-8")
        command += ["--config-file", str(settings)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DENIABLE_REPOSITORY": ""}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_no_page_loads_anything_from_another_machine(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(https?:)?//')
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name


def test_formulas_are_drawn_by_the_browser(site: Path) -> None:
    assert "<math" in (site / "course" / "gaussian.html").read_text(encoding="utf-8")
    assert "<mfrac>" in mathml("\\frac12", "inline")


def test_every_page_of_course_and_guide_has_a_figure_and_every_page_is_reached(site: Path) -> None:
    for page in (*(ROOT / "docs" / "course").glob("*.md"), *(ROOT / "docs" / "guide").glob("*.md")):
        assert page.name == "index.md" or "](../images/" in page.read_text(encoding="utf-8"), page.name
    named = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in named] == []


@pytest.mark.parametrize("html", ["<p>costs $x^2$</p>", '<img src="a.png" alt="">', '<img src="a.png">'])
def test_a_page_that_would_look_broken_is_found(html: str) -> None:
    assert faults(html)


def test_code_may_hold_a_dollar() -> None:
    assert faults("<pre><code>$ make demo</code></pre>") == []
