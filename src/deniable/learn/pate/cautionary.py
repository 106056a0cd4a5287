"""The wrong way to aggregate votes, with the loss that it truly has: for teaching, and for auditors to
find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deniable import checks
from deniable.learn.pate.teachers.voting import Ensemble
from deniable.loss import Approximate, Number
from deniable.mechanism import Random
from deniable.mechanisms.cautionary import NOTHING
from deniable.mechanisms.integer_noise import laplace
from deniable.units import Unit


@dataclass(frozen=True)
class NoiseAfterVote:
    """Find the winner exactly, then add integer Laplace noise to its count.

    Guarantee: none. The noise protects the count and nothing protects the label: where one teacher decides
               it, the label alone tells two neighbours apart. Loss (0, 1), so an account charges it as what
               it is. `NoisyVote` adds the noise first.
    Assumes:   nothing.
    Reference: Papernot et al. 2017, §2.2, on why noise comes before the argmax.

    >>> NoiseAfterVote(classes=10, scale=20).loss
    Approximate(epsilon=0, delta=1)
    """

    classes: int
    scale: Number
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", checks.whole("classes", self.classes, at_least=2))
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))
        checks.unit(self.unit)

    @property
    def loss(self) -> Approximate:
        return NOTHING

    def open(self, data: Ensemble, *, rng: Random) -> Shown:
        return Shown(self, data, rng)


class Shown:
    """An open `NoiseAfterVote`: labels, each with a noisy count."""

    def __init__(self, mechanism: NoiseAfterVote, ensemble: Ensemble, rng: Random) -> None:
        self._mechanism, self._ensemble, self._rng = mechanism, ensemble, rng

    def ask(self, question: Any) -> list[tuple[int, int]]:
        votes = self._ensemble.votes(question)
        return [
            (int(v.argmax()), int(v.max()) + laplace(self._mechanism.scale).draw(self._rng)) for v in votes
        ]

    @property
    def used(self) -> Approximate:
        return NOTHING
