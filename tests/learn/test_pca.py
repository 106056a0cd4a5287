"""Private principal components: the right directions, a sensitivity that holds, both noises."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from deniable import Budget, Ledger, Unit
from deniable.accounting import epsilon
from deniable.errors import InvalidParameter, UnitMismatch
from deniable.learn.pca import NORM, PrivatePCA
from deniable.ledger import Filter
from deniable.loss import GaussianNoise
from deniable.randomness import SeededRandom


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Three strong directions of ten."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 10)) * np.array([8, 5, 3, *[0.2] * 7])


def found(pca: PrivatePCA, data: np.ndarray) -> float:
    """How much of the three strong directions lies in those found: 3 if all."""
    return float(np.square(pca(data, rng=SeededRandom(1)).components[:, :3]).sum())


def test_the_strong_directions_are_found() -> None:
    for pca in (PrivatePCA(10, 3, noise_multiplier=10), PrivatePCA(10, 3, epsilon=1)):
        directions = pca(rows(20_000), rng=SeededRandom(1)).components
        assert directions @ directions.T == pytest.approx(np.eye(3), abs=1e-9)
        assert found(pca, rows(20_000)) > 2.95
    assert found(PrivatePCA(10, 3, noise_multiplier=10_000), rows(500)) < 2.5


def test_the_strongest_direction_comes_first() -> None:
    directions = PrivatePCA(10, 3, noise_multiplier=1)(rows(20_000), rng=SeededRandom(1)).components
    assert np.abs(directions).argmax(1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("length", [1e-20, 1.0, 1e20, 3e38, math.nan, math.inf, 0.0])
def test_no_row_moves_the_sum_by_more_than_the_sensitivity(length: float) -> None:
    """In Frobenius norm and, above the diagonal, in L1."""
    pca, data = PrivatePCA(10, 3, epsilon=1), rows(50)
    worst = np.full((1, 10), 1.0) * length
    moved = (pca.moments(np.vstack([data, worst])) - pca.moments(data)).numpy()
    assert np.array_equal(moved, np.rint(moved))
    assert np.linalg.norm(moved) <= NORM**2
    assert np.abs(np.triu(moved)).sum() <= pca.loss.sensitivity  # type: ignore[union-attr]


def test_the_pure_sensitivity_is_nearly_attained() -> None:
    pca = PrivatePCA(16, 3, epsilon=1)
    moved = np.abs(np.triu(pca.moments(np.ones((1, 16))).numpy())).sum()
    assert moved == pca.loss.sensitivity  # type: ignore[union-attr]


def test_a_row_that_is_no_row_is_left_out() -> None:
    pca, data = PrivatePCA(10, 2, noise_multiplier=1), rows(100)
    spoilt = np.vstack([data, np.full((1, 10), math.nan)])
    assert torch.equal(pca.moments(spoilt), pca.moments(data))


def test_the_budget_is_kept_and_used() -> None:
    spent = epsilon(PrivatePCA.for_budget(2, 1e-5, features=784, components=60).loss, 1e-5)
    assert 1.999 < spent.upper <= 2
    assert epsilon(PrivatePCA.for_budget(2, 0, features=784, components=60).loss, 0).upper == pytest.approx(2)


def test_noise_is_of_the_stated_size() -> None:
    """On no data the matrix is noise alone; its eigenvalues fill [−2√d·s, 2√d·s], s = σ/√2 off the
    diagonal."""
    import deniable.learn.recipes.exact as exact

    noise = exact.noisy_symmetric(
        PrivatePCA(200, 1, noise_multiplier=3).moments(np.zeros((0, 200))), 3, NORM**2, SeededRandom(1)
    )
    largest = float(torch.linalg.eigvalsh(noise).max()) / NORM**2
    assert largest == pytest.approx(2 * math.sqrt(200) * 3 / math.sqrt(2), rel=0.1)


def test_transform_scales_rows_as_the_fit_did() -> None:
    projection = PrivatePCA(10, 10, noise_multiplier=1)(rows(100), rng=SeededRandom(1))
    turned = projection.transform(np.vstack([rows(5), np.zeros((1, 10))]))
    assert np.linalg.norm(turned, axis=1) == pytest.approx([1] * 5 + [0])


def test_an_account_runs_it_and_one_of_another_unit_does_not() -> None:
    pca = PrivatePCA(10, 2, noise_multiplier=5)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("a", Unit.row(), limit=Budget(3, 1e-5), filter=Filter.basic)
        release = account.run(pca, rows(1000), delta=1e-6)
        assert release.value.components.shape == (2, 10)
        assert release.loss == GaussianNoise(5)
        other = ledger.create("b", Unit.row(replace=True), limit=Budget(3, 1e-5))
        with pytest.raises(UnitMismatch):
            other.run(pca, rows(10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": 3, "components": 4, "noise_multiplier": 1}, "components=4 to be at most features=3"),
        ({"features": 3, "components": 2}, "either noise_multiplier"),
        ({"features": 0, "components": 1, "noise_multiplier": 1}, "features=0"),
        ({"features": 3, "components": 2, "noise_multiplier": 0}, "noise_multiplier=0"),
        ({"features": 3, "components": 2, "epsilon": -1}, "epsilon=-1"),
    ],
)
def test_parameters_without_meaning_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        PrivatePCA(**settings)  # type: ignore[arg-type]


def test_components_that_are_noise_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """One direction is strong. The other components are noise alone, whose strength is that of Wigner's law."""
    random = np.random.default_rng(0)
    data = np.outer(random.choice([-1, 1], 3000), np.eye(60)[0])
    gaussian = PrivatePCA(60, 5, noise_multiplier=4)(data, rng=SeededRandom(1))
    assert gaussian.above_noise == 1
    assert "4 of 5 components are no stronger than noise alone" in caplog.text
    assert 0.7 * gaussian.noise < gaussian.strengths[1] < gaussian.noise * 1.1
    caplog.clear()
    laplace = PrivatePCA(60, 3, epsilon=0.1)(data, rng=SeededRandom(1))
    assert laplace.above_noise < 3
    assert "or a δ above 0" in caplog.text
    assert 0.7 * laplace.noise < laplace.strengths[1] < laplace.noise * 1.1
    caplog.clear()
    assert PrivatePCA(60, 1, noise_multiplier=4)(data, rng=SeededRandom(1)).above_noise == 1
    assert not caplog.text
