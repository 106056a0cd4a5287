"""A run as practitioners describe it, `steps` releases with one noise, and the one
number that is left to solve for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from deniable.accounting.calibration import calibrate_noise, calibrate_rate, calibrate_steps
from deniable.errors import InvalidParameter
from deniable.loss import POISSON, GaussianNoise, LaplaceNoise, Loss, Scheme
from deniable.numbers import ceiling, floor

DIGITS = 6
"""Of a noise or a rate that was solved for, rounded to the safe side."""


class Unknown(StrEnum):
    """What a run is solved for."""

    NOISE = "noise"
    RATE = "rate"
    STEPS = "steps"


@dataclass(frozen=True)
class NoisyRun:
    """`steps` releases, each on a new sample, with noise of `noise` × the most that one
    record changes the answer.

    >>> print(NoisyRun(4, 0.01, 10_000).loss)
    10,000 × (Gaussian noise of 4 × the sensitivity, on a Poisson sample of rate 0.01)
    """

    noise: float
    rate: float = 1.0
    steps: int = 1
    node: type[GaussianNoise | LaplaceNoise] = GaussianNoise
    scheme: Scheme = POISSON
    replace: bool = False

    @property
    def release(self) -> Loss:
        """One release. Seeing all records, with neighbours that add or remove one, is no sampling at all."""
        leaf = self.node(self.noise)
        if self.rate == 1 and self.scheme is POISSON and not self.replace:
            return leaf
        return leaf.sampled(self.rate, self.scheme, replace=self.replace)

    @property
    def loss(self) -> Loss:
        return self.release * self.steps

    def solve(self, target: Unknown, epsilon: float, delta: float) -> NoisyRun:
        """The run whose `target` is such that it just stays within (`epsilon`, `delta`)."""
        if target is Unknown.NOISE:
            noise = calibrate_noise(
                epsilon,
                delta,
                rate=self.rate,
                steps=self.steps,
                scheme=self.scheme,
                replace=self.replace,
                noise=self.node,
            )
            return replace(self, noise=ceiling(noise, DIGITS))
        if self.node is not GaussianNoise:
            raise InvalidParameter(
                "Rate and steps are solved for with Gaussian noise; leave out the noise to solve for Laplace "
                "noise."
            )
        if target is Unknown.RATE:
            rate = calibrate_rate(
                epsilon,
                delta,
                noise_multiplier=self.noise,
                steps=self.steps,
                scheme=self.scheme,
                replace=self.replace,
            )
            return replace(self, rate=floor(rate, DIGITS))
        steps = calibrate_steps(
            epsilon,
            delta,
            noise_multiplier=self.noise,
            rate=self.rate,
            scheme=self.scheme,
            replace=self.replace,
        )
        return replace(self, steps=steps)
