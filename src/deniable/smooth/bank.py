"""A noise bank: the first layers' share of the noise, computed once for many inputs.

Up to its first nonlinear layer a network is affine, A(x + η) = A(x) + (A(η) − A(0)), and
the second term does not depend on the input. Drawn once and used for every input, it
saves nearly all of the work of a linear first layer and the noise itself. Each input's
own bound stays valid, since the noise is independent of it; bounds of different inputs
are dependent, so a mean over inputs varies more than its number of inputs suggests.

**Only for inputs chosen without knowledge of the bank.** An input made to fit it is certified with the wrong
class nearly every time. So a bank has no life of its own here: `certify_with_bank` copies the inputs first,
then draws the bank, and forgets it before any answer is returned. It cannot be kept, shown, copied, sent to
another process or used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules import module as module_hooks

from deniable.accounting.radius.robustness import Isolation
from deniable.errors import InvalidParameter
from deniable.randomness import SecureRandom
from deniable.smooth.decision import OPEN, Sampling, StoppingRule
from deniable.smooth.draws import noise_of, read_input
from deniable.smooth.models.classifiers import labels
from deniable.smooth.models.isolation import SpotChecks, differ, find_slack
from deniable.smooth.models.modules import ModuleClassifier, to_numpy
from deniable.smooth.models.protocol import Outputs
from deniable.smooth.smoothed import Certified, Smoothed, Watch, decide_answer, report_progress, stages

Integers = NDArray[np.int64]

AFFINE = (
    nn.Flatten,
    nn.Linear,
    nn.Conv2d,
    nn.AvgPool2d,
    nn.BatchNorm2d,
    nn.BatchNorm1d,
    nn.Dropout,
    nn.Identity,
)
"""Layers that are affine in use, when running statistics are fixed; of exactly these types, since a class
derived from one may compute something else."""
WORK = (nn.Linear, nn.Conv2d)
MEMORY = 2**28
"""Bytes that a bank may take by default."""
TRIED, TRIED_INPUTS = 64, 8
"""Noisy copies, of so many inputs, on which the two parts are compared with the model."""
ROWS = 1024
"""Noisy copies that the later layers see at a time: few enough to stay in the processor's cache."""


def certify_with_bank(
    classifier: Smoothed,
    inputs: Sequence[Any] | NDArray[Any],
    sampling: Sampling | None = None,
    *,
    memory: int = MEMORY,
    watch: Watch | None = None,
) -> list[Certified]:
    """`classifier.certify` for each of `inputs`, all fixed now, with one noise bank of at
    most `memory` bytes at a time.

    For torch modules that are a sequence beginning with an affine layer, and added noise. Never "exact".
    """
    # Copies, made before the bank: nothing can be chosen to fit it.
    points = [read_input(classifier.noise, x) for x in inputs]
    if not points:
        return []
    if len({(point.shape, point.dtype) for point in points}) > 1:
        raise InvalidParameter(
            "Expected inputs of one shape and type for a noise bank. Nothing was certified."
        )
    run = _Run(classifier, np.stack(points), classifier.rule(sampling or Sampling(), points[0].size), memory)
    for size in stages(run.rule):
        run.stage(size, watch)
    return run.answers()


