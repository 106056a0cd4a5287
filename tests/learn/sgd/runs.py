"""Small runs that the tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD, Execution, Learning, Lots, Privacy, checking
from deniable.learn.sgd.checking import Checked
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, Filter, Ledger
from deniable.randomness import SeededRandom
from deniable.units import Unit

FEATURES, CLASSES = 6, 3


def problem(n: int = 300, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three classes that a linear model tells apart."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(n, FEATURES, generator=source)
    return x, (x @ torch.randn(FEATURES, CLASSES, generator=source)).argmax(dim=1)


def linear(seed: int = 0, features: int = FEATURES, classes: int = CLASSES) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(features, classes)


def small(model: nn.Module | None = None, criterion: Any = None, **given: Any) -> DPSGD:
    """A run with every parameter set; `given` replaces some, and None leaves one out."""
    parameters = {
        "n": 300,
        "lot": 60,
        "steps": 5,
        "clip": 1.0,
        "learning_rate": 0.5,
        "noise_multiplier": 1.0,
    } | given
    named = {name: value for name, value in parameters.items() if value is not None}
    return run_of(model or linear(), criterion or nn.CrossEntropyLoss(), **named)


def run_of(model: nn.Module, criterion: Any, **terms: Any) -> DPSGD:
    """A run whose values have these fields, as tests vary them."""
    kinds: dict[str, type] = {"lots": Lots, "privacy": Privacy, "learning": Learning, "how": Execution}
    for name, kind in kinds.items():
        if name not in terms:
            own = [field.name for field in fields(kind) if field.name in terms]
            terms[name] = kind(**{field: terms.pop(field) for field in own})
    return DPSGD(model, criterion, **terms)


class Identity(nn.Module):
    """A model whose gradient on an example is the example: for gradients of one's own."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.line = nn.Linear(dimension, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.line(x)
        return out


def output(out: Tensor, target: Tensor) -> Tensor:
    """The criterion of `Identity`."""
    return out[:, 0]


def trainer(run: DPSGD, seed: int = 1) -> Trainer:
    return Trainer.with_copy(run, SeededRandom(seed))


def account(ledger: Ledger, epsilon: float = 100, delta: float = 1e-4, rule: Any = Filter.basic) -> Account:
    return ledger.create("images", Unit.row(), limit=Budget(epsilon, delta), filter=rule)


@contextmanager
def tried_once() -> Iterator[None]:
    """Models of one kind are tried on made-up rows once and not before every charge, for tests of other things.

    What a trial finds are ways through the layers, whatever the weights are. Criteria are told by their names and
    places, so they must not be made within a test.
    """
    honest = checking.try_run

    def tried(run: DPSGD, data: Any, model: nn.Module | None) -> Checked:
        kind = repr(run), repr(run.example), type(data), model is None
        if kind not in _TRIED:
            _TRIED[kind] = honest(run, data, model)
        return _TRIED[kind]

    with mock.patch.object(checking, "try_run", tried):
        yield


_TRIED: dict[object, Checked] = {}
