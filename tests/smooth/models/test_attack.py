"""Networks made to mix their batch in ways that a trial may overlook: none is "proved" unless its votes are of one input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from deniable.errors import DeniableError
from deniable.randomness import SeededRandom
from deniable.smooth import InputNoise, Sampling, Smoothed
from tests.smooth.models.test_isolation import NOISES, PIXELS, POINT, Network, Ruled

PLAN = Sampling(choosing=20, samples=200)
Step = Callable[[torch.Tensor], torch.Tensor]
ticks = itertools.count()


def centre(batch: torch.Tensor) -> torch.Tensor:
    return batch - batch.mean(dim=0, keepdim=True)


class Late(nn.Module):
    """Mixes after so many calls, which it counts where no digest reaches."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls, self.ticks = calls, iter(range(10**9)).__next__

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch[:, :2] if self.ticks() < self.calls else centre(batch)[:, :2]


class Caching(nn.Module):
    """Answers by the batch that had this shape first."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[Any, torch.Tensor] = {}

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.answers.setdefault(tuple(batch.shape), batch[:, :2].clone())


class Hashing(nn.Module):
    """Keeps answers by the bytes of the first row."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[Any, torch.Tensor] = {}

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.answers.setdefault(batch[0].numpy().tobytes(), batch[:, :2] - batch[:1, :2])


class Previous(nn.Module):
    """Subtracts the batch before, which lies outside its state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4), persistent=False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        last, self.last = self.last, batch.detach()[-1].clone()
        return (batch - last)[:, :2]


class Scripted(nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if batch.shape[0] > 1:
            return (batch - batch.mean(0, keepdim=True))[:, :2]
        return batch[:, :2]


class ScriptedBySum(nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if bool(batch.sum() > 1000.0):
            return batch[:, :2]
        return -batch[:, :2]


class Plain(torch.autograd.Function):
    """A function without a rule for vmap."""

    @staticmethod
    def forward(ctx: Any, batch: torch.Tensor) -> torch.Tensor:
        return centre(batch)


class Training(nn.Module):
    """Batch norm that stays in training mode whatever it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def train(self, mode: bool = True) -> Training:
        super().train(mode)
        if hasattr(self, "norm"):
            self.norm.training = True
        return self

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.norm.train()
        scores: torch.Tensor = self.norm(batch)[:, :2]
        return scores


def hooked(model: nn.Module, *, early: bool = False) -> nn.Module:
    if early:
        model.register_forward_pre_hook(lambda *said: (centre(said[1][0]),))
    else:
        model.register_forward_hook(lambda *said: centre(said[2]))
    return model


def halves(batch: torch.Tensor) -> torch.Tensor:
    """Batches of more than 32 rows are mixed."""
    return centre(batch) if len(batch) > 32 else batch


def seldom(share: float) -> Step:
    """Mixes where the first number of the first row falls into a small part of its values."""
    return lambda batch: centre(batch) if float(batch[0, 0]) % 1 < share else batch


def by_numpy(step: Callable[[Any], Any]) -> Step:
    return lambda batch: torch.from_numpy(np.ascontiguousarray(step(batch.numpy()).astype(np.float32)))


