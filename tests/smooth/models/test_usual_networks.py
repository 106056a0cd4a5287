"""Networks as people build them are not refused, and those that can be recorded are proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from deniable.accounting.radius.robustness import Isolation
from deniable.randomness import SeededRandom
from deniable.smooth import Gaussian, InputNoise, IntegerGaussian, Sampling, Smoothed

PLAN = Sampling(choosing=10, samples=50)
PROVED, SEEN = Isolation.PROVED, Isolation.SEEN


class Step(nn.Module):
    """A function as a layer."""

    def __init__(self, step: Callable[..., torch.Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.step, self.parts = step, nn.ModuleList(parts)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.step(batch, *self.parts)


class Straight(torch.autograd.Function):
    """Rounding with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, batch: torch.Tensor) -> torch.Tensor:
        return batch.round()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


def conv(inputs: int, outputs: int, size: int = 3, **options: Any) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, padding=size // 2, **options), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def head(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))


def flat(*layers: nn.Module, width: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 3))


def residual() -> nn.Module:
    return Step(lambda x, a: functional.relu(x + a(x)), conv(4, 4))


def squeezed() -> nn.Module:
    gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1), nn.Sigmoid())
    return Step(lambda x, g: x * g(x), gate)


def tokens(*layers: nn.Module) -> nn.Sequential:
    """Rows of a picture as tokens of eight numbers."""
    return nn.Sequential(nn.Flatten(1, 2), *layers, nn.Flatten(), nn.Linear(64, 3))


def multi_head() -> nn.Module:
    return Step(lambda x, a: a(x, x, x)[0], nn.MultiheadAttention(8, 2, batch_first=True))


def recurrent(kind: type[nn.Module]) -> nn.Module:
    return Step(lambda x, cell: cell(x)[0], kind(8, 8, batch_first=True))


def by_row(batch: torch.Tensor, *_: nn.Module) -> torch.Tensor:
    return torch.stack([row if row.sum() > 30 else -row for row in batch])


def by_numpy(batch: torch.Tensor, *_: nn.Module) -> torch.Tensor:
    return torch.from_numpy(np.tanh(batch.numpy()))


def cast(kind: torch.dtype) -> nn.Module:
    model = flat(nn.Linear(64, 64), nn.ReLU()).to(kind)
    return Step(lambda x, part: part(x.to(kind)), model)


