"""One private step after another: draw a lot, clip and add up, add noise, divide by the
lot, let the optimiser move.

Algorithm 1 of Abadi et al. 2016. Only `release` makes anything that may leave; all after it is
post-processing, and all before it looks at one row at a time.
"""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deniable.errors import InvalidParameter, InvalidQuery
from deniable.learn.clip import structure
from deniable.learn.clip.batch import Batch, shape_of
from deniable.learn.clip.passes import Apart
from deniable.learn.clip.per_example import refuse_rounding
from deniable.learn.clip.rounding import summing
from deniable.learn.sgd.clipping import ALL, Adaptive
from deniable.learn.sgd.data import views
from deniable.learn.sgd.data.rows import Lot, Positions, Rows
from deniable.learn.sgd.noise import COUNTED, CorrelatedNoise, count_deviation, gaussians, noisy_mean
from deniable.learn.sgd.outcome import BROKEN, DIVERGED, FEW, FIRST_STEPS, History, Trained, Usable
from deniable.learn.sgd.sampling.draws import Allocation, allocate, draw_lot, positions_in
from deniable.loss import Loss
from deniable.mechanism import Random

if TYPE_CHECKING:
    from deniable.learn.sgd.checking import Checked
    from deniable.learn.sgd.dpsgd import DPSGD


LOG = logging.getLogger(__name__)
TRIED = 10
"""Steps up to which trials in the middle of a run are evenly spread; later gaps grow with the step. A trial
costs about as much as a step or two."""


@dataclass
class Sums:
    """What a lot adds up to, before any noise: private, and never released as it is.

    `total` holds a vector for each group: the sum of clipped gradients in the parameters' precision, or in
    whole grid units. `inside_count` is Σ(bᵢ − ½), bᵢ whether a norm was within the bound; `usable_count` is
    how many examples had a gradient. `readings` is for the owner's terminal: losses and norms.
    """

    total: dict[str, Tensor]
    inside_count: float = 0.0
    usable_count: int = 0
    readings: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(self, group: str, vector: Tensor) -> None:
        """The first part of a lot is taken as it is; more parts are added in double precision."""
        before = self.total.get(group)
        self.total[group] = vector if before is None else before.double().add_(vector)

    def units(self, group: str, sample: Tensor) -> Tensor:
        """The group's sum in grid units."""
        if group not in self.total:
            self.total[group] = torch.zeros_like(sample, dtype=torch.int64)
        return self.total[group]


def summarize(readings: list[tuple[Tensor, Tensor]]) -> tuple[float, int, int]:
    """What the owner's terminal shows of losses and norms: Σ of losses, rows, rows left out."""
    masks = [torch.isfinite(norms) for _, norms in readings]
    losses = [losses.double().nan_to_num(0.0, 0.0, 0.0).sum() for losses, _ in readings]
    return float(sum(losses)), int(sum(k.sum() for k in masks)), int(sum((~k).sum() for k in masks))


@dataclass(frozen=True)
class _State:
    """Which parameters are trained, in which precision and where. A model's own code may thaw one for a row;
    the owner of a loop may put others in their place."""

    parameters: tuple[tuple[str, nn.Parameter, bool], ...]
    kinds: tuple[tuple[torch.dtype, torch.device], ...]

    @classmethod
    def from_model(cls, model: nn.Module) -> _State:
        parameters = [*model.named_parameters()]
        return cls(
            tuple((name, p, p.requires_grad) for name, p in parameters), _kinds(p for _, p in parameters)
        )

    def changes(self, model: nn.Module) -> list[str]:
        now = dict(model.named_parameters())
        names = [name for name in now if name not in {name for name, *_ in self.parameters}]
        kinds = _kinds(parameter for _, parameter, _ in self.parameters)
        for (name, parameter, before), kind, old in zip(self.parameters, kinds, self.kinds, strict=True):
            if parameter.requires_grad is not before or kind != old or now.get(name) is not parameter:
                names.append(name)
        return names

    def restore(self) -> None:
        for _, parameter, before in self.parameters:
            if parameter.requires_grad is not before:
                parameter.requires_grad_(before)


