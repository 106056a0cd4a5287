"""The network of Abadi et al. 2016: its loss is its parts', its budget is kept, and it learns."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.learn.recipes.abadi import PcaNetwork, tuned_for
from deniable.loss import Composed, GaussianNoise
from deniable.randomness import SeededRandom


def stripes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """28 × 28 images, each class bright in rows of its own."""
    rng, labels = np.random.default_rng(0), np.arange(n) % 10
    images = rng.integers(0, 80, (n, 28, 28))
    for i, label in enumerate(labels):
        images[i, 2 * label : 2 * label + 5] += 150
    return images.astype(np.uint8), labels


def small(**changes: object) -> PcaNetwork:
    settings = {
        "n": 1000,
        "components": 20,
        "hidden": 30,
        "lot": 200,
        "epochs": 6,
        "clip": 1.0,
        "learning_rate": 2.0,
    }
    return PcaNetwork(**(settings | {"final_rate": 2.0, "pca_noise": 1.0, "noise_multiplier": 1.0} | changes))  # type: ignore[arg-type]


def test_the_loss_is_that_of_the_projection_and_of_every_step() -> None:
    assert small().loss == Composed(
        (GaussianNoise(1.0), GaussianNoise(1.0).sampled(small().training.plan.rate) * 30)
    )
    assert small().loss.parts[1] == small().training.loss  # type: ignore[attr-defined]
    assert small(components=None).loss == small(components=None).training.loss
    assert small().loss_with(1.0, epochs=2).parts[1].times == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", [0.5, 8.0])
def test_the_budget_is_kept_and_used(target: float) -> None:
    spent = epsilon(tuned_for(target, 1e-5, epochs=2).loss, 1e-5).upper
    assert 0.99 * target < spent <= target


@pytest.mark.parametrize("components", [20, None])
def test_it_learns_and_is_seen_after_every_epoch(components: int | None) -> None:
    images, labels = stripes(1000)
    seen: list[tuple[int, float]] = []
    made = small(
        components=components, on_epoch=lambda epoch, net: seen.append((epoch, net.accuracy(images, labels)))
    )
    network = made((images, labels), rng=SeededRandom(1))
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert network.accuracy(images, labels) == seen[-1][1] > 0.8


def test_noise_that_drowns_the_data_leaves_nothing_to_learn() -> None:
    images, labels = stripes(300)
    assert small(noise_multiplier=1e4)((images, labels), rng=SeededRandom(1)).accuracy(images, labels) < 0.5


def test_no_data_and_bad_labels_are_no_failure() -> None:
    images, labels = stripes(4)
    for part in (0, 1, 4):
        small(epochs=1)((images[:part], labels[:part] - 3), rng=SeededRandom(1))


@functools.cache
def almost_silent() -> tuple[PcaNetwork, torch.nn.Module]:
    """A run on forty rows without noise to speak of, and what it gives."""
    images, labels = stripes(40)
    run = small(n=40, lot=40, epochs=2, components=None, noise_multiplier=1e-6)
    return run, run((images, labels.tolist()), rng=SeededRandom(1)).model


@pytest.mark.parametrize("bad", ["Ann", None, [1, 2], math.nan, 2**70])
def test_a_label_that_is_none_costs_its_own_row_only(bad: object) -> None:
    """Without noise to speak of and on all rows, a run with such a row more is the run without it."""
    images, labels = stripes(40)
    run, first = almost_silent()
    second = run((np.concatenate([images, images[:1]]), [*labels.tolist(), bad]), rng=SeededRandom(1)).model
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"components": 785}, "components=785"),
        ({"pca_noise": 0.0}, "noise"),
        ({"clip": -1.0}, "clip"),
        ({"lot": 0}, "lot"),
    ],
)
def test_parameters_without_meaning_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        small(**changes)


def test_what_the_network_sees_has_one_length() -> None:
    from deniable.learn.recipes.abadi import GAIN, inputs

    images, _ = stripes(5)
    projection = small().pca(images.reshape(5, -1), rng=SeededRandom(1))  # type: ignore[misc]
    for seen in (inputs(images, projection), inputs(images, None)):
        assert seen.norm(dim=1).tolist() == pytest.approx([GAIN] * 5, rel=1e-5)
    assert math.isfinite(float(inputs(np.zeros((1, 28, 28)), projection).sum()))
