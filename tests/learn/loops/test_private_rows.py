"""Rows of training are known again in loaders, parts, unions and tensors in the same memory; others are not refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.loops import next_token_losses
from deniable.learn.loops.lightning import PrivateStrategy
from deniable.learn.loops.private_rows import shares_rows
from deniable.learn.sgd import DPSGD, BatchLoss, Lots, Privacy, Users
from deniable.ledger import Ledger
from deniable.units import Unit
from tests.learn.loops import test_lightning, test_transformers
from tests.learn.loops.loop_models import ROWS, account_of, kinds, run_of

X, Y = ROWS
WHOLE = TensorDataset(X, Y)
FIRST, SECOND = random_split(WHOLE, [500, 100], torch.Generator().manual_seed(0))
LISTED: Any = list(range(20))


@pytest.mark.parametrize(
    ("rows", "private"),
    [
        (WHOLE, WHOLE),
        (DataLoader(WHOLE), WHOLE),
        (Subset(WHOLE, range(10)), WHOLE),
        (WHOLE, FIRST),
        (Subset(FIRST, [3]), FIRST),
        (TensorDataset(X, Y), WHOLE),
        (TensorDataset(X[590:], Y[590:]), WHOLE),
        (TensorDataset(X[:, 1:], Y), WHOLE),
        (TensorDataset(X[595:, 1:], Y[595:]), WHOLE),
        (TensorDataset(X[:, 2:], Y), TensorDataset(X[:, :2], Y)),
        (Subset(TensorDataset(X[:, 1:], Y), [7]), Subset(WHOLE, [7])),
        (ConcatDataset([SECOND, TensorDataset(X + 1, Y)]), WHOLE),
        (Subset(ConcatDataset([TensorDataset(X + 1, Y), WHOLE]), [600]), Subset(WHOLE, [0])),
        (LISTED, LISTED),
        (Subset(LISTED, [1]), LISTED),
    ],
)
def test_private_rows_are_known_again(rows: Any, private: Any) -> None:
    assert shares_rows(rows, private)


@pytest.mark.parametrize(
    ("rows", "private"),
    [
        (SECOND, FIRST),
        (TensorDataset(X.clone(), Y), WHOLE),
        (TensorDataset(X[:100], Y[:100]), TensorDataset(X[100:], Y[100:])),
        (TensorDataset(X[::2], Y[::2]), TensorDataset(X[1::2], Y[1::2])),
        (TensorDataset(X[:100, 1:], Y[:100]), TensorDataset(X[100:], Y[100:])),
        (Subset(TensorDataset(X[:, 1:], Y), [7]), Subset(WHOLE, [6, 8])),
        (Subset(ConcatDataset([TensorDataset(X + 1, Y), WHOLE]), [599, 601]), Subset(WHOLE, [0])),
        (list(LISTED), LISTED),
        (Subset(LISTED, [1]), Subset(LISTED, [2])),
    ],
)
def test_other_rows_are_no_private_ones(rows: Any, private: Any) -> None:
    assert not shares_rows(rows, private)


def test_lightning_does_not_validate_a_part_of_the_private_rows() -> None:
    module = test_lightning.module_of()
    with Ledger.open("sqlite://") as ledger:
        account = account_of(ledger)
        trainer = test_lightning.trainer_of(PrivateStrategy(run_of(module), account=account))
        with pytest.raises(InvalidParameter, match="no part of them"):
            test_lightning.fit(trainer, module, DataLoader(WHOLE), DataLoader(Subset(WHOLE, range(10))))
        assert kinds(account) == ["create"]


def test_people_are_drawn_in_the_loops_of_others(tmp_path: Path) -> None:
    """A loader of `Users` says whose rows they are."""
    person = Unit.column("person", max_rows=3)
    privacy = Privacy(noise_multiplier=1.0, unit=person)
    counting = test_transformers.Counting(test_transformers.N)
    module, reader = test_lightning.module_of(), test_transformers.model_of()
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("people", person, limit=Budget(100, 1e-3))
        run = DPSGD(module, nn.CrossEntropyLoss(), lots=Lots(n=400, lot=40, steps=20), privacy=privacy)
        users = Users(WHOLE, [i % 100 for i in range(600)])
        trainer = test_lightning.trainer_of(PrivateStrategy(run, account=account))
        test_lightning.fit(trainer, module, DataLoader(users))
        with pytest.raises(InvalidParameter, match="no part of them"):
            trainer.validate(module, DataLoader(Subset(WHOLE, [0])), verbose=False)

        run = DPSGD(
            reader, BatchLoss(next_token_losses), lots=Lots(n=180, lot=36, steps=10), privacy=privacy,
            example=test_transformers.ROW,
        )  # fmt: skip
        for_trainer: Any = Users(counting, [i % 20 for i in range(len(counting))])
        trainer = test_transformers.trainer_of(run, account, tmp_path, rows=for_trainer)
        with pytest.raises(InvalidParameter, match="no part of them"):
            trainer.evaluate(counting)
        trainer.train()
        assert kinds(account) == ["create", "open", "begin", "begin", "settle", "open", "begin", "settle"]


def test_a_trainer_does_not_evaluate_a_part_of_the_private_rows(tmp_path: Path) -> None:
    rows = test_transformers.Counting(test_transformers.N)
    part = Subset(rows, range(5))
    with Ledger.open("sqlite://") as ledger:
        account = account_of(ledger)
        run = test_transformers.small(test_transformers.model_of())
        trainer = test_transformers.trainer_of(run, account, tmp_path, rows=rows, eval_dataset=part)
        looks: list[Any] = [trainer.train, lambda: trainer.evaluate(part), lambda: trainer.predict(part)]
        for look in looks:
            with pytest.raises(InvalidParameter, match="no part of them"):
                look()
        assert kinds(account) == ["create"]
