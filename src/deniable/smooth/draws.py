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
    WIDEST,
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
    widest_steps,
)
from deniable.errors import InvalidParameter
from deniable.mechanisms.integer_noise import gaussian, laplace
from deniable.randomness.generator import Generator

Array = NDArray[Any]
Draw = Callable[[int], Array]

LARGEST = 2**30
"""Whole numbers: with noise of `WIDEST` steps they stay within 32 bits, but for a chance of e^−1000."""
REACH = 2**10
"""Continuous noise is never drawn so many times its width away: its samplers have 53 random bits."""
STEPS = 64
"""Numbers of the input's type within one width of continuous noise, at least; of fewer it is rounded away."""
_NOTHING = "Nothing was certified."


def noisy_copies(noise: InputNoise, x: Array, rng: Generator) -> Draw:
    """A function of n that gives n fresh noisy copies of `x`, stacked; the noise is
    independent in every call."""
    check_input(noise, x)
    if x.dtype.kind in "iu":
        x = x.astype(np.int64)  # every type of whole numbers is the same from here on
    match noise:
        case Releases(parts):
            draws = [noisy_copies(part, x, rng) for part in parts]
            return lambda n: np.stack([draw(n) for draw in draws], axis=1)
        case Ablation():
            return lambda n: _ablate(noise, x, n, rng)
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


def read_input(noise: InputNoise, x: Any) -> Array:
    """A copy of an input that `noise` can be added to: every door reads its inputs here.

    Finite 32- or 64-bit floats or, under whole-number noise and ablation, whole numbers.
    """
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if not _has_numpy_type(x):
            raise InvalidParameter(f"Expected numbers of a type that NumPy has, got {x.dtype}. {_NOTHING}")
        x = x.numpy()
    if np.ma.is_masked(x):
        raise InvalidParameter(f"Expected an input without masked numbers. {_NOTHING}")
    point = np.array(x, order="C")
    check_input(noise, point)
    return point


def check_input(noise: InputNoise, x: Array) -> None:
    """Whole-number noise is for whole numbers: on others the theorem says nothing."""
    integer, floats = x.dtype.kind in "iu", x.dtype in (np.float32, np.float64)
    if not x.size or not (integer or floats):
        raise InvalidParameter(
            "Expected an input of at least one whole number or 32- or 64-bit float, got one of "
            f"{x.dtype} of shape {x.shape}. {_NOTHING}"
        )
    if floats and not np.isfinite(x).all():
        raise InvalidParameter(f"Expected finite numbers in the input. {_NOTHING}")
    if integer and not -LARGEST <= int(x.min()) <= int(x.max()) <= LARGEST:
        raise InvalidParameter(f"Expected whole numbers up to {LARGEST:,} in size. {_NOTHING}")
    for part in noise.parts if isinstance(noise, Releases) else (noise,):
        _check_noise(part, x)


def _check_noise(noise: InputNoise, x: Array) -> None:
    match noise:
        case Releases():
            check_input(noise, x)
        case Ablation():
            if positions(noise, x.shape) is None:
                raise InvalidParameter(
                    f"Expected an input of {noise.pixels} pixels, got one of shape {x.shape}."
                )
        case _ if noise.integer:
            _check_integers(noise, x)
        case _ if x.dtype.kind != "f":
            raise InvalidParameter(f"Expected 32- or 64-bit floats under {noise}, got {x.dtype}.")
        case _:
            _check_floats(noise, x)


def _check_integers(noise: InputNoise, x: Array) -> None:
    if x.dtype.kind == "f":
        raise InvalidParameter(
            f"Expected whole numbers under {noise}, got {x.dtype}: round them, or take continuous noise."
        )
    if widest_steps(noise) > WIDEST:
        raise InvalidParameter(f"Expected whole-number noise of at most {WIDEST:,} steps, got {noise}.")


def _check_floats(noise: InputNoise, x: Array) -> None:
    """Noise must be finite in the type of the input, and not vanish in it."""
    limits, width = np.finfo(x.dtype), _width(noise)
    farthest = float(np.abs(x).max()) + REACH * width
    step = max(float(np.spacing(np.abs(x).max())), float(limits.tiny) / float(limits.eps) / STEPS)
    if not (farthest <= float(limits.max) and width >= STEPS * step):
        raise InvalidParameter(
            f"Expected noise that {x.dtype} can hold beside numbers up to {float(np.abs(x).max()):g}, got "
            f"{noise}. {_NOTHING}"
        )


def _has_numpy_type(tensor: Any) -> bool:
    try:
        tensor.new_empty(0).numpy()
    except TypeError:
        return False
    return True


def _width(noise: InputNoise) -> float:
    match noise:
        case Gaussian(width) | Laplace(width) | Uniform(width):
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
            return lambda n: _add_signs(source.standard_exponential((n, *shape), dtype=dtype), source) * width
        case Uniform(half):
            width = dtype.type(half)
            return lambda n: (2 * source.random((n, *shape), dtype=dtype) - 1) * width
        case _:
            raise InvalidParameter(f"Expected noise that can be drawn, got {noise}.")


def _add_signs(sizes: Array, source: np.random.Generator) -> Array:
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


def _ablate(noise: Ablation, x: Array, n: int, rng: Generator) -> Array:
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
