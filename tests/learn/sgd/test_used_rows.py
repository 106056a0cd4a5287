"""Runs use their rows: what users hold, twice in a row, with activations that autograd saves the input of; and a run
that cannot use rows says so, and says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deniable.errors import AccountFrozen, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.learn.clip import Batch, PerExample
from deniable.learn.sgd import DPSGD, make_private, train
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, Ledger, Status
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import CLASSES, FEATURES, problem, run_of

X, Y = problem(600)


def _account(ledger: Ledger) -> Account:
    return ledger.create("rows", Unit.row(), limit=Budget(100_000, 1e-4))


@pytest.fixture
def own() -> Iterator[Account]:
    with Ledger.open("sqlite://") as ledger:
        yield _account(ledger)


def _network(activation: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(FEATURES, 24), activation(), nn.Linear(24, 24), activation(), nn.Linear(24, CLASSES)]
    return nn.Sequential(*layers)


def _run(model: nn.Module, **given: Any) -> DPSGD:
    settings = {
        "n": 600,
        "lot": 120,
        "steps": 40,
        "clip": 1.0,
        "learning_rate": 1.0,
        "noise_multiplier": 1.0,
    } | given
    return run_of(model, nn.CrossEntropyLoss(), **settings)


def _by_run(model: nn.Module, own: Account) -> tuple[nn.Module, float]:
    trained = own.run(_run(model), (X, Y), rng=SeededRandom(1)).value
    return trained.model, trained.usable.rows


def _by_loop(model: nn.Module, own: Account) -> tuple[nn.Module, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with make_private(_run(model), optimizer, (X, Y), account=own, rng=SeededRandom(1)) as private:
        for _ in private.lots():
            private.step()
        usable = private.trainer.usable()
    assert usable is not None
    return model, usable.rows


def _by_saved(model: nn.Module, own: Account) -> tuple[nn.Module, float]:
    trained = train(_run(model), (X, Y), account=own, rng=SeededRandom(1)).value
    return trained.model, trained.usable.rows


@pytest.mark.sampled(1)
@pytest.mark.parametrize("door", [_by_run, _by_loop, _by_saved])
@pytest.mark.parametrize("activation", [nn.GELU, pytest.param(nn.ReLU, marks=pytest.mark.soak)])
def test_gelu_learns_what_relu_learns_in_every_run(
    activation: Callable[[], nn.Module], door: Callable[..., tuple[nn.Module, float]], own: Account
) -> None:
    """The same model twice in a row: a lot of 120 has 120 usable rows, and the classes are told apart."""
    model = _network(activation)
    for _ in range(2):
        trained, usable = door(model, own)
        accuracy = float((trained(X).argmax(1) == Y).float().mean())
        assert usable == pytest.approx(120, abs=32), "noise of 32/√40 rows, over a seed"
        assert accuracy > 0.9


class Breaks(nn.Module):
    """A model that fails once its weights have moved, whatever the rows are."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(FEATURES, CLASSES)
        self.first = float(self.line.weight.detach().sum())

    def forward(self, x: Tensor) -> Tensor:
        if float(self.line.weight.detach().sum()) != self.first:
            raise ArithmeticError("moved")
        out: Tensor = self.line(x)
        return out


def test_a_loop_whose_model_breaks_ends_with_the_reason(own: Account) -> None:
    """Found on made-up rows at a random step, so it may be told, and nothing is frozen."""
    model = Breaks()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    private = make_private(_run(model), optimizer, (X, Y), account=own)
    private.trainer.next_trial = 3
    steps = (private.step() for _ in private.lots())
    with pytest.raises(
        InvalidQuery, match=r"At step 3 the model fails on made-up rows.* No row of the data is"
    ):
        list(steps)
    private.close()
    assert own.status is Status.OPEN


def test_a_run_whose_model_breaks_does_not_go_on_in_silence(
    own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[Exception] = []
    monkeypatch.setattr("deniable.learn.sgd.training.trainer.next_trial", lambda step, rng: step + 2)
    with Ledger.open("sqlite://") as ledger:
        watched = _account(ledger)
        watched._on_failure = reasons.append
        with pytest.raises(AccountFrozen):
            watched.run(_run(Breaks(), n=600, lot=60), (X, Y))
    assert "fails on made-up rows" in str(reasons[0])


@pytest.mark.parametrize(
    ("model", "rate", "words"),
    [
        (Breaks, 1.0, "the model fails on made-up rows too, so the rows of the data are not the reason"),
        (lambda: _network(nn.GELU), 1e38, "made-up rows have no finite gradient with these weights either"),
    ],
)
def test_a_run_with_few_rows_says_why(
    model: Callable[[], nn.Module], rate: float, words: str, own: Account, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the rows are not the reason, they are not blamed."""
    run = _run(model(), steps=12, learning_rate=rate, noise_multiplier=0.5)
    run.check((X, Y))
    trainer = Trainer.with_copy(run, SeededRandom(2))
    trainer.next_trial = 1000
    with caplog.at_level(logging.WARNING):
        rows = run.rows((X, Y))
        for _ in range(12):
            trainer.walk(rows)
        trainer.result()
    assert words in caplog.text
    assert "labels among the classes" not in caplog.text


def test_a_clipper_that_cannot_use_rows_is_refused_before_the_charge(
    own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours in the way that training goes, alone rows included."""
    honest = PerExample._pass

    def breaks(self: PerExample, found: Any, batch: Batch, size: int) -> Any:
        if not self._probing:
            raise RuntimeError("a fault of ours")
        return honest(self, found, batch, size)

    monkeypatch.setattr(PerExample, "_pass", breaks)
    before = own.spent()
    with pytest.raises(InvalidParameter, match=r"cannot be used in training.* Nothing was charged"):
        own.run(_run(_network(nn.GELU)), (X, Y))
    assert own.spent() == before


def test_the_clipper_that_trains_is_tried_before_it_sees_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that differs from the clipper that was tried before the charge goes on one row at a time."""
    run = _run(_network(nn.GELU))
    run.check((X, Y))
    honest = PerExample._pass

    def breaks(self: PerExample, found: Any, batch: Batch, size: int) -> Any:
        if batch.examples > 1:
            raise RuntimeError("a fault of ours")
        return honest(self, found, batch, size)

    monkeypatch.setattr(PerExample, "_pass", breaks)
    trainer = Trainer.with_copy(run, SeededRandom(0))
    assert {way.run.__name__ for way in trainer._clipper.ways.values()} == {"alone"}
    sums = trainer.clip_lot([Batch((X[:8], Y[:8]))])
    assert sums.usable_count == 8
