"""`DPSGD`: a whole training run as one mechanism."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from deniable import checks
from deniable.errors import DataError, InvalidParameter
from deniable.learn.clip import BatchLoss, PerExample
from deniable.learn.clip.objective import Criterion
from deniable.learn.clip.per_example import Shape
from deniable.learn.clip.trials.probe import Found
from deniable.learn.sgd import checking
from deniable.learn.sgd.checking import Checked
from deniable.learn.sgd.checking import trial as trial
from deniable.learn.sgd.clipping import ALL, Rule, rule
from deniable.learn.sgd.cost import Cost
from deniable.learn.sgd.data import rows
from deniable.learn.sgd.data.arrivals import Arrivals, ArrivingRows
from deniable.learn.sgd.data.users import UserRows, users_of
from deniable.learn.sgd.equivalents import with_equivalents
from deniable.learn.sgd.noise import GradientGrid
from deniable.learn.sgd.outcome import Trained
from deniable.learn.sgd.sampling.fixed_lots import FixedLots
from deniable.learn.sgd.sampling.lots import LotPlan, Lots
from deniable.learn.sgd.schedules import Schedule
from deniable.learn.sgd.settings import TRIED, Execution, Learning, OptimizerFactory, Privacy, check_kind
from deniable.learn.sgd.training import progress
from deniable.learn.sgd.training.trainer import Trainer
from deniable.loss import Composed, Loss, Number
from deniable.mechanism import Random
from deniable.units import Unit

LOG = logging.getLogger(__name__)


@partial(with_equivalents, values=(Lots, Privacy, Learning, Execution))
@dataclass(frozen=True)
class DPSGD:
    """Train a copy of `model` by differentially private stochastic gradient descent.

    Each step draws a Poisson lot (every row by its own coin of probability rate = lot/n), clips the gradient
    of each example, adds the clipped gradients, adds Gaussian noise of `noise_multiplier` × the clip, divides
    by `lot` and lets the optimiser move. The noise is solved from (epsilon, delta) if it is not given.

    A run is said in values: `lots` (what is drawn), `privacy` (budget or noise, clip,
    unit), `learning` (rate, optimiser, views), `how` (what changes no number). In one line:
    `DPSGD.from_keywords`.

    Guarantee: the loss of `steps` steps of Gaussian noise on samples, for `unit`: all that is released (the
               model, the history, every gradient on the way) is a function of the noisy sums. Rows that hold
               no number, or on which the model or the criterion fails, contribute exactly zero. With a unit
               of a person, lots are drawn of people, and the mean gradient of at most `max_rows` of a
               person's rows is clipped once.
    Assumes:   the model and the criterion treat each row alone (layers that mix rows are refused); `augment`
               too; n, lot, bounds and schedules are public; floating-point noise comes near to Gaussian
               noise, see `noise` (grid=True: integer noise drawn exactly, nothing of the kind assumed).
    Error:     none is known before data is seen.
    Example:   `example` is a row, made up or public, for data whose container does not tell what all its rows
               look like (a `Dataset`, a frame, lists, data opened by a function). Model, criterion and
               `augment` are tried on made-up rows of its form and on itself before the charge. Rows of
               another shape go through the model one by one.
    Reference: Abadi et al. 2016, Algorithm 1; Andrew et al. 2021 (adaptive clipping); De
               et al. 2022 (multiplicity, averaging).

    >>> from deniable import accounting
    >>> run = DPSGD(nn.Linear(4, 3), nn.CrossEntropyLoss(), lots=Lots(n=1000, lot=50, epochs=2),
    ...             privacy=Privacy(epsilon=2, delta=1e-5, clip=1), learning=Learning(learning_rate=0.5))
    >>> print(run.plan, round(run.noise_multiplier, 2))
    LotPlan(rate=Fraction(1, 20), lot=50.0, steps=40) 1.1
    >>> accounting.epsilon(run.loss, 1e-5).upper <= 2
    True
    """

    model: nn.Module
    criterion: Criterion | BatchLoss
    _: KW_ONLY
    lots: Lots | FixedLots
    privacy: Privacy
    learning: Learning = Learning()
    how: Execution = Execution()
    example: Any = field(default=None, repr=False, compare=False)
    checked: Checked = field(default_factory=Checked, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_kind("lots", self.lots, Lots, FixedLots)
        check_kind("privacy", self.privacy, Privacy)
        check_kind("learning", self.learning, Learning)
        check_kind("how", self.how, Execution)
        checking.refuse_settings(self)
        checking.refuse_model(self)
        checking.refuse_optimizer(self)
        object.__setattr__(self, "privacy", self._with_noise())

    @classmethod
    def from_keywords(
        cls,
        model: nn.Module,
        criterion: Criterion | BatchLoss,
        *,
        n: int | None = None,
        lot: Number | None = None,
        rate: Number | None = None,
        epochs: Number | None = None,
        steps: int | None = None,
        clip: float | Rule = 1.0,
        learning_rate: float | Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        noise_multiplier: Number | None = None,
        unit: Unit = checks.ROW,
        rows: str = TRIED,
        progress: bool = True,
        example: Any = None,
    ) -> DPSGD:
        """A run in one line, of the fields that most runs name.

        >>> run = DPSGD.from_keywords(nn.Linear(4, 3), nn.CrossEntropyLoss(), n=1000, lot=50, epochs=2,
        ...                           learning_rate=0.5, epsilon=2, delta=1e-5)
        >>> run.lots
        Lots(n=1000, lot=50, rate=None, epochs=2, steps=None, cap=None, at_most=None, allocated=False)
        """
        return cls(
            model,
            criterion,
            lots=Lots(n, lot, rate, epochs, steps),
            privacy=Privacy(epsilon, delta, noise_multiplier, clip=clip, unit=unit, rows=rows),
            learning=Learning(learning_rate, optimizer),
            how=Execution(progress=progress),
            example=example,
        )

    # -------------------------------------------------------------------------------------------- the loss

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.plan.steps)

    def loss_of(self, steps: int) -> Loss:
        """The loss of the first `steps` steps."""
        return self.cost.loss(self.privacy.noise, steps) if steps else Composed(())

    @property
    def length(self) -> int:
        return self.plan.steps

    @property
    def terms(self) -> str:
        """What the loss of the whole run does not say of its steps: how many there are, which of them have
        less noise, and how noise is correlated. Two runs of one loss may differ in it."""
        factors = [float(factor) for factor in self.privacy.noise_schedule]
        return f"{self.plan.steps} steps, {factors}, {self.plan.correlation}"

    @property
    def unit(self) -> Unit:
        return self.privacy.unit

    @property
    def delta(self) -> Number | None:
        return self.privacy.delta

    @property
    def noise_multiplier(self) -> float:
        return self.privacy.noise

    @cached_property
    def cost(self) -> Cost:
        return Cost(self.plan, self.rule, self.grids, self.privacy.noise_schedule, self.unit.replace)

    def multipliers(self, step: int) -> dict[str, float]:
        """The deviation of each group's noise over its bound at a step (0, 1, …)."""
        return self.rule.multipliers(self.privacy.noise * self.cost.factor(step))

    def _with_noise(self) -> Privacy:
        """With the noise that the budget asks for, where it is not given. Raises if they do not go
        together."""
        budget, privacy = self.privacy.budget, self.privacy
        if privacy.noise_multiplier is not None:
            checks.number("noise_multiplier", privacy.noise_multiplier, above=0)
        elif budget is None:
            raise InvalidParameter(
                "Expected epsilon and delta, or noise_multiplier: how much noise shall there be? Nothing was "
                "charged."
            )
        else:
            multiplier = self.cost.solve(budget)
            self.cost.refuse_hopeless(budget, multiplier)
            privacy = replace(privacy, noise_multiplier=multiplier)
        self.cost.loss(privacy.noise, self.plan.steps)  # raises if the rule cannot share this noise
        if budget is not None:
            self.cost.refuse_budget(budget, privacy.noise)
        return privacy

    # ------------------------------------------------------------------------------- what the parameters mean

    @cached_property
    def plan(self) -> LotPlan:
        return self.lots.plan

    @cached_property
    def rule(self) -> Rule:
        return rule(self.privacy.clip)

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The trainable parameters of each group, in the model's order."""
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        declaration = self.rule.groups
        return (
            {ALL: tuple(names)}
            if declaration is None
            else {group: tuple(members) for group, members in declaration.items()}
        )

    @cached_property
    def counting(self) -> str:
        """The group in whose noise usable rows are counted: the first."""
        return next(iter(self.groups))

    @cached_property
    def grids(self) -> dict[str, GradientGrid]:
        """The grid of each group; none if the noise is in floating point."""
        if not self.privacy.grid:
            return {}
        sizes = {name: p.numel() for name, p in self.model.named_parameters()}
        return {
            group: GradientGrid(
                self.rule.bounds[group], sum(sizes[name] for name in names), counts=group == self.counting
            )
            for group, names in self.groups.items()
        }

    @cached_property
    def dtype(self) -> torch.dtype:
        """The precision of the trainable parameters."""
        return next(p.dtype for p in self.model.parameters() if p.requires_grad)

    @cached_property
    def device(self) -> torch.device:
        """Where rows go through the model. Noise is drawn and added on the CPU, by the secure generator."""
        if self.how.device is not None:
            return torch.empty(0, device=self.how.device).device
        return next(p.device for p in self.model.parameters() if p.requires_grad)

    @property
    def rows_apart(self) -> str:
        """How it is known that no row bears on another one's gradient: "proved (layers)", "proved (vmap)",
        "proved (alone)" or "tried"; nothing before `check`."""
        return str(self.checked.apart(self)) if self.checked.ways else ""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Sentences for a certificate."""
        return (f"Rows apart: {self.rows_apart}.",) if self.rows_apart else ()

    def clipper(
        self, model: nn.Module, ways: Mapping[Shape, Found] | None = None, lot: float | None = None
    ) -> PerExample:
        """What clips a model's gradients in this run, in lots of about `lot` examples."""
        groups, microbatch = self.rule.groups, self.how.microbatch
        return PerExample(model, self.criterion, groups=groups, microbatch=microbatch, ways=ways, lot=lot)

    def lot_of(self, ranks: int = 1) -> float:
        """Examples that one of so many ranks expects in a pass; on a grid each example is a pass."""
        return 1.0 if self.privacy.grid else self.plan.lot / ranks

    def training_clipper(self, model: nn.Module, ways: Mapping[Shape, Found], ranks: int = 1) -> PerExample:
        """What clips in training: it asks no trial of its own, and its passes have two sizes."""
        return self.clipper(model, ways, None if self.privacy.grid else self.lot_of(ranks))

    # -------------------------------------------------------------------------------------------- running

    def error(self, confidence: float = 0.95) -> None:
        return None

    def check(self, data: Any = None, *, model: nn.Module | None = None) -> Checked:
        """Before anything is charged: whether the model can be trained on rows as
        declared. No row of the data is read.

        What a row looks like is told by `example`, or by a container that speaks for all its rows (tensors,
        arrays of numbers). Made-up rows of that form go through a copy of the model, or through `model`
        itself, in the modes that it has. Raises `DataError` or `InvalidParameter`. What is found holds for
        the runs that follow, which do not ask again.
        """
        outcome = checking.try_run(self, data, model)
        object.__setattr__(self, "checked", outcome)
        return outcome

    def fits(self, data: Any) -> None:
        """`check`, as an account asks it before every charge; None is data that a function opens later."""
        self.check(data)

    def rows(self, data: Any) -> rows.Rows:
        """The rows of a container, or its people with their rows, read as declared."""
        if isinstance(data, Arrivals):
            return _arriving(self, data)
        if self.privacy.max_rows is None or isinstance(data, UserRows):
            return rows.rows(data, self.example)
        return UserRows(users_of(data, self.unit), self.privacy.max_rows, self.example)

    def walk(self, rng: Random) -> Trainer:
        """The run before its first step, with a copy of the model."""
        return Trainer.with_copy(self, rng)

    def __call__(self, data: Any, *, rng: Random) -> Trained:
        drawn_from = self.rows(data)
        if not self.checked.ways:
            self.check(drawn_from)
        trainer = Trainer.with_copy(self, rng)
        with progress.bar(self) as watch:
            for _ in range(self.plan.steps):
                if (reason := trainer.reason_to_stop()) is not None:
                    LOG.warning("The run was stopped after step %d: %s", trainer.taken, reason)
                    break
                trainer.walk(drawn_from)
                watch(trainer)
        return trainer.result()


def _arriving(run: DPSGD, data: Arrivals) -> rows.Rows:
    if run.plan.correlation is None or run.privacy.max_rows is not None:
        raise DataError(
            "Expected lots=FixedLots(…) and a unit of one row for rows that arrive: other lots are drawn, "
            "and a person whose rows arrive at many steps would take part in all of them. Nothing was "
            "charged."
        )
    return ArrivingRows(data, run.example)
