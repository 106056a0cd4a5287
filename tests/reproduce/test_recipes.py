"""The reproductions of private learning, on a handful of generated images in place of the real ones."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deniable.learn.recipes import abadi, cifar10, mnist
from deniable.learn.recipes.linear import LinearDescent
from deniable.reproduce import (
    abadi_figure3,
    abadi_figure4,
    abadi_figure5,
    abadi_figure6,
    cifar_dpsgd,
    load,
    mnist_dpsgd,
    names,
)
from deniable.reproduce.report import Report
from tests.learn.recipes.drawings import few_drawn

SHORT = LinearDescent(steps=10, learning_rate=1, clip=0.5)
NETWORK = abadi.network
"""With a thousand hidden units in the paper, and few here: what is tested is the report."""


def plain(items, label):  # type: ignore[no-untyped-def]
    return items


def images(shape: tuple[int, ...], n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Each class is bright in its own rows."""
    rng, labels = np.random.default_rng(0), np.arange(n, dtype=np.uint8) % 10
    pictures = rng.integers(0, 60, (n, *shape)).astype(np.uint8)
    for i, label in enumerate(labels):
        pictures[i, ..., 2 * label : 2 * label + 4, :] += 150
    return pictures, labels


def idx(values: np.ndarray) -> bytes:
    return gzip.compress(
        b"\0\0\x08"
        + bytes([values.ndim])
        + b"".join(s.to_bytes(4, "big") for s in values.shape)
        + values.tobytes()
    )


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DENIABLE_DATA", str(tmp_path))
    digits, pictures = images((28, 28)), images((3, 32, 32))
    for name in ("mnist", "cifar10"):
        (tmp_path / name).mkdir()
    for part in ("train", "t10k"):
        (tmp_path / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(digits[0]))
        (tmp_path / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(digits[1]))
    rows = np.concatenate([pictures[1][:, None], pictures[0].reshape(60, -1)], axis=1)
    for i in range(1, 6):
        (tmp_path / "cifar10" / f"data_batch_{i}.bin").write_bytes(rows[:12].tobytes())
    (tmp_path / "cifar10" / "test_batch.bin").write_bytes(rows.tobytes())
    for module in (mnist, cifar10):
        monkeypatch.setattr(module, "SETTINGS", dict.fromkeys(module.SETTINGS, SHORT))
    monkeypatch.setattr(abadi, "network", lambda features, hidden: NETWORK(features, min(hidden, 30)))
    with few_drawn():
        yield


def whole(report: Report, out: Path, rows: int) -> None:
    assert report.figure.read_bytes().startswith(b"\x89PNG")
    with report.write_table(out / "table.csv").open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == rows + 1
    assert len(report.reading) > 100


def test_mnist_has_a_row_for_every_epsilon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist_dpsgd, "RUNS", 1)
    monkeypatch.setattr(mnist_dpsgd, "NETWORK", (8.0,))
    monkeypatch.setattr("deniable.learn.recipes.abadi.TUNED", {"epochs": 0.1})
    report = mnist_dpsgd.run(tmp_path, plain)
    whole(report, tmp_path, 5)
    assert [row[2] for row in report.rows] == [97.0, None, None, None, 98.7]


def test_cifar_stands_beside_three_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_dpsgd, "RUNS", 2)
    report = cifar_dpsgd.run(tmp_path, plain)
    whole(report, tmp_path, 3)
    published = [(1.0, None, None, 72.3), (3.0, None, 69.3, None), (8.0, 73.0, None, None)]
    assert [row[:4] for row in report.rows] == published
    assert "±" in str(report.rows[0][4])


def test_figure_3_prints_the_epsilon_of_then_and_the_tight_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abadi_figure3, "EPOCHS", 1)
    report = abadi_figure3.run(tmp_path, plain)
    whole(report, tmp_path, 3)
    for _, noise, pca_noise, moments, tight, *_ in report.rows:
        assert float(tight) > 0  # type: ignore[arg-type]
        assert float(moments) > 0  # type: ignore[arg-type]
        assert float(pca_noise) > float(noise)  # type: ignore[arg-type]


def test_figure_4_is_monotone_in_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EPOCHS", 2), ("EVERY", 1), ("NOISE", (2.0, 8.0)), ("DELTAS", (1e-2, 1e-5))):
        monkeypatch.setattr(abadi_figure4, name, value)
    report = abadi_figure4.run(tmp_path, plain)
    whole(report, tmp_path, 5)
    for column in (1, 2):
        found = [float(row[column]) for row in report.rows if row[column] is not None]  # type: ignore[arg-type]
        assert found == sorted(found)
    assert all(float(row[1] or 0) >= float(row[2] or 0) for row in report.rows)  # type: ignore[arg-type]


def test_figure_5_varies_one_parameter_at_one_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abadi_figure5, "VARIED", {"clip": ("clip", (0.1, 1.0)), "lot": ("lot", (600, 6000))})
    monkeypatch.setattr(abadi_figure5, "BASE", {"epochs": 1})
    report = abadi_figure5.run(tmp_path, plain)
    whole(report, tmp_path, 4)
    noise = [float(row[2]) for row in report.rows]  # type: ignore[arg-type]
    assert noise[0] == noise[1]
    assert noise[3] > noise[2]


def test_figure_6_says_what_takes_the_place_of_public_data(tmp_path: Path) -> None:
    report = abadi_figure6.run(tmp_path, plain)
    whole(report, tmp_path, 3)
    assert "CIFAR-100" in report.reading
    for target, tight, *_ in report.rows:
        assert float(tight) == pytest.approx(float(target), rel=1e-6)  # type: ignore[arg-type]
        assert float(tight) <= float(target)  # type: ignore[arg-type]


def test_the_list_needs_no_torch() -> None:
    expected = {"mnist-dpsgd", "cifar-dpsgd", *(f"abadi-figure{i}" for i in (3, 4, 5, 6))}
    assert expected <= set(names())
    assert all("CPU minutes" in load(name).SUMMARY for name in expected)
