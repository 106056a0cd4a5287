"""How much a client's update counts: at most 1, over a declared denominator, so that one
client moves the sum by one clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deniable import checks


@dataclass(frozen=True)
class Uniform:
    """Every client counts the same; the mean is the sum over rate · clients."""

    def weight(self, size: int) -> float:
        return 1.0

    def denominator(self, rate: float, clients: int) -> float:
        return rate * clients


@dataclass(frozen=True)
class Capped:
    """A client with n rows counts min(n/cap, 1); `total` is the declared sum of all
    weights, and the mean is over rate · total.

    Weights by the number of rows over the drawn clients' total would let one client move
    the mean by twice the clip, whatever the number of clients: those are for experiments
    without privacy (`federated.simulate`).
    """

    cap: int
    total: float

    def __post_init__(self) -> None:
        checks.whole("cap", self.cap, at_least=1)
        checks.number("total", self.total, above=0)

    def weight(self, size: int) -> float:
        return min(size / self.cap, 1.0)

    def denominator(self, rate: float, clients: int) -> float:
        return rate * self.total


Weights: TypeAlias = Uniform | Capped
