"""Training as a conversation: draw a lot, take a step on it, and so on until the run's steps are taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torch import Tensor

from deniable.errors import InvalidQuery
from deniable.learn.sgd.data.rows import Lot, Rows
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.training.trainer import Trainer
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.process import Conversing
from deniable.units import Unit

Window = Callable[[Lot], None]
Start = Callable[[DPSGD, Random], Trainer]


class Ask(Enum):
    """What a training conversation is asked."""

    LOT = "draw the next lot"
    STEP = "take a step on it"


@dataclass(frozen=True)
class TrainingSteps:
    """The steps of a run, one at a time: an `Interactive` whose loss is that of the whole run.

    `start` makes the trainer. `window` sees each lot: raw rows, for the owner's loop, never an answer.
    """

    run: DPSGD
    start: Start
    window: Window = lambda lot: None

    @property
    def loss(self) -> Loss:
        return self.run.loss

    @property
    def unit(self) -> Unit:
        return self.run.unit

    def open(self, data: Any, *, rng: Random) -> Steps:
        return Steps(self, self.run.rows(data), self.start(self.run, rng))


class Steps(Conversing):
    """An open `TrainingSteps`. Answers are the number of the step that a lot was drawn for, and noisy
    gradients."""

    def __init__(self, training: TrainingSteps, data: Rows, trainer: Trainer) -> None:
        self._training, self._data, self.trainer = training, data, trainer
        self._lot: Lot | None = None

    def ask(self, question: Ask) -> int | dict[str, Tensor]:
        self.stay()
        if not isinstance(question, Ask):
            raise InvalidQuery(
                f"Expected one of {', '.join(map(str, Ask))}, got {question!r}. Nothing was run."
            )
        if self.trainer.taken >= self._training.run.plan.steps:
            raise InvalidQuery(
                f"All {self._training.run.plan.steps:,} steps of this run are taken. Open another one."
            )
        return self._draw() if question is Ask.LOT else self._step()

    def _draw(self) -> int:
        self.trainer.check_usable()
        self._lot = self.trainer.draw(self._data)
        self._training.window(self._lot)
        return self.trainer.taken + 1

    def _step(self) -> dict[str, Tensor]:
        self.trainer.refuse_changes()
        lot, self._lot = self._lot, None
        if lot is None:
            raise InvalidQuery(
                "Expected a lot that was drawn for this step: each lot is used once. Nothing was run."
            )
        return self.trainer.step(lot)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Sentences for a certificate: what is known of the model as it is now."""
        return self._training.run.assumptions

    @property
    def used(self) -> Loss:
        return self.trainer.used
