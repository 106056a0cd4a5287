"""Twins with less noise, in a module that loads fast: the auditor starts them anew many times."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.learn.pate.publish import DependentBound
from deniable.mechanism import Random
from deniable.sql.plan import noise


@dataclass(frozen=True)
class QuietBound(DependentBound):
    """A twentieth of the noise."""

    def law(self, data: Any) -> tuple[int, Fraction]:
        centre, scale = super().law(data)
        return centre, scale / 20


@dataclass(frozen=True)
class QuietNoise(noise.Noise):
    """An eighth of the noise that its tail speaks of."""

    def draw(self, count: int, rng: Random) -> list[int]:
        return noise.Noise(self.family, self.scale / 8, self.sensitivity).draw(count, rng)
