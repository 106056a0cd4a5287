"""What a test needs and this machine lacks is left out loudly, or fails where it is required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source import ROOT
from tests.requirements import JAVAS, REQUIREMENTS, VARIABLE, find_java, java_version, required

PLANTED = """
import pytest

@pytest.mark.needs("spark")
def test_on_spark():
    pass

def test_elsewhere():
    pass
"""


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def run_planted(tmp_path: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """pytest with our conftest on two planted tests, on a machine whose Java is too old for Spark."""
    fake_java(tmp_path / "jdk", "1.8.0_401")
    planted = tmp_path / "test_planted.py"
    planted.write_text(PLANTED, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist",
        "-p",
        "tests.conftest",
    ]
    rest = {k: v for k, v in os.environ.items() if k != VARIABLE and not k.startswith("PYTEST_")}
    return subprocess.run(
        [*command, *options, str(planted)],
        cwd=ROOT,
        env={
            **rest,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
            "JAVA_HOME": str(tmp_path / "jdk"),
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_401", 8), ("25.0.1", 25)])
def test_java_tells_its_version(text: str, major: int) -> None:
    assert java_version(f'openjdk version "{text}" 2025-04-15') == major


@pytest.mark.parametrize(
    ("version", "good"), [("17.0.15", True), ("21.0.2", True), ("11.0.2", False), ("25", False)]
)
def test_only_java_that_spark_runs_on_is_taken(tmp_path: Path, version: str, good: bool) -> None:
    java = fake_java(tmp_path, version)
    assert find_java({"JAVA_HOME": str(tmp_path)}) == (str(java) if good else None)
    assert (java_version(f'version "{version}"') in JAVAS) is good


def test_a_machine_without_java_has_none(tmp_path: Path) -> None:
    assert find_java({"PATH": str(tmp_path)}) is None
    assert find_java({"JAVA_HOME": str(tmp_path)}) is None


def test_what_is_required_can_be_looked_for() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if VARIABLE in line)
    assert required({VARIABLE: line.split("=")[1]}) == REQUIREMENTS.keys()


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_missing_requirement_is_one_loud_line(tmp_path: Path, workers: str) -> None:
    run = run_planted(tmp_path, "-n", workers)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("NOT TESTED: spark. Spark tests need Java 17 or 21") == 1
    assert "1 passed" in run.stdout


def test_a_missing_requirement_fails_where_it_is_required(tmp_path: Path) -> None:
    run = run_planted(tmp_path, **{VARIABLE: "spark,postgres"})
    assert run.returncode == 1
    assert "DENIABLE_REQUIRE names spark, but it is missing." in run.stdout
    assert "1 passed, 1 error" in run.stdout
