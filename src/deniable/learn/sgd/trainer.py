"""One private step after another: draw a lot, clip and add up, add noise, divide by the lot, let the optimiser move.

Algorithm 1 of Abadi et al. 2016. Only `release` makes anything that may leave; all after it is post-processing, and all before it
looks at one row at a time.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deniable.errors import InvalidQuery
from deniable.learn.clip import PerExample, structure
from deniable.learn.clip.per_example import Shape
from deniable.learn.clip.probe import Found
from deniable.learn.sgd.clipping import ALL, Adaptive
from deniable.learn.sgd.noise import gaussians, noisy_mean
from deniable.learn.sgd.rows import Lot, Rows
from deniable.loss import Loss
from deniable.mechanism import Random

if TYPE_CHECKING:
    from deniable.learn.sgd.dpsgd import DPSGD


@dataclass
class Sums:
    """What a lot adds up to, before any noise: private, and never released as it is.

    `total` holds a vector for each group: the sum of clipped gradients in the parameters' precision, or in whole grid units.
    `inside` is Σ(bᵢ − ½), bᵢ whether a norm was within the bound. `seen` is for the owner's terminal: losses and norms.
    """

    total: dict[str, Tensor]
    inside: float = 0.0
    seen: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(self, group: str, vector: Tensor) -> None:
        """The first part of a lot is taken as it is; more parts are added in double precision, or as integers."""
        before = self.total.get(group)
        wide = vector.dtype if vector.dtype is torch.int64 else torch.float64
        self.total[group] = vector if before is None else before.to(wide).add_(vector)


def shown(seen: list[tuple[Tensor, Tensor]]) -> tuple[float, int, int]:
    """What the owner's terminal shows of losses and norms: Σ of losses, rows, rows left out."""
    kept = [torch.isfinite(norms) for _, norms in seen]
    losses = [losses.double().nan_to_num(0.0, 0.0, 0.0).sum() for losses, _ in seen]
    return float(sum(losses)), int(sum(k.sum() for k in kept)), int(sum((~k).sum() for k in kept))


@dataclass
class History:
    """What happened at each step, from public parameters and released values alone: safe to show."""

    learning_rate: list[float] = field(default_factory=list)
    clip: list[dict[str, float]] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Trained:
    """What a run releases: the model (its running average, if one was asked for), how it came about, how many steps it took."""

    model: nn.Module
    history: History
    steps: int


@dataclass(frozen=True)
class Checked:
    """What was found on made-up rows before the charge: the shapes that rows may have in a batch, and the ways to clip them."""

    shapes: frozenset[tuple[object, object]] = frozenset()
    ways: Mapping[Shape, Found] = field(default_factory=dict)
    made: tuple[Tensor, Tensor] | None = None
    """Made-up rows as the model sees them."""


def shape_of(part: Tensor) -> tuple[object, ...]:
    """Shape and type of the rows of a batch's part."""
    return tuple(part.shape[1:]), part.dtype


@dataclass(frozen=True)
class _State:
    """Which parameters are trained. A model's own code may change that for a row."""

    trained: tuple[tuple[str, nn.Parameter, bool], ...]

    @classmethod
    def of(cls, model: nn.Module) -> _State:
        return cls(tuple((name, p, p.requires_grad) for name, p in model.named_parameters()))

    def changes(self) -> list[str]:
        return [name for name, parameter, before in self.trained if parameter.requires_grad is not before]

    def restore(self) -> None:
        for _, parameter, before in self.trained:
            if parameter.requires_grad is not before:
                parameter.requires_grad_(before)


