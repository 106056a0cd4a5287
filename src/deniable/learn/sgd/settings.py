"""A run in a few values: what is private, how it learns, how it is run. What is drawn is in `lots`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import SGD, Optimizer

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.sgd.clipping import Rule
from deniable.learn.sgd.data.views import Augment
from deniable.learn.sgd.equivalents import with_equivalents
from deniable.learn.sgd.schedules import Schedule, constant
from deniable.loss import Number
from deniable.units import Unit, UnitKind

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]


TRIED, PROVED = "tried", "proved"
"""What must be known of rows being kept apart: at the least trials on made-up rows, or a proof."""


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Raise unless a value of a run is of the class that it is to be."""
    if not isinstance(value, kinds):
        words = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidParameter(
            f"Expected {name} to be of the class {words}, got {type(value).__name__}. Nothing was charged."
        )


@with_equivalents
@dataclass(frozen=True)
class Privacy:
    """What is private: noise by a budget (epsilon, delta) or as it is, the clip, and who is protected.

    `clip` is a bound on the norm of each example's gradient, or a rule; `noise_schedule` multiplies the noise
    in stages of equal length; `grid` adds and draws in exact integers. `unit` is a row, or all rows of a
    person: `Unit.column("user", max_rows=8)`. `rows="proved"` refuses a model of which it is only tried, on
    made-up rows, and not proved, that no row bears on another one's gradient.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    noise_multiplier: Number | None = None
    noise_schedule: tuple[Number, ...] = (1,)
    clip: float | Rule = 1.0
    grid: bool = False
    unit: Unit = checks.ROW
    rows: str = TRIED

    @property
    def budget(self) -> Budget | None:
        if self.epsilon is None or self.delta is None:
            return None
        return Budget(
            checks.number("epsilon", self.epsilon, above=0),
            checks.number("delta", self.delta, above=0, below=1),
        )

    @property
    def noise(self) -> float:
        return float(self.noise_multiplier or 0)

    @property
    def max_rows(self) -> int | None:
        """How many rows of a person count; None where a row is protected by itself."""
        return self.unit.max_rows if self.unit.kind is UnitKind.COLUMN else None

    def refuse_rows(self) -> None:
        if self.rows not in (TRIED, PROVED):
            raise InvalidParameter(
                f'Expected rows="{PROVED}" or rows="{TRIED}", got {self.rows!r}. Nothing was charged.'
            )

    def refuse_units(self) -> None:
        unit = checks.unit(self.unit)
        if unit.kind is UnitKind.COLUMN and unit.max_rows is None:
            raise InvalidParameter(
                f'Expected Unit.column("{unit.column_name}", max_rows=…): how many rows of a person shall go '
                "through the model at most? Nothing was charged."
            )
        if unit.kind not in (UnitKind.ROW, UnitKind.COLUMN):
            raise InvalidParameter(
                f"Expected a unit of one row, or of all rows of a person, got {self.unit}: each is clipped "
                "by itself. Nothing was charged."
            )


@with_equivalents
@dataclass(frozen=True)
class Learning:
    """How it learns: rate and optimiser, views of each example, and whether the average
    of the weights is released."""

    learning_rate: float | Schedule | None = None
    optimizer: OptimizerFactory | None = None
    multiplicity: int = 1
    augment: Augment | None = None
    average: float | None = None

    def new_optimizer(self, model: nn.Module) -> Optimizer:
        parameters = [p for p in model.parameters() if p.requires_grad]
        return SGD(parameters, lr=1.0) if self.optimizer is None else self.optimizer(parameters)

    def rate_at(self, step: int) -> float | None:
        """The learning rate at a step (0, 1, …); None leaves the optimiser's own."""
        if self.learning_rate is None:
            return None
        schedule = self.learning_rate if callable(self.learning_rate) else constant(self.learning_rate)
        return float(schedule(step))


@dataclass(frozen=True)
class Execution:
    """How it is run, which changes no number but the last bits: examples that go through the model at once, a
    bar on the terminal, and the device on which a copy of the model is trained (None: where the model is)."""

    microbatch: int | None = None
    progress: bool = True
    device: torch.device | str | None = None
