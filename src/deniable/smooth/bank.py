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

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from deniable.errors import InvalidParameter
from deniable.smooth.decision import OPEN, Sampling, StoppingRule
from deniable.smooth.draws import check_input, noise_of
from deniable.smooth.modules import ModuleClassifier
from deniable.smooth.smoothed import Certified, Smoothed, Watch, certified_from, stages, watched

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
"""Layers that are affine in use, when running statistics are fixed."""
WORK = (nn.Linear, nn.Conv2d)
MEMORY = 2**28
"""Bytes that a bank may take by default."""
ROWS = 512
"""Noisy copies that the later layers see at a time: few enough to stay in the processor's cache."""


def certify_with_bank(
    smoothed: Smoothed,
    inputs: Sequence[Any] | NDArray[Any],
    sampling: Sampling | None = None,
    *,
    memory: int = MEMORY,
    watch: Watch | None = None,
) -> list[Certified]:
    """`smoothed.certify` for each of `inputs`, all fixed now, with one noise bank of at
    most `memory` bytes at a time.

    For torch modules that are a sequence beginning with an affine layer, and added noise. Never "exact".
    """
    points = np.array(
        [np.asarray(x) for x in inputs]
    )  # a copy, made before the bank: nothing can be chosen to fit it
    if not len(points):
        return []
    check_input(smoothed.noise, points[0])
    run = _Run(smoothed, points, smoothed.rule(sampling or Sampling(), points[0].size), memory)
    for size in stages(run.rule):
        run.stage(size, watch)
    return run.answers()


def split(model: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """The affine layers in front, and the others. `InvalidParameter` if there is nothing to save."""
    layers = []
    if isinstance(model, nn.Sequential):
        layers = list(model)
    front = next((i for i, layer in enumerate(layers) if not isinstance(layer, AFFINE)), len(layers))
    if not any(isinstance(layer, WORK) for layer in layers[:front]):
        raise InvalidParameter(
            "Expected an nn.Sequential that begins with a linear layer or a convolution: a noise bank is W·η "
            "of those. Certify without a bank."
        )
    return nn.Sequential(*layers[:front]), nn.Sequential(*layers[front:])


@dataclass
class _Tally:
    """Votes of one input so far."""

    choosing: Integers
    counts: Integers
    done: bool = False


class _Run:
    """Inputs, their affine images, and their votes; the bank itself lives in `stage` only."""

    def __init__(self, smoothed: Smoothed, points: NDArray[Any], rule: StoppingRule, memory: int) -> None:
        model = smoothed.model
        if not isinstance(model, ModuleClassifier):
            raise InvalidParameter(
                f"Expected a torch module for a noise bank, got {type(smoothed.classifier).__name__}."
            )
        self.smoothed, self.rule, self.memory, self.device = smoothed, rule, memory, model.device
        self.front, self.rest = _copies(*split(model.module))
        inputs = torch.from_numpy(smoothed.fed(points))
        with torch.inference_mode():
            self.origin = self._affine(torch.zeros_like(inputs[:1]))
            self.images = torch.cat([self._affine(inputs[i : i + ROWS]) for i in range(0, len(inputs), ROWS)])
        self.room = torch.empty((ROWS, *self.origin.shape[1:]), device=self.device)
        self.draw = noise_of(smoothed.noise, points.shape[1:], points.dtype, smoothed.rng)
        empty = np.zeros(model.classes, np.int64)
        self.tallies = [_Tally(empty, empty) for _ in points]

    def stage(self, size: int, watch: Watch | None) -> None:
        """`size` further noisy copies for each input that is not decided; the first of all choose the
        class."""
        while size and any(not tally.done for tally in self.tallies):
            rows = min(size, max(1, self.memory // (4 * self.origin.numel())))
            self._vote(self._bank(rows), watch)
            size -= rows
        for tally in self.tallies:
            label = np.array([tally.choosing.argmax()])
            tally.done = tally.done or int(self.rule.holds(tally.counts[None], label)[0]) != OPEN

    def answers(self) -> list[Certified]:
        return [certified_from(self.rule, tally.choosing, tally.counts, bank=True) for tally in self.tallies]

    @torch.inference_mode()
    def _bank(self, rows: int) -> torch.Tensor:
        bank = torch.empty((rows, *self.origin.shape[1:]), device=self.device)
        for i in range(0, rows, ROWS):
            noise = torch.from_numpy(self.smoothed.fed(self.draw(min(ROWS, rows - i))))
            torch.sub(self._affine(noise), self.origin, out=bank[i : i + ROWS])
        return bank

    @torch.inference_mode()
    def _vote(self, bank: torch.Tensor, watch: Watch | None) -> None:
        going = [i for i, tally in enumerate(self.tallies) if not tally.done]
        for i in watched(going, "Certifying", watch):
            parts = [self._labels(bank[j : j + ROWS], self.images[i]) for j in range(0, len(bank), ROWS)]
            self._count(self.tallies[i], torch.cat(parts).cpu().numpy())

    def _labels(self, rows: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        noisy = torch.add(rows, image, out=self.room[: len(rows)])
        labels: torch.Tensor = self.rest(noisy).argmax(1)
        return labels

    def _count(self, tally: _Tally, labels: Integers) -> None:
        choose = self.rule.plan.choosing - int(tally.choosing.sum())
        tally.choosing = tally.choosing + self.smoothed.tally(labels[:choose])
        tally.counts = tally.counts + self.smoothed.tally(labels[choose:])

    def _affine(self, batch: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = self.front(batch.to(self.device))
        return image


def _copies(front: nn.Sequential, rest: nn.Sequential) -> tuple[nn.Sequential, nn.Sequential]:
    """The same layers in evaluation mode; the caller's stay as they are. The first ReLU
    works in our own buffer."""
    front, rest = copy.deepcopy(front).eval(), copy.deepcopy(rest).eval()
    if len(rest) and isinstance(rest[0], nn.ReLU):
        rest[0].inplace = True
    return front, rest
