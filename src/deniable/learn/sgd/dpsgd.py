"""`DPSGD`: a whole training run as one mechanism."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from deniable import accounting, checks
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.clip import PerExample, structure
from deniable.learn.sgd import progress, rows, views
from deniable.learn.sgd.clipping import ALL, Adaptive, Rule, rule
from deniable.learn.sgd.lots import Plan, plan
from deniable.learn.sgd.noise import Grid
from deniable.learn.sgd.schedules import Schedule, constant
from deniable.learn.sgd.trainer import Checked, Trained, Trainer, shape_of
from deniable.loss import Composed, GaussianNoise, Loss, Number
from deniable.mechanism import Random
from deniable.units import Kind, Unit

Criterion = Callable[[Tensor, Tensor], Tensor]
OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]

PRECISIONS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class DPSGD:
    """Train a copy of `model` by differentially private stochastic gradient descent.

    Each of `steps` steps draws a Poisson lot (every row by its own coin of probability rate = lot/n), clips the gradient of
    each example, adds the clipped gradients, adds Gaussian noise of `noise_multiplier` × the clip, divides by `lot` and lets the
    optimiser move. The noise is solved from (epsilon, delta) if it is not given.

    Guarantee: the loss of `steps` steps of Gaussian noise on Poisson samples, for `unit`: all that is released (the model, the
               history, every gradient on the way) is a function of the noisy sums. Rows that hold no number, or on which the
               model or the criterion fails, contribute exactly zero.
    Assumes:   the model and the criterion treat each row alone (layers that mix rows are refused); `augment` too; n, lot,
               bounds and schedules are public; floating-point noise comes near to Gaussian noise, see `noise`
               (grid=True: integer noise drawn exactly, nothing of the kind assumed).
    Error:     none is known before data is seen.
    Example:   `example` is a row (input, target), made up or public, for data whose container does not tell what all its rows
               look like (a `Dataset`, lists, data opened by a function). Model, criterion and `augment` are tried on made-up
               rows of its form and on itself before the charge. Rows of another shape go through the model one by one.
    Reference: Abadi et al. 2016, Algorithm 1; Andrew et al. 2021 (adaptive clipping); De et al. 2022 (multiplicity, averaging).

    >>> run = DPSGD(nn.Linear(4, 3), nn.CrossEntropyLoss(), n=1000, lot=50, epochs=2, clip=1, learning_rate=0.5,
    ...             epsilon=2, delta=1e-5)
    >>> print(run.plan, round(run.noise_multiplier, 2))
    Plan(rate=Fraction(1, 20), lot=50.0, steps=40) 1.1
    >>> accounting.epsilon(run.loss, 1e-5).upper <= 2
    True
    """

    model: nn.Module
    criterion: Criterion
    _: KW_ONLY
    n: int | None = None
    lot: Number | None = None
    rate: Number | None = None
    epochs: Number | None = None
    steps: int | None = None
    clip: float | Rule = 1.0
    learning_rate: float | Schedule | None = None
    optimizer: OptimizerFactory | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    noise_multiplier: Number | None = None
    noise_schedule: tuple[Number, ...] = (1,)
    multiplicity: int = 1
    augment: views.Augment | None = None
    average: float | None = None
    grid: bool = False
    unit: Unit = checks.ROW
    microbatch: int | None = None
    progress: bool = True
    example: Any = field(default=None, repr=False, compare=False)
    checked: Checked = field(default_factory=Checked, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_plain()
        self._check_model()
        self._check_optimizer()
        self._check_noise()

    # -------------------------------------------------------------------------------------------- the loss

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.plan.steps)

    def loss_of(self, steps: int) -> Loss:
        """The loss of the first `steps` steps."""
        return self._loss_at(self._noise, steps) if steps else Composed(())

    @property
    def length(self) -> int:
        return self.plan.steps

    def _loss_at(self, noise_multiplier: float, steps: int) -> Loss:
        counts: Counter[float] = Counter()
        for stage, factor in enumerate(self.noise_schedule):
            first, after = self._first(stage), self._first(stage + 1)
            counts[float(factor)] += max(0, min(steps, after) - first)
        stages = tuple(self._sampled(noise_multiplier * factor) * count for factor, count in counts.items() if count)
        return stages[0] if len(stages) == 1 else Composed(stages)

    def _first(self, stage: int) -> int:
        """The stages of a schedule are equally long: stage k of K begins at step ⌈k·T/K⌉ (0, 1, …)."""
        return -(-stage * self.plan.steps // len(self.noise_schedule))

    def _sampled(self, noise_multiplier: float) -> Loss:
        """One step: all it releases comes from one sample. Seeing all rows, with one added or removed, is no sampling."""
        release = self._released(noise_multiplier)
        if self.plan.rate == 1 and not self.unit.replace:
            return release
        return release.sampled(self.plan.rate, replace=self.unit.replace)

    def _released(self, noise_multiplier: float) -> Loss:
        shares = self.rule.multipliers(noise_multiplier)
        parts: list[Loss] = [
            self.grids[group].loss(share) if group in self.grids else GaussianNoise(share)
            for group, share in shares.items()
        ]
        if isinstance(self.rule, Adaptive):
            parts.append(GaussianNoise(self.rule.count_multiplier))
        return parts[0] if len(parts) == 1 else Composed(tuple(parts))

    @property
    def _noise(self) -> float:
        return float(self.noise_multiplier or 0)

    def _solved(self, budget: Budget) -> float:
        """The least noise for the budget; a rule that shares it among releases may need a little more than one release."""
        plan, epsilon, delta = self.plan, float(budget.epsilon), float(budget.delta)
        start = accounting.calibrate_noise(epsilon, delta, rate=plan.rate, steps=plan.steps, replace=self.unit.replace)
        for more in (1.0, 1.0003, 1.001) if len(self.noise_schedule) == 1 and not self.grid else ():
            if accounting.epsilon(self._loss_at(start * more, plan.steps), delta).upper <= epsilon:
                return start * more
        return accounting.calibrate(lambda z: self._loss_at(z, plan.steps), budget, start=start)

    def multipliers(self, step: int) -> dict[str, float]:
        """The deviation of each group's noise over its bound at a step (0, 1, …)."""
        stages = range(len(self.noise_schedule))
        stage = max(k for k in stages if self._first(k) <= step)
        return self.rule.multipliers(self._noise * float(self.noise_schedule[stage]))

    @property
    def _budget(self) -> Budget | None:
        if self.epsilon is None or self.delta is None:
            return None
        return Budget(
            checks.number("epsilon", self.epsilon, above=0), checks.number("delta", self.delta, above=0, below=1)
        )

    # -------------------------------------------------------------------------------------------- what the parameters mean

    @cached_property
    def plan(self) -> Plan:
        return plan(self.n, self.lot, self.rate, self.epochs, self.steps)

    @cached_property
    def rule(self) -> Rule:
        return rule(self.clip)

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The trainable parameters of each group, in the model's order."""
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        given = self.rule.groups
        return {ALL: tuple(names)} if given is None else {group: tuple(listed) for group, listed in given.items()}

    @cached_property
    def grids(self) -> dict[str, Grid]:
        """The grid of each group; none if the noise is in floating point."""
        if not self.grid:
            return {}
        sizes = {name: p.numel() for name, p in self.model.named_parameters()}
        return {
            group: Grid(self.rule.bounds[group], sum(sizes[name] for name in names))
            for group, names in self.groups.items()
        }

    @cached_property
    def dtype(self) -> torch.dtype:
        """The precision of the trainable parameters."""
        return next(p.dtype for p in self.model.parameters() if p.requires_grad)

    def new_optimizer(self, model: nn.Module) -> Optimizer:
        parameters = [p for p in model.parameters() if p.requires_grad]
        return SGD(parameters, lr=1.0) if self.optimizer is None else self.optimizer(parameters)

    def rate_at(self, step: int) -> float | None:
        """The learning rate at a step (0, 1, …); None leaves the optimiser's own."""
        if self.learning_rate is None:
            return None
        schedule = self.learning_rate if callable(self.learning_rate) else constant(self.learning_rate)
        return float(schedule(step))

    # -------------------------------------------------------------------------------------------- running

    def error(self, confidence: float = 0.95) -> None:
        return None

    def check(self, data: Any = None, *, model: nn.Module | None = None) -> Checked:
        """Before anything is charged: whether the model can be trained on rows as declared. No row of the data is read.

        What a row looks like is told by `example`, or by a container that speaks for all its rows (tensors, arrays of numbers).
        Made-up rows of that form go through a copy of the model, or through `model` itself, in the modes that it has. Raises
        `DataError` or `InvalidParameter`. What is found holds for the runs that follow, which do not ask again.
        """
        form = self._form(data)
        x, y = _pair(form)
        views.refuse_mixing(self.augment, x)
        given = structure.in_training(copy.deepcopy(self.model)) if model is None else model
        clipper = PerExample(
            given,
            self.criterion,
            groups=self.rule.groups,
            microbatch=self.microbatch,
            multiplicity=self.multiplicity,
        )
        made = views.seen(self.augment, x), y
        clipper.check(*made, lot=self.plan.lot)
        if model is None:
            self._refuse_own_weights(given, *made)
        self._refuse_example(clipper)
        found = Checked(frozenset({(shape_of(x), shape_of(y))}), clipper.ways, made)
        object.__setattr__(self, "checked", found)
        return found

    def _form(self, data: Any) -> rows.Form:
        if data is not None:
            return rows.rows(data, self.example).form(self.dtype)
        if self.example is None:
            raise InvalidParameter(rows.UNDECLARED)
        return rows.Form.of(self.example, self.dtype)

    def _refuse_own_weights(self, copied: nn.Module, x: Tensor, y: Tensor) -> None:
        """A criterion that uses the weights of the model that was given acts on nothing: a copy is trained."""
        weights = [p for p in self.model.parameters() if p.requires_grad]
        reached: tuple[Tensor | None, ...] = ()
        with torch.enable_grad(), torch.random.fork_rng(devices=[]), suppress(Exception):  # zeros may be no rows for it
            losses = structure.per_row(self.criterion)(copied(x), y)
            reached = torch.autograd.grad(losses.sum(), weights, allow_unused=True) if losses.requires_grad else ()
        if any(part is not None for part in reached):
            raise InvalidParameter(
                "The criterion uses the weights of the model that was given, and a copy of it is trained, on which that does not "
                "act. Nothing was charged. Take weight_decay of the optimizer for a penalty, or train the model itself by "
                "make_private."
            )

    def _refuse_example(self, clipper: PerExample) -> None:
        """The example itself, with the values it has: its label is one of the classes, its words are in the table."""
        if self.example is None:
            return
        form = rows.Form.of(self.example, self.dtype)
        read = form.read(self.example, self.dtype)
        if read is None:
            raise InvalidParameter("Expected an example of finite numbers. Nothing was charged.")
        x, y = (part[None].repeat_interleave(self.multiplicity, dim=0) for part in read)
        try:
            found = clipper(views.seen(self.augment, x), y, dict(self.rule.bounds))
        except DeniableError:
            raise
        except Exception:
            found = None
        if found is None or not all(bool(torch.isfinite(norms).all()) for norms in found.norms.values()):
            raise InvalidParameter(
                "The model or the criterion fails on the example, or its loss or gradient there is no finite number: rows like "
                "it would add nothing. Nothing was charged. Check the label, the words and the criterion."
            )

    def fits(self, data: Any) -> None:
        """`check`, as an account asks it before every charge; None is data that a function opens later."""
        self.check(data)

    def rows(self, data: Any) -> rows.Rows:
        """The rows of a container, read as declared."""
        return rows.rows(data, self.example)

    def walk(self, rng: Random) -> Trainer:
        """The run before its first step, with a copy of the model."""
        return Trainer.fresh(self, rng)

    def __call__(self, data: Any, *, rng: Random) -> Trained:
        found = self.rows(data)
        if not self.checked.ways:
            self.check(found)
        trainer = Trainer.fresh(self, rng)
        with progress.bar(self) as watch:
            for _ in range(self.plan.steps):
                trainer.step(trainer.draw(found))
                watch(trainer)
        return trainer.result()

    # -------------------------------------------------------------------------------------------- checks

    def _check_plain(self) -> None:
        factors = tuple(checks.number("noise_schedule", f, above=0) for f in self.noise_schedule)
        if not factors or len(factors) > self.plan.steps:
            raise InvalidParameter(f"Expected 1 to {self.plan.steps} factors in noise_schedule, got {len(factors)}.")
        object.__setattr__(self, "noise_schedule", factors)
        checks.whole("multiplicity", self.multiplicity, at_least=1)
        if self.average is not None:
            checks.number("average", self.average, above=0, below=1)
        if self.microbatch is not None:
            checks.whole("microbatch", self.microbatch, at_least=1)
        if checks.unit(self.unit).kind is not Kind.ROW:
            raise InvalidParameter(
                f"Expected a unit of one row, got {self.unit}: each row is clipped by itself. Nothing was charged."
            )
        if checks.flag("grid", self.grid) and isinstance(self.rule, Adaptive):
            raise InvalidParameter("Expected a fixed clip with grid=True: a bound that moves has no fixed grid.")

    def _check_model(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise InvalidParameter(f"Expected model to be a torch.nn.Module, got {type(self.model).__name__}.")
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not trained:
            raise InvalidParameter("Expected a model with a trainable parameter. Nothing was charged.")
        if wrong := sorted({str(p.dtype) for p in trained.values() if p.dtype not in PRECISIONS}):
            raise InvalidParameter(
                f"Expected parameters in float32 or float64, got {', '.join(wrong)}: sums in fewer bits would break the clip's "
                "bound. Use model.float(). Nothing was charged."
            )
        if elsewhere := sorted({str(p.device) for p in self.model.parameters() if p.device.type != "cpu"}):
            raise InvalidParameter(f"Expected a model on the CPU, got {', '.join(elsewhere)}. Use model.cpu().")
        if len({p.dtype for p in trained.values()}) > 1:
            raise InvalidParameter("Expected trainable parameters of one precision. Use model.float().")
        listed = [name for names in self.groups.values() for name in names]
        if sorted(listed) != sorted(trained):
            missing, twice = sorted(set(trained) - set(listed)), sorted({n for n in listed if listed.count(n) > 1})
            unknown = sorted(set(listed) - set(trained))
            raise InvalidParameter(
                "Expected every trainable parameter in one group of clip=PerLayer(…); "
                f"missing: {missing}, repeated: {twice}, not trainable: {unknown}. Nothing was charged."
            )
        PerExample(
            self.model,
            self.criterion,
            groups=self.rule.groups,
            microbatch=self.microbatch,
            multiplicity=self.multiplicity,
        )
        for bound in (self.rule.low, self.rule.high) if isinstance(self.rule, Adaptive) else self.rule.bounds.values():
            structure.clips(bound, [ALL])

    def _check_optimizer(self) -> None:
        """A trial on a copy, with zero gradients: what fails here would fail after the charge."""
        if self.optimizer is None and self.learning_rate is None:
            raise InvalidParameter("Expected a learning_rate, or an optimizer that has its own. Nothing was charged.")
        for step in range(self.plan.steps if callable(self.learning_rate) else 1):
            rate = self.rate_at(step)
            if rate is not None and not (math.isfinite(rate) and rate >= 0):
                raise InvalidParameter(f"Expected a learning rate in [0, ∞), got {rate:g} at step {step}.")
        model = copy.deepcopy(self.model)
        try:
            optimizer = self.new_optimizer(model)
        except Exception as error:
            raise InvalidParameter(
                f"Expected an optimizer made from parameters alone: {error}. Nothing was charged."
            ) from None
        if self.learning_rate is not None and len(optimizer.param_groups) > 1:
            raise InvalidParameter(several_rates(optimizer))
        trial(model, optimizer)
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not {id(p) for p in model.parameters() if p.requires_grad} <= held:
            raise InvalidParameter("Expected the optimizer to hold every trainable parameter. Nothing was charged.")

    def _check_noise(self) -> None:
        budget = self._budget
        if self.noise_multiplier is not None:
            checks.number("noise_multiplier", self.noise_multiplier, above=0)
        elif budget is None:
            raise InvalidParameter(
                "Expected epsilon and delta, or noise_multiplier: how much noise shall there be? Nothing was charged."
            )
        else:
            solved = self._solved(budget)
            if solved > self.plan.lot:
                raise self._hopeless(solved)
            object.__setattr__(self, "noise_multiplier", solved)
        loss = self.loss  # raises if the rule cannot share this noise
        if budget is not None:
            found = accounting.epsilon(loss, float(budget.delta)).upper
            if found > budget.epsilon:
                raise InvalidParameter(
                    f"ε = {float(budget.epsilon):g} is too small for {self.plan.steps:,} steps with a noise multiplier of "
                    f"{self._noise:g}: they cost ε = {found:.4g} at δ = {float(budget.delta):g}. Nothing was charged. Leave "
                    "out noise_multiplier to have it solved, or take fewer steps."
                )

    def _hopeless(self, solved: float) -> InvalidParameter:
        return InvalidParameter(
            f"ε = {float(self.epsilon or 0):g} is too small for {self.plan.steps:,} steps: it needs a noise multiplier of "
            f"{solved:.4g}, more than a lot of {self.plan.lot:g} examples can outweigh if all agree. Nothing was charged. "
            "Take fewer steps, larger lots or a larger ε."
        )


def _pair(form: rows.Form) -> tuple[Tensor, Tensor]:
    """Two made-up rows as (inputs, targets)."""
    made = form.zeros(2)
    if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, Tensor) for part in made)):
        raise InvalidParameter("Expected rows of two parts, an input and a target. Nothing was charged.")
    return made


def several_rates(optimizer: Optimizer) -> str:
    return (
        f"The optimizer has {len(optimizer.param_groups)} groups of parameters, and learning_rate= would give them all one rate. "
        "Nothing was charged. Leave out learning_rate to keep the groups' own, or make one group."
    )


def trial(model: nn.Module, optimizer: Optimizer) -> None:
    """A step with zero gradients, on copies: what fails here would fail after the charge."""
    try:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    except Exception as error:
        raise InvalidParameter(
            f"Expected an optimizer whose step() needs no closure and takes dense gradients: {error}. Nothing was charged."
        ) from None
