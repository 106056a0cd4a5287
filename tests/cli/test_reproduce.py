"""`deniable reproduce` lists what there is and writes a figure and a table."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from deniable import extras, reproduce
from deniable.reproduce import abadi_figure2
from tests.cli.runner import run, sentence


def test_every_reproduction_is_listed_with_its_summary() -> None:
    said = run("reproduce").stdout
    for name in reproduce.names():
        assert name in said
        assert reproduce.summary(name) == reproduce.load(name).SUMMARY
        assert "\n" not in reproduce.summary(name)
    assert "abadi-figure2" in reproduce.names()


def test_abadi_figure_2_comes_out_as_printed_and_tight(tmp_path: Path) -> None:
    said = run("reproduce", "abadi-figure2", "--out", str(tmp_path)).stdout
    assert (tmp_path / "abadi-figure2.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "abadi-figure2.csv").open(encoding="utf-8") as file:
        rows = {int(row["epoch"]): row for row in csv.DictReader(file)}
    assert 1.25 <= float(rows[100]["moments"]) <= 1.27
    assert 2.55 <= float(rows[400]["moments"]) <= 2.58
    assert float(rows[100]["strong"]) == pytest.approx(26.39, abs=0.005)
    for epoch, least, most in ((100, 0.9468, 0.9470), (400, 2.0329, 2.0334)):
        low, high = map(float, rows[epoch]["tight bracket"].strip("[]").split(","))
        assert low <= most
        assert high >= least
        assert high - low <= 1e-3 * high + 1e-4
    assert "no valid bound" in said


def test_without_matplotlib_the_table_is_there_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("reproduce", "laplace-utility", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "The error of a count by its ε" in result.stdout
    assert extras.install("plot") in " ".join(result.stdout.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["laplace-utility.csv"]


def test_the_figure_has_a_point_for_every_number_that_the_paper_prints() -> None:
    assert {e for points in abadi_figure2.PRINTED.values() for e in points} <= set(abadi_figure2.EPOCHS)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    assert "There are: abadi-figure2" in sentence("reproduce", "figure-9")
    assert "Expected the name" in sentence("reproduce", "report")
