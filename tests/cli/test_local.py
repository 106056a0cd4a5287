"""`deniable local`: simulations agree with theory, the best oracle is named, the figures come out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deniable.cli.local import app
from deniable.local.simulate import PROTOCOLS
from deniable.reproduce import count_mean_sketch, local_vs_central, rappor

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments, env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_is_simulated_near_theory(protocol: str) -> None:
    said = json.loads(
        run(
            "simulate",
            "--protocol",
            protocol,
            "--epsilon",
            "1",
            "--users",
            "20000",
            "--items",
            "256",
            "--json",
        ).stdout
    )
    assert said["users"] == 20_000
    assert 0.4 * said["mse_theory"] < said["mse"] < 2 * said["mse_theory"]
    assert said["reports_per_second"] > 0


def test_a_simulation_in_words_shows_estimates_and_theory() -> None:
    said = run("simulate", "--protocol", "olh", "--users", "5000").stdout
    assert "LocalHashing: 5,000 reports of 4 bytes, ε = 1, 1,024 items" in said
    assert "95 % interval" in said
    assert "theory" in said


def test_the_best_oracle_is_named() -> None:
    said = json.loads(run("best", "--items", "1024", "--epsilon", "1", "--json").stdout)
    assert said["best"] == "LocalHashing"
    assert {row["protocol"] for row in said["protocols"]} >= {"OptimisedUnary", "SubsetSelection"}
    assert "variance per user" in run("best").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("simulate", "--protocol", "rot13"), "Expected protocol='rot13' to be one of best, grr"),
        (("simulate", "--epsilon", "0"), "Expected epsilon=0.0"),
        (("simulate", "--users", "0"), "Expected users=0"),
        (("best", "--most-bytes", "1"), "at least 4"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments, code=2)
    assert sentence in result.stderr
    assert result.stdout == ""


def test_rappor_is_reproduced(tmp_path: Path) -> None:
    report = rappor.run(tmp_path, lambda items, label: items)
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    assert report.rows[0][0] == "word-001"
    # Each absent word is found with probability 1/4000; six of a hundred never.
    assert sum(not str(row[0]).startswith("word") for row in report.rows) < 6
    assert "1.0743" in report.reading


def test_the_count_mean_sketch_is_reproduced(tmp_path: Path) -> None:
    report = count_mean_sketch.run(tmp_path, lambda items, label: items)
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    assert report.rows[0][4:] == ("found", "found")
    assert "found words are nobody's" in report.reading
    with report.write_table(tmp_path / "table.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == count_mean_sketch.SHOWN


def test_local_shuffled_and_central_errors_are_in_order(tmp_path: Path) -> None:
    report = local_vs_central.run(tmp_path, lambda items, label: items)
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    for users, local, inner, shuffled, central in report.rows:
        assert local > shuffled > central  # type: ignore[operator]
        assert inner >= 1  # type: ignore[operator]
        assert users
