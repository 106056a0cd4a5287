"""Real trainers as steps for canary gradients: the gradient of a row is the row itself.

A model that adds up two linear layers on the halves of its input, and a loss that is its
output: ∂/∂w of row x is x. So rows put in are per-example gradients, and what the
optimiser moves the weights by is what the step releases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deniable.audit.sgd import Training
from deniable.learn.clip import Batch
from deniable.learn.sgd import Adaptive, PerLayer
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.training.trainer import Trainer
from deniable.randomness import SeededRandom

HALF = 40
DIMENSION = 2 * HALF


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(HALF, 1, bias=False)
        self.right = nn.Linear(HALF, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.left(x[:, :HALF]), self.right(x[:, HALF:])
        return torch.as_tensor((left + right).squeeze(1))


def plain(output: Tensor, _: Tensor) -> Tensor:
    return output


def flat(model: nn.Module) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).double().numpy().copy()


class Ours:
    """`Trainer` of deniable.learn in one of its modes."""

    def __init__(self, training: Training, **mode: Any) -> None:
        model = Sums()
        settings = {"clip": training.clip} | mode
        run = DPSGD(
            model, plain, n=round(training.lot / training.rate), lot=round(training.lot), steps=training.steps,
            learning_rate=1.0, noise_multiplier=training.noise_multiplier, delta=training.delta, **settings,
        )  # fmt: skip
        self.trainer = Trainer(run, SeededRandom(5), model, torch.optim.SGD(model.parameters(), lr=1.0))

    def __call__(self, rows: Any, rng: np.random.Generator) -> Any:
        x = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
        self.trainer.taken = 0
        released = self.trainer.step([Batch((x, torch.zeros(len(x))))])
        return (
            torch.cat([released[name].reshape(-1) for name in ("left.weight", "right.weight")])
            .double()
            .numpy()
        )


class OfOpacus:
    """An optimiser of Opacus over its hooks, ghost clipping or fast gradient clipping."""

    def __init__(self, training: Training, mode: str) -> None:
        from opacus import GradSampleModule
        from opacus.grad_sample import GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        self.model, self.mode = Sums(), mode
        lot, clip, noise = round(training.lot), training.clip, training.noise_multiplier
        sgd = torch.optim.SGD(self.model.parameters(), lr=1.0)
        common: dict[str, Any] = {"noise_multiplier": noise, "expected_batch_size": lot}
        common["generator"] = torch.Generator().manual_seed(7)
        if mode in ("ghost", "fast gradient"):
            module = GradSampleModuleFastGradientClipping(
                self.model, max_grad_norm=clip, use_ghost_clipping=mode == "ghost", loss_reduction="mean"
            )
            self.optimizer: Any = DPOptimizerFastGradientClipping(
                sgd, max_grad_norm=clip, loss_reduction="mean", **common
            )
            criterion = nn.L1Loss(reduction="mean")  # of a positive output: the output
            self.loss: Any = DPLossFastGradientClipping(module, self.optimizer, criterion, "mean")
        else:
            module = GradSampleModule(self.model, loss_reduction="mean")
            if mode == "hooks per layer":
                each = [clip / np.sqrt(2)] * 2
                self.optimizer = DPPerLayerOptimizer(sgd, max_grad_norm=each, loss_reduction="mean", **common)
            else:
                self.optimizer = DPOptimizer(sgd, max_grad_norm=clip, loss_reduction="mean", **common)
            self.loss = lambda output, target: (output - target).mean()
        self.module = module

    def __call__(self, rows: Any, rng: np.random.Generator) -> Any:
        x = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
        for p in self.model.parameters():
            p.data.zero_()
        before = flat(self.model)
        self.optimizer.zero_grad()
        # |output + 1| is output + 1 where weights are 0: its slope is that of the output.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.loss(self.module(x), torch.full((len(x),), -1.0)).backward()
        self.optimizer.step()
        return before - flat(self.model)


def sound(training: Training) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Trainers that keep what they claim: ours in every mode, and those of Opacus."""
    model = Sums()
    modes: dict[str, dict[str, Any]] = {
        "ours": {}, "ours, microbatches of 7": {"microbatch": 7}, "ours, on a grid": {"grid": True},
        "ours, per layer": {"clip": PerLayer.by_module(model, training.clip)},
        "ours, adaptive": {"clip": Adaptive(start=training.clip, count_noise=training.lot / 20)},
        "ours, two views": {"multiplicity": 2}, "ours, grid and per layer": {
            "grid": True, "clip": PerLayer.by_module(model, training.clip)},
        "ours, averaged": {"average": 0.9}, "ours, noise in stages": {"noise_schedule": (1, 1)},
    }  # fmt: skip
    for name, mode in modes.items():
        yield name, Ours(training, **mode)
    for mode_name in ("hooks", "ghost", "fast gradient", "hooks per layer"):
        yield f"Opacus, {mode_name}", OfOpacus(training, mode_name)
