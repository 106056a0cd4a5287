"""Noise that is added to one input before a classifier sees it: values with a stable
JSON form, and the loss at every radius.

Two inputs within `radius` of one another are the neighbours (`Unit.ball`), and what the noisy input reveals
of which of them it was is a `Loss`: randomized smoothing is privacy of one input.

    Gaussian(sigma)          ℓ2   GaussianNoise(σ/R)
    Laplace(scale)           ℓ1   LaplaceNoise(b/R)
    Uniform(width)           ℓ1   Approximate(0, R/2λ): cubes of side 2λ, moved by δ, share
                                  Π(1 − |δᵢ|/2λ) ≥ 1 − |δ|₁/2λ
    IntegerGaussian(sigma)   ℓ2   DiscreteGaussianNoise, on whole numbers such as 8-bit pixels
    IntegerLaplace(scale)    ℓ1   DiscreteLaplaceNoise
    IntegerUniform(width)    ℓ1   Approximate(0, R/(2λ + 1)), the cube of whole numbers −λ … λ
    Ablation(keep, pixels)   ℓ0   Approximate(0, 1 − C(d − R, k)/C(d, k)): only k of d pixels are seen
                                  (Levine, Feizi 2020)
    Releases(parts)               all of them, each with noise of its own: Composed

Any other norm costs the factor by which its ball reaches further: ‖x‖_q ≤ max(1, d^(1/q − 1/p))·‖x‖_p.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import ClassVar

from deniable.accounting.rounding import round_up
from deniable.errors import InvalidParameter
from deniable.loss import (
    Approximate,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Node,
    Number,
    exact,
    show,
)

NORMS = {"l0": 0.0, "l1": 1.0, "l2": 2.0, "linf": math.inf}
"""Names of norms, as options spell them."""


WIDEST = 2**20
"""Steps of whole-number noise that are drawn: with inputs up to 2³⁰ all stays within 32 bits."""
MOST_BITS = 2**17
"""Size of the exact fractions of ablation. δ passes ½ at about √d changed of √d kept pixels, so that this is
enough for every radius of a picture of ten million pixels."""


class InputNoise(ABC):
    """What a smoothed classifier needs to know of its noise. Radii are in the measure of the input."""

    integer: ClassVar[bool] = False
    """Whether input and noise are whole numbers, so that no rounding comes between the
    theorem and the program."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """The p of the ℓp norm in which the noise is at its best."""

    @abstractmethod
    def native_loss(self, reach: Fraction) -> Loss:
        """The loss of inputs within `reach` > 0 in the noise's own norm."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]: ...

    def loss_at(self, radius: Number, norm: float | None = None, dimension: int | None = None) -> Loss:
        """The loss of inputs within `radius` of one another in `norm` (left out: the noise's own)."""
        if radius < 0:
            raise InvalidParameter(f"Expected radius={radius} of at least 0.")
        if radius == 0:
            return Composed(())
        if norm is None:
            norm = self.norm
        return self.native_loss(exact(radius) * stretch(self.norm, norm, dimension))

    def level(self, index: int, norm: float | None = None) -> float | None:
        """The `index`-th radius at which the loss of whole numbers changes; None if it changes everywhere."""
        if not self.integer:
            return None
        if norm is None:
            norm = self.norm
        if norm == 2:
            return math.sqrt(index)
        return float(index)


def widest_steps(noise: InputNoise) -> float:
    """The width of whole-number noise, in steps; 0 where it is continuous or ablated."""
    match noise:
        case Releases(parts):
            return max(widest_steps(part) for part in parts)
        case IntegerGaussian(width) | IntegerLaplace(width) | IntegerUniform(width):
            return float(width)
        case _:
            return 0.0


def stretch(base: float, norm: float, dimension: int | None) -> Fraction:
    """How far the unit ball of `norm` reaches in the norm `base`, rounded up."""
    if (base == 0) != (norm == 0):
        raise InvalidParameter(
            f"Expected norm={norm:g} to be the noise's own, {base:g}: ablated pixels protect against changed "
            "pixels (ℓ0), added noise against moved ones."
        )
    if norm <= base:
        return Fraction(1)
    if dimension is None:
        raise InvalidParameter(
            f"Expected a dimension: in the norm {norm:g} noise of the norm {base:g} depends on the number of "
            "coordinates."
        )
    # Hölder: ‖x‖_own ≤ d^(1/own − 1/norm) · ‖x‖_norm for norm > own, with 1/∞ = 0.
    share = 1 / base - 1 / norm
    return Fraction(round_up(dimension**share))


@dataclass(frozen=True)
class Gaussian(Node, InputNoise):
    """Continuous Gaussian noise of deviation `sigma` (Cohen, Rosenfeld, Kolter 2019).

    >>> print(Gaussian(0.25).loss_at(0.5))
    Gaussian noise of 1/2 × the sensitivity
    """

    sigma: Number

    def __post_init__(self) -> None:
        _positive(self, "sigma")

    @property
    def norm(self) -> float:
        return 2.0

    def native_loss(self, reach: Fraction) -> Loss:
        return GaussianNoise(exact(self.sigma) / reach)

    def __str__(self) -> str:
        return f"Gaussian noise of σ = {show(self.sigma)}"


@dataclass(frozen=True)
class Laplace(Node, InputNoise):
    """Continuous Laplace noise of scale `scale` in every coordinate (Teng, Lee, Yuan 2020)."""

    scale: Number

    def __post_init__(self) -> None:
        _positive(self, "scale")

    @property
    def norm(self) -> float:
        return 1.0

    def native_loss(self, reach: Fraction) -> Loss:
        return LaplaceNoise(exact(self.scale) / reach)

    def __str__(self) -> str:
        return f"Laplace noise of scale {show(self.scale)}"


