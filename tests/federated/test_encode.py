"""Integers of bounded norm that stand for updates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard as hadamard_matrix

from deniable.errors import InvalidParameter
from deniable.federated.noise.encode import Encoding, centre, hadamard


@pytest.mark.parametrize("length", [1, 2, 8, 64])
def test_the_transform_is_hadamards_matrix_and_its_own_inverse(length: int) -> None:
    vector = np.random.default_rng(0).normal(size=length)
    np.testing.assert_allclose(
        hadamard(vector), hadamard_matrix(length) @ vector / np.sqrt(length), atol=1e-12
    )
    np.testing.assert_allclose(hadamard(hadamard(vector)), vector, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 5, 1000, (1 << 16) + 3])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 1e6])
def test_what_is_sent_has_a_bounded_norm_and_the_right_mean(dimension: int, scale: float) -> None:
    rng = np.random.default_rng(2)
    update = rng.normal(size=dimension)
    update *= scale / np.linalg.norm(update)
    encoding = Encoding(dimension, clip=1.0, step=1e-3, seed=b"x")
    sent = encoding.encode(update, rng)
    assert sent.dtype == np.int64
    assert int(sent @ sent) <= encoding.sensitivity**2
    assert encoding.sensitivity <= 1.0 / 1e-3 + np.sqrt(encoding.length)
    clipped = update / max(1.0, scale)
    assert np.linalg.norm(encoding.decode(sent) - clipped) <= 1e-3 * np.sqrt(encoding.length)


def test_rounding_keeps_the_mean() -> None:
    """Within 7 deviations of a mean over 4,000 draws: each coordinate is off by less
    than one step in each draw."""
    rng = np.random.default_rng(3)
    update = rng.normal(size=16)
    update /= 2 * np.linalg.norm(update)
    encoding = Encoding(16, clip=1.0, step=0.05)
    mean = np.mean([encoding.decode(encoding.encode(update, rng)) for _ in range(4000)], axis=0)
    assert np.abs(mean - update).max() < 7 * 0.05 / np.sqrt(4000)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_sent_as_zeros(odd: float) -> None:
    encoding = Encoding(3, clip=1.0, step=0.1)
    assert not encoding.encode(np.array([1.0, odd, 0.0]), np.random.default_rng(0)).any()


def test_an_update_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="3 numbers"):
        Encoding(3, clip=1.0, step=0.1).encode(np.zeros(4), np.random.default_rng(0))


def test_residues_are_read_nearest_to_zero() -> None:
    assert centre(np.array([0, 1, 32767, 32768, 65535, -1, 65536]), 16).tolist() == [
        0,
        1,
        32767,
        -32768,
        -1,
        -1,
        0,
    ]


def test_the_rotation_is_public_and_follows_its_seed() -> None:
    one, same, other = (Encoding(64, 1.0, 0.1, seed) for seed in (b"a", b"a", b"b"))
    assert np.array_equal(one._signs, same._signs)
    assert not np.array_equal(one._signs, other._signs)
