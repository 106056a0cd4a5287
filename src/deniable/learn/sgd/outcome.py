"""What a run releases: a model, how it came about, and how many rows counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

TELLING = 6
"""Deviations beyond which a count tells that rows are missing: chance does that once in 10⁹ runs."""

HARDLY_ANY = 0.05
"""A share of the expected rows below which a run is of no use."""
FIRST_STEPS = 100
"""Steps in which a run without usable rows is stopped. The noise on the mean count falls with their
number."""

FEW = (
    "are rows put together as the example says, are labels among the classes, can the data set be read, is n "
    "that of the data? Told from what was released, with its noise."
)
DIVERGED = (
    "made-up rows have no finite gradient with these weights either, so the training has diverged, and the "
    "rows of the data need not be the reason. Try a lower learning rate."
)
BROKEN = (
    "the model fails on made-up rows too, so the rows of the data are not the reason, "
    "and its weights are mostly noise. Look for what the model's own code raises. If it raises nothing, "
    "please report this."
)


@dataclass
class History:
    """What happened at each step, from public parameters and released values alone: safe to show."""

    learning_rate: list[float] = field(default_factory=list)
    clip: list[dict[str, float]] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    usable: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Usable:
    """How many rows of a lot were usable on average, with the noise that it was released with.

    `deviation` is that of the noise; `expected` is the size of a lot as stated. Fewer rows were usable than
    expected if they are put together otherwise than declared, cannot be read, have labels that are no class,
    or if n was stated too large.

    >>> print(Usable(2.0, 8.0, 600.0))
    2 ± 16 rows of a lot were usable, of 600 expected
    """

    rows: float
    deviation: float
    expected: float

    @property
    def few(self) -> bool:
        """Whether less than half of the expected rows were usable, beyond what noise would do."""
        return self.rows + TELLING * self.deviation < self.expected / 2

    @property
    def none(self) -> bool:
        """Whether fewer rows than half of those expected were usable, beyond what noise would do, and by the
        count hardly any."""
        return self.few and self.rows < HARDLY_ANY * self.expected

    def __str__(self) -> str:
        return (
            f"{self.rows:.3g} ± {2 * self.deviation:.2g} rows of a lot were usable, of {self.expected:g} "
            "expected"
        )


@dataclass(frozen=True)
class Trained:
    """What a run releases: the model (its running average, if one was asked for), how it came about, how many
    steps it took, and how many rows were usable."""

    model: nn.Module
    history: History
    steps: int
    usable: Usable | None = None
