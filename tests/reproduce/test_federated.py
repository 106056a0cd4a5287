"""Tables of federated averaging, on made-up digits: rows and figures are there, and what
was computed is not computed again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from deniable.federated import mcmahan
from deniable.reproduce import communication, fedavg_shakespeare, fedavg_tables

Item = TypeVar("Item")


def quiet(items: Sequence[Item], label: str) -> Iterable[Item]:
    return items


def digits(rows: int = 1000) -> mcmahan.Digits:
    """A bright bar whose place is the digit: easy to learn."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 10, count)
        x = rng.uniform(0, 0.3, (count, 28, 28)).astype(np.float32)
        for row, label in zip(x, labels, strict=True):
            row[2 * label : 2 * label + 3] += 0.7
        return x, labels

    class Images:
        images, labels = drawn(rows)
        test_images, test_labels = drawn(200)

    return mcmahan.Digits.from_images(Images)


def test_methods_stand_beside_each_other_with_what_they_send(tmp_path: Path) -> None:
    chosen = [communication.METHODS[k] for k in (0, 1, -1)]
    report = communication.report(
        [replace(m, max_rounds=3, interval=1) for m in chosen], digits(), tmp_path, quiet
    )
    assert [row[1] for row in report.rows] == ["FedSGD", "FedAvg, E = 1", "SCAFFOLD, E = 1"]
    assert report.figure.exists()
    report.write_table(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == list(report.columns)


def test_plays_are_learnt_by_role_and_evenly(tmp_path: Path) -> None:
    play = "".join(f"{role}:\n{'to be or not ' * 30}\n\n" for role in ("ROMEO", "NURSE", "TYBALT", "PARIS"))
    cells = (("by role", 1, 2, 1.0, 2, 1), ("IID", 1, None, 1.0, 2, 1))
    report = fedavg_shakespeare.report(play, cells, tmp_path, quiet)
    assert [row[0] for row in report.rows] == ["by role, E = 1, B = 2", "IID, E = 1, B = ∞"]
    assert [row[1] for row in report.rows] == [4, 4]
    assert report.figure.exists()


def test_bytes_and_steps_are_those_of_the_method() -> None:
    sgd, _, five, *_, scaffold = communication.METHODS
    assert sgd.steps == 1
    assert five.steps == 300
    assert scaffold.megabytes == pytest.approx(2 * sgd.megabytes) == pytest.approx(2 * 10 * 4 * 0.199_210)
    assert communication._row(five, 10.0)[3:] == (10.0, round(10 * five.megabytes), 3000)
    assert communication._row(five, None)[3] == "> 100"


def test_a_cell_of_the_tables_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = fedavg_tables.TableCell("2NN", "IID", 0.1, 1, 10, 87, (0.1, 0.2), 2)
    first = fedavg_tables.outcome(cell, digits(), tmp_path)
    longer = fedavg_tables.outcome(replace(cell, most=3), digits(), tmp_path)
    assert (first.played, longer.played) == (2, 3)
    assert {number: longer.scores[number] for number in first.scores} == first.scores
    monkeypatch.setattr(fedavg_tables, "simulate_cell", None)
    assert fedavg_tables.outcome(replace(cell, paper=1), digits(), tmp_path) == longer


def test_the_picture_has_a_plane_for_each_split_and_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = digits()
    monkeypatch.setattr(fedavg_tables, "load", lambda name: None)
    monkeypatch.setattr(mcmahan.Digits, "from_images", lambda images: data)
    cells = [replace(cell, most=1, every=1) for cell in fedavg_tables.DEFAULT[1:17:5]]
    report = fedavg_tables.report(cells, tmp_path, quiet)
    assert [cell.panel for cell in cells] == [
        "2NN, IID, B = 10",
        "2NN, IID, B = ∞",
        "2NN, shards, B = 10",
        "2NN, shards, B = ∞",
    ]
    assert {cell.curve for cell in cells} == {"C = 0.1"}
    assert [row[4] for row in report.rows] == ["> 1"] * 4
    assert report.figure.stat().st_size > 10_000


def test_a_cell_that_was_not_played_out_says_so() -> None:
    cell = fedavg_tables.TableCell("2NN", "IID", 0.1, 1, None, None, (0.1,), 7)
    early = fedavg_tables.TrainingOutcome(0.1, None, {5: 0.5}, 7, 1.2)
    assert fedavg_tables._row(cell, early)[3:] == ("–", "> 7", "50.0", 1)
    assert fedavg_tables._row(cell, replace(early, rounds=4.26))[4] == 4.3
