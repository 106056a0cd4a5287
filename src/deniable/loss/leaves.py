"""The leaves that say which guarantee, or which noise, one run has."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import InvalidLoss
from deniable.loss.fields import check_integer, check_number
from deniable.loss.tree import Loss
from deniable.numbers import Number, exact, show


@dataclass(frozen=True)
class Pure(Loss):
    """ε-differential privacy, nothing more known (Dwork, McSherry, Nissim, Smith 2006).
    Worst case: randomized response."""

    epsilon: Number

    def __post_init__(self) -> None:
        check_number(self, "epsilon", at_least=0)

    def __str__(self) -> str:
        return f"ε = {show(self.epsilon)}"


@dataclass(frozen=True)
class Approximate(Loss):
    """(ε, δ)-differential privacy, nothing more known."""

    epsilon: Number
    delta: Number

    def __post_init__(self) -> None:
        check_number(self, "epsilon", at_least=0)
        check_number(self, "delta", at_least=0, at_most=1)

    def __str__(self) -> str:
        return f"ε = {show(self.epsilon)} at δ = {show(self.delta)}"


@dataclass(frozen=True)
class Zcdp(Loss):
    """ρ-zCDP: Rényi divergence at most ρ·α at every order α > 1 (Bun, Steinke 2016)."""

    rho: Number

    def __post_init__(self) -> None:
        check_number(self, "rho", at_least=0)

    def __str__(self) -> str:
        return f"ρ = {show(self.rho)} (zCDP)"


@dataclass(frozen=True)
class BoundedRange(Loss):
    """The log-likelihood ratios of two neighbours span at most ε (exponential mechanism:
    Durfee, Rogers 2019)."""

    epsilon: Number

    def __post_init__(self) -> None:
        check_number(self, "epsilon", at_least=0)

    def __str__(self) -> str:
        return f"a choice of range ε = {show(self.epsilon)}"


@dataclass(frozen=True)
class ResponseNoise(Loss):
    """Randomized response among `options` answers: the truth with probability `truth`,
    else another one at random.

    Guarantee: ε = ln(truth·(options − 1)/(1 − truth)), attained. Reference: Warner 1965;
               k-ary: Kairouz et al. 2014.
    """

    truth: Number
    options: int = 2

    def __post_init__(self) -> None:
        check_integer(self, "options", at_least=2)
        check_number(self, "truth", above=0, below=1)
        if exact(self.truth) * self.options < 1:
            raise InvalidLoss(
                f"Expected truth={show(self.truth)} in [1/{self.options}, 1): below it lies are likelier."
            )

    def __str__(self) -> str:
        return f"the truth among {self.options} answers with probability {show(self.truth)}"


@dataclass(frozen=True)
class LaplaceNoise(Loss):
    """Continuous Laplace noise of scale `multiplier` × the L1 sensitivity. Never stated for integer noise."""

    multiplier: Number

    def __post_init__(self) -> None:
        check_number(self, "multiplier", above=0)

    def __str__(self) -> str:
        return f"Laplace noise of {show(self.multiplier)} × the sensitivity"


@dataclass(frozen=True)
class GaussianNoise(Loss):
    """Continuous Gaussian noise of deviation `multiplier` × the L2 sensitivity. Never
    stated for integer noise."""

    multiplier: Number

    def __post_init__(self) -> None:
        check_number(self, "multiplier", above=0)

    def __str__(self) -> str:
        return f"Gaussian noise of {show(self.multiplier)} × the sensitivity"


@dataclass(frozen=True)
class DiscreteLaplaceNoise(Loss):
    """Integer Laplace noise, P(x) ∝ exp(−|x|/scale), on integer vectors of L1
    sensitivity `sensitivity` (grid units).

    Its profile is *larger* than that of continuous noise of the same ratio: at
    sensitivity 1 it is randomized response.
    """

    scale: Number
    sensitivity: int = 1

    def __post_init__(self) -> None:
        check_number(self, "scale", above=0)
        check_integer(self, "sensitivity", at_least=1)

    def __str__(self) -> str:
        return f"integer Laplace noise of scale {show(self.scale)} on sensitivity {show(self.sensitivity)}"


@dataclass(frozen=True)
class DiscreteGaussianNoise(Loss):
    """Integer Gaussian noise, P(x) ∝ exp(−x²/2σ²), on integer vectors of L2 sensitivity
    `sensitivity` (grid units).

    `dimension` is the number of coordinates, None if it is not stated; one coordinate
    has a tighter numerical bound.
    Reference: Canonne, Kamath, Steinke 2020.
    """

    sigma: Number
    sensitivity: Number = 1
    dimension: int | None = None

    def __post_init__(self) -> None:
        check_number(self, "sigma", above=0)
        check_number(self, "sensitivity", above=0)
        if self.dimension is not None:
            check_integer(self, "dimension", at_least=1)

    def __str__(self) -> str:
        return f"integer Gaussian noise of σ = {show(self.sigma)} on sensitivity {show(self.sensitivity)}"
