"""Real trainers as steps for canary gradients: the gradient of a row is the row itself.

A model that adds up two linear layers on the halves of its input, and a loss that is its
output: ∂/∂w of row x is x. So rows put in are per-example gradients, and what the
optimiser moves the weights by is what the step releases.

`benchmarks/trainers.py` attacks all of them with a minute of canaries each; `make soak` does too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deniable import Budget, Unit
from deniable.accounting import calibrate_noise
from deniable.audit.sgd import Training
from deniable.learn.clip import Batch
from deniable.learn.sgd import Adaptive, PerLayer, make_private
from deniable.learn.sgd.data.users import UserRows, Users
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.sampling.fixed_lots import FixedLots
from deniable.learn.sgd.sampling.lots import Lots
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Ledger
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import run_of

HALF = 40
DIMENSION = 2 * HALF
CLAIM = Training(calibrate_noise(8, 1e-5, rate=0.05, steps=2000), 1.5, 20, 0.05, 2000, 1e-5)
MANY = 10**7
"""Steps of a run that is not to end within an audit."""
BANDS = 8
ROWS_EACH = 3
"""Rows of one person, where people are protected."""


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(HALF, 1, bias=False)
        self.right = nn.Linear(HALF, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.left(x[:, :HALF]), self.right(x[:, HALF:])
        return torch.as_tensor((left + right).squeeze(1))


class Bent(nn.Module):
    """The same by parameters that have no closed form, beside 0."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.zeros(HALF))
        self.right = nn.Parameter(torch.zeros(HALF))

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(x[:, :HALF] @ torch.sin(self.left) + x[:, HALF:] @ torch.sin(self.right))


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(DIMENSION, 1, bias=False), nn.Flatten(0))


def adapters() -> nn.Module:
    """LoRA of rank one: beside B = 1 the gradient of A is the row, beside A = 0 that of B is nothing."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(Sums(), LoraConfig(r=1, lora_alpha=1, target_modules=["left", "right"]))


def plain(output: Tensor, _: Tensor) -> Tensor:
    return output


def flat(model: nn.Module) -> Any:
    """The weights that a row is the gradient of: all that are trained, but B of an adapter."""
    weights = [p for name, p in model.named_parameters() if p.requires_grad and "lora_B" not in name]
    return torch.cat([p.detach().reshape(-1) for p in weights]).double().numpy().copy()


def reset(model: nn.Module) -> None:
    """All weights 0, but B of an adapter."""
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.data.fill_(float("lora_B" in name))


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0, **options)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return sgd(model, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1.0)


@dataclass(frozen=True)
class Mode:
    """One way to train by `deniable.learn`: `settings` of the run, and who takes its steps."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    model: Callable[[], nn.Module] = Sums
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] = sgd
    noise: float = 1.0
    """Noise beyond the claim's, where a row counts more in this mode than it does there."""
    declared: bool = True
    """Whether rows were tried before: others go through the model one by one."""

    def run(self, training: Training) -> DPSGD:
        lots = {"n": round(training.lot / training.rate), "lot": round(training.lot), "steps": training.steps}
        noise = {"noise_multiplier": self.noise * training.noise_multiplier, "delta": training.delta}
        common = {"learning_rate": 1.0, "clip": training.clip}
        settings = common | noise | ({} if "lots" in self.settings else lots) | dict(self.settings)
        run = run_of(self.model(), plain, **settings)
        if self.declared:
            run.check(self.data(run, np.zeros((2, DIMENSION))))
        return run

    def data(self, run: DPSGD, rows: Any) -> Any:
        x = torch.as_tensor(np.asarray(rows), dtype=run.dtype)
        if run.privacy.max_rows is None:
            return x, torch.zeros(len(x), dtype=run.dtype)
        x, people = x.repeat_interleave(ROWS_EACH, 0), np.repeat(np.arange(len(x)), ROWS_EACH)
        return Users((x, torch.zeros(len(x), dtype=run.dtype)), people)


class Ours:
    """`Trainer` of deniable.learn in one of its modes."""

    def __init__(self, training: Training, mode: Mode) -> None:
        self.mode, self.run = mode, mode.run(training)
        model = self.run.model
        self.trainer = Trainer(self.run, SeededRandom(5), model, mode.optimizer(model))

    def __call__(self, rows: Any, rng: np.random.Generator) -> Any:
        trainer, model = self.trainer, self.run.model
        trainer.taken %= self.run.plan.steps - 1
        reset(model)
        before = flat(model)
        trainer.step(self.lot(rows))
        for values in vars(trainer.history).values():
            values.clear()
        return before - flat(model)

    def lot(self, rows: Any) -> list[Batch]:
        data = self.mode.data(self.run, rows)
        if isinstance(data, Users):
            everybody = UserRows(data, ROWS_EACH)
            return everybody.take(np.arange(len(everybody)), self.run.dtype, self.trainer.rng)
        plan, places = self.run.plan, np.arange(len(rows))
        if plan.cap is not None and len(rows) > plan.cap.most:
            places = np.sort(self.trainer.rng.permutation(len(rows))[: plan.cap.most])
        return [Batch(tuple(part[places] for part in data))] if len(places) else []


