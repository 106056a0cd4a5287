"""A private image classifier: fixed features, half whitening, and softmax regression.
The best of ours on small data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable import accounting, checks
from deniable.errors import DataError, InvalidParameter
from deniable.learn.bounded import column, positions
from deniable.learn.recipes import exact, linear, whitening
from deniable.learn.recipes.linear import LinearDescent, LinearScores
from deniable.learn.recipes.maps import refuse_mixing
from deniable.learn.recipes.whitening import HALF, Flattening, Shapes, Whitening
from deniable.learn.sgd.data.rows import is_numeric
from deniable.loss import Composed, GaussianNoise
from deniable.mechanism import Random
from deniable.units import Unit

CHUNK = 500
STATISTICS = 3
"""The mean, the second moments of channels, the second moments of places."""


@dataclass(frozen=True)
class RecipeClassifier:
    """What was learnt: a private release. `predict` gives a class for each image,
    `scores` a number for each class."""

    maps: Callable[[Tensor], Tensor]
    whitening: Whitening
    linear: LinearScores

    def scores(self, images: Any) -> NDArray[np.float32]:
        features = whiten(map_images(images, self.maps), self.whitening)
        parts = [self.linear(features[i : i + CHUNK]) for i in range(0, len(features), CHUNK)]
        return np.asarray(torch.cat([torch.empty(0, len(self.linear.bias)), *parts]).numpy())

    def predict(self, images: Any) -> NDArray[np.int64]:
        return np.asarray(self.scores(images).argmax(1))

    def accuracy(self, images: Any, labels: Any) -> float:
        """The share of images whose class is right. Of private images this is no private number."""
        return float((self.predict(images) == np.asarray(labels)).mean())


OnStep = Callable[[int, RecipeClassifier], None]
"""Called after each step (1, 2, …) with the classifier as it is then: everything in it has been released."""


@dataclass(frozen=True)
class Recipe:
    """Learn to tell `classes` apart from (images, labels), from whole-data statistics
    and gradients with Gaussian noise.

    Guarantee: `loss` for one image added or removed: three Gaussian releases of `statistics_noise` and one of
               `step_noise` for each step. They compose to one Gaussian, so that ε is exact.
    Assumes:   `n`, the number of examples, is public; it scales the steps and nothing else. `maps` maps each
               image by itself (tried on generated images, `check`) and was chosen without these data; the
               hyper-parameters too (tuning on the data is not in the loss). The arithmetic of one image has
               the same bits whatever others are in its batch (tested, see `exact`).
    Data:      a label outside 0 … classes − 1, or an image whose features are not
               finite, is left out; images without a label too.
    Error:     not known before data is seen.
    Reference: gradient norms in closed form, Goodfellow 2015; scattering under privacy, Tramèr, Boneh 2021;
               exact sums and integer noise, see `exact`.

    >>> descent = LinearDescent(100, 80, 0.1)
    >>> recipe = Recipe.for_budget(1, 1e-5, n=60_000, maps=torch.nn.Identity(), descent=descent)
    >>> print(recipe.loss)
    (3 × (Gaussian noise of 24.8709 × the sensitivity)) + (100 × (Gaussian noise of 38.633 × the sensitivity))
    """

    n: int
    maps: Callable[[Tensor], Tensor]
    descent: LinearDescent
    statistics_noise: float
    step_noise: float
    shapes: Shapes | None = None
    """Channels and places of each feature map in a row of `maps`; if not given, `maps`
    gives one: [n, channels, places]."""
    flattening: Flattening = HALF
    classes: int = 10
    on_step: OnStep | None = field(default=None, repr=False, compare=False)
    example: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("n", self.n, at_least=1)
        checks.whole("classes", self.classes, at_least=2)
        maps = len(self.shapes or (None,))
        if self.flattening.kept is not None and len(self.flattening.kept) != maps:
            raise InvalidParameter(
                f"Expected kept={self.flattening.kept} to name a number for each of {maps} maps."
            )
        for name in ("statistics_noise", "step_noise"):
            exact.deviation(float(checks.number(name, getattr(self, name), above=0)), 1)

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        *,
        n: int,
        maps: Callable[[Tensor], Tensor],
        descent: LinearDescent,
        share: float = 0.15,
        shapes: Shapes | None = None,
        flattening: Flattening = HALF,
        classes: int = 10,
        on_step: OnStep | None = None,
    ) -> Recipe:
        """The least noise for (ε, δ), with `share` of the total μ for each of the three statistics."""
        if not 0 < checks.number("share", share) < 1 / math.sqrt(STATISTICS):
            raise InvalidParameter(f"Expected share={share:g} in (0, {1 / math.sqrt(STATISTICS):.3g}).")
        sigma = exact.multiplier_for(epsilon, delta)
        left = 1 - STATISTICS * share**2
        noise = (sigma / share, sigma * math.sqrt(descent.steps / left))
        recipe = cls(n, maps, descent, *noise, shapes, flattening, classes, on_step)
        if accounting.epsilon(recipe.loss, delta).upper > epsilon:
            raise InvalidParameter(f"Expected epsilon={epsilon:g} and delta={delta:g} that some noise fits.")
        return recipe

    @property
    def loss(self) -> Composed:
        return Composed(
            (
                GaussianNoise(self.statistics_noise) * STATISTICS,
                GaussianNoise(self.step_noise) * self.descent.steps,
            )
        )

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def error(self, confidence: float = 0.95) -> None:
        return None

    def fits(self, data: Any) -> None:
        """Before anything is charged: whether `maps` takes images like these, and treats each by itself.

        Reads the shape and type of the images, or of `example` where a function opens
        them later. Raises `InvalidParameter`.
        """
        if data is None and self.example is None:
            raise InvalidParameter(
                "Expected example=…, an image that is made up or public: what opens the images is called "
                "after the charge. Nothing was charged."
            )
        images = torch.as_tensor(self.example)[None] if data is None else _images(data)
        refuse_mixing(self.maps, images)

    def __call__(self, data: Any, *, rng: Random) -> RecipeClassifier:
        images, labels = _images(data), column(data[1])
        refuse_mixing(
            self.maps, images
        )  # for calls without an account; with one, `fits` has told before the charge
        size = min(len(images), len(labels))
        maps = map_images(images[:size], self.maps)
        shapes = self.shapes or ((maps.shape[1], maps.shape[2]),)
        whitening_ = whitening.fit(maps, shapes, self.n, self.statistics_noise, self.flattening, rng)
        targets = one_hot(labels[:size], self.classes) * maps.flatten(1).any(1)[:, None]
        features = whiten(maps, whitening_)
        del maps

        def report(step: int, model: LinearScores) -> None:
            if self.on_step is not None:
                self.on_step(step, RecipeClassifier(self.maps, whitening_, model))

        model = self.descent(features, targets, self.n, self.step_noise, rng, report)
        return RecipeClassifier(self.maps, whitening_, model)


def map_images(images: Any, maps: Callable[[Tensor], Tensor]) -> Tensor:
    """The feature maps of an array of images, as 16-bit integers of length at most
    `whitening.NORM`; also of no image at all.

    An image on which `maps` fails has features of zeros, which count as none.
    """
    tensor = _tensor(images)
    like = _units(maps(tensor.new_zeros(1, *tensor.shape[1:])))
    return torch.cat(
        [like[:0], *(_map_chunk(tensor[i : i + CHUNK], maps, like) for i in range(0, len(tensor), CHUNK))]
    )


def _map_chunk(images: Tensor, maps: Callable[[Tensor], Tensor], sample: Tensor) -> Tensor:
    """Features of a chunk. If it fails, images of zeros take the place of those that fail alone, so that the
    others are computed in a batch of the same size: their last bits would tell of another one."""
    try:
        return _check_features(maps, images, sample)
    except Exception:  # steered by an image: it must not show
        good = torch.tensor([_runs(images[i : i + 1], maps, sample) for i in range(len(images))])
    mask = good.reshape(-1, *[1] * (images.ndim - 1))
    safe_images = torch.where(mask, images, images.new_zeros(()))
    try:
        features = _check_features(maps, safe_images, sample)
    except Exception:  # fails on images together that it takes alone
        features = torch.cat([sample[:1] * 0] * len(images))
    return features * good.reshape(-1, *[1] * (features.ndim - 1))


def _check_features(maps: Callable[[Tensor], Tensor], images: Tensor, sample: Tensor) -> Tensor:
    features = _units(maps(images))
    if features.shape != (len(images), *sample.shape[1:]):
        raise InvalidParameter("Expected features of one shape for each image.")
    return features


def _runs(image: Tensor, maps: Callable[[Tensor], Tensor], sample: Tensor) -> bool:
    try:
        _check_features(maps, image, sample)
    except Exception:  # steered by this image, which is left out; it must not show
        return False
    return True


def _images(data: Any) -> Tensor:
    """Images whose container tells their shape and type, whatever they hold."""
    try:
        images = data[0]
    except Exception:  # of the container, whatever it holds: one fixed sentence follows
        images = None
    if not (isinstance(images, Tensor) or is_numeric(images)) or not images.ndim:
        raise DataError("Expected (images, labels) with images as a tensor or an array of numbers.")
    return _tensor(images)


def _tensor(images: Any) -> Tensor:
    return images if isinstance(images, Tensor) else torch.from_numpy(np.array(images))


def _units(maps: Tensor) -> Tensor:
    return exact.units(maps, whitening.NORM, whitening.MOST).to(torch.int16)


def whiten(maps: Tensor, transform: Whitening) -> Tensor:
    """Whitened features in 8 bits, of length at most `linear.NORM`."""
    out = torch.empty(len(maps), transform.size, dtype=torch.int8)
    for start in range(0, len(maps), CHUNK):
        part = transform(maps[start : start + CHUNK])
        out[start : start + CHUNK] = exact.units(part, linear.NORM, linear.MOST).to(torch.int8)
    return out


def one_hot(labels: Any, classes: int) -> Tensor:
    """Rows of one 1, and of zeros for what is no class."""
    at = positions(np.arange(classes), labels)
    return torch.from_numpy(at[:, None] == np.arange(classes)).to(torch.int8)