def split(model: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """The affine layers in front, and the others. `InvalidParameter` if there is nothing to save, or if the
    model may do more than its layers one after the other."""
    layers = []
    if type(model) is nn.Sequential:
        layers = list(model)
    front = next((i for i, layer in enumerate(layers) if not _is_affine(layer)), len(layers))
    if not any(type(layer) in WORK for layer in layers[:front]):
        raise InvalidParameter(
            "Expected an nn.Sequential (no class derived from it) that begins with a linear layer or a "
            "convolution: a noise bank is W·η of those. Certify without a bank."
        )
    if _is_changed(model) or any(_is_changed(layer) for layer in layers[:front]) or _has_global_hooks():
        raise InvalidParameter(
            "Expected a network without hooks, parametrisations or a forward of its own: a noise bank runs "
            "its layers in two parts. Certify without a bank."
        )
    return nn.Sequential(*layers[:front]), nn.Sequential(*layers[front:])


def _is_affine(layer: nn.Module) -> bool:
    match layer:
        case nn.Flatten() if layer.start_dim < 1:  # it would flatten the batch
            return False
        case nn.BatchNorm1d() | nn.BatchNorm2d() if layer.running_mean is None:
            return False
        case _:
            return type(layer) in AFFINE


def _is_changed(module: nn.Module) -> bool:
    """Whether something besides the class decides what a call computes."""
    own = vars(module)
    hooks = any(value for name, value in own.items() if name.endswith(("_hooks", "_pre_hooks")))
    # A method among the attributes of one object hides that of its class.
    hides = any(name in own for name in dir(nn.Module) if callable(getattr(nn.Module, name)))
    return hooks or hides or own.get("_compiled_call_impl") is not None


def _has_global_hooks() -> bool:
    hooks = [value for name, value in vars(module_hooks).items() if name.startswith("_global_")]
    return any(len(value) for value in hooks if isinstance(value, Mapping))  # a flag stays when hooks go


@dataclass
class _Tally:
    """Votes of one input so far."""

    choosing: Integers
    counts: Integers
    is_done: bool = False


class _Run:
    """Inputs, their affine images, and their votes; the bank itself lives in `stage` only."""

    def __init__(self, classifier: Smoothed, points: NDArray[Any], rule: StoppingRule, memory: int) -> None:
        model = classifier.model
        if not isinstance(model, ModuleClassifier):
            raise InvalidParameter(
                f"Expected a torch module for a noise bank, got {type(classifier.classifier).__name__}."
            )
        self.classifier, self.rule, self.memory, self.device = classifier, rule, memory, model.device
        front, rest = split(model.module)
        self.front, self.rest = model.part(front), model.part(rest)
        self.draw = noise_of(classifier.noise, points.shape[1:], points.dtype, classifier.rng)
        self.points, self.poll = points, classifier.poll(points[0])
        inputs = torch.from_numpy(classifier.to_inputs(points))
        self.origin = self._affine(torch.zeros_like(inputs[:1]))
        self.images = torch.cat([self._affine(inputs[i : i + ROWS]) for i in range(0, len(inputs), ROWS)])
        self.room = torch.empty((ROWS, *self.origin.shape[1:]), device=self.device, dtype=self.origin.dtype)
        self.later, isolation = self.rest.rowwise_scores(self.images[:1])
        self.checks = None
        if isolation is Isolation.SEEN:
            self.poll = replace(self.poll, isolation=isolation)
            self.checks = SpotChecks(self.rest.outputs)
        empty = np.zeros(model.classes + 1, np.int64)
        self.tallies = [_Tally(empty, empty) for _ in points]
        self._compare_with_model()

    def stage(self, size: int, watch: Watch | None) -> None:
        """`size` further noisy copies for each input that is not decided; the first of all choose the
        class."""
        while size and any(not tally.is_done for tally in self.tallies):
            rows = min(size, max(1, self.memory // (4 * self.origin.numel())))
            self._vote(self._bank(rows), watch)
            size -= rows
        for tally in self.tallies:
            label = np.array([tally.choosing.argmax()])
            tally.is_done = tally.is_done or int(self.rule.holds(tally.counts[None], label)[0]) != OPEN

    def answers(self) -> list[Certified]:
        about = [self.classifier.circumstances(point, self.poll, bank=True) for point in self.points]
        self.poll.ask_again()
        self.classifier.check_unchanged(about[0])
        return [
            decide_answer(self.rule, tally.choosing, tally.counts, circumstances)
            for tally, circumstances in zip(self.tallies, about, strict=True)
        ]

    def _compare_with_model(self) -> None:
        """Front and rest together must be the model, on noisy copies of some inputs."""
        noise = noise_of(self.classifier.noise, self.points.shape[1:], self.points.dtype, SecureRandom())(
            TRIED
        )
        with torch.inference_mode():
            bank = self._affine(torch.from_numpy(self.classifier.to_inputs(noise))) - self.origin
        for i in np.unique(np.linspace(0, len(self.points) - 1, TRIED_INPUTS).astype(int)):
            scores = self.poll.evaluate(self.classifier.to_inputs(self.points[i] + noise))
            if differ(self._scores(bank, self.images[i]), scores, find_slack(scores)):
                raise InvalidParameter(
                    "With a noise bank this network gives other scores than without: its first layers are "
                    "not affine in use. Nothing was certified. Certify without a bank."
                )

    @torch.inference_mode()
    def _bank(self, rows: int) -> torch.Tensor:
        bank = torch.empty((rows, *self.origin.shape[1:]), device=self.device, dtype=self.origin.dtype)
        for i in range(0, rows, ROWS):
            noise = torch.from_numpy(self.classifier.to_inputs(self.draw(min(ROWS, rows - i))))
            torch.sub(self._affine(noise), self.origin, out=bank[i : i + ROWS])
        return bank

    def _vote(self, bank: torch.Tensor, watch: Watch | None) -> None:
        going = [i for i, tally in enumerate(self.tallies) if not tally.is_done]
        for i in report_progress(going, "Certifying", watch):
            parts = [
                self._scores(bank[j : j + ROWS], self.images[i]).copy()  # it may be the room itself
                for j in range(0, len(bank), ROWS)
            ]
            votes = labels(np.concatenate(parts), len(bank), self.classifier.model.classes)
            self._count(self.tallies[i], votes)

    @torch.inference_mode()
    def _scores(self, rows: torch.Tensor, image: torch.Tensor) -> Outputs:
        noisy = torch.add(rows, image, out=self.room[: len(rows)])
        if self.checks is None:
            return to_numpy(self.later(noisy))
        batch = noisy.cpu().numpy().copy()
        scores = to_numpy(self.later(noisy))
        self.checks.look(batch, scores)
        return scores

    def _count(self, tally: _Tally, votes: Integers) -> None:
        choose = self.rule.plan.choosing - int(tally.choosing.sum())
        tally.choosing = tally.choosing + self.classifier.tally(votes[:choose])
        tally.counts = tally.counts + self.classifier.tally(votes[choose:])

    def _affine(self, batch: torch.Tensor) -> torch.Tensor:
        return self.front.scores(batch.to(self.device))
