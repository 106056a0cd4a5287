"""Training on other devices than the CPU, and in bfloat16."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.learn.clip import PerExample
from deniable.learn.sgd import DPSGD
from deniable.learn.sgd.training.trainer import Trainer
from deniable.randomness import SeededRandom
from tests.learn.clip import models
from tests.learn.sgd import accelerator
from tests.learn.sgd.runs import run_of

EVERY_CASE = [f"{model} {kind}" for model in accelerator.MODELS for kind in accelerator.KINDS]


@pytest.mark.parametrize(
    "cases",
    [["Sequential float", "Pictures grid", "Words float"], pytest.param(EVERY_CASE, marks=pytest.mark.soak)],
    ids=["each model", "all"],
)
def test_a_run_on_an_accelerator_is_the_run_on_the_cpu(cases: list[str]) -> None:
    """In a process of its own: a device that is made up stays in its process."""
    command = [sys.executable, "-m", "tests.learn.sgd.accelerator", *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [*(f"{case} same" for case in cases), "mixed"]


def run_on(model: nn.Module, **options: Any) -> DPSGD:
    settings = {"n": 20, "lot": 5, "steps": 2, "learning_rate": 0.1, "noise_multiplier": 1.0}
    return run_of(model, nn.CrossEntropyLoss(), **settings, **options)


def test_a_device_that_is_not_there_is_refused_before_the_charge() -> None:
    with pytest.raises(InvalidParameter, match="a device that is there"):
        run_on(nn.Linear(5, 3), device="cuda")
    with pytest.raises(InvalidParameter, match="on one device, got meta"):
        run_on(nn.Linear(5, 3, device="meta"))


SHAPES: list[tuple[nn.Module, tuple[int, ...], bool]] = [
    (nn.Sequential(nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 3)), (40,), False),
    (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)), (3, 8, 8), False),
    (models.Recurrent(nn.LSTM, batch_first=True), (6, 5), False),
    (models.Attention(), (6, 6), False),
    (models.Tied(), (6,), True),
    (models.Odd(), (5,), False),
]
IDS = ["chain", "convolution", "lstm", "attention", "tied", "vmap"]


def narrow(
    model: nn.Module, shape: tuple[int, ...], words: bool, rows: int
) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randint(0, 7, (rows, *shape)) if words else torch.randn(rows, *shape)
    model = model.bfloat16()
    return model, x if words else x.bfloat16(), torch.randint(0, 3, (rows,))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("model", "shape", "words"), SHAPES, ids=IDS)
def test_no_row_of_a_model_in_bfloat16_adds_more_than_the_clip(
    model: nn.Module, shape: tuple[int, ...], words: bool
) -> None:
    """Norms, weights and the sum are in single precision: in the model's own the weight would be up to 2⁻⁸ too large."""
    model, x, y = narrow(model, shape, words, 12)
    clipper = PerExample(model, nn.CrossEntropyLoss())
    for i in range(12):
        clipped = clipper(x[i : i + 1], y[i : i + 1], clip=0.01)
        length = sum(float(part.double().square().sum()) for part in clipped.sums.values()) ** 0.5
        assert all(part.dtype is torch.float32 for part in clipped.sums.values())
        assert 0.01 * (1 - 5e-3) < length <= 0.01 * (1 + 2.0**-23)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("model", "shape", "words"), SHAPES[:5], ids=IDS[:5])
def test_models_in_bfloat16_have_closed_forms_near_those_in_single_precision(
    model: nn.Module, shape: tuple[int, ...], words: bool
) -> None:
    model, x, y = narrow(model, shape, words, 6)
    clipper = PerExample(model, nn.CrossEntropyLoss())
    assert clipper.method(x, y).startswith("closed form"), clipper.method(x, y)
    found = clipper(x, y, clip=1.0).sums
    right = PerExample(model.float(), nn.CrossEntropyLoss())(x if words else x.float(), y, clip=1.0).sums
    size = max(float(part.abs().max()) for part in right.values())
    for name, part in right.items():
        torch.testing.assert_close(found[name], part, rtol=0, atol=0.05 * size)


def test_a_run_in_bfloat16_adds_its_noise_in_single_precision() -> None:
    model, x, y = narrow(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 3)), (40,), False, 20)
    run = run_on(model)
    run.check((x, y))
    trainer = Trainer.with_copy(run, SeededRandom(3))
    released = trainer.step(trainer.draw(run.rows((x, y))))
    assert all(part.dtype is torch.float32 for part in released.values())
    assert all(
        p.dtype is p.grad.dtype is torch.bfloat16 for p in trainer.model.parameters() if p.grad is not None
    )
    assert any(not torch.equal(part, part.bfloat16().float()) for part in released.values())
