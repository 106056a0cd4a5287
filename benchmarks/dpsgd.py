"""One step of DP-SGD beside one step of plain PyTorch: CPU time on one core, and peak memory.

    python benchmarks/dpsgd.py [--quick] [--json] [--only TEXT]

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
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from _report import PAGE, write_section
from deniable.learn.clip import Batch
from deniable.learn.sgd import DPSGD
from deniable.learn.sgd.training.trainer import Trainer, next_trial
from deniable.randomness import SecureRandom

CLIP, NOISE, RATE = 1.0, 1.0, 0.05
RUN = 1000
"""Steps over which the trials in the middle of a run are spread."""
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


class Block(nn.Module):
    """Two convolutions of ResNet-18, with group norm in place of batch norm."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(32, width), nn.GroupNorm(32, width)])
        same = stride == 1 and before == width
        self.short = nn.Identity() if same else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        out: Tensor = torch.relu(inner + self.short(x))
        return out


def resnet() -> nn.Module:
    """ResNet-18 for pictures of 32 × 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(32, 64), nn.ReLU()]
    before = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(before, width, stride), Block(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


WORDS, LENGTH = 2000, 64


class Logits(nn.Module):
    """A model of transformers as a function of words; of a language model the words come before the places."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.inner(input_ids=ids).logits
        return logits.transpose(1, 2) if logits.dim() == 3 else logits


def gpt2(lora: bool = False) -> nn.Module:
    """GPT-2 in small: 4 layers of width 256, default dropout."""
    hub: Any = import_module("transformers")
    sizes = {"n_positions": LENGTH, "n_embd": 256, "n_layer": 4, "n_head": 4}
    inner = hub.GPT2LMHeadModel(hub.GPT2Config(vocab_size=WORDS, use_cache=False, **sizes))
    if lora:
        peft: Any = import_module("peft")
        settings = peft.LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)
        inner = peft.get_peft_model(inner, settings)
    return Logits(inner)


def bert() -> nn.Module:
    """BERT in small: 4 layers of width 256, default dropout, ten classes."""
    hub: Any = import_module("transformers")
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    return Logits(hub.BertForSequenceClassification(hub.BertConfig(vocab_size=WORDS, num_labels=10, **sizes)))


