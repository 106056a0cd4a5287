"""`deniable reproduce mnist-pate`, on scikit-learn's small digits in place of MNIST: the
same way, a table and a figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from deniable.datasets.real import Images
from deniable.reproduce import mnist_pate
from tests.learn.pate.test_student import scans

BUDGETS = ((20.0, 30), (40.0, 40))


def small(name: str) -> Images:
    assert name == "mnist"
    images, labels = scans(), load_digits().target.astype(np.uint8)
    return Images(images[:900], labels[:900], images[900:], labels[900:], tuple("0123456789"))


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = (
        mnist_pate.DigitSplit(mnist_pate.PAPERS, np.arange(600, 897), 897),
        mnist_pate.DigitSplit("rotation 1", np.arange(300), 897),
    )
    for name, value in (
        ("load", small),
        ("SPLITS", splits),
        ("TEACHERS", 20),
        ("RECORDS", 900),
        ("BUDGETS", BUDGETS),
        ("REPEATS", 1),
    ):
        monkeypatch.setattr(mnist_pate, name, value)


@pytest.mark.usefixtures("little")
def test_the_table_has_a_row_for_each_budget_and_rotation_and_the_figure_is_drawn(tmp_path: Path) -> None:
    report = mnist_pate.run(tmp_path, lambda items, label: items)
    assert [row[0] for row in report.rows] == [
        *["the papers' split (mean of 1)"] * 2,
        "rotation 1",
        "all rotations (mean)",
    ]
    assert [row[2] for row in report.rows[:2]] == [30, 40]
    for row, (budget, _) in zip(report.rows, BUDGETS, strict=False):
        assert 0.98 * budget <= float(str(row[1])) <= budget
    assert all(float(str(row[-1]).rstrip(" %")) > 75 for row in report.rows)
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    assert "nothing is refunded" in report.reading
    assert report.write_table(tmp_path / "table.csv").read_text(encoding="utf-8").count("\n") == 5


def test_the_splits_are_those_of_the_papers_and_rotations_of_all() -> None:
    papers, *rotations = mnist_pate.SPLITS
    assert papers.test_rows.tolist() == list(range(9_000, 10_000))
    assert papers.public.tolist() == list(range(9_000))
    assert sorted(np.concatenate([each.test_rows for each in rotations]).tolist()) == list(range(10_000))
    assert all(len(np.intersect1d(each.test_rows, each.public)) == 0 for each in mnist_pate.SPLITS)
