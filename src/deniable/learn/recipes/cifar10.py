"""CIFAR-10 pictures at a given ε, without public data: the recipe with its hyper-parameters filled in."""

from __future__ import annotations

import math

from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.recipes.classifier import OnStep, Recipe
from deniable.learn.recipes.linear import LinearDescent
from deniable.learn.recipes.maps import PICTURES, Map, pictures
from deniable.learn.recipes.whitening import Flattening

SETTINGS = {
    1.0: LinearDescent(steps=60, learning_rate=110, clip=0.3, intercept=False),
    3.0: LinearDescent(steps=60, learning_rate=200, clip=0.3, intercept=False),
    8.0: LinearDescent(steps=80, learning_rate=350, clip=0.3, intercept=False),
}
"""Compared at each ε in a sketch, on 10,000 held-out training pictures after training on 20,000 others with
the noise that all 50,000 would have (see the guide to recipes); the rate at ε = 1 lies between two that were
compared. The choice itself is not in the loss."""
SHARE = 0.1
FLATTENING = {
    1.0: Flattening(0.3, places=0, kept=(50, 100), shrink=True),
    3.0: Flattening(0.3, places=0, kept=(120, 240), shrink=True),
    8.0: Flattening(0.3, places=0, kept=(120, 240), shrink=True),
}
"""Channels are evened out, places are not: what changes slowly over a picture tells most. The more noise, the
fewer channels are kept, for each takes a share of a row's length, and of its noise. Compared like the
settings."""


def cifar10(
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    *,
    n: int = 50_000,
    maps: Map = pictures,
    on_step: OnStep | None = None,
) -> Recipe:
    """A mechanism for (pictures [n, 3, 32, 32], labels) that is (ε, δ)-DP, with the
    settings of the nearest ε that was tuned.

    `maps` is there for features that were computed before: `maps.ready`.

    >>> cifar10(3).descent.steps
    60
    """
    near = min(SETTINGS, key=lambda setting: abs(math.log(setting / epsilon)))
    return Recipe.for_budget(
        epsilon,
        delta,
        n=n,
        maps=maps,
        descent=SETTINGS[near],
        share=SHARE,
        shapes=PICTURES,
        flattening=FLATTENING[near],
        on_step=on_step,
    )