class OwnLoop:
    """A loop of one's own (`make_private`) with all rows in every lot: what is not in the batch is no number,
    and counts nothing."""

    def __init__(self, training: Training, mode: Mode) -> None:
        most = 2 * round(training.lot) + 2
        lots = Lots(n=most, lot=most, steps=MANY)
        settings = {"lots": lots, "learning_rate": None} | dict(mode.settings)
        self.run = Mode(settings, mode.model, mode.optimizer, mode.noise, declared=False).run(training)
        self.rows = torch.zeros(most, DIMENSION)
        self.factor = most / training.lot
        ledger = Ledger.open("sqlite://")
        account = ledger.create("loop", unit=self.run.unit, limit=Budget(10**12, 0.1))
        data = (self.rows, torch.zeros(most))
        self.private = make_private(
            self.run, mode.optimizer(self.run.model), data, account=account, rng=SeededRandom(5)
        )

    def __call__(self, rows: Any, rng: np.random.Generator) -> Any:
        self.rows.fill_(torch.nan)
        self.rows[: len(rows)] = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
        reset(self.run.model)
        self.private._marks = []  # the audit has moved the weights back, which a loop refuses otherwise
        before = flat(self.run.model)
        self.private.advance()
        return (before - flat(self.run.model)) * self.factor


class OfOpacus:
    """An optimiser of Opacus over its hooks, ghost clipping or fast gradient clipping."""

    def __init__(self, training: Training, mode: str) -> None:
        from opacus import GradSampleModule
        from opacus.grad_sample import GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        self.model, self.mode = Sums(), mode
        lot, clip, noise = round(training.lot), training.clip, training.noise_multiplier
        common: dict[str, Any] = {"noise_multiplier": noise, "expected_batch_size": lot}
        common |= {"generator": torch.Generator().manual_seed(7), "loss_reduction": "mean"}
        optimizer = adam(self.model) if mode == "hooks, Adam" else sgd(self.model)
        if mode in ("ghost", "fast gradient"):
            module = GradSampleModuleFastGradientClipping(
                self.model, max_grad_norm=clip, use_ghost_clipping=mode == "ghost", loss_reduction="mean"
            )
            self.optimizer: Any = DPOptimizerFastGradientClipping(optimizer, max_grad_norm=clip, **common)
            criterion = nn.L1Loss(reduction="mean")  # of a positive output: the output
            self.loss: Any = DPLossFastGradientClipping(module, self.optimizer, criterion, "mean")
        else:
            module = GradSampleModule(self.model, loss_reduction="mean", force_functorch=mode == "functorch")
            self.loss = lambda output, target: (output - target).mean()
            if mode == "hooks, per layer":
                each = [clip / np.sqrt(2)] * 2
                self.optimizer = DPPerLayerOptimizer(optimizer, max_grad_norm=each, **common)
            else:
                self.optimizer = DPOptimizer(optimizer, max_grad_norm=clip, **common)
        self.module = module

    def __call__(self, rows: Any, rng: np.random.Generator) -> Any:
        x = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
        reset(self.model)
        before = flat(self.model)
        self.optimizer.zero_grad()
        # |output + 1| is output + 1 where weights are 0: its slope is that of the output.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.loss(self.module(x), torch.full((len(x),), -1.0)).backward()
        self.optimizer.step()
        return before - flat(self.model)


def modes(training: Training) -> dict[str, Mode]:
    """Ours, in every mode."""
    n, lot, clip = round(training.lot / training.rate), round(training.lot), training.clip
    by_layer = PerLayer.by_module(Sums(), clip)
    capped = Lots(n=n, lot=lot, steps=training.steps, cap=lot, at_most=2 * n)
    correlated = FixedLots(n=n, lot=lot, epochs=100, bands=BANDS)
    correlation = correlated.plan.correlation
    assert correlation is not None
    return {
        "layers in closed form": Mode(),
        "a chain of layers": Mode(model=chain),
        "rows by vectorised gradients": Mode(model=Bent),
        "one row after another": Mode(declared=False),
        "microbatches of 7": Mode({"microbatch": 7}),
        "on a grid": Mode({"grid": True}),
        "per layer": Mode({"clip": by_layer}),
        "on a grid, per layer": Mode({"grid": True, "clip": by_layer}),
        "adaptive clip": Mode({"clip": Adaptive(start=clip, count_noise=training.lot / 20)}),
        "two views": Mode({"multiplicity": 2}),
        "noise in stages": Mode({"noise_schedule": (1, 1.5)}),
        "people of three rows": Mode({"unit": Unit.column("person", max_rows=ROWS_EACH)}),
        # In a lot that is full a row takes the place of another: it moves the sum by two clips.
        "lots with a cap": Mode({"lots": capped}, noise=2.0),
        "bfloat16": Mode(model=lambda: Sums().to(torch.bfloat16)),
        "float64": Mode(model=lambda: Sums().double()),
        "momentum": Mode(optimizer=momentum),
        "Adam": Mode(optimizer=adam),
        "LoRA": Mode(model=adapters),
        # One step's row moves all that follows by the norm of a column.
        "correlated noise (DP-FTRL)": Mode({"lots": correlated}, noise=math.hypot(*correlation.coefficients)),
    }


def sound(training: Training) -> dict[str, Callable[[], Callable[..., Any]]]:
    """Trainers that keep what they claim, each made anew: ours in every mode, and those of Opacus."""

    def ours(mode: Mode) -> Callable[[], Callable[..., Any]]:
        return lambda: Ours(training, mode)

    def theirs(mode: str) -> Callable[[], Callable[..., Any]]:
        return lambda: OfOpacus(training, mode)

    trainers = {f"ours, {name}": ours(mode) for name, mode in modes(training).items()}
    trainers["ours, a loop of one's own"] = lambda: OwnLoop(training, Mode())
    for name in (
        "hooks", "hooks, per layer", "hooks, Adam", "functorch", "ghost", "fast gradient",
    ):  # fmt: skip
        trainers[f"Opacus, {name}"] = theirs(name)
    return trainers
