"""A scattering transform: fixed wavelets, moduli and local means (Mallat 2012; Bruna,
Mallat 2013), for small images.

Nothing in it is learnt, and each image is mapped by itself: it costs no privacy, whatever it is followed by.

    S0 = x ⋆ φ,    S1 = |x ⋆ ψ_j,l| ⋆ φ  (j = 0, 1),    S2 = ||x ⋆ ψ_0,l| ⋆ ψ_1,m| ⋆ φ

with Morlet wavelets ψ of eight angles at two scales: 1 + 16 + 64 = 81 channels on a grid four times coarser.
The grid lies at the centres of 4 × 4 blocks and every subsampling is about the centre of the image, so that
mirroring an image permutes its features exactly (`mirrored`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from deniable.errors import InvalidParameter

ANGLES = 8
CHANNELS = 1 + 2 * ANGLES + ANGLES * ANGLES
STEP = 4
"""Pixels between two places of the output, and of padding on each side."""
SPREAD, FREQUENCY, SLANT = 0.8, 3 * math.pi / 4, 4 / ANGLES
"""Of the finest wavelet: its width in pixels, its frequency in radians per pixel, its width over its
length."""


@dataclass(frozen=True)
class Scattering:
    """Scattering of images [n, size, size] or [n, colours, size, size] with values in
    [0, 1]; `size` is a multiple of 4.

    Gives [n, 81, size/4, size/4], or [n, 81·colours, size/4, size/4] with the channels
    of one colour together.

    >>> Scattering(28)(torch.zeros(2, 28, 28)).shape
    torch.Size([2, 81, 7, 7])
    """

    size: int

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 8 or self.size % STEP:
            raise InvalidParameter(f"Expected size={self.size!r} to be a multiple of {STEP}, at least 8.")

    def __call__(self, images: Tensor, *, batch: int = 16) -> Tensor:
        """The features, `batch` images at a time (their intermediate results stay in the processor's
        cache)."""
        if images.shape[-2:] != (self.size, self.size) or images.ndim not in (3, 4):
            raise InvalidParameter(
                f"Expected images of [n, {self.size}, {self.size}] or [n, colours, {self.size}, "
                f"{self.size}], got {list(images.shape)}."
            )
        side, flat = self.size // STEP, images.reshape(-1, self.size, self.size)
        out = torch.empty(len(flat), CHANNELS, side, side)
        with torch.no_grad():
            for start in range(0, len(flat), batch):
                out[start : start + batch] = self._scatter(flat[start : start + batch].float())
        return out.reshape(len(images), -1, side, side)

    @property
    def _padded_size(self) -> int:
        return self.size + 2 * STEP

    @cached_property
    def _fine(self) -> Tensor:
        """ψ_0 in frequency, at every pixel: [8, N, N]."""
        return torch.stack([_morlet(self._padded_size, 0, angle) for angle in range(ANGLES)])

    @cached_property
    def _coarse(self) -> Tensor:
        """ψ_1 in frequency, moved half a pixel (every second place is then symmetric),
        in quarters: [8, 2, 2, N/2, N/2]."""
        half = self._padded_size // 2
        waves = torch.stack([_morlet(self._padded_size, 1, angle) for angle in range(ANGLES)])
        return (waves * _half_pixel(self._padded_size)).reshape(ANGLES, 2, half, 2, half).transpose(
            2, 3
        ).contiguous() / 4

    @cached_property
    def _pool(self) -> Tensor:
        """φ and the coarse grid, from every pixel: [size/4, N]."""
        return _pooling(self.size // STEP, torch.arange(self._padded_size) - STEP)

    @cached_property
    def _pool_half(self) -> Tensor:
        """φ and the coarse grid, from every second place: [size/4, N/2]."""
        return _pooling(self.size // STEP, torch.arange(self._padded_size // 2) * 2 + 0.5 - STEP)

    def _scatter(self, x: Tensor) -> Tensor:
        n, side = len(x), self.size // STEP
        x = torch.nn.functional.pad(x[:, None], (STEP,) * 4, mode="reflect")
        spectrum = torch.fft.fft2(x)
        fine = _modulus(torch.fft.ifft2(spectrum * self._fine))
        first = self._coarsely(spectrum)
        second = self._coarsely(torch.fft.fft2(fine).reshape(n * ANGLES, 1, *x.shape[-2:]))
        parts = (_local(x, self._pool), _local(fine, self._pool), _local(first, self._pool_half))
        return torch.cat([*parts, _local(second, self._pool_half).reshape(n, ANGLES**2, side, side)], 1)

    def _coarsely(self, spectrum: Tensor) -> Tensor:
        """|x ⋆ ψ_1| at every second place: the four quarters of the spectrum fold onto one another."""
        half = self._padded_size // 2
        quarters = spectrum.reshape(len(spectrum), 1, 2, half, 2, half).transpose(3, 4).contiguous()
        total = quarters[:, :, 0, 0] * self._coarse[:, 0, 0]
        for a, b in ((0, 1), (1, 0), (1, 1)):
            total.addcmul_(quarters[:, :, a, b], self._coarse[:, a, b])
        return _modulus(torch.fft.ifft2(total))


def mirror_order() -> list[int]:
    """Where each of the 81 channels of an image is found among those of its mirror
    image: angle l becomes −l."""
    back = [-angle % ANGLES for angle in range(ANGLES)]
    first = [1 + scale * ANGLES + angle for scale in range(2) for angle in back]
    return [0, *first, *(1 + 2 * ANGLES + ANGLES * a + b for a in back for b in back)]


def mirrored(features: Tensor) -> Tensor:
    """The features of the mirror images, from the features [n, 81·colours, height,
    width] of the images; exactly.

    >>> x = torch.rand(1, 8, 8)
    >>> torch.allclose(Scattering(8)(x.flip(2)), mirrored(Scattering(8)(x)), atol=1e-6)
    True
    """
    colours = features.shape[1] // CHANNELS
    order = [CHANNELS * colour + channel for colour in range(colours) for channel in mirror_order()]
    return features[:, order].flip(3)


def _frequencies(size: int) -> Tensor:
    return torch.mul(torch.fft.fftfreq(size, dtype=torch.float64), 2 * math.pi)


def _morlet(size: int, scale: int, angle: int) -> Tensor:
    """A Gaussian about the wavelet's frequency, less a Gaussian about 0 so that a
    constant image gives nothing."""
    turn = math.pi * angle / ANGLES
    across, along = SPREAD * 2**scale, SPREAD * 2**scale / SLANT
    c, s = math.cos(turn), math.sin(turn)
    shifts = 2 * math.pi * torch.arange(-2, 3, dtype=torch.float64)
    y, x = torch.meshgrid(_frequencies(size), _frequencies(size), indexing="ij")
    y, x = y[..., None, None] + shifts[:, None], x[..., None, None] + shifts

    def bell(centre: float) -> Tensor:
        u, v = c * x + s * y - centre, c * y - s * x
        return torch.exp(-((across * u) ** 2 + (along * v) ** 2) / 2).sum((-2, -1))

    wave, mean = bell(FREQUENCY / 2**scale), bell(0.0)
    return (wave - wave[0, 0] / mean[0, 0] * mean).to(torch.complex64)


def _half_pixel(size: int) -> Tensor:
    """What moves an image by half a pixel up and left, in frequency; half a turn a pixel
    has no sign and vanishes."""
    phase = torch.exp(0.5j * _frequencies(size))
    phase[size // 2] = 0
    return (phase[:, None] * phase).to(torch.complex64)


def _pooling(places: int, positions: Tensor) -> Tensor:
    """Gaussian means about the centres of 4 × 4 blocks, of twice the coarse wavelet's
    width: rows that sum to 1."""
    centres = STEP * torch.arange(places, dtype=torch.float64) + (STEP - 1) / 2
    weights = torch.exp(-(((positions - centres[:, None]) / (SPREAD * 2)) ** 2) / 2)
    return (weights / weights.sum(1, keepdim=True)).float()


def _modulus(z: Tensor) -> Tensor:
    """√(a² + b²), four times as fast as `abs`, which guards against an overflow that cannot be here."""
    squares = torch.view_as_real(z).square()
    return (squares[..., 0] + squares[..., 1]).sqrt_()


def _local(x: Tensor, pool: Tensor) -> Tensor:
    return pool @ x @ pool.T
