"""Report noisy max: the candidate whose score with noise is the largest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from deniable import checks
from deniable.loss import Number, Pure, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid, tails
from deniable.mechanisms.integer_noise import IntegerNoise, laplace
from deniable.mechanisms.selection.exponential import RESOLUTION
from deniable.units import Unit


@dataclass(frozen=True)
class NoisyMax:
    """One of `candidates`: the argmax of the scores with integer Laplace noise of scale
    2·sensitivity/ε (monotone: half).

    Guarantee: ε-DP for `unit`.
               Proof: fix the noise of all but candidate i, and the order in which ties
                      are broken. Then i wins exactly
               if its noise is at least some integer r. On a neighbour that integer is at most r + 2Δ (its own
               score falls by Δ at most and another rises by Δ; only one of them if monotone), Δ in score
               units. And P(noise ≥ r + 2Δ) ≥ e^(−2Δ/scale)·P(noise ≥ r). Average over what was fixed: it does
               not depend on the data.
    Assumes:   the data are the candidates' scores, each of sensitivity `sensitivity`;
               `monotone` as in `Exponential`. Ties are broken by an order drawn at
               random beforehand; redrawing the noise at a tie would not be private.
    Error:     the chosen score is below the best by at most twice the largest |noise|.
    Reference: Dwork, Roth 2014, §3.3; integers: Ding et al. 2023 (arXiv 2308.08057).

    Only the winner is shown: its noisy score is another release. `PermuteAndFlip` is
    more accurate at the same ε.

    >>> from deniable.randomness import SeededRandom
    >>> NoisyMax(("flu", "cold", "measles"), epsilon=1)([10, 300, 2], rng=SeededRandom(1))
    'cold'
    """

    candidates: tuple[Any, ...]
    epsilon: Number
    sensitivity: Number = 1
    monotone: bool = False
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", checks.choices("candidates", self.candidates))
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "sensitivity", checks.number("sensitivity", self.sensitivity, above=0))
        checks.monotone(self.monotone, checks.unit(self.unit))

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)

    def error(self, confidence: float = 0.95) -> Error:
        beta = tails.per_coordinate(checks.failure(confidence), len(self.candidates))
        return Error(
            float((2 * self._noise.within(beta) + 1) * self._grid), float(confidence), measure="score"
        )

    def __call__(self, data: Any, *, rng: Random) -> Any:
        scores = grid.read(data, len(self.candidates), self._grid)
        # Ties are broken by a uniform order, not by a candidate's place.
        order = rng.permutation(len(self.candidates))
        noisy = grid.add(scores, self._noise.draw(rng, len(self.candidates)))
        return self.candidates[int(order[np.argmax(noisy[order])])]

    @property
    def _grid(self) -> Fraction:
        return exact(self.sensitivity) / RESOLUTION

    @cached_property
    def _noise(self) -> IntegerNoise:
        # Unless all move one way, two scores may part by twice the sensitivity.
        change = (1 if self.monotone else 2) * RESOLUTION
        return laplace(Fraction(change) / exact(self.epsilon), change)