class LanguageModel(nn.Module):
    """The next word, by one LSTM of width 256."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.body = nn.Embedding(WORDS, 128), nn.LSTM(128, 256, batch_first=True)
        self.head = nn.Linear(256, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.table(ids))[0])
        return logits.transpose(1, 2)


@dataclass(frozen=True)
class Model:
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    lot: int
    rounds: int
    words: bool = False
    by_place: bool = False
    """Whether there is a target for each word."""

    def make(self) -> tuple[nn.Module, Tensor, Tensor]:
        torch.manual_seed(0)
        shape = (self.lot, *self.shape)
        x = torch.randint(0, WORDS, shape) if self.words else torch.randn(shape)
        y = torch.randint(0, WORDS, shape) if self.by_place else torch.randint(0, 10, (self.lot,))
        return self.build().train(), x, y


MODELS = (
    Model("MLP 784-1000-10, lot 600", partial(mlp, 784), (784,), 600, 40),
    Model("MLP 60-1000-10, lot 600", partial(mlp, 60), (60,), 600, 100),
    Model("MNIST CNN, lot 256", mnist, (1, 28, 28), 256, 30),
    Model("MNIST CNN, lot 1024", mnist, (1, 28, 28), 1024, 12),
    Model("CIFAR CNN, lot 512", cifar, (3, 32, 32), 512, 4),
    Model("ResNet-18 GN, lot 8", resnet, (3, 32, 32), 8, 5),
    Model("GPT-2 small, lot 8", gpt2, (LENGTH,), 8, 6, words=True, by_place=True),
    Model("LoRA on GPT-2 small, lot 8", partial(gpt2, lora=True), (LENGTH,), 8, 6, words=True, by_place=True),
    Model("BERT small, lot 8", bert, (LENGTH,), 8, 6, words=True),
    Model("LSTM language model, lot 8", LanguageModel, (LENGTH,), 8, 6, words=True, by_place=True),
)


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def plain(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer, criterion = torch.optim.SGD(_trained(model), lr=RATE), nn.CrossEntropyLoss()

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
    run = DPSGD.from_keywords(
        model,
        nn.CrossEntropyLoss(),
        n=100 * len(x),
        lot=len(x),
        steps=1_000_000,
        clip=CLIP,
        learning_rate=RATE,
        noise_multiplier=NOISE,
    )
    return OwnStep(run, x, y)


class OwnStep:
    """A step without the trials that some steps begin with, which are timed apart."""

    def __init__(self, run: DPSGD, x: Tensor, y: Tensor) -> None:
        run.check((x, y))
        self.trainer, self.lot = Trainer.with_copy(run, SecureRandom()), [Batch((x, y))]
        self.trainer.next_trial = run.plan.steps

    def __call__(self) -> None:
        self.trainer.step(self.lot)

    def trial(self) -> None:
        self.trainer.next_trial = 0
        self.trainer.try_again()
        self.trainer.next_trial = self.trainer.run.plan.steps


def trials(steps: int) -> float:
    """How many trials a run of so many steps has, in the mean of 1,000 runs."""
    total, rng = 0, SecureRandom()
    for _ in range(1000):
        step = next_trial(0, rng)
        while step <= steps:
            total, step = total + 1, next_trial(step, rng)
    return total / 1000


def opacus(model: nn.Module, x: Tensor, y: Tensor, mode: str) -> Step:
    from opacus import PrivacyEngine
    from opacus.validators import ModuleValidator
    from torch.utils.data import DataLoader, TensorDataset

    model = ModuleValidator.fix(model)  # its own LSTM in place of PyTorch's
    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    optimizer, criterion = torch.optim.SGD(_trained(model), lr=RATE), nn.CrossEntropyLoss()
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


def times(model: Model, names: list[str], rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """CPU seconds of each method's step, round by round (Opacus' hooks, slow where they
    are slow, in the first three), and why some cannot train the model."""
    steps: dict[str, Step] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            step = METHODS[name](*model.make())
            step()
        except Exception as error:
            if not name.startswith("Opacus"):
                raise
            failures[name] = f"{type(error).__name__}: {error}".split("\n")[0].replace("|", "/")[:90]
        else:
            steps[name] = step
    found: dict[str, list[float]] = {name: [] for name in steps}
    own = steps.get("ours")
    if isinstance(own, OwnStep):
        found["trial"] = [timed(own.trial) for _ in range(5)]
    for turn in range(rounds):
        for name, step in steps.items():
            if turn < 3 or name != "Opacus hooks":
                found[name].append(timed(step))
    return found, failures


def timed(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def peak(model: Model, method: str) -> float:
    """Megabytes that some steps need above what the process held before, in a process of
    its own: the heap grows at first."""
    command = [sys.executable, __file__, "--peak", model.name, method]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def own_peak(model: Model, method: str) -> float:
    METHODS[method](
        nn.Linear(2, 10), torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64)
    )()  # loads its code
    parts = model.make()
    before = _highest()  # before the trial on made-up rows, which is part of what a run needs
    step = METHODS[method](*parts)
    for _ in range(min(10, model.rounds)):
        step()
    return (_highest() - before) / 1024


def _highest() -> int:
    """Kilobytes that this process held at most. `ru_maxrss` will not do: a child inherits its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def measure(model: Model, quick: bool) -> list[dict[str, Any]]:
    slow = quick or model.words or model.rounds == 5
    names = [name for name in METHODS if not (slow and name == "Opacus hooks")]
    if len(model.shape) == 1:
        names.remove("plain channels-last")
    found, failures = times(model, names, max(3, model.rounds // (5 if quick else 1)))
    tried = median(found.pop("trial", [0.0])) * trials(RUN) / RUN / median(found["plain"])
    lacking = [{"model": model.name, "method": name, "failure": why} for name, why in failures.items()]
    return lacking + [
        {
            "model": model.name,
            "method": name,
            "ratio": round(median(a / b for a, b in zip(found[name], found["plain"], strict=False)), 3),
            "trials": round(tried, 3) if name == "ours" else 0.0,
            "ms": round(1000 * median(found[name]), 2),
            "peak_mb": round(peak(model, name), 1),
        }
        for name in found
    ]


def kept_rows(models: tuple[Model, ...]) -> dict[str, list[str]]:
    """The lines of the published table of models that are not measured now."""
    section = PAGE.read_text(encoding="utf-8").partition("<!-- dpsgd -->")[2].partition("<!-- /dpsgd -->")[0]
    measured = {model.name for model in models}
    lines: dict[str, list[str]] = {}
    for line in section.splitlines():
        name = line.removeprefix("| ").partition(" | ")[0]
        if line.startswith("| ") and name not in measured | {"model"}:
            lines.setdefault(name, []).append(line)
    return lines


def table(rows: list[dict[str, Any]], lines: dict[str, list[str]]) -> str:
    head = ["| model | method | ratio to plain | CPU ms per step | peak MB |", "|---|---|---:|---:|---:|"]
    for r in rows:
        if "failure" in r:
            line = f"| {r['model']} | {r['method']} | fails: {r['failure']} | | |"
        else:
            trial = f" + {r['trials']:.3f}" if r["trials"] else ""
            line = f"| {r['model']} | {r['method']} | {r['ratio']:.2f}{trial} | {r['ms']:.1f} | {r['peak_mb']:.0f} |"
        lines.setdefault(r["model"], []).append(line)
    return "\n".join([*head, *(line for model in MODELS for line in lines.get(model.name, []))])


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, without Opacus' hooks; nothing is written"
    )
    parser.add_argument("--json", action="store_true", help="print JSON rows")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "METHOD"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="models whose name has this; the lines of others stay"
    )
    given = parser.parse_args()
    if given.peak:
        print(own_peak(next(m for m in MODELS if m.name == given.peak[0]), given.peak[1]))
        return
    models = tuple(model for model in MODELS if given.only in model.name)
    rows = [row for model in models for row in measure(model, given.quick)]
    text = "\n\n".join(
        [
            "## DP-SGD",
            f"One step on one core, measured {date.today()}, PyTorch {torch.__version__}, Opacus "
            f"{version('opacus')}, transformers {version('transformers')}, peft {version('peft')} "
            "(`python benchmarks/dpsgd.py`). Ours is the "
            "whole step of `account.run(DPSGD(…), data)` on a lot that was drawn: clipping, secure noise in "
            f"double precision, optimiser, history; + is what the trials of a run of {RUN:,} steps add to it. "
            "The ratio is the median over rounds of a step's CPU time over plain PyTorch's in the same round, "
            "in one process; peak memory is that of up to ten steps, the "
            "first with its trial of the model, above what the process held before.",
            table(rows, kept_rows(models)),
        ]
    )
    print(json.dumps(rows) if given.json else text)
    if not given.quick:
        write_section("dpsgd", text)


if __name__ == "__main__":
    main()
