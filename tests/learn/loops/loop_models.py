"""Small modules, rows and accounts that the tests of loops share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD, Lots, Privacy
from deniable.ledger import Account, Ledger
from deniable.units import Unit
from tests.learn.sgd.runs import problem

ROWS = problem(600)
N, LOT, PASS = 600, 60, 10
STEPS = 2 * PASS


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(*ROWS), batch_size=32, shuffle=True)


def run_of(model: nn.Module, criterion: Any = None, example: Any = None, **lots: Any) -> DPSGD:
    sizes: dict[str, Any] = {"n": N, "lot": LOT, "steps": STEPS} | lots
    return DPSGD(
        model,
        nn.CrossEntropyLoss() if criterion is None else criterion,
        lots=Lots(**sizes),
        privacy=Privacy(noise_multiplier=1.0, clip=1.0),
        example=example,
    )


def account_of(ledger: Ledger) -> Account:
    return ledger.create("rows", Unit.row(), limit=Budget(100, 1e-3))


def kinds(account: Account) -> list[str]:
    return [entry.kind.value for entry in account.history()]


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(here: list[Tensor], there: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(here, there, strict=True))