class Trainer:
    """A model in training. `taken` steps have been begun; `model` and `optimizer` are moved in place."""

    def __init__(self, run: DPSGD, rng: Random, model: nn.Module, optimizer: Optimizer) -> None:
        self.run, self.rng, self.model, self.optimizer = run, rng, model, optimizer
        self.taken, self.history, self.bounds = 0, History(), dict(run.rule.bounds)
        self.seen: list[tuple[Tensor, Tensor]] = []
        self._clipper = PerExample(
            model,
            run.criterion,
            groups=run.rule.groups,
            microbatch=run.microbatch,
            multiplicity=run.multiplicity,
            ways=run.checked.ways,
        )
        self._named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._groups = run.groups
        self._state = _State.of(model)
        self._next = 2
        self._average = None if run.average is None else {n: p.detach().clone() for n, p in self._named.items()}

    @classmethod
    def fresh(cls, run: DPSGD, rng: Random) -> Trainer:
        """With a copy of the run's model, which itself stays as it is, and a new optimiser."""
        model = structure.in_training(copy.deepcopy(run.model))
        return cls(run, rng, model, run.new_optimizer(model))

    # -------------------------------------------------------------------------------------------- before the noise

    def draw(self, rows: Rows) -> Lot:
        """A Poisson sample: every row by its own coin. Empty and long lots are what they are."""
        positions = self.rng.poisson_sample(len(rows), self.run.plan.rate)
        return rows.take(positions, self.run.dtype)

    def clipped(self, lot: Lot) -> Sums:
        """The sum of the lot's clipped gradients. Never raises for what a row holds.

        Dropout and augmentation draw from torch's generator. It gets a fresh secret seed for every step: with a known one, what a
        later step draws would tell how many rows were drawn before.
        """
        sums = Sums({})
        with self._secret_torch(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning that a row calls forth would tell of it
            for x, y in lot:
                for part in self._parts(x, y):
                    self._add(sums, *part)
        self._state.restore()
        sums.total = {group: self._rounded(sums.total.get(group), names) for group, names in self._groups.items()}
        return sums

    def _parts(self, x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """On a grid each example is computed alone, so that no other row bears on its rounding; and so are rows of a shape
        that was not declared, for which nobody has looked whether the model or `augment` treats rows apart."""
        if self.run.grid or (shape_of(x), shape_of(y)) not in self.run.checked.shapes:
            yield from ((x[i : i + 1], y[i : i + 1]) for i in range(len(x)))
        else:
            yield x, y

    def _add(self, sums: Sums, x: Tensor, y: Tensor) -> None:
        """Add these examples; where they cannot be computed together, each half by itself, and what fails alone is left out.

        So a row bears on whether it counts itself, and on no other row: were all rows left out with one that fails, that one
        would move the sum by all of theirs.
        """
        try:
            found = self._clipper(*self._views(x, y), dict(self.bounds))
        except (Exception, SystemExit):  # steered by a row: it must not show, our own errors included
            if len(x) > 1:
                half = len(x) // 2
                self._add(sums, x[:half], y[:half])
                self._add(sums, x[half:], y[half:])
            else:
                sums.seen.append((torch.zeros(1), torch.tensor([torch.inf])))
            return
        for group, vector in found.vectors.items():
            grid = self.run.grids.get(group)
            sums.add(group, vector if grid is None else grid.rounded(vector))
        if isinstance(self.run.rule, Adaptive):
            sums.inside += float((found.norms[ALL] <= self.bounds[ALL]).sum()) - len(x) / 2
        sums.seen.append((found.losses, next(iter(found.norms.values()))))

    def _views(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """`multiplicity` views of each example, one after the other."""
        k, augment = self.run.multiplicity, self.run.augment
        if k > 1:
            x, y = x.repeat_interleave(k, dim=0), y.repeat_interleave(k, dim=0)
        return (x if augment is None else augment(x)), y

    def _rounded(self, total: Tensor | None, names: tuple[str, ...]) -> Tensor:
        """The sum in its final type, of which there is one whatever the lot was: ranks add theirs up."""
        kind = torch.int64 if self.run.grid else self.run.dtype
        if total is None:
            return torch.zeros(sum(self._named[name].numel() for name in names), dtype=kind)
        return total.to(kind)

    @contextmanager
    def _secret_torch(self) -> Iterator[None]:
        before = torch.get_rng_state()
        # One at a time: seeds drawn ahead would be the same in a forked process, where the generator takes a new key.
        torch.default_generator.manual_seed(self.rng.uniform_integers(1 << 63))
        try:
            yield
        finally:
            torch.set_rng_state(before)

    # -------------------------------------------------------------------------------------------- the noise

    def release(self, sums: Sums) -> dict[str, Tensor]:
        """The step's answer: (sum + noise)/lot for each parameter, and the next bound, whose count has noise of its own.

        The normaliser is rate·n, never the number of rows drawn, which is private.
        """
        multipliers = self.run.multipliers(self.taken - 1)
        gradient: dict[str, Tensor] = {}
        for group, names in self._groups.items():
            mean = self._noisy_mean(group, sums.total[group], multipliers[group])
            parts = mean.split_with_sizes([self._named[name].numel() for name in names])
            gradient |= {name: part.view(self._named[name].shape) for name, part in zip(names, parts, strict=True)}
        self.history.clip.append(dict(self.bounds))
        if isinstance(self.run.rule, Adaptive):
            self._adapt(self.run.rule, sums.inside)
        return gradient

    def _noisy_mean(self, group: str, total: Tensor, multiplier: float) -> Tensor:
        """In the memory of the sum, which is not needed any more."""
        grid, lot = self.run.grids.get(group), self.run.plan.lot
        if grid is not None:
            return grid.noisy(total, multiplier, self.rng).div_(lot).to(self.run.dtype)
        # Two roundings up: of the product, and of the multiplier, which means the decimal that it prints.
        deviation = math.nextafter(math.nextafter(multiplier, math.inf) * self.bounds[group], math.inf)
        return noisy_mean(total, deviation, lot, self.rng)

    def _adapt(self, rule: Adaptive, inside: float) -> None:
        noisy = inside + math.nextafter(rule.count_noise, math.inf) * float(gaussians(self.rng, 1)[0])
        self.bounds[ALL] = rule.moved(self.bounds[ALL], noisy / self.run.plan.lot + 0.5)

    # -------------------------------------------------------------------------------------------- after the noise

    def apply(self, gradient: dict[str, Tensor]) -> None:
        """Post-processing: put the gradient where optimisers look for it and let this one move."""
        norms = [float(torch.linalg.vector_norm(part)) for part in gradient.values()]
        self.history.gradient_norm.append(math.hypot(*norms))
        for name, parameter in self._named.items():
            parameter.grad = gradient[name]
        rate = self.run.rate_at(self.taken - 1)
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] if rate is None else rate
        self.history.learning_rate.append(float(self.optimizer.param_groups[0]["lr"]))
        self.optimizer.step()
        self._follow()

    def _follow(self) -> None:
        """The running average, with the warm-up of De et al. 2022."""
        if self._average is None or self.run.average is None:
            return
        decay = min(self.run.average, (1 + self.taken) / (10 + self.taken))
        for name, parameter in self._named.items():
            self._average[name].lerp_(parameter.detach(), 1 - decay)

    def refuse_changes(self) -> None:
        """Raise `InvalidQuery` if the caller froze or thawed a parameter since the last step: clipping holds for those that
        were there. What happens inside a step is undone there and never shows."""
        if torch.is_inference_mode_enabled():
            raise InvalidQuery(
                "Inside torch.inference_mode there are no gradients. Nothing was run; step outside of it."
            )
        if changed := self._state.changes():
            raise InvalidQuery(
                f"The trainable parameters have changed: {', '.join(changed)}. Begin a new run for these."
            )

    def step(self, lot: Lot) -> dict[str, Tensor]:
        """One whole step on a lot that was drawn."""
        self.taken += 1
        self.try_again()
        for parameter in self._named.values():
            parameter.grad = None
        sums = self.clipped(lot)
        self.seen = sums.seen
        gradient = self.release(sums)
        self.apply(gradient)
        return gradient

    def try_again(self) -> None:
        """At about ten random steps of a thousand, fewer and fewer: are gradients in a batch still those of rows alone?"""
        if self.taken < self._next or self.run.checked.made is None or self.run.grid:
            return
        self._next = self.taken + 1 + self.rng.uniform_integers(max(2, 2 * self.taken))
        self._clipper.again(*self.run.checked.made, lot=self.run.plan.lot, seed=self.rng.uniform_integers(1 << 31))

    def walk(self, rows: Rows) -> None:
        """Draw a lot and take a step on it."""
        self.step(self.draw(rows))

    @property
    def used(self) -> Loss:
        """The loss of the steps begun so far."""
        return self.run.loss_of(self.taken)

    def result(self) -> Trained:
        """A copy of the model that was given, which has seen no row, with the trained parameters in it (or their average).

        The model that was trained may have kept something of its rows: an attribute that its own forward pass wrote.
        """
        model = copy.deepcopy(self.run.model)
        trained = self._named if self._average is None else self._average
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in trained:
                    parameter.copy_(trained[name])
                parameter.grad = None
        return Trained(model, self.history, self.taken)

    # -------------------------------------------------------------------------------------------- to and from a file

    def state(self) -> dict[str, Any]:
        """All that the next step needs, and nothing of the generator: its holder could take the noise off again."""
        return {
            "model": {name: parameter.detach() for name, parameter in self._named.items()},
            "optimizer": self.optimizer.state_dict(),
            "step": self.taken,
            "loss": self.used.to_json(),
            "bounds": dict(self.bounds),
            "average": self._average,
            "history": {
                "learning_rate": self.history.learning_rate,
                "clip": self.history.clip,
                "gradient_norm": self.history.gradient_norm,
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self._named.items():
                parameter.copy_(state["model"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.taken, self.bounds = int(state["step"]), dict(state["bounds"])
        self._average = state["average"]
        self.history = History(**state["history"])


Watch = Callable[[Trainer], None]
"""Called after each step, for the owner's eyes."""