USUAL: dict[str, tuple[Callable[[], nn.Module], Isolation]] = {
    "linear": (flat, PROVED),
    "perceptron": (lambda: flat(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Dropout(0.5)), PROVED),
    "normalised perceptron": (lambda: flat(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU()), PROVED),
    "layer norm": (lambda: flat(nn.LayerNorm(64), nn.Linear(64, 64), nn.SiLU()), PROVED),
    "rms norm": (lambda: flat(nn.RMSNorm(64)), PROVED),
    "lenet": (lambda: nn.Sequential(conv(1, 4, 5), nn.MaxPool2d(2), conv(4, 8), head(8)), PROVED),
    "vgg": (lambda: nn.Sequential(conv(1, 4), conv(4, 4), nn.MaxPool2d(2), conv(4, 8), head(8)), PROVED),
    "residual": (lambda: nn.Sequential(conv(1, 4), residual(), residual(), head(4)), PROVED),
    "dense": (
        lambda: nn.Sequential(conv(1, 4), Step(lambda x, a: torch.cat([x, a(x)], 1), conv(4, 4)), head(8)),
        PROVED,
    ),
    "squeeze and excite": (lambda: nn.Sequential(conv(1, 4), squeezed(), head(4)), PROVED),
    "mobile": (
        lambda: nn.Sequential(conv(1, 4), conv(4, 4, groups=4), nn.Conv2d(4, 8, 1), nn.ReLU6(), head(8)),
        PROVED,
    ),
    "inception": (
        lambda: nn.Sequential(
            Step(
                lambda x, a, b, c: torch.cat([a(x), b(x), c(x)], 1), conv(1, 2, 1), conv(1, 2), conv(1, 2, 5)
            ),
            head(6),
        ),
        PROVED,
    ),
    "shuffled channels": (lambda: nn.Sequential(conv(1, 4), nn.ChannelShuffle(2), head(4)), PROVED),
    "u-net": (
        lambda: nn.Sequential(
            conv(1, 4),
            Step(
                lambda x, a, b: torch.cat([x, b(a(x))], 1),
                nn.Sequential(nn.MaxPool2d(2), conv(4, 4)),
                nn.ConvTranspose2d(4, 4, 2, 2),
            ),
            head(8),
        ),
        PROVED,
    ),
    "convnext": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 2, 2),
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
            Step(lambda x, n: n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), nn.LayerNorm(4)),
            head(4),
        ),
        PROVED,
    ),
    "dilated": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=2, dilation=2), nn.LeakyReLU(), head(4)),
        PROVED,
    ),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), head(4)), PROVED),
    "instance norm": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4), nn.ELU(), head(4)),
        PROVED,
    ),
    "local responses": (lambda: nn.Sequential(conv(1, 4), nn.LocalResponseNorm(2), head(4)), PROVED),
    "shuffled pixels": (lambda: nn.Sequential(nn.PixelUnshuffle(2), conv(4, 4), head(4)), PROVED),
    "upsampled": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), conv(1, 4), head(4)), PROVED),
    "bilinear": (
        lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(1, 4), head(4)),
        PROVED,
    ),
    "unfolded": (lambda: nn.Sequential(nn.Unfold(2, stride=2), nn.Flatten(), nn.Linear(64, 3)), PROVED),
    "one dimension": (lambda: tokens(nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU()), PROVED),
    "max pool": (
        lambda: nn.Sequential(conv(1, 4), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
        PROVED,
    ),
    "attention": (lambda: tokens(multi_head()), PROVED),
    "encoder": (
        lambda: tokens(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)),
        PROVED,
    ),
    "encoder, norm first": (
        lambda: tokens(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)),
        PROVED,
    ),
    "mixer": (lambda: tokens(Step(lambda x, a: x + a(x.mT).mT, nn.Linear(8, 8)), nn.LayerNorm(8)), PROVED),
    "patches": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 4, 4),
            nn.Flatten(2),
            Step(lambda x: x.mT),
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            Step(lambda x: x.mean(dim=1)),
            nn.Linear(8, 3),
        ),
        PROVED,
    ),
    "lstm": (lambda: tokens(recurrent(nn.LSTM)), SEEN),
    "gru": (lambda: tokens(recurrent(nn.GRU)), SEEN),
    "gates": (lambda: flat(nn.Linear(64, 128), nn.GLU()), PROVED),
    "learned slopes": (lambda: flat(nn.PReLU(64), nn.Linear(64, 64), nn.Hardswish()), PROVED),
    "probabilities": (lambda: nn.Sequential(flat(), nn.Softmax(dim=1)), PROVED),
    "cosine": (
        lambda: flat(Step(lambda x: functional.normalize(x, dim=1))),
        PROVED,
    ),
    "prototypes": (
        lambda: nn.Sequential(nn.Flatten(), Step(lambda x, p: -torch.cdist(x, p.weight), nn.Linear(64, 3))),
        PROVED,
    ),
    "frequencies": (lambda: flat(Step(lambda x: torch.fft.fft(x, dim=1).abs())), PROVED),
    "words": (
        lambda: nn.Sequential(
            nn.Flatten(),
            Step(lambda x, e: e(x.clamp(0, 9).long()).mean(1), nn.Embedding(10, 8)),
            nn.Linear(8, 3),
        ),
        PROVED,
    ),
    "weight norm": (lambda: flat(parametrizations.weight_norm(nn.Linear(64, 64)), nn.ReLU()), PROVED),
    "spectral norm": (lambda: flat(parametrizations.spectral_norm(nn.Linear(64, 64)), nn.ReLU()), PROVED),
    "straight through": (lambda: flat(Step(Straight.apply)), PROVED),
    "signs": (lambda: flat(nn.Linear(64, 64), Step(torch.sign)), PROVED),
    "sorted within an input": (lambda: flat(Step(lambda x: x.sort(dim=1).values)), PROVED),
    "no gradients inside": (lambda: flat(Step(torch.no_grad()(lambda x: x * 2))), PROVED),
    "constants": (lambda: flat(Step(lambda x: (x - torch.tensor(0.13)) / torch.full((1, 64), 0.3))), PROVED),
    "scripted": (lambda: torch.jit.script(flat(nn.Linear(64, 64), nn.ReLU())), PROVED),
    "traced": (
        lambda: torch.jit.trace(flat(nn.Linear(64, 64), nn.ReLU()).eval(), torch.ones(2, 1, 8, 8)),
        PROVED,
    ),
    "symbolic": (lambda: torch.fx.symbolic_trace(flat(nn.Linear(64, 64), nn.ReLU())), PROVED),
    "doubles": (lambda: cast(torch.float64), PROVED),
    "bfloat16": (lambda: cast(torch.bfloat16), PROVED),
    "half": (lambda: cast(torch.float16), PROVED),
    "rows decide": (lambda: flat(Step(by_row)), SEEN),
    "numpy inside": (lambda: flat(Step(by_numpy)), SEEN),
    "a hook that watches": (lambda: watched(flat(nn.Linear(64, 64))), PROVED),
}


def watched(model: nn.Module) -> nn.Module:
    model.register_forward_hook(lambda *said: None)
    return model


def poll(name: str, noise: InputNoise) -> Isolation:
    torch.manual_seed(0)
    model = USUAL[name][0]()
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 8), np.uint8)
    x = pixels if noise.integer else (pixels / 255).astype(np.float32)
    smoothed = Smoothed(
        model, noise, classes=3, batch=64, scale=255 if noise.integer else 1, rng=SeededRandom(1)
    )
    isolation = smoothed.poll(x).isolation
    assert smoothed.certify(x, PLAN).samples == 60
    return isolation


@pytest.mark.parametrize("name", ["residual", "encoder", "bfloat16", "half", "constants", "rows decide"])
def test_a_usual_network_is_not_refused(name: str) -> None:
    assert poll(name, IntegerGaussian(30)) is USUAL[name][1]


@pytest.mark.soak
@pytest.mark.parametrize("noise", [Gaussian(0.25), IntegerGaussian(30)], ids=str)
@pytest.mark.parametrize("name", USUAL)
def test_no_usual_network_is_refused(name: str, noise: InputNoise) -> None:
    assert poll(name, noise) is USUAL[name][1]
