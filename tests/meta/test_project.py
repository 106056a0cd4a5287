"""The project keeps its own rules: warnings are errors, the changelog knows the version,
no machine is named."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import deniable
from tests.meta.source import ROOT, list_nodes, modules

WARN = "import warnings\nwarnings.warn('old', DeprecationWarning)"


def run_as(module: str, code: str) -> None:
    exec(compile(code, "<planted>", "exec"), {"__name__": module})


def test_a_warning_from_our_own_module_is_an_error() -> None:
    with pytest.raises(DeprecationWarning, match="old"):
        run_as("deniable.planted", WARN)


def test_a_warning_from_elsewhere_is_not() -> None:
    with warnings.catch_warnings(record=True) as seen:
        run_as("elsewhere", WARN)
    assert [str(w.message) for w in seen] == ["old"]


def test_the_changelog_and_the_metadata_know_the_version() -> None:
    assert version("deniable") == deniable.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(deniable.__version__)}\b", changelog, re.MULTILINE)


def test_processes_are_never_forked_by_multiprocessing() -> None:
    """A forked child inherits locked locks and, worse, generator states."""
    text = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    assert [
        name
        for name, code in text.items()
        if re.search(r"""(get_context|set_start_method)\(["']fork["']""", code)
    ] == []
    bare = r"\bmultiprocessing\.(Pool|Process|Queue)\(|from multiprocessing import .*\b(Pool|Process)\b"
    assert [name for name, code in text.items() if re.search(bare, code)] == []


def test_files_are_read_and_written_as_utf8() -> None:
    calls = [
        (name, node.lineno)
        for name, path in modules().items()
        for node in list_nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in {"read_text", "write_text"} and "encoding" not in {k.arg for k in node.keywords}
    ]
    assert calls == []


def test_make_says_what_each_target_does() -> None:
    said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None
    assert {line.split()[1] for line in said.splitlines()} == set(phony.group(1).split())


def fake_python(path: Path, refused: str) -> str:
    """A Python that fails where it is asked for `refused`."""
    script = f'#!/bin/sh\ncase "$*" in *"{refused}"*) exit 1;; esac\nexec "{sys.executable}" "$@"\n'
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        ("version_info <", "Deniable needs Python 3.11 to 3.14, but"),
        ("import ensurepip", "comes without ensurepip"),
    ],
)
def test_make_says_in_one_sentence_what_python_lacks(tmp_path: Path, refused: str, sentence: str) -> None:
    python, venv = fake_python(tmp_path / "python", refused), tmp_path / "venv"
    command = ["make", "-s", f"PYTHON={python}", f"VENV={venv}", "demo"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode != 0
    assert sentence in made.stdout
    assert len(made.stdout.splitlines()) == 1
    assert not venv.exists()


def test_make_says_so_if_there_is_no_python(tmp_path: Path) -> None:
    command = ["make", "-s", "PYTHON=no-such-python", f"VENV={tmp_path / 'venv'}", "demo"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Deniable needs Python 3.11 to 3.14, but 'no-such-python' is not there;" in made.stdout


def test_the_citation_knows_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == deniable.__version__


def test_the_workflows_test_every_python_that_is_promised_and_run_what_ci_runs() -> None:
    folder = ROOT / ".github" / "workflows"
    flows = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in folder.glob("*.yml")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = {line.rsplit(" ", 1)[1] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)}
    test = flows["test"]["jobs"]["test"]
    assert set(test["strategy"]["matrix"]["python"]) == promised
    assert test["steps"][-1]["run"] == "bash .ci/run"
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = [
        step["run"]
        for flow in flows.values()
        for job in flow["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert {word.split()[1] for word in commands if word.startswith("make ")} <= set(targets)


def test_the_links_of_a_released_readme_lead_to_the_repository() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    text = "[a](docs/a.md) ![b](docs/b.png) [c](#c) [d](https://d)"
    there = "[a](https://x/docs/a.md) ![b](https://x/docs/b.png) [c](#c) [d](https://d)"
    assert build.absolute(text, "https://x") == there
