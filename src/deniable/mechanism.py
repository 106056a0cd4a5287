"""The one shape of everything that touches private data.

A `Mechanism` is an immutable value whose loss and error are known before any data is
seen. What is a conversation rather than one shot is an `Interactive`, with a loss fixed
for the whole conversation. Only a ledger account runs either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload, runtime_checkable

from deniable.errors import UnitMismatch
from deniable.loss import Composed, Loss, Number
from deniable.units import Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Booleans = NDArray[np.bool_]

Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


class Random(Protocol):
    """A source of exact randomness. `private` is False if its bits could be known (a seed)."""

    @property
    def private(self) -> bool: ...

    @overload
    def bernoulli(self, p: Number, size: None = None) -> bool: ...
    @overload
    def bernoulli(self, p: Number, size: int) -> Booleans: ...
    @overload
    def bernoulli_exp(self, gamma: Number, size: None = None) -> bool: ...
    @overload
    def bernoulli_exp(self, gamma: Number, size: int) -> Booleans: ...
    @overload
    def discrete_laplace(self, scale: Number, size: None = None) -> int: ...
    @overload
    def discrete_laplace(self, scale: Number, size: int) -> Integers: ...
    @overload
    def discrete_gaussian(self, sigma: Number, size: None = None) -> int: ...
    @overload
    def discrete_gaussian(self, sigma: Number, size: int) -> Integers: ...
    @overload
    def uniform_integers(self, bound: int, size: None = None) -> int: ...
    @overload
    def uniform_integers(self, bound: int, size: int) -> Integers: ...
    def permutation(self, n: int) -> Integers: ...
    def poisson_sample(self, n: int, rate: Number) -> Integers: ...


@dataclass(frozen=True)
class Error:
    """How far the answer may be off: at most `within` with probability `confidence`,
    known before data is seen.

    `expected` is the mean size of the error where it is known; `measure` says what is
    measured: "absolute" for one number, "largest" for the worst coordinate of a vector,
    "l1" or "l2" for a norm, or a word of the mechanism's own ("rank"). It speaks of
    noise and rounding, not of what clamping or bounding contributions left out.
    """

    within: float
    confidence: float
    expected: float | None = None
    measure: str = "absolute"

    def __str__(self) -> str:
        kind = ""
        if self.measure != "absolute":
            kind = f" ({self.measure})"
        return f"± {self.within:.4g}{kind} with probability {self.confidence:.10g}"


@runtime_checkable
class Mechanism(Protocol[Value_co]):
    """Something that may touch private data once. Implementations are frozen dataclasses."""

    @property
    def loss(self) -> Loss:
        """What one run may reveal, whatever the data."""

    @property
    def unit(self) -> Unit:
        """Who is protected."""

    def error(self, confidence: float = 0.95) -> Error | None:
        """How far the answer may be off; None if that is not known before data is seen."""

    def __call__(self, data: Any, *, rng: Random) -> Value_co:
        """Draw an answer. Only a ledger account calls this on private data."""


@runtime_checkable
class Fitting(Protocol):
    """A mechanism that can tell beforehand whether it will run. An account asks it before it charges."""

    def fits(self, data: Any) -> None:
        """Raise if data of this shape and type, of which nothing else is read, cannot be used.

        None stands for data that a function opens after the charge: only what was declared can be looked at.
        """


def fitting(parts: Iterable[Mechanism[Any]], data: Any) -> None:
    """Ask every part that can tell."""
    for part in parts:
        if isinstance(part, Fitting):
            part.fits(data)


class Conversation(Protocol[Value_co]):
    """An open `Interactive`: it answers questions about data until its loss is used up."""

    def ask(self, question: Any) -> Value_co:
        """Answer one question."""

    @property
    def used(self) -> Loss:
        """The loss of what was released so far: a function of the answers given, never
        of the data behind them."""


@runtime_checkable
class Interactive(Protocol[Value_co]):
    """A conversation with private data, whose `loss` holds for all of it."""

    @property
    def loss(self) -> Loss: ...

    @property
    def unit(self) -> Unit: ...

    def open(self, data: Any, *, rng: Random) -> Conversation[Value_co]:
        """Begin. Only a ledger account calls this on private data."""


@dataclass(frozen=True)
class Release(Generic[Value]):
    """What left a data set: the value, and the guarantee it carries.

    `entry` names the ledger entry that paid for it. `private` is False when a seeded
    generator drew the noise: such a value protects nobody and belongs in tests.
    `granularity` is the grid that the value lies on, where it lies on one. `assumptions` are sentences that
    a certificate of it must tell its reader, beside those of the loss.
    """

    value: Value
    loss: Loss
    unit: Unit
    error: Error | None = None
    entry: str | None = None
    private: bool = True
    granularity: float | None = None
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sequentially:
    """Several mechanisms of one unit, run one after the other on the same data: also a mechanism."""

    parts: Sequence[Mechanism[Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        units = {part.unit for part in self.parts}
        if len(units) != 1:
            raise UnitMismatch(
                f"Expected mechanisms of one unit, got {len(units)}: {', '.join(sorted(map(str, units)))}."
            )

    @property
    def loss(self) -> Loss:
        return Composed(tuple(part.loss for part in self.parts))

    @property
    def unit(self) -> Unit:
        return self.parts[0].unit

    def error(self, confidence: float = 0.95) -> None:
        return None

    def fits(self, data: Any) -> None:
        fitting(self.parts, data)

    def __call__(self, data: Any, *, rng: Random) -> tuple[Any, ...]:
        return tuple(part(data, rng=rng) for part in self.parts)
