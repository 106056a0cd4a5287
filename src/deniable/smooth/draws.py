"""Noisy copies of one input: whole-number noise exactly, continuous noise as floating point allows.

Continuous noise comes from a generator of NumPy's, keyed anew for every input with 256 bits of the
cryptographic one: an input cannot have been made to fit it. Whole-number noise and kept pixels come from the
cryptographic generator itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
)
from deniable.errors import InvalidParameter
from deniable.mechanisms.integer_noise import gaussian, laplace
from deniable.randomness.generator import Generator

Array = NDArray[Any]
Draw = Callable[[int], Array]

LARGEST, WIDEST = 2**30, 2**20
"""Whole numbers and the width of their noise: together they stay within 32 bits, but for
a chance of e^−1000."""


def noisy_copies(noise: InputNoise, x: Array, rng: Generator) -> Draw:
    """A function of n that gives n fresh noisy copies of `x`, stacked; the noise is
    independent in every call."""
    check_input(noise, x)
    match noise:
        case Releases(parts):
            draws = [noisy_copies(part, x, rng) for part in parts]
            return lambda n: np.stack([draw(n) for draw in draws], axis=1)
        case Ablation():
            return lambda n: _ablated(noise, x, n, rng)
        case _:
            draw = noise_of(noise, x.shape, x.dtype, rng)
            return lambda n: x + draw(n)


def noise_of(noise: InputNoise, shape: tuple[int, ...], dtype: Any, rng: Generator) -> Draw:
    """The noise alone, n times: of `dtype` where it is continuous, of 32-bit integers where it is not."""
    if not noise.integer:
        return _continuous(noise, shape, np.dtype(dtype), np.random.Generator(np.random.PCG64DXSM(_key(rng))))
    size = int(np.prod(shape))

    def draw(n: int) -> Array:
        return _integers(noise, n * size, rng).astype(np.int32).reshape(n, *shape)

    return draw


def check_input(noise: InputNoise, x: Array) -> None:
    """Whole-number noise is for whole numbers: on others the theorem says nothing."""
    if isinstance(noise, Ablation):
        if positions(noise, x.shape) is None:
            raise InvalidParameter(f"Expected an input of {noise.pixels} pixels, got one of shape {x.shape}.")
    elif noise.integer:
        _check_integers(noise, x)
    elif x.dtype not in (np.float32, np.float64):
        raise InvalidParameter(f"Expected 32- or 64-bit floats under {noise}, got {x.dtype}.")
    is_integer = noise.integer and np.issubdtype(x.dtype, np.integer)
    if is_integer and len(x) and int(np.abs(x.astype(np.int64)).max()) > LARGEST:
        raise InvalidParameter(f"Expected whole numbers up to {LARGEST:,} in size.")


def _check_integers(noise: InputNoise, x: Array) -> None:
    if not np.issubdtype(x.dtype, np.integer):
        raise InvalidParameter(
            f"Expected whole numbers under {noise}, got {x.dtype}: round them, or take continuous noise."
        )
    if _width(noise) > WIDEST:
        raise InvalidParameter(f"Expected whole-number noise of at most {WIDEST:,} steps, got {noise}.")


def _width(noise: InputNoise) -> float:
    match noise:
        case IntegerGaussian(width) | IntegerLaplace(width) | IntegerUniform(width):
            return float(width)
        case _:
            return 0.0


def positions(noise: Ablation, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of the pixels of an input: all of it, or what follows the channels in front."""
    if int(np.prod(shape)) == noise.pixels:
        return shape
    if len(shape) == 3 and int(np.prod(shape[1:])) == noise.pixels:
        return shape[1:]
    return None


# ------------------------------------------------------------------------------------------------ continuous


def _key(rng: Generator) -> list[int]:
    return [int(word) for word in rng.bits(4)]


def _continuous(noise: InputNoise, shape: tuple[int, ...], dtype: Any, source: np.random.Generator) -> Draw:
    match noise:
        case Gaussian(sigma):
            width = dtype.type(sigma)
            return lambda n: source.standard_normal((n, *shape), dtype=dtype) * width
        case Laplace(scale):
            width = dtype.type(scale)
            return lambda n: _signed(source.standard_exponential((n, *shape), dtype=dtype), source) * width
        case Uniform(half):
            width = dtype.type(half)
            return lambda n: (2 * source.random((n, *shape), dtype=dtype) - 1) * width
        case _:
            raise InvalidParameter(f"Expected noise that can be drawn, got {noise}.")


def _signed(sizes: Array, source: np.random.Generator) -> Array:
    """A fair sign for each, from one bit."""
    bits = np.unpackbits(np.frombuffer(source.bytes(-(-sizes.size // 8)), np.uint8), count=sizes.size)
    sizes *= (2 * bits.astype(np.int8) - 1).reshape(sizes.shape)
    return sizes


# ------------------------------------------------------------------------------------------------ exact


def _integers(noise: InputNoise, n: int, rng: Generator) -> Array:
    match noise:
        case IntegerGaussian(sigma):
            return gaussian(sigma).draw(rng, n)
        case IntegerLaplace(scale):
            return laplace(scale).draw(rng, n)
        case IntegerUniform(width):
            return rng.uniform_integers(2 * width + 1, n) - width
        case _:
            raise InvalidParameter(f"Expected noise that can be drawn, got {noise}.")


def _ablated(noise: Ablation, x: Array, n: int, rng: Generator) -> Array:
    shape = positions(noise, x.shape)
    selection = np.zeros((n, noise.pixels), bool)
    np.put_along_axis(selection, _subsets(noise.keep, noise.pixels, n, rng), True, axis=1)
    mask = selection.reshape(n, *(() if shape == x.shape else (1,)), *(shape or ()))
    return np.where(mask, x, x.dtype.type(0))


def _subsets(keep: int, pixels: int, n: int, rng: Generator) -> NDArray[np.int64]:
    """Uniform subsets: the places of the least of distinct keys. Rows with equal keys
    are drawn anew, so it is exact."""
    keys = rng.bits(n * pixels).reshape(n, pixels)
    while len(equal := np.flatnonzero((np.diff(np.sort(keys, axis=1), axis=1) == 0).any(axis=1))):
        keys[equal] = rng.bits(len(equal) * pixels).reshape(-1, pixels)
    return np.argpartition(keys, keep - 1, axis=1)[:, :keep]
