"""The best of a random number of runs."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import InvalidLoss
from deniable.loss.fields import check_loss, check_number
from deniable.loss.node import Node
from deniable.loss.tree import Loss
from deniable.numbers import Number, show
from deniable.strict_json import shown
from deniable.units import Relation


@dataclass(frozen=True)
class PoissonRuns(Node):
    """The number of runs is Poisson of this mean (none at all with probability e^−mean)."""

    mean: Number

    def __post_init__(self) -> None:
        check_number(self, "mean", above=0)

    def __str__(self) -> str:
        return f"Poisson({show(self.mean)}) runs"


@dataclass(frozen=True)
class NegativeBinomialRuns(Node):
    """Truncated negative binomial: η = 1 is geometric, η = 0 logarithmic (Papernot,
    Steinke 2022, Definition 1)."""

    eta: Number
    gamma: Number

    def __post_init__(self) -> None:
        check_number(self, "eta", above=-1)
        check_number(self, "gamma", above=0, below=1)

    def __str__(self) -> str:
        return f"negative binomial(η = {show(self.eta)}, γ = {show(self.gamma)}) runs"


@dataclass(frozen=True)
class Selected(Loss):
    """The best of a random number of runs of `of`, whose own output includes the score;
    only the best one is shown.

    Reference: Papernot, Steinke 2022, Theorems 2 and 6. A fixed number of runs is not
               covered and costs far more.
    """

    of: Loss
    runs: PoissonRuns | NegativeBinomialRuns

    def __post_init__(self) -> None:
        check_loss(self, "of")
        if not isinstance(self.runs, PoissonRuns | NegativeBinomialRuns):
            raise InvalidLoss(f"Expected runs={shown(self.runs)} to be PoissonRuns or NegativeBinomialRuns.")

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    def __str__(self) -> str:
        return f"the best of {self.runs} of ({self.of})"
