"""A federated run in a few values: what is drawn, what is private, how it is run. How a client trains is a
`LocalRecipe`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.federated.noise.placement import AnyPlacement, Central, Correlated, OnClient, Shared
from deniable.federated.noise.weights import Uniform, Weights
from deniable.learn.sgd.clipping import Adaptive
from deniable.loss import Number
from deniable.units import Unit, UnitKind

Evaluation = Callable[[nn.Module], float]


@dataclass(frozen=True)
class Cohorts:
    """What is drawn: of `clients`, a declared number, each by its own coin of probability `rate`, in each of
    `rounds` rounds."""

    clients: int = 1000
    rate: Number = 0.1
    rounds: int = 100

    def __post_init__(self) -> None:
        checks.whole("clients", self.clients, at_least=2)
        checks.whole("rounds", self.rounds, at_least=1)
        if not 0 < checks.number("rate", self.rate, above=0) <= 1:
            raise InvalidParameter(f"Expected rate={self.rate} in (0, 1].")


@dataclass(frozen=True)
class ClientPrivacy:
    """What is private: where noise is placed, how much of it (by a multiplier in `noise`, or by a budget),
    and what bounds one client.

    `clip` bounds the norm of an update: a number, or an `Adaptive` that follows a quantile of norms.
    `weights` say how much a client counts. Where no `unit` is named it is a client that comes or goes, or,
    where clients add noise, one that falls silent.
    """

    noise: AnyPlacement = Central()
    clip: float | Adaptive = 1.0
    weights: Weights = Uniform()
    epsilon: Number | None = None
    delta: Number | None = None
    unit: Unit = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not isinstance(self.clip, Adaptive):
            checks.number("clip", self.clip, above=0)
        if not isinstance(self.noise, Central | OnClient | Shared | Correlated):
            raise InvalidParameter(
                f"Expected noise=Central(…), OnClient(…), Shared(…) or Correlated(…), got {self.noise!r}."
            )
        object.__setattr__(self, "unit", _default_unit(self.unit, self.noise))
        if checks.unit(self.unit).kind is not UnitKind.CLIENT:
            raise InvalidParameter(
                f"Expected a unit of one client, got {self.unit}. To protect a row or a patient inside "
                "silos, use CrossSilo(…). Nothing was charged."
            )


def _default_unit(unit: Unit | None, noise: AnyPlacement) -> Unit:
    if unit is not None:
        return unit
    return Unit.client() if isinstance(noise, Central) else Unit.client(zero_out=True)


@dataclass(frozen=True)
class RoundExecution:
    """How it is run. What is released does not depend on it, but for the score that `evaluate` adds to the
    history.

    `workers` processes train clients side by side. A device answers `answer_after` seconds after it was
    asked, ready or not: how long a client trains tells how many rows it has. A silo that protects its rows
    answers after a whole number of such times, once its sum is ready.
    """

    evaluate: Evaluation | None = None
    progress: bool = True
    workers: int = 1
    answer_after: float | None = None

    def __post_init__(self) -> None:
        checks.whole("workers", self.workers, at_least=1)
        if self.answer_after is not None:
            checks.number("answer_after", self.answer_after, above=0)