def _kinds(parameters: Iterable[nn.Parameter]) -> tuple[tuple[torch.dtype, torch.device], ...]:
    return tuple((p.dtype, p.device) for p in parameters)


def next_trial(step: int, rng: Random) -> int:
    """The step, after this one, at which a model is tried again: in the mean .6 of the first ten, 4 of the
    first hundred, 7.5 of the first thousand, and 3.5 for every tenfold of that."""
    return step + 1 + rng.uniform_integers(2 * max(step, TRIED))


class Trainer:
    """A model in training. `taken` steps have been begun; `model` and `optimizer` are moved in place."""

    def __init__(
        self, run: DPSGD, rng: Random, model: nn.Module, optimizer: Optimizer, *, ranks: int = 1
    ) -> None:
        self.run, self.rng, self.model, self.optimizer = run, rng, model, optimizer
        self.taken, self.history, self.bounds = 0, History(), dict(run.rule.bounds)
        self.readings: list[tuple[Tensor, Tensor]] = []
        self._lot = run.lot_of(ranks)
        self._clipper = run.training_clipper(model, run.checked.ways, ranks)
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._groups = run.groups
        self._state = _State.from_model(model)
        self.next_trial = next_trial(0, rng)
        self._places: Allocation | None = None
        correlation = run.plan.correlation
        self._correlation = None if correlation is None else CorrelatedNoise(correlation.coefficients)
        self._average = (
            None
            if run.learning.average is None
            else {n: p.detach().clone() for n, p in self._parameters.items()}
        )
        for (
            like
        ) in run.checked.made:  # trials were on a clipper of the same kind; this is the one that trains
            self._clipper.again(like, lot=self._lot, seed=0)

    @classmethod
    def with_copy(cls, run: DPSGD, rng: Random, *, ranks: int = 1) -> Trainer:
        """A trainer with a copy of the run's model, which itself stays as it is, and a new optimiser. Lots
        are shared by so many ranks."""
        model = structure.in_training(copy.deepcopy(run.model)).to(run.device)
        return cls(run, rng, model, run.learning.new_optimizer(model), ranks=ranks)

    def learn_ways(self, trial: Checked) -> None:
        """What a trial found in other modes of the model's modules."""
        self._clipper.learn(trial.ways)

    # --------------------------------------------------------------------------------------- before the noise

    def draw(self, rows: Rows) -> Lot:
        """The lot of the next step. Empty and long lots are what they are."""
        plan = self.run.plan
        by_pass = plan.passes or plan.correlation is not None
        positions = self._allocate(rows) if by_pass else draw_lot(plan, len(rows), self.rng)
        return rows.take(positions, self.run.dtype, self.rng)

    def _allocate(self, rows: Rows) -> Positions:
        """What falls into this step of its pass. A pass that is resumed has lost its
        draws, and the rest of it is noise."""
        number, step = divmod(self.taken, self.run.plan.pass_length)
        if step == 0:
            self._places = allocate(self._places, self.run.plan, number, rows, self.rng)
        return positions_in(self._places, number, step)

    def clip_lot(self, lot: Lot) -> Sums:
        """The sum of the lot's clipped gradients. Never raises for what a row holds.

        Dropout and augmentation draw from torch's generator. It gets a fresh secret seed for every step: with
        a known one, what a later step draws would tell how many rows were drawn before.
        """
        sums = Sums({})
        with self._secret_torch(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning that a row calls forth would tell of it
            for batch in lot:
                for part in self._parts(batch.to(self.run.device)):
                    self._add(sums, part)
        sums.total = {
            group: self._round(sums.total.get(group), names) for group, names in self._groups.items()
        }
        return sums

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """On a grid each example is computed alone, so that no other row bears on its
        rounding; and so are rows of a shape that was not declared, for which nobody has
        looked whether the model or `augment` treats rows apart."""
        if self.run.privacy.grid or shape_of(batch) not in self.run.checked.shapes:
            yield from (batch.part(i, i + 1) for i in range(batch.examples))
        else:
            yield batch

    def _add(self, sums: Sums, batch: Batch) -> None:
        """Add these examples; where they cannot be computed together, each half by
        itself, and what fails alone is left out.

        So a row bears on whether it counts itself, and on no other row: were all rows left out with one that
        fails, that one would move the sum by all of theirs.
        """
        learning, examples = self.run.learning, batch.examples
        try:
            view_batch = views.view_rows(learning.augment, batch, learning.multiplicity, self.run.criterion)
            gradients = self._clipper(view_batch, clip=dict(self.bounds))
        except (Exception, SystemExit):  # steered by a row: it must not show, our own errors included
            if examples > 1:
                self._add(sums, batch.part(0, examples // 2))
                self._add(sums, batch.part(examples // 2, examples))
            else:
                sums.readings.append((torch.zeros(1), torch.tensor([torch.inf])))
            return
        finally:
            self._state.restore()  # what the model's code thawed for one row must not stop the others
        for group, vector in gradients.vectors.items():
            grid = self.run.grids.get(group)
            if grid is None:
                sums.add(group, vector)
            else:
                grid.add(vector, sums.units(group, vector))
        norms = next(iter(gradients.norms.values()))
        sums.usable_count += int(torch.isfinite(norms).sum())
        if isinstance(self.run.rule, Adaptive):
            sums.inside_count += float((norms <= self.bounds[ALL]).sum()) - examples / 2
        sums.readings.append((gradients.losses.cpu(), norms.cpu()))

    def _round(self, total: Tensor | None, names: tuple[str, ...]) -> Tensor:
        """The sum in its final type, of which there is one whatever the lot was: ranks add theirs up. On the
        CPU, where the noise is."""
        kind = torch.int64 if self.run.privacy.grid else summing(self.run.dtype)
        if total is None:
            return torch.zeros(sum(self._parameters[name].numel() for name in names), dtype=kind)
        return total.to("cpu", kind)

    @contextmanager
    def _secret_torch(self) -> Iterator[None]:
        # One at a time: seeds drawn ahead would be the same in a forked process, where the generator takes a
        # new key.
        seed, device = self.rng.uniform_integers(1 << 63), self.run.device
        if device.type != "cpu":
            with torch.random.fork_rng([device], device_type=device.type):
                torch.manual_seed(seed)
                yield
            return
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(before)

    # -------------------------------------------------------------------------------------------- the noise

    def release(self, sums: Sums) -> dict[str, Tensor]:
        """The step's answer: (sum + noise)/lot for each parameter, the number of usable rows, and the next
        bound, whose count has noise of its own.

        The normaliser is rate·n, never the number of rows drawn, which is private.
        """
        multipliers = self.run.multipliers(self.taken - 1)
        gradient: dict[str, Tensor] = {}
        for group, names in self._groups.items():
            mean = self._noisy_mean(group, sums.total[group], multipliers[group])
            parts = mean.split_with_sizes([self._parameters[name].numel() for name in names])
            gradient |= {
                name: part.view(self._parameters[name].shape) for name, part in zip(names, parts, strict=True)
            }
        self.history.clip.append(dict(self.bounds))
        self.history.usable.append(self._noisy_count(sums.usable_count, multipliers[self.run.counting]))
        if isinstance(self.run.rule, Adaptive):
            self._adapt(self.run.rule, sums.inside_count)
        return gradient

    def _noisy_mean(self, group: str, total: Tensor, multiplier: float) -> Tensor:
        """The mean, in the memory of the sum, which is not needed any more."""
        grid, lot = self.run.grids.get(group), self.run.plan.lot
        if grid is not None:
            return grid.noisy(total, multiplier, self.rng).div_(lot).to(summing(self.run.dtype))
        # Two roundings up: of the product, and of the multiplier, which means the decimal that it prints.
        deviation = math.nextafter(math.nextafter(multiplier, math.inf) * self.bounds[group], math.inf)
        if group == self.run.counting:
            deviation = math.nextafter(deviation * COUNTED, math.inf)
        if self._correlation is not None:
            return self._correlation.noisy_mean(group, total, deviation, lot, self.rng)
        return noisy_mean(total, deviation, lot, self.rng)

    def _noisy_count(self, count: int, multiplier: float) -> float:
        """The coordinate of the first group that counts usable rows, in rows."""
        grid = self.run.grids.get(self.run.counting)
        if grid is not None:
            return grid.noisy_count(count, multiplier, self.rng)
        if self._correlation is not None:
            return count + float(self._correlation.draw(None, 1, count_deviation(multiplier), self.rng)[0])
        return count + count_deviation(multiplier) * float(gaussians(self.rng, 1)[0])

    def _adapt(self, rule: Adaptive, count: float) -> None:
        noisy = count + math.nextafter(rule.count_noise, math.inf) * float(gaussians(self.rng, 1)[0])
        self.bounds[ALL] = rule.next_bound(self.bounds[ALL], noisy / self.run.plan.lot + 0.5)

    # ---------------------------------------------------------------------------------------- after the noise

    def apply(self, gradient: dict[str, Tensor]) -> None:
        """Post-processing: put the gradient where optimisers look for it and let this one move."""
        norms = [float(torch.linalg.vector_norm(part)) for part in gradient.values()]
        self.history.gradient_norm.append(math.hypot(*norms))
        for name, parameter in self._parameters.items():
            parameter.grad = gradient[name].to(parameter.device, parameter.dtype)
        rate = self.run.learning.rate_at(self.taken - 1)
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] if rate is None else rate
        self.history.learning_rate.append(float(self.optimizer.param_groups[0]["lr"]))
        self.optimizer.step()
        self._follow()

    def _follow(self) -> None:
        """The running average, with the warm-up of De et al. 2022."""
        if self._average is None or self.run.learning.average is None:
            return
        decay = min(self.run.learning.average, (1 + self.taken) / (10 + self.taken))
        for name, parameter in self._parameters.items():
            self._average[name].lerp_(parameter.detach(), 1 - decay)

    def refuse_changes(self) -> None:
        """Raise `InvalidQuery` if the caller froze, thawed, converted or replaced a parameter since the last
        step: clipping holds for those that were there. What happens inside a step is undone there and never
        shows."""
        if torch.is_inference_mode_enabled():
            raise InvalidQuery(
                "Inside torch.inference_mode there are no gradients. Nothing was run; step outside of it."
            )
        if changes := self._state.changes(self.model):
            raise InvalidQuery(
                f"The trainable parameters have changed: {', '.join(changes)}. Nothing was run. Begin a new "
                "run for these, or put back what was there, in its precision and on its device."
            )
        try:
            refuse_rounding()
        except InvalidParameter as error:
            raise InvalidQuery(f"{error} Nothing was run.") from None

    def step(self, lot: Lot) -> dict[str, Tensor]:
        """One whole step on a lot that was drawn."""
        self.taken += 1
        self.try_again()
        for parameter in self._parameters.values():
            parameter.grad = None
        sums = self.clip_lot(lot)
        self.readings = sums.readings
        gradient = self.release(sums)
        self.apply(gradient)
        return gradient

    def try_again(self) -> None:
        """At some random steps: are gradients in a batch still those of rows alone, and can rows be used at
        all? Only made-up rows and released weights are looked at, so what is found may show."""
        probes = self.run.checked.made
        if self.taken < self.next_trial or not probes or self.run.privacy.grid:
            return
        self.next_trial = next_trial(self.taken, self.rng)
        like = probes[self.rng.uniform_integers(len(probes))]
        seed = self.rng.uniform_integers(1 << 31)
        if self._clipper.apart(like) is Apart.TRIED:  # what is proved of any weights needs no further trial
            self._clipper.again(like, lot=self._lot, seed=seed)
        if self._clipper.rehearse(like, lot=1, clip=dict(self.bounds)).raised:
            raise InvalidQuery(
                f"At step {self.taken:,} the model fails on made-up rows, one at a time too, so no row of "
                "the data can be used from here on. The steps up to this one are spent, and this one used "
                "no row. No row of the data is the reason. Close the run, and check the model and its "
                "learning rate."
            )

    def walk(self, rows: Rows) -> None:
        """Draw a lot and take a step on it."""
        self.step(self.draw(rows))

    @property
    def used(self) -> Loss:
        """The loss of the steps begun so far."""
        return self.run.loss_of(self.taken)

    def result(self) -> Trained:
        """A copy of the model that was given, which has seen no row, with the trained
        parameters in it (or their average).

        The model that was trained may have kept something of its rows: an attribute that
        its own forward pass wrote.
        """
        model = copy.deepcopy(self.run.model)
        parameters = self._parameters if self._average is None else self._average
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in parameters:
                    parameter.copy_(parameters[name])
                parameter.grad = None
        return Trained(model, self.history, self.taken, self.usable())

    def usable(self) -> Usable | None:
        """How many rows counted; a warning is logged where they were few in the whole run."""
        usable = self._count_usable()
        if usable is not None and usable.few and self.taken == self.run.plan.steps:
            LOG.warning("%s: %s The run is charged.", usable, self._reason_for_few())
        return usable

    def reason_to_stop(self) -> str | None:
        """Why the rest of a run is not worth its while: the released counts of its first steps say that
        hardly any row was usable. It costs nothing, since counts are released with each step anyway."""
        if not 0 < self.taken <= FIRST_STEPS:
            return None
        usable = self._count_usable()
        return f"{usable}: {self._reason_for_few()}" if usable is not None and usable.none else None

    def check_usable(self) -> None:
        """Raise where the rest of a run is not worth its while. For a loop that a user drives: elsewhere a
        run ends early by itself, or goes on to its end."""
        if (reason := self.reason_to_stop()) is not None:
            raise InvalidQuery(
                f"The run was stopped before step {self.taken + 1:,}, since hardly any row can be used: "
                f"{reason} "
                "Close the run: the steps that were not begun stay with your account where its rule allows "
                "it."
            )

    def _reason_for_few(self) -> str:
        """Why few rows were usable, as far as released weights and made-up rows can tell."""
        bounds, probes = dict(self.bounds), self.run.checked.made
        rehearsals = [self._clipper.rehearse(like, lot=self._lot, clip=bounds) for like in probes]
        if any(rehearsal.raised for rehearsal in rehearsals):
            return BROKEN
        if rehearsals and not any(rehearsal.finite for rehearsal in rehearsals):
            return DIVERGED
        return FEW

    def _count_usable(self) -> Usable | None:
        """The count of usable rows, from released counts alone."""
        counts, plan = self.history.usable, self.run.plan
        if not counts:
            return None
        deviations = [
            count_deviation(self.run.multipliers(step)[self.run.counting]) for step in range(len(counts))
        ]
        return Usable(math.fsum(counts) / len(counts), math.hypot(*deviations) / len(counts), plan.lot)

    # ------------------------------------------------------------------------------------- to and from a file

    def state(self) -> dict[str, Any]:
        """All that the next step needs, and nothing of the generator: its holder could
        take the noise off again."""
        return {
            "model": {name: parameter.detach() for name, parameter in self._parameters.items()},
            "optimizer": self.optimizer.state_dict(),
            "step": self.taken,
            "loss": self.used.to_json(),
            "bounds": dict(self.bounds),
            "average": self._average,
            "history": {
                "learning_rate": self.history.learning_rate,
                "clip": self.history.clip,
                "gradient_norm": self.history.gradient_norm,
                "usable": self.history.usable,
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(state["model"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.taken = int(state["step"])
        self.take_bounds(state["bounds"])
        self._average = state["average"]
        self.history = History(**state["history"])

    def take_bounds(self, bounds: Mapping[str, float]) -> None:
        """Bounds that move go on where they were. Fixed ones are the run's own: its grid is made for them."""
        if isinstance(self.run.rule, Adaptive):
            self.bounds = dict(bounds)


Watch = Callable[[Trainer], None]
"""Called after each step, for the owner's eyes."""
