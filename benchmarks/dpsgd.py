"""One step of DP-SGD beside one step of plain PyTorch: CPU time on one core, and peak memory.

    python benchmarks/dpsgd.py [--quick] [--json]

All methods of a model run in one process, in turn, so that a busy machine slows all of them alike; `ratio` is
the median over rounds of a method's CPU time over plain PyTorch's in the same round. Peak memory is that of a
process of its own per method, above what the process held before its first step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from _report import write_section
from deniable.learn.clip import Batch
from deniable.learn.sgd import DPSGD
from deniable.learn.sgd.trainer import Trainer
from deniable.randomness import SecureRandom

CLIP, NOISE, RATE = 1.0, 1.0, 0.05
Step = Callable[[], object]


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 1000), nn.ReLU(), nn.Linear(1000, 10))


def mnist() -> nn.Module:
    """The network of Opacus' MNIST example."""
    first = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
    second = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))


def cifar() -> nn.Module:
    """The tanh network of Papernot et al. 2021."""
    layers: list[nn.Module] = []
    before = 3
    for width in (32, 64, 128):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.Tanh()]
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))


@dataclass(frozen=True)
class Model:
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    lot: int
    rounds: int

    def make(self) -> tuple[nn.Module, Tensor, Tensor]:
        torch.manual_seed(0)
        return self.build(), torch.randn(self.lot, *self.shape), torch.randint(0, 10, (self.lot,))


MODELS = (
    Model("MLP 784-1000-10, lot 600", partial(mlp, 784), (784,), 600, 40),
    Model("MLP 60-1000-10, lot 600", partial(mlp, 60), (60,), 600, 100),
    Model("MNIST CNN, lot 256", mnist, (1, 28, 28), 256, 30),
    Model("MNIST CNN, lot 1024", mnist, (1, 28, 28), 1024, 12),
    Model("CIFAR CNN, lot 512", cifar, (3, 32, 32), 512, 4),
)


def plain(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=RATE), nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

    return step


def channels_last(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    if x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
    return plain(model, x, y)


def ours(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    """The step that `account.run(DPSGD(…), data)` takes on a lot that was drawn: clip,
    secure noise, optimiser, history."""
    run = DPSGD(
        model,
        nn.CrossEntropyLoss(),
        n=100 * len(x),
        lot=len(x),
        steps=1_000_000,
        clip=CLIP,
        learning_rate=RATE,
        noise_multiplier=NOISE,
    )
    run.check((x, y))
    trainer = Trainer.fresh(run, SecureRandom())
    return lambda: trainer.step([Batch((x, y))])


def opacus(model: nn.Module, x: Tensor, y: Tensor, mode: str) -> Step:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=RATE), nn.CrossEntropyLoss()
    made: Any = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        criterion=criterion,
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        poisson_sampling=False,
        grad_sample_mode=mode,
    )
    private, step_of = made[0], made[1]
    loss_of = made[2] if mode == "ghost" else criterion

    def step() -> None:
        step_of.zero_grad()
        loss_of(private(x), y).backward()
        step_of.step()

    return step


METHODS: dict[str, Callable[[nn.Module, Tensor, Tensor], Step]] = {
    "plain": plain,
    "plain channels-last": channels_last,
    "ours": ours,
    "Opacus ghost": partial(opacus, mode="ghost"),
    "Opacus hooks": partial(opacus, mode="hooks"),
}


def times(model: Model, names: list[str], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each method's step, round by round; Opacus' hooks, slow where they
    are slow, in the first three."""
    steps = {name: METHODS[name](*model.make()) for name in names}
    for step in steps.values():
        step()
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name, step in steps.items():
            if turn < 3 or name != "Opacus hooks":
                found[name].append(timed(step))
    return found


def timed(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def peak(model: Model, method: str) -> float:
    """Megabytes that ten steps need above what the process held before, in a process of
    its own: the heap grows at first."""
    command = [sys.executable, __file__, "--peak", model.name, method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def own_peak(model: Model, method: str) -> float:
    step = METHODS[method](*model.make())
    before = _highest()
    for _ in range(10):
        step()
    return (_highest() - before) / 1024


def _highest() -> int:
    """Kilobytes that this process held at most. `ru_maxrss` will not do: a child inherits its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def measure(model: Model, quick: bool) -> list[dict[str, Any]]:
    names = [name for name in METHODS if not (quick and name == "Opacus hooks")]
    if len(model.shape) == 1:
        names.remove("plain channels-last")
    found = times(model, names, max(3, model.rounds // (5 if quick else 1)))
    return [
        {
            "model": model.name,
            "method": name,
            "ratio": round(median(a / b for a, b in zip(found[name], found["plain"], strict=False)), 3),
            "ms": round(1000 * median(found[name]), 2),
            "peak_mb": round(peak(model, name), 1),
        }
        for name in names
    ]


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| model | method | ratio to plain | CPU ms per step | peak MB |", "|---|---|---:|---:|---:|"]
    lines += [
        f"| {r['model']} | {r['method']} | {r['ratio']:.2f} | {r['ms']:.1f} | {r['peak_mb']:.0f} |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, without Opacus' hooks; nothing is written"
    )
    parser.add_argument("--json", action="store_true", help="print JSON rows")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "METHOD"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(own_peak(next(m for m in MODELS if m.name == given.peak[0]), given.peak[1]))
        return
    rows = [row for model in MODELS for row in measure(model, given.quick)]
    text = "\n\n".join(
        [
            "## DP-SGD",
            f"One step on one core, PyTorch {torch.__version__} (`python benchmarks/dpsgd.py`). Ours is the "
            "whole step of `account.run(DPSGD(…), data)` on a lot that was drawn: clipping, secure noise in "
            "double precision, optimiser, history. The ratio is the median over rounds of a step's CPU time "
            "over plain PyTorch's in the same round, in one process; peak memory is that of ten steps, the "
            "first with its trial of the model, above what the process held before.",
            table(rows),
        ]
    )
    print(json.dumps(rows) if given.json else text)
    if not given.quick:
        write_section("dpsgd", text)


if __name__ == "__main__":
    main()
