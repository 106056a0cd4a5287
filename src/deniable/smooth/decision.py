"""From votes to verdicts, for many inputs at once: the class chosen, the radius
certified, and when to stop looking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius import radii
from deniable.accounting.radius.input_noise import InputNoise
from deniable.accounting.radius.votes import DEFAULT_ALPHA, Looks, bounds, hopes
from deniable.errors import InvalidParameter

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

YES, NO, OPEN = 1, -1, 0


@dataclass(frozen=True)
class Sampling:
    """How many noisy copies choose the class, how many bound it, and how often the
    bounds may mislead (`alpha`).

    `radius` asks whether that one radius holds: looks at growing samples, each with its share of alpha, stop
    as soon as it is decided. `runner_up=False` puts all of alpha on the top class (Cohen et al. 2019).
    """

    choosing: int = 100
    samples: int = 10_000
    alpha: float = DEFAULT_ALPHA
    radius: float | None = None
    runner_up: bool = True

    def __post_init__(self) -> None:
        if min(self.choosing, self.samples) < 1:
            raise InvalidParameter(
                f"Expected choosing={self.choosing} and samples={self.samples} of at least 1."
            )
        if not 0 < self.alpha < 1:
            raise InvalidParameter(f"Expected alpha={self.alpha} in (0, 1).")
        if self.radius is not None and not self.radius > 0:
            raise InvalidParameter(f"Expected radius={self.radius} above 0.")


@dataclass(frozen=True)
class StoppingRule:
    """How counts become radii: the noise, the norm and dimension of the inputs, the plan and its looks."""

    noise: InputNoise
    norm: float
    dimension: int
    plan: Sampling
    looks: Looks

    def certify(self, counts: Integers, labels: Integers) -> Array:
        """The radius that each row of counts of the bounding sample certifies."""
        p_a, p_b = bounds(counts, labels, self.looks.share, runner_up=self.plan.runner_up)
        return radii(self.noise, p_a, p_b, self.norm, self.dimension)

    def leads(self, counts: Integers, labels: Integers) -> NDArray[np.bool_]:
        """Whether the chosen class is certainly the likeliest one at the input itself."""
        p_a, p_b = bounds(counts, labels, self.looks.share, runner_up=self.plan.runner_up)
        return p_a > p_b

    def reachable(self, counts: Integers, labels: Integers) -> Array:
        """A radius that the smoothed classifier itself does not pass, at the same confidence."""
        p_a, p_b = hopes(counts, labels, self.looks.share, runner_up=self.plan.runner_up)
        return radii(self.noise, p_a, p_b, self.norm, self.dimension)

    def holds(self, counts: Integers, labels: Integers) -> Integers:
        """Whether the radius that was asked for is certified (YES), out of reach (NO) or
        not yet decided (OPEN).

        YES is wrong with probability at most alpha over all looks, and so is NO: two
        claims, each at its own level.
        """
        if self.plan.radius is None:
            return np.full(len(counts), OPEN)
        verdict = np.where(self.certify(counts, labels) >= self.plan.radius, YES, OPEN)
        out_of_reach = (verdict == OPEN) & (self.reachable(counts, labels) < self.plan.radius)
        return np.where(out_of_reach, NO, verdict)
