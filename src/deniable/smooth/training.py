"""Training for smoothing: noise on every picture, and optionally answers that agree
(consistency) or resist (SmoothAdv)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from deniable.accounting.radius.input_noise import InputNoise
from deniable.errors import InvalidParameter
from deniable.randomness import SecureRandom
from deniable.randomness.generator import Generator
from deniable.smooth.draws import noisy_copies
from deniable.smooth.smoothed import Watch, report_progress


class TrainingMethod(StrEnum):
    """What is asked of noisy copies of a picture."""

    NOISE = "noise"
    """Each gets the picture's label (Cohen et al. 2019)."""
    CONSISTENCY = "consistency"
    """Copies of one picture also agree with one another (Jeong, Shin 2020)."""
    ADVERSARIAL = "adversarial"
    """The picture is first moved where the smoothed classifier is weakest (SmoothAdv: Salman et al. 2019)."""


@dataclass(frozen=True)
class Schedule:
    """Stochastic gradient descent with Nesterov momentum under a one-cycle rate."""

    epochs: int = 3
    batch: int = 256
    rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    mirror: bool = False
    """Mirror half of the pictures."""


@dataclass(frozen=True)
class Aim:
    """The method and its own numbers: `copies` of each picture; `weight` of agreement;
    `reach` and `steps` of an attack."""

    method: TrainingMethod = TrainingMethod.NOISE
    copies: int = 2
    weight: float = 10.0
    entropy: float = 0.5
    reach: float = 0.25
    steps: int = 2


def train(
    model: nn.Module,
    images: NDArray[Any],
    labels: NDArray[Any],
    noise: InputNoise,
    schedule: Schedule = Schedule(),
    aim: Aim = Aim(),
    *,
    rng: Generator | None = None,
    watch: Watch | None = None,
) -> nn.Module:
    """Train `model` in place on noisy copies of `images` (floats, as the classifier will
    see them) and return it.

    Order and noise come from `rng`; for the same weights at the start, seed torch as well.
    """
    if noise.integer and noise.norm:
        raise InvalidParameter(
            f"Expected continuous noise or ablation for training, got {noise}: take its width in floats."
        )
    source = rng or SecureRandom()
    x, y = np.ascontiguousarray(images, np.float32), torch.from_numpy(np.asarray(labels, np.int64))
    per_epoch = len(x) // schedule.batch
    optimiser = torch.optim.SGD(
        model.parameters(),
        schedule.rate,
        momentum=schedule.momentum,
        nesterov=schedule.momentum > 0,
        weight_decay=schedule.weight_decay,
    )
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, schedule.rate, total_steps=schedule.epochs * per_epoch
    )
    model.train()
    steps = list(range(schedule.epochs * per_epoch))
    for step in report_progress(steps, "Training", watch):
        if step % per_epoch == 0:
            order = source.permutation(len(x))
        rows = order[(step % per_epoch) * schedule.batch :][: schedule.batch]
        batch = x[rows]
        if schedule.mirror and source.bernoulli(0.5):
            batch = batch[..., ::-1].copy()
        loss = objective(model, batch, y[torch.from_numpy(rows)], noise, aim, source)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        rate.step()
    return model.eval()


def objective(
    model: nn.Module, batch: NDArray[Any], labels: torch.Tensor, noise: InputNoise, aim: Aim, rng: Generator
) -> torch.Tensor:
    """The loss of one batch."""
    if aim.method is TrainingMethod.NOISE:
        return functional.cross_entropy(model(torch.from_numpy(_noisy(noise, batch, rng))), labels)
    if aim.method is TrainingMethod.CONSISTENCY:
        logits = [model(torch.from_numpy(_noisy(noise, batch, rng))) for _ in range(aim.copies)]
        fit = torch.stack([functional.cross_entropy(scores, labels) for scores in logits]).mean()
        return fit + agreement(logits, aim.weight, aim.entropy)
    shifts = [torch.from_numpy(_noisy(noise, batch, rng) - batch) for _ in range(aim.copies)]
    points = weakest(model, torch.from_numpy(batch), labels, shifts, aim)
    return torch.stack([functional.cross_entropy(model(points + shift), labels) for shift in shifts]).mean()


def agreement(logits: Iterable[torch.Tensor], weight: float, entropy: float) -> torch.Tensor:
    """weight·mean KL(mean answer ‖ answer) + entropy·H(mean answer): Jeong, Shin 2020, Equation 6."""
    logs = [functional.log_softmax(tensor, dim=1) for tensor in logits]
    mean = torch.stack([tensor.exp() for tensor in logs]).mean(dim=0)
    log_mean = mean.clamp_min(1e-20).log()
    apart = torch.stack([(mean * (log_mean - tensor)).sum(dim=1) for tensor in logs]).mean()
    sure: torch.Tensor = weight * apart - entropy * (mean * log_mean).sum(dim=1).mean()
    return sure


def weakest(
    model: nn.Module, batch: torch.Tensor, labels: torch.Tensor, shifts: list[torch.Tensor], aim: Aim
) -> torch.Tensor:
    """Inputs within `reach` in ℓ2 at which the mean answer under these noises is worst:
    Salman et al. 2019, Equation 6."""
    position = batch.clone()
    for _ in range(aim.steps):
        point = position.detach().requires_grad_()
        mean = torch.stack([functional.softmax(model(point + shift), dim=1) for shift in shifts]).mean(dim=0)
        loss = functional.nll_loss(mean.clamp_min(1e-20).log(), labels, reduction="sum")
        (slope,) = torch.autograd.grad(loss, point)
        position = project(point + 2 * aim.reach / aim.steps * unit(slope), batch, aim.reach).detach()
    return position


def unit(slope: torch.Tensor) -> torch.Tensor:
    """Each row of length 1 in ℓ2."""
    flat = slope.flatten(1)
    length = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return torch.div(flat, length.clamp_min(1e-12)).reshape(slope.shape)


def project(points: torch.Tensor, centre: torch.Tensor, reach: float | torch.Tensor) -> torch.Tensor:
    """The nearest points within `reach` of `centre` in ℓ2."""
    away = (points - centre).flatten(1)
    length = torch.linalg.vector_norm(away, dim=1, keepdim=True).clamp_min(1e-12)
    factor = torch.clamp(torch.as_tensor(reach).reshape(-1, 1) / length, max=1.0)
    return centre + (away * factor).reshape(points.shape)


def _noisy(noise: InputNoise, batch: NDArray[Any], rng: Generator) -> NDArray[Any]:
    """One noisy copy of each row: added noise is drawn for the batch as one input."""
    if noise.norm == 0:
        return np.concatenate([noisy_copies(noise, row, rng)(1) for row in batch])
    noisy: NDArray[Any] = noisy_copies(noise, batch, rng)(1)[0]
    return noisy
