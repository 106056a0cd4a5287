"""Scattering: equal to its definition, blind to constants, exactly mirrored, and no image sees another."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from deniable.errors import InvalidParameter
from deniable.learn.scattering import (
    ANGLES,
    CHANNELS,
    FREQUENCY,
    SLANT,
    SPREAD,
    STEP,
    Scattering,
    mirror_order,
    mirrored,
)

SIZE = 12
PADDED = SIZE + 2 * STEP


def morlet(scale: int, angle: int) -> np.ndarray:
    """The wavelet in space, summed over its periods: a Gaussian window times a wave,
    less a Gaussian to have mean 0."""
    turn, spread = math.pi * angle / ANGLES, SPREAD * 2**scale
    at = np.arange(PADDED)[:, None] + PADDED * np.arange(-3, 4)
    y, x = (v.reshape(-1) for v in np.meshgrid(at.reshape(-1), at.reshape(-1), indexing="ij"))
    u, v = math.cos(turn) * x + math.sin(turn) * y, math.cos(turn) * y - math.sin(turn) * x
    window = np.exp(-(u**2 + (SLANT * v) ** 2) / (2 * spread**2)) * SLANT / (2 * math.pi * spread**2)
    wave = window * np.exp(1j * FREQUENCY / 2**scale * u)
    folded = [w.reshape(PADDED, 7, PADDED, 7).sum((1, 3)) for w in (wave, window)]
    return folded[0] - folded[0].sum() / folded[1].sum() * folded[1]


def convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Σ_t x[t]·w[s − t] around the padded image, term by term."""
    i = (np.arange(PADDED)[:, None] - np.arange(PADDED)) % PADDED
    return np.einsum("abcd,bd->ac", w[i[:, :, None, None], i[None, None, :, :]].transpose(0, 1, 2, 3), x)


def pool(u: np.ndarray) -> np.ndarray:
    """Gaussian means about the centres of 4 × 4 blocks."""
    at = np.arange(PADDED) - STEP
    weights = np.exp(-(((at - (STEP * np.arange(SIZE // STEP)[:, None] + 1.5)) / (2 * SPREAD)) ** 2) / 2)
    weights /= weights.sum(1, keepdims=True)
    return weights @ u @ weights.T


def test_order_0_and_the_fine_wavelets_are_those_of_the_definition() -> None:
    image = np.random.default_rng(0).random((SIZE, SIZE))
    padded = np.pad(image, STEP, mode="reflect")
    found = Scattering(SIZE)(torch.from_numpy(image)[None])[0].numpy()
    assert found[0] == pytest.approx(pool(padded), abs=1e-5)
    for angle in (0, 3, 6):
        expected = pool(np.abs(convolve(padded, morlet(0, angle))))
        assert found[1 + angle] == pytest.approx(expected, abs=1e-5)


def test_a_wave_answers_most_in_the_channel_of_its_angle_and_scale() -> None:
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    for scale in (0, 1):
        for angle in range(ANGLES):
            turn = math.pi * angle / ANGLES
            wave = torch.cos(FREQUENCY / 2**scale * (math.cos(turn) * x + math.sin(turn) * y))
            middle = Scattering(32)(wave[None])[0, 1 : 1 + 2 * ANGLES, 2:6, 2:6].mean((1, 2))
            assert int(middle.argmax()) == scale * ANGLES + angle


def test_a_constant_image_shows_in_its_mean_alone() -> None:
    found = Scattering(28)(torch.full((1, 28, 28), 0.7))
    assert found[0, 0].numpy() == pytest.approx(0.7, abs=1e-5)
    assert found[0, 1:].abs().max() < 1e-5


def test_mirroring_an_image_permutes_its_features_exactly() -> None:
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    features = Scattering(16)(images)
    assert torch.allclose(Scattering(16)(images.flip(3)), mirrored(features), atol=2e-6)
    assert not torch.allclose(mirrored(features), features, atol=1e-2)
    assert sorted(mirror_order()) == list(range(CHANNELS))


def test_no_image_sees_another() -> None:
    images = torch.rand(5, 28, 28, generator=torch.Generator().manual_seed(2))
    alone = torch.cat([Scattering(28)(image[None]) for image in images])
    spoilt = images.clone()
    spoilt[2] = math.nan
    for batch in (2, 16):
        assert torch.allclose(Scattering(28)(images, batch=batch), alone, atol=1e-6)
        rest = Scattering(28)(spoilt, batch=batch)[[0, 1, 3, 4]]
        assert torch.allclose(rest, alone[[0, 1, 3, 4]], atol=1e-6)


def test_colours_are_scattered_one_by_one() -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    together = Scattering(8)(images).reshape(2, 3, CHANNELS, 2, 2)
    assert torch.allclose(together[:, 1], Scattering(8)(images[:, 1]), atol=1e-6)


@pytest.mark.parametrize("size", [30, 4, True, 28.0])
def test_a_size_without_a_coarse_grid_is_refused(size: object) -> None:
    with pytest.raises(InvalidParameter, match="multiple of 4"):
        Scattering(size)  # type: ignore[arg-type]


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"Expected images of \[n, 28, 28\].*got \[1, 32, 32\]"):
        Scattering(28)(torch.zeros(1, 32, 32))