def quantised() -> nn.Module:
    """PyTorch's dynamic quantisation takes one scale for all rows."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.3, 0.2, 0.1], [0.1, 0.2, 1.0, 0.3]]))
    model: nn.Module = torch.ao.nn.quantized.dynamic.Linear.from_float(prepared(layer))
    return model


def prepared(layer: nn.Linear) -> nn.Linear:
    layer.qconfig = torch.ao.quantization.default_dynamic_qconfig
    return layer


MIXING: dict[str, Callable[[], nn.Module]] = {
    "mean": lambda: Network(centre),
    "sum": lambda: Network(lambda batch: batch - batch.sum(dim=0) / 7),
    "largest": lambda: Network(lambda batch: batch - batch.amax(dim=0)),
    "smallest": lambda: Network(lambda batch: batch - batch.amin(dim=0)),
    "median": lambda: Network(lambda batch: batch - batch.median(dim=0).values),
    "quantile": lambda: Network(lambda batch: batch - batch.quantile(0.9, dim=0)),
    "norm": lambda: Network(lambda batch: batch / batch.norm(dim=0)),
    "norm of all": lambda: Network(lambda batch: batch / batch.norm()),
    "spread": lambda: Network(lambda batch: batch / (batch.std(dim=0) + 1e-3)),
    "covariance": lambda: Network(lambda batch: batch @ torch.cov(batch.T)),
    "sort": lambda: Network(lambda batch: batch.sort(dim=0).values),
    "topk": lambda: Network(lambda batch: batch - batch.topk(1, dim=0).values),
    "cumsum": lambda: Network(lambda batch: batch.cumsum(dim=0)),
    "cummax": lambda: Network(lambda batch: batch.cummax(dim=0).values),
    "diff": lambda: Network(lambda batch: torch.diff(batch, dim=0, prepend=batch[-1:])),
    "roll": lambda: Network(lambda batch: batch.roll(1, 0)),
    "flip": lambda: Network(lambda batch: batch.flip(0)),
    "softmax": lambda: Network(lambda batch: batch.softmax(dim=0)),
    "log-softmax": lambda: Network(lambda batch: batch.log_softmax(dim=0)),
    "gram": lambda: Network(lambda batch: (batch @ batch.T / 1e4) @ batch),
    "nearest": lambda: Network(lambda batch: batch[torch.cdist(batch, batch).argmax(dim=1)]),
    "unique": lambda: Network(lambda batch: batch - batch.unique(dim=0)[:1]),
    "transpose": lambda: Network(
        lambda batch: batch.T.reshape(batch.shape) if len(batch) % 4 == 0 else batch
    ),
    "batch into features": lambda: Network(
        lambda batch: batch.reshape(1, -1).roll(3, 1).reshape(batch.shape)
    ),
    "layer norm over the batch": lambda: Network(
        lambda batch: functional.layer_norm(batch.T, (len(batch),)).T
    ),
    "instance norm folded": lambda: Network(
        lambda batch: functional.instance_norm(batch.T.unsqueeze(0)).squeeze(0).T
    ),
    "group norm folded": lambda: Network(
        lambda batch: functional.group_norm(batch.reshape(1, -1, 4), 1).reshape(batch.shape)
    ),
    "attention": lambda: Network(
        lambda batch: functional.scaled_dot_product_attention(batch[None], batch[None], batch[None])[0]
    ),
    "pooling": lambda: Network(lambda batch: functional.max_pool1d(batch.T[None], 3, 1, 1)[0].T),
    "convolution": lambda: Network(
        lambda batch: functional.conv1d(batch.T[:, None], torch.ones(1, 1, 3), padding=1)[:, 0].T
    ),
    "in place": lambda: Network(lambda batch: batch.clone().sub_(batch.mean(dim=0))),
    "index of the row": lambda: Network(lambda batch: batch + 30 * torch.arange(len(batch))[:, None]),
    "no running statistics": lambda: nn.Sequential(
        nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)
    ),
    "batch norm in training": Training,
    "functional batch norm": lambda: Network(
        lambda batch: functional.batch_norm(batch, None, None, training=True)
    ),
    "momentum": lambda: Network(
        lambda batch: functional.batch_norm(batch, torch.zeros(4), torch.ones(4), training=True)
    ),
    "hook": lambda: hooked(nn.Linear(4, 2)),
    "early hook": lambda: hooked(nn.Linear(4, 2), early=True),
    "hook inside": lambda: nn.Sequential(hooked(nn.Linear(4, 4)), nn.Linear(4, 2)),
    "function": lambda: Network(Plain.apply),
    "function with a rule": lambda: Network(Ruled.apply),
    "memory": Previous,
    "after many calls": lambda: Late(30),
    "cache": Caching,
    "hash": Hashing,
    "sizes": lambda: Network(lambda batch: batch * len(batch) / (10 + len(batch))),
    "large sizes": lambda: Network(halves),
    "odd sizes": lambda: Network(lambda batch: batch if len(batch) % 2 else centre(batch)),
    "sum decides": lambda: Network(lambda batch: batch if batch.sum() > 25 * batch.numel() else -batch),
    "first row decides": lambda: Network(lambda batch: batch if batch[0, 0] > 40 else centre(batch)),
    "where": lambda: Network(lambda batch: torch.where(batch.mean() > 25, batch, centre(batch))),
    "seldom": lambda: Network(seldom(0.2)),
    "small amplitude": lambda: Network(lambda batch: batch - 0.02 * batch.mean(dim=0)),
    "smaller amplitude": lambda: Network(lambda batch: batch - 1e-4 * batch.mean(dim=0)),
    "mixes near a tie": lambda: Network(
        lambda batch: torch.where((batch[:, :1] - batch[:, 2:3]).abs() < 8, centre(batch), batch)
    ),
    "scripted": lambda: torch.jit.script(Scripted()),
    "scripted by the sum": lambda: torch.jit.script(ScriptedBySum()),
    "traced": lambda: torch.jit.trace(Scripted(), torch.ones(40, 4)),
    "fx": lambda: torch.fx.symbolic_trace(
        nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2))
    ),
    "numpy": lambda: Network(by_numpy(lambda batch: batch - batch.mean(axis=0))),
    "numpy sorted": lambda: Network(by_numpy(lambda batch: np.sort(batch, axis=0))),
    "list": lambda: Network(
        lambda batch: torch.tensor(batch.tolist()) - torch.tensor(batch.tolist()).mean(dim=0)
    ),
    "item": lambda: Network(lambda batch: batch - batch[0, 0].item()),
    "random": lambda: Network(lambda batch: batch + 20 * torch.randn_like(batch)),
    "random from NumPy": lambda: Network(
        lambda batch: batch * float(np.random.default_rng().choice([-1, 1]))
    ),
    "dropout": lambda: Network(lambda batch: functional.dropout(batch, 0.5, training=True)),
    "a global count": lambda: Network(lambda batch: batch * (-1) ** next(ticks)),
    "half precision": lambda: Network(lambda batch: centre(batch.half()).float()),
    "complex": lambda: Network(lambda batch: torch.fft.fft(batch, dim=0).real),
    "sparse": lambda: Network(
        lambda batch: torch.sparse.mm(torch.ones(len(batch), len(batch)).to_sparse(), batch) / 40
    ),
    "einsum": lambda: Network(lambda batch: torch.einsum("ij,kj->ij", batch, batch) / 1e3),
    "scatter": lambda: Network(
        lambda batch: torch.zeros_like(batch).index_add(0, torch.zeros(len(batch), dtype=torch.long), batch)
    ),
    "quantised by the range of the batch": quantised,
    "quantised by the batch": lambda: Network(
        lambda batch: torch.fake_quantize_per_tensor_affine(batch, float(batch.abs().max()) / 7, 0, -8, 7)
    ),
}


def attack(make: Callable[[], nn.Module], noise: InputNoise) -> str:
    """ "refused", or what is claimed of the isolation and precision."""
    torch.manual_seed(0)
    smoothed = Smoothed(make(), noise, classes=2, batch=40, rng=SeededRandom(1))
    x = PIXELS if noise.integer else POINT
    try:
        answer = smoothed.certify(x, PLAN)
        if answer.abstained:
            return "abstained"
        certificate = smoothed.certificate(x, answer)
    except DeniableError:
        return "refused"
    return f"{certificate.evaluation.isolation}, {certificate.precision}"


# "mixes near a tie" does so for one row in sixty, so that a batch hardly shows it; its votes are of single rows.
ONE_INPUT_EACH = ("proved, up to rounding", "proved, exact")


@pytest.mark.parametrize("name", list(MIXING)[::5])
def test_a_mixer_is_refused_or_votes_one_input_at_a_time(name: str) -> None:
    assert attack(MIXING[name], NOISES[3]) == "refused"


@pytest.mark.soak
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("name", MIXING)
def test_every_mixer_is_refused_under_every_noise(name: str, noise: InputNoise) -> None:
    allowed = ("refused", *ONE_INPUT_EACH) if name == "mixes near a tie" else ("refused", "abstained")
    assert attack(MIXING[name], noise) in allowed
