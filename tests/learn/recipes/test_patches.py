"""Drawn pictures and the patch features made from them: constants of the program, blind
to mirroring and to neighbours."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from deniable.learn.recipes import leaves, patches


def test_chance_is_a_fixed_stream() -> None:
    """A model must find the same dictionary on any machine: these are the first numbers
    of Philox-4x64 with key 0."""
    found = leaves.uniform(4, key=0)
    assert found.tolist() == ((np.random.Philox(key=0).random_raw(4) >> 11) * 2.0**-53).tolist()
    assert hashlib.sha256(leaves.uniform(1000, key=0).tobytes()).hexdigest().startswith("3606d59a0dcf7955")
    assert not np.array_equal(found, leaves.uniform(4, key=1))
    assert ((found >= 0) & (found < 1)).all()


def test_drawn_pictures_are_covered_and_have_edges_and_a_falling_spectrum() -> None:
    drawn = leaves.pictures(2, 64)
    assert drawn.shape == (2, 3, 64, 64)
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    assert torch.equal(drawn, leaves.pictures(2, 64))
    power = torch.fft.fft2(drawn - drawn.mean((2, 3), keepdim=True)).abs().square().mean((0, 1))
    assert float(power[1:4, 1:4].mean()) > 30 * float(power[16:32, 16:32].mean())
    steps = drawn.diff(dim=3).abs().flatten()
    assert float(steps.median()) < 0.1 * float(steps.quantile(0.98))


def test_a_leaf_covers_what_lies_behind_it() -> None:
    front = np.array([0.99, 0.5, 0.5, 0, 0.5, 0.0, 0.9, 0.5, 0.5, 0.5, 0.5])
    behind = front.copy()
    behind[6] = 0.1
    canvas = leaves._cover(np.stack([front, behind]), 64)
    assert canvas[:, 32, 32] == pytest.approx(0.9)
    assert canvas[:, 31:33, 31:33] == pytest.approx(0.9)


def test_features_are_those_of_the_definition() -> None:
    picture = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0))
    filters = patches.dictionary().T.double().reshape(-1, 3, 6, 6)
    answers = torch.zeros(512, 14, 14, dtype=torch.float64)
    for i in range(14):
        for j in range(14):
            patch = picture[:, 2 * i : 2 * i + 6, 2 * j : 2 * j + 6].double()
            centred = patch - patch.mean()
            scaled = centred / (centred.square().mean() + 10 / 255**2).sqrt()
            answers[:, i, j] = (filters * scaled).sum((1, 2, 3))
    at, centre = (np.arange(14) + 0.5) / 14, np.array([1, 3, 5, 7]) / 8
    weights = np.maximum(0, 1 - 4 * abs(at - centre[:, None]))
    pool = torch.from_numpy(weights / weights.sum(1, keepdims=True))
    up, down = (pool @ (sign * answers - 0.25).clamp_min(0) @ pool.T for sign in (1, -1))
    expected = torch.cat([part[:256] + part[256:].flip(2) for part in (up, down)]).flatten(1)
    assert patches.features(picture[None])[0].numpy() == pytest.approx(expected.numpy(), abs=1e-4)


def test_a_mirror_image_has_the_same_features() -> None:
    pictures = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(patches.features(pictures), patches.features(pictures.flip(3)), atol=1e-4)
    assert not torch.allclose(patches.features(pictures), patches.features(pictures.flip(2)), atol=1e-2)


def test_features_do_not_change_with_brightness_or_neighbours_and_flat_pictures_have_none() -> None:
    pictures = 0.3 + 0.4 * torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    found = patches.features(pictures)
    assert torch.allclose(patches.features(pictures + 0.2), found, atol=1e-3)
    assert torch.equal(patches.features(pictures[2:]), found[2:])
    assert not patches.features(torch.full((1, 3, 32, 32), 0.5)).any()
    assert patches.features(pictures[:0]).shape == (0, 512, 16)


def test_the_dictionary_whitens_drawn_patches() -> None:
    even = patches.normal(patches._patches(leaves.pictures(1, 64, key=5), stride=1))
    white = even.double() @ patches._whitener(even.double())
    values = torch.linalg.eigvalsh(torch.cov(white.T))
    assert float(values.max()) < 1.01
    before = torch.linalg.eigvalsh(torch.cov(even.T.double()))
    assert float(values.max() / values.median()) < 0.2 * float(before.max() / before.median())
    assert patches.dictionary().shape == (108, 512)
