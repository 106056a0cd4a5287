"""Fixed maps from an image to its features. Each image is mapped by itself and nothing
is learnt: no privacy is spent here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.learn.recipes import patches
from deniable.learn.recipes.principal import Principal, of_drawn
from deniable.learn.scattering import ANGLES, Scattering, mirrored

Map = Callable[[Tensor], Tensor]
"""Images [n, …] to features [n, channels, places], or to rows [n, features] of several
such maps, each image by itself."""

TRIED = 5
"""Images of a batch on which maps are tried."""
GROUPS = 27
"""Groups of three channels whose mean and deviation are taken out of a digit's features."""
ORDERS = (1.0, 5.0, 20.0)
"""Factors of the three orders of a picture's scattering, so that none dominates its length."""
GREY = 0.45
"""Taken from the values of a picture: the middle of what photographs show."""


def ready(features: Tensor) -> Tensor:
    """Features that were computed before."""
    return features.float()


def refuse_mixing(maps: Map, images: Tensor) -> None:
    """Raise if the features of an image change with the other images of its batch; only
    shape and type of `images` are read.

    >>> refuse_mixing(lambda images: images - images.mean(0), torch.zeros(2, 4))
    Traceback (most recent call last):
        ...
    deniable.errors.InvalidParameter: The features that maps gives of an image change with the other ...
    """
    for wide in (1, 255):
        near, far = (_generate(images, seed, wide) for seed in (0, 1))
        for i in (0, TRIED - 1):
            far[i] = near[i]
            here, there = (maps(batch.clone())[i].double() for batch in (near, far))
            if not torch.allclose(here, there, rtol=0.0, atol=0.0, equal_nan=True):
                raise InvalidParameter(
                    "The features that maps gives of an image change with the other images of its batch, so "
                    "no bound on what one image contributes exists. Take means and the like from each image "
                    "by itself, or from public images."
                )


def _generate(images: Tensor, seed: int, width: int) -> Tensor:
    shape, random = (TRIED, *images.shape[1:]), torch.Generator().manual_seed(seed)
    if images.is_floating_point():
        return torch.rand(shape, generator=random, dtype=images.dtype).mul_(width)
    return torch.randint(0, min(width + 1, 128), shape, generator=random).to(images.dtype)


def frozen(module: nn.Module) -> Map:
    """The features of a network trained on public data: a copy that learns nothing more
    and treats each image alone.

    The copy is in evaluation mode, where batch norm and dropout are fixed. That `module` saw no private data
    is for the caller to know. Features [n, channels] become [n, channels, 1].

    >>> frozen(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))(torch.zeros(5, 2, 2)).shape
    torch.Size([5, 3, 1])
    """
    network = copy.deepcopy(module).eval().requires_grad_(False)

    def maps(images: Tensor) -> Tensor:
        with torch.no_grad():
            features: Tensor = network(images.float())
        return features.reshape(len(images), features.shape[1], -1)

    return maps


def digits(images: Tensor) -> Tensor:
    """Bytes [n, 28, 28] to [n, 81, 49]: deskewed, scattered, group norm."""
    raw = Scattering(28)(deskew(images.float() / 255))
    return torch.nn.functional.group_norm(raw, GROUPS).flatten(2)


PICTURES = ((200, 32), (384, patches.POOL**2))
"""Channels and places of the two feature maps of a picture."""


def pictures(images: Tensor) -> Tensor:
    """Bytes [n, 3, 32, 32] to rows of two feature maps of one length, by scattering and
    by patches: [n, 200·32 + 384·16].

    Roots, so that a few strong answers do not drown the many weak ones (Perronnin, Sánchez,
    Mensink 2010), in their principal directions on drawn pictures.
    """
    bright = images.float() / 255
    by_scattering, by_patches = _principal()
    parts = by_scattering(root(scatter(bright))), by_patches(root(patches.features(bright)))
    return torch.cat([torch.nn.functional.normalize(part.flatten(1), dim=1) for part in parts], 1)


@cache
def _principal() -> tuple[Principal, Principal]:
    (scattering, _), (filters, _) = PICTURES
    return (
        of_drawn(lambda bright: root(scatter(bright)), scattering),
        of_drawn(lambda bright: root(patches.features(bright)), filters),
    )


def root(features: Tensor) -> Tensor:
    """The root of the size, with the sign.

    >>> root(torch.tensor([-4.0, 0.0, 9.0])).tolist()
    [-2.0, 0.0, 3.0]
    """
    return features.sign() * features.abs().sqrt()


def scatter(pictures: Tensor) -> Tensor:
    """Pictures [n, 3, 32, 32] to [n, 243, 32]: orders balanced, summed with the features of the mirror image.

    That sum is its own mirror image, so that its left half says everything.
    """
    features = Scattering(32)(opponent(pictures)) * _balance()
    return (features + mirrored(features))[..., :4].flatten(2)


def opponent(pictures: Tensor) -> Tensor:
    """Red, green and blue [n, 3, …] as brightness about `GREY`, red against green, and both against blue.

    Red, green and blue of a photograph have the same edges, so that moduli of their wavelets say one thing
    three times; these axes are nearly uncorrelated.

    >>> opponent(torch.full((1, 3, 1, 1), GREY)).flatten().tolist()
    [0.0, 0.0, 0.0]
    """
    reds, greens, blues = (pictures - GREY).unbind(1)
    brightness, both = reds + greens + blues, reds + greens
    axes = brightness / 3**0.5, (reds - greens) / 2**0.5, (both - 2 * blues) / 6**0.5
    return torch.stack(axes, 1)


def _balance() -> Tensor:
    first, second, third = ORDERS
    balance = torch.tensor([first, *[second] * (2 * ANGLES), *[third] * ANGLES**2]).repeat(3)
    return balance[:, None, None]


def deskew(images: Tensor) -> Tensor:
    """Centre each image on its mass and shear it upright, by its own moments (LeCun et
    al. 1998 deslant the same way)."""
    size = images.shape[-1]
    at = torch.arange(size, dtype=torch.float32) - (size - 1) / 2
    mass = images.sum((1, 2)).clamp_min(1e-3)
    y, x = (images.sum(2) * at).sum(1) / mass, (images.sum(1) * at).sum(1) / mass
    down, right = at - y[:, None], at - x[:, None]
    upright = (images.sum(2) * down**2).sum(1) / mass
    both = ((images * right[:, None, :]).sum(2) * down).sum(1) / mass
    shear = (both / upright.clamp_min(1e-3)).clamp(-1, 1)
    rows = (y[:, None, None] + at[:, None]).expand(-1, -1, size)
    columns = x[:, None, None] + at + shear[:, None, None] * at[:, None]
    grid = torch.stack([columns, rows], -1) * (2 / (size - 1))
    return torch.nn.functional.grid_sample(images[:, None], grid, align_corners=True)[:, 0]
