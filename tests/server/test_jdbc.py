"""Java's own door to PostgreSQL, which most BI tools are built on: the driver that Debian packs, on a real JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.requirements import find_driver, find_java
from tests.server.hospital import hospital
from tests.server.test_clients import COLUMNS

PROGRAM = Path(__file__).parent / "jdbc" / "Asked.java"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the program printed, by the first word of a line.

    The service is its own: what another test asked of a common one would be kept there, and cost nothing here.
    """
    java, driver = find_java(), find_driver()
    assert java is not None
    assert driver is not None
    with hospital(tmp_path_factory.mktemp("jdbc")) as running:
        address = f"jdbc:postgresql://127.0.0.1:{running.port}/visits?sslmode=disable"
        command = [java, "-Xmx256m", "-cp", str(driver), str(PROGRAM), address, "ada", running.tokens["ada"]]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert run.returncode == 0, run.stderr
        lines: dict[str, list[str]] = {"spent": [str(running.spent())]}
    for line in run.stdout.splitlines():
        word, _, rest = line.partition(" ")
        lines.setdefault(word, []).append(rest)
    return lines


@pytest.mark.needs("jdbc")
def test_a_java_program_sees_what_is_declared(said: dict[str, list[str]]) -> None:
    assert said["product"] == ["PostgreSQL"]
    assert said["table"] == ["visits"]
    assert [line.split()[0] for line in said["column"]] == COLUMNS
    assert "admitted date" in said["column"]
    counts = dict(line.split() for line in said["count"])
    assert [counts[what] for what in ("primary", "imported", "exported", "index")] == ["0"] * 4
    assert counts["catalogs"] == "1"


@pytest.mark.needs("jdbc")
def test_a_java_program_asks_and_is_told_the_cost(said: dict[str, list[str]]) -> None:
    assert said["shape"] == ["text int8"]
    assert [line.split()[0] for line in said["row"]] == ["F", "M"]
    assert any(line.startswith("Cost: ε = 0.5") for line in said["notice"])


@pytest.mark.needs("jdbc")
def test_a_prepared_query_is_paid_once_in_text_and_in_binary(said: dict[str, list[str]]) -> None:
    assert len(said["turn"]) == 6
    assert len(set(said["turn"])) == 1
    assert float(said["spent"][0]) == pytest.approx(1.0)


@pytest.mark.needs("jdbc")
def test_a_java_program_is_refused_in_sentences(said: dict[str, list[str]]) -> None:
    assert len(said["refused"]) == 3
    assert "done" not in said
    assert all(len(line.split()[0]) == 5 for line in said["refused"])
