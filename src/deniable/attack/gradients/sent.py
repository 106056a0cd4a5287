"""What a server receives from a device with a few images, and how near to them an attack came."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable import accounting, numbers
from deniable.attack.learnt import Learnt
from deniable.attack.models import examples
from deniable.errors import InvalidParameter
from deniable.federated.devices.deadline import Untimed
from deniable.federated.devices.device import Device
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.placement import Central, OnClient
from deniable.federated.settings import ClientPrivacy, Cohorts, RoundExecution
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import LocalRecipe, flat
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.sgd.noise import GradientGrid

Images: TypeAlias = NDArray[np.float64]
Update: TypeAlias = NDArray[np.float64]

CLIP = 1.0
NO_CLIP = 1e4
"""A clip above the norm of any update here: what is sent is the update as it is."""
CLEAR = 30.0
"""An image that is found to so many decibels looks like the true one."""
FAINT = 0.05
"""Noise at which inversion fails, and which protects nobody."""
DELTA = DEFAULT_DELTA


@dataclass(frozen=True)
class Victims:
    """Images of clients, `shape` high and wide, with labels; and what everybody knows: the mean of others."""

    name: str
    images: Images
    labels: NDArray[np.int64]
    mean: Images
    shape: tuple[int, int]

    def rows(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """The rows of one client."""
        x = torch.from_numpy(self.images[first : first + count]).float()
        return x, torch.from_numpy(self.labels[first : first + count])


def victims(name: str, count: int, *, seed: int = 0) -> Victims:
    """`count` images of a public data set in the place of private ones."""
    if name not in ("digits", "mnist"):
        raise InvalidParameter(f"Expected data={name!r} to be digits or mnist.")
    if not 4 <= count <= 100:
        raise InvalidParameter(f"Expected images={count} between 4 and 100.")
    x, y = examples.rows(name, 1000, seed=seed)
    side = math.isqrt(x.shape[1])
    return Victims(
        name, x[:count].astype(np.float64), y[:count], x[100:].mean(0).astype(np.float64), (side, side)
    )


@dataclass(frozen=True)
class Inverted:
    """What was found from one kind of release: the best image for each true one, and how
    near it is in decibels."""

    release: str
    attack: str
    images: Images
    decibels: tuple[float, ...]
    epsilon: float | None
    """What the release costs at δ = 1e-5; None where it has no noise, and so no bound."""

    @property
    def median(self) -> float:
        return float(np.median(self.decibels))

    @property
    def clear(self) -> int:
        """Images that look like the true ones."""
        return sum(value >= CLEAR for value in self.decibels)

    def learnt(self, baseline: float) -> Learnt:
        """`baseline` is what the mean of other images reaches."""
        price = (
            "No ε bounds it."
            if self.epsilon is None
            else f"It costs ε = {numbers.up(self.epsilon)} at δ = {DELTA:g}."
        )
        words = (
            f"{self.release}: {self.clear} of {len(self.decibels)} images stand in the update by "
            f"{self.attack} (median {self.median:.1f} dB; the mean of other images, {baseline:.1f} dB). "
            f"{price}"
        )
        facts = {
            "decibels": list(self.decibels),
            "median": self.median,
            "mean_image": baseline,
            "epsilon": self.epsilon,
        }
        return Learnt(
            "gradients",
            f"{self.release}, {self.attack}",
            self.clear,
            len(self.decibels),
            0.0,
            words,
            None,
            facts,
        )


def fedsgd(model: nn.Module, noise: Central | OnClient, clip: float) -> FedAvg:
    """One round in which a client sends its gradient."""
    return _run(model, ClientPrivacy(noise, clip))


def unclipped_run(model: nn.Module) -> FedAvg:
    """The update as it is; whatever noise a trusted server would add, it adds later."""
    return fedsgd(model, Central(1.0), NO_CLIP)


def clipped_run(model: nn.Module) -> FedAvg:
    return fedsgd(model, Central(1.0), CLIP)


def noisy(model: nn.Module, multiplier: float) -> FedAvg:
    return fedsgd(model, OnClient(multiplier), CLIP)


def for_budget(model: nn.Module, epsilon: float) -> FedAvg:
    """The run with the noise that one message of a client needs."""
    return _run(model, ClientPrivacy(OnClient(), CLIP, epsilon=epsilon, delta=DELTA))


def _run(model: nn.Module, privacy: ClientPrivacy) -> FedAvg:
    return FedAvg(
        model,
        nn.CrossEntropyLoss(),
        cohorts=Cohorts(clients=1000, rate=1, rounds=1),
        privacy=privacy,
        local=LocalRecipe(batch=None, learning_rate=1.0, steps=1),
        how=RoundExecution(progress=False, answer_after=1.0),
    )


def receive_update(run: FedAvg, x: Tensor, y: Tensor) -> Update:
    """What the server receives from a device with these rows, as an update."""
    task = write_task(flat(parameters_of(run.model)), run.start_clip)
    with TemporaryDirectory() as folder:
        device = Device(run, 0, x, y, memory=Path(folder) / "memory", clock=Untimed())
        reply = device.handle(Message(DeviceTask.UPDATE, 1, task).to_bytes())
    if isinstance(run.noise, Central):
        return np.frombuffer(reply, "<f4").astype(np.float64) * run.start_clip
    step = float(GradientGrid(run.shape.clip, run.shape.dimension).step)
    return np.frombuffer(reply, "<i8").astype(np.float64) * step * run.start_clip


def noise_of(run: FedAvg) -> float:
    """The deviation of the noise on each number of an update, which the server knows; 0
    where the client adds none."""
    return 0.0 if isinstance(run.noise, Central) else run.multiplier * run.start_clip


def cost(run: FedAvg) -> float | None:
    """ε against the server at δ = 1e-5; None where clients add no noise."""
    return None if isinstance(run.noise, Central) else accounting.epsilon(run.loss, DELTA).upper


def decibels(image: Images, truth: Images) -> float:
    """The peak signal to noise ratio; 120 stands for all above it."""
    return min(120.0, -10 * math.log10(max(1e-12, float(((image - truth) ** 2).mean()))))


def nearest(candidates: Images, truth: Images) -> tuple[Images, tuple[float, ...]]:
    """The nearest candidate for each true image."""
    best = [candidates[int(np.argmin(((candidates - true) ** 2).mean(axis=1)))] for true in truth]
    return np.array(best), tuple(decibels(image, true) for image, true in zip(best, truth, strict=True))


def baseline(victims: Victims) -> float:
    """What somebody reaches who saw nothing: the median over images of how near the mean of others is."""
    return float(np.median([decibels(victims.mean, image) for image in victims.images]))