@dataclass(frozen=True)
class Uniform(Node, InputNoise):
    """Continuous uniform noise on [−width, width] in every coordinate (Yang et al. 2020)."""

    width: Number

    def __post_init__(self) -> None:
        _positive(self, "width")

    @property
    def norm(self) -> float:
        return 1.0

    def native_loss(self, reach: Fraction) -> Loss:
        return Approximate(0, min(Fraction(1), reach / (2 * exact(self.width))))

    def __str__(self) -> str:
        return f"uniform noise of ± {show(self.width)}"


@dataclass(frozen=True)
class IntegerGaussian(Node, InputNoise):
    """Integer Gaussian noise, P(x) ∝ exp(−x²/2σ²), on whole numbers: `sigma` and radii
    are in steps of a pixel.

    `sigma` of at least 3 steps: below, no bound is known for vectors (T8 in docs/theory/numerical.md).
    """

    sigma: Number

    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive(self, "sigma")

    @property
    def norm(self) -> float:
        return 2.0

    def native_loss(self, reach: Fraction) -> Loss:
        square = math.floor(reach**2)
        if square == 0:
            return Composed(())
        root = math.isqrt(square)
        sensitivity: Number = root if root * root == square else Fraction(round_up(math.sqrt(square)))
        return DiscreteGaussianNoise(self.sigma, sensitivity)

    def __str__(self) -> str:
        return f"integer Gaussian noise of σ = {show(self.sigma)} steps"


@dataclass(frozen=True)
class IntegerLaplace(Node, InputNoise):
    """Integer Laplace noise, P(x) ∝ exp(−|x|/scale), on whole numbers: `scale` and radii
    are in steps of a pixel."""

    scale: Number

    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive(self, "scale")

    @property
    def norm(self) -> float:
        return 1.0

    def native_loss(self, reach: Fraction) -> Loss:
        steps = math.floor(reach)
        if steps:
            return DiscreteLaplaceNoise(self.scale, steps)
        return Composed(())

    def __str__(self) -> str:
        return f"integer Laplace noise of scale {show(self.scale)} steps"


@dataclass(frozen=True)
class IntegerUniform(Node, InputNoise):
    """Whole numbers from −width to width, each as likely: `width` and radii are in steps of a pixel."""

    width: int

    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_integer(self, "width", 1)

    @property
    def norm(self) -> float:
        return 1.0

    def native_loss(self, reach: Fraction) -> Loss:
        return Approximate(0, min(Fraction(1), Fraction(math.floor(reach), 2 * self.width + 1)))

    def __str__(self) -> str:
        return f"uniform integer noise of ± {self.width} steps"


@dataclass(frozen=True)
class Ablation(Node, InputNoise):
    """Only `keep` of the `pixels` of an input are seen, chosen at random; the others are blank.

    The two noisy inputs are the same wherever no changed pixel is among those kept, and differ wherever one
    is: so δ = 1 − C(d − R, k)/C(d, k) at ε = 0 is exact.
    """

    keep: int
    pixels: int

    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_integer(self, "pixels", 1)
        _check_integer(self, "keep", 1)
        if self.keep > self.pixels:
            raise InvalidParameter(f"Expected keep={self.keep} of at most pixels={self.pixels}.")

    @property
    def norm(self) -> float:
        return 0.0

    def native_loss(self, reach: Fraction) -> Loss:
        changes = min(math.floor(reach), self.pixels)
        # C(d − r, k)/C(d, k) = C(d − k, r)/C(d, r): as many factors as the smaller of r and k.
        few, many = sorted((changes, self.keep))
        if few * self.pixels.bit_length() > MOST_BITS:
            return Approximate(0, 1)  # nothing is claimed
        unseen = Fraction(math.perm(self.pixels - many, few), math.perm(self.pixels, few))
        return Approximate(0, 1 - unseen)

    def __str__(self) -> str:
        return f"all but {self.keep} of {self.pixels} pixels ablated"


@dataclass(frozen=True)
class Releases(Node, InputNoise):
    """Several noisy copies of one input, each with noise of its own; the classifier sees them side by
    side."""

    parts: tuple[InputNoise, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not all(isinstance(part, InputNoise) for part in self.parts):
            raise InvalidParameter(f"Expected at least one noise in Releases, got parts={self.parts!r}.")
        if any(part.norm == 0 for part in self.parts) and any(part.norm != 0 for part in self.parts):
            raise InvalidParameter(
                "Expected noises of one kind: ablated pixels and added noise have no common norm."
            )
        if len({part.integer for part in self.parts}) > 1:
            raise InvalidParameter("Expected noises of one kind: all on whole numbers, or all continuous.")

    @property
    def integer(self) -> bool:  # type: ignore[override]
        return self.parts[0].integer

    @property
    def norm(self) -> float:
        """The least: its unit ball lies within those of the others."""
        return min(part.norm for part in self.parts)

    def native_loss(self, reach: Fraction) -> Loss:
        return Composed(tuple(part.loss_at(reach, self.norm) for part in self.parts))

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))


def _positive(node: Node, name: str) -> None:
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InvalidParameter(f"Expected {name}={value!r} of {type(node).__name__} in (0, ∞).")
    if not isinstance(value, int | Fraction):
        object.__setattr__(node, name, int(value) if isinstance(value, Integral) else float(value))


def _check_integer(node: Node, name: str, least: int) -> None:
    value = getattr(node, name)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameter(
            f"Expected {name}={value!r} of {type(node).__name__} to be a whole number of at least {least}."
        )
    object.__setattr__(node, name, int(value))
