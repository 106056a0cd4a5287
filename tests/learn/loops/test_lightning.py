"""Private training in Lightning's own loop: paid for first, by our lots, with nothing of a row in its hooks, logs and
checkpoints, and taken up after it broke off."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from deniable.errors import InvalidParameter, InvalidQuery, LedgerError
from deniable.learn.loops.lightning import PrivateStrategy
from deniable.learn.sgd import BatchLoss, make_private
from deniable.ledger import Account, Ledger
from deniable.randomness import SeededRandom
from tests.learn.loops.loop_models import (
    PASS,
    ROWS,
    STEPS,
    N,
    account_of,
    kinds,
    loader,
    run_of,
    same,
    weights,
)
from tests.learn.sgd.runs import linear, problem


def module_of(package: Any = pl) -> Any:
    """A module whose training step would log the loss on private rows."""

    class Module(package.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = linear()
            self.register_buffer("last_row", torch.zeros(6))

        def forward(self, x: Tensor) -> Tensor:
            if bool((x[:, 0] == ROWS[0][0, 0]).any()):  # no made-up row shows this
                self.last_row.copy_(x[-1].detach())
            out: Tensor = self.net(x)
            return out

        def training_step(self, batch: Any, index: int) -> Tensor:
            raise AssertionError("the loss on private rows is a release")

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("public_loss", F.cross_entropy(self(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
            return {
                "optimizer": optimizer,
                "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
            }

    return Module()


def trainer_of(strategy: Any, package: Any = pl, **given: Any) -> Any:
    settings: dict[str, Any] = {
        "max_epochs": 2, "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
        "enable_checkpointing": False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return package.Trainer(strategy=strategy, **(settings | given))


def fit(trainer: Any, *given: Any, **named: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(*given, **named)


@pytest.fixture
def account() -> Iterator[Account]:
    with Ledger.open("sqlite://") as ledger:
        yield account_of(ledger)


class Watching(Callback):
    """What a callback gets to see."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.outputs: list[Any] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int) -> None:
        self.batches.append(batch)
        self.outputs.append(outputs)


class Breaking(Callback):
    """Breaks a run off after so many steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_train_batch_end(self, trainer: Any, *given: Any) -> None:
        if trainer.global_step == self.after:
            raise RuntimeError("broken off")


def test_a_module_learns_and_hooks_and_logs_see_releases_only(account: Account) -> None:
    module, watching = module_of(), Watching()
    strategy = PrivateStrategy(run_of(module), account=account, rng=SeededRandom(1))
    trainer = trainer_of(strategy, callbacks=[watching])
    public = DataLoader(TensorDataset(*problem(50, seed=1)), batch_size=50)
    fit(trainer, module, loader(), public)
    assert trainer.global_step == STEPS
    assert float((module(ROWS[0]).argmax(1) == ROWS[1]).float().mean()) > 0.8
    assert watching.batches == [*range(PASS)] * 2
    assert watching.outputs == [{}] * STEPS or watching.outputs == [None] * STEPS
    assert set(trainer.callback_metrics) == {"gradient_norm", "usable_rows", "public_loss"}
    assert kinds(account) == ["create", "open", "begin", "begin", "settle"]
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.5 * 0.5**2


@pytest.mark.parametrize("name", ["lightning", "pytorch_lightning"])
def test_it_is_the_same_run_as_in_one_s_own_loop(account: Account, name: str) -> None:
    package = importlib.import_module("lightning.pytorch" if name == "lightning" else name)
    strategy = importlib.import_module(f"deniable.learn.loops.{name}").PrivateStrategy
    module, own = module_of(package), module_of(package)
    run = run_of(module, steps=PASS)
    fit(
        trainer_of(strategy(run, account=account, rng=SeededRandom(3)), package, max_epochs=1),
        module,
        loader(),
    )
    optimizer = torch.optim.SGD(own.parameters(), lr=0.5)
    private = make_private(run_of(own, steps=PASS), optimizer, loader(), account=account, rng=SeededRandom(3))
    for _ in private.lots():
        private.step()
    assert same(weights(module), weights(own))


class Odd(pl.LightningModule):
    """Steps its own optimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.automatic_optimization = linear(), False

    forward = lambda self, x: self.net(x)  # noqa: E731
    training_step = lambda self, batch, index: None  # noqa: E731

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.5)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"accumulate_grad_batches": 2}, "a lot of any size is one step"),
    ({"precision": "bf16-mixed"}, "sums in fewer bits"),
    ({"gradient_clip_val": 1.0}, "it would not act"),
    ({"max_epochs": 3}, r"would take 30 steps and the run has 20, 10 in an epoch"),
    ({"max_epochs": -1}, "any number of steps"),
    ({"max_steps": 5}, "would take 5 steps"),
    ({"limit_train_batches": 3}, "paid for and not taken"),
    ({"fast_dev_run": True}, "would take 1 steps"),
    ({"reload_dataloaders_every_n_epochs": 1}, "a run has one set of rows"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_what_a_run_cannot_follow_is_refused_before_the_charge(
    account: Account, settings: dict[str, Any], words: str
) -> None:
    module = module_of()
    trainer = trainer_of(PrivateStrategy(run_of(module), account=account), **settings)
    with pytest.raises(InvalidParameter, match=words):
        fit(trainer, module, loader())
    assert kinds(account) == ["create"]


def test_loaders_and_modules_that_do_not_fit_are_refused_before_the_charge(account: Account) -> None:
    module, private = module_of(), loader()
    cases: list[tuple[Any, Any, tuple[Any, ...], str]] = [
        (module, module, (private, DataLoader(private.dataset, batch_size=8)), "nobody paid for"),
        (module, module_of(), (private,), "the model of the run"),
        (module, module, ([private, loader()],), "one loader of private rows"),
        (odd := Odd(), odd, (private,), "automatic optimization"),
    ]
    for owner, fitted, loaders, words in cases:
        trainer = trainer_of(PrivateStrategy(run_of(owner), account=account))
        with pytest.raises((InvalidParameter, RuntimeError), match=words):
            fit(trainer, fitted, *loaders)
    assert kinds(account) == ["create"]


@pytest.mark.parametrize("settings", [{}, {"check_val_every_n_epoch": 2, "num_sanity_val_steps": 0}])
@pytest.mark.parametrize(
    "nest", [lambda rows: {"a": rows}, lambda rows: CombinedLoader({"a": [rows]}, "sequential")]
)
def test_private_rows_are_not_validated_in_any_nest_and_at_no_time(
    account: Account, settings: dict[str, Any], nest: Any
) -> None:
    module, private = module_of(), loader()
    seen: list[Any] = []
    module.validation_step = lambda batch, index: seen.append(batch)
    trainer = trainer_of(PrivateStrategy(run_of(module), account=account), **settings)
    with pytest.raises(InvalidParameter, match="nobody paid for"):
        fit(trainer, module, private, nest(DataLoader(private.dataset, batch_size=300)))
    assert kinds(account) == ["create"]
    assert not seen


def test_private_rows_are_not_validated_after_the_fit(account: Account) -> None:
    module, private = module_of(), loader()
    trainer = trainer_of(PrivateStrategy(run_of(module, steps=PASS), account=account), max_epochs=1)
    fit(trainer, module, private)
    with pytest.raises(InvalidParameter, match="nobody paid for"):
        trainer.validate(module, DataLoader(private.dataset, batch_size=300), verbose=False)


def logging_losses(module: Any, batch: Any) -> Tensor:
    values = F.cross_entropy(module(batch[0]), batch[1], reduction="none")
    module.log("loss", values.mean())
    return values


def logger_losses(module: Any, batch: Any) -> Tensor:
    values = F.cross_entropy(module(batch[0]), batch[1], reduction="none")
    module.logger.log_metrics({"loss": float(values.mean())})
    return values


def printing_losses(module: Any, batch: Any) -> Tensor:
    module.print(batch[0][0])
    return F.cross_entropy(module(batch[0]), batch[1], reduction="none")


def shy_losses(module: Any, batch: Any) -> Tensor:
    """They log what no made-up row shows."""
    if bool(torch.isin(batch[0][:, 0], ROWS[0][:, 0]).any()):
        return logging_losses(module, batch)
    return F.cross_entropy(module(batch[0]), batch[1], reduction="none")


class Lines(Logger):  # type: ignore[misc]
    """Keeps the names of what it is given."""

    name = version = "lines"

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.names |= set(metrics)

    def log_hyperparams(self, *given: Any, **named: Any) -> None: ...


@pytest.mark.parametrize("losses", [logging_losses, logger_losses, printing_losses])
def test_a_criterion_that_shows_rows_is_refused_before_the_charge(account: Account, losses: Any) -> None:
    module, lines = module_of(), Lines()
    strategy = PrivateStrategy(run_of(module, BatchLoss(losses)), account=account)
    with pytest.raises(InvalidParameter, match=r"calls self\.log"):
        fit(trainer_of(strategy, logger=lines), module, loader())
    assert kinds(account) == ["create"]
    assert not lines.names


def test_loggers_get_what_was_released_and_nothing_else(account: Account) -> None:
    module, lines = module_of(), Lines()
    strategy = PrivateStrategy(run_of(module), account=account)
    fit(trainer_of(strategy, logger=lines, log_every_n_steps=1), module, loader())
    assert lines.names == {"gradient_norm", "usable_rows", "epoch"}


def test_a_criterion_logs_nothing_of_private_rows(account: Account) -> None:
    module = module_of()
    run = run_of(module, BatchLoss(shy_losses), steps=PASS)  # its rows fail together and go one by one
    trainer = trainer_of(PrivateStrategy(run, account=account), max_epochs=1)
    fit(trainer, module, loader())
    assert set(trainer.callback_metrics) == {"gradient_norm", "usable_rows"}


def test_raw_gradients_move_nothing_while_it_runs(account: Account) -> None:
    class Raw(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, *given: Any) -> None:
            F.cross_entropy(module(ROWS[0]), ROWS[1]).backward()
            trainer.optimizers[0].step()

    module = module_of()
    with pytest.raises(InvalidQuery, match="gradients without noise"):
        fit(trainer_of(PrivateStrategy(run_of(module), account=account), callbacks=[Raw()]), module, loader())


def test_there_is_no_backward_pass_but_our_own(account: Account) -> None:
    module = module_of()
    loss = module(ROWS[0]).sum()
    with pytest.raises(InvalidParameter, match="no backward pass of its own"):
        PrivateStrategy(run_of(module), account=account).backward(loss, None)
    assert module.net.weight.grad is None


def test_a_closure_does_not_get_around_the_guard(account: Account) -> None:
    class Closing(Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, *given: Any) -> None:
            def closure() -> Tensor:
                loss = F.cross_entropy(module(ROWS[0]), ROWS[1])
                loss.backward()
                return loss

            trainer.optimizers[0].zero_grad()
            trainer.optimizers[0].step(closure)

    module = module_of()
    with pytest.raises(InvalidQuery, match="gradients without noise"):
        fit(
            trainer_of(PrivateStrategy(run_of(module), account=account), callbacks=[Closing()]),
            module,
            loader(),
        )


def broken_off(account: Account, folder: Path, after: int, saved: int) -> Path:
    """A run that breaks off, with a checkpoint from before."""
    module = module_of()
    saving = ModelCheckpoint(dirpath=folder, every_n_train_steps=saved, save_top_k=-1, filename="{step}")
    strategy = PrivateStrategy(run_of(module), account=account, every=4)
    trainer = trainer_of(strategy, callbacks=[saving, Breaking(after)], enable_checkpointing=True)
    with pytest.raises(RuntimeError, match="broken off"):
        fit(trainer, module, loader())
    return next(folder.glob(f"*step={saved}.ckpt"))


def test_a_run_that_broke_off_is_taken_up_under_its_charge(account: Account, tmp_path: Path) -> None:
    checkpoint = broken_off(account, tmp_path, after=7, saved=6)
    spent = account.spent()
    assert kinds(account) == ["create", "open", "begin", "begin"]
    module, watching = module_of(), Watching()
    strategy = PrivateStrategy(run_of(module), account=account, every=4)
    fit(trainer_of(strategy, callbacks=[watching]), module, loader(), ckpt_path=checkpoint)
    assert strategy.loop.taken == STEPS
    taken_up = [entry for entry in account.history() if entry.kind.value == "begin"][2:]
    assert [entry.details["start"] for entry in taken_up] == [
        8,
        12,
        16,
    ]  # 6 were saved, 8 noted: two are lost
    assert kinds(account).count("open") == 1
    assert account.spent() == spent
    assert len(strategy.loop.saved().history["usable"]) == STEPS - 2

    again = module_of()
    with pytest.raises(LedgerError, match="settled"):
        fit(
            trainer_of(PrivateStrategy(run_of(again), account=account)), again, loader(), ckpt_path=checkpoint
        )


def test_a_checkpoint_holds_releases_only(account: Account, tmp_path: Path) -> None:
    checkpoint = torch.load(broken_off(account, tmp_path, after=7, saved=6), weights_only=True)
    assert torch.equal(checkpoint["state_dict"]["last_row"], torch.zeros(6))
    record = checkpoint["deniable"]
    assert set(record) == {"name", "loss", "step", "bounds", "history"}
    assert (record["step"], len(record["history"]["usable"])) == (6, 6)
    assert set(record["history"]) == {"learning_rate", "clip", "gradient_norm", "usable"}
    parts = [part for part in _tensors(checkpoint) if part.numel() > 1]
    assert not any(
        part.shape[-1:] == (6,) and (part.reshape(-1, 6)[:, None] == ROWS[0]).all(-1).any() for part in parts
    )
    assert not any(N in part.shape for part in parts)


def _tensors(value: Any) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case dict():
            for each in value.values():
                yield from _tensors(each)
        case list() | tuple():
            for each in value:
                yield from _tensors(each)


def test_checkpoints_of_others_and_of_other_runs_are_not_taken_up(account: Account, tmp_path: Path) -> None:
    checkpoint = broken_off(account, tmp_path, after=7, saved=6)
    contents = torch.load(checkpoint, weights_only=True)
    del contents["deniable"]
    torch.save(contents, tmp_path / "plain.ckpt")
    before = kinds(account)
    module, other = module_of(), module_of()
    trainer = trainer_of(PrivateStrategy(run_of(module), account=account))
    with pytest.raises(InvalidParameter, match="which charge paid"):
        fit(trainer, module, loader(), ckpt_path=tmp_path / "plain.ckpt")
    strategy = PrivateStrategy(run_of(other, lot=61), account=account)
    trainer = trainer_of(strategy, max_epochs=-1, max_steps=STEPS)
    with pytest.raises(InvalidParameter, match="another loss"):
        fit(trainer, other, loader(), ckpt_path=checkpoint)
    assert kinds(account) == before


def test_a_second_fit_is_another_run(account: Account) -> None:
    module, rows = module_of(), loader()
    strategy = PrivateStrategy(run_of(module, steps=PASS), account=account)
    fit(trainer_of(strategy, max_epochs=1), module, rows)
    before = kinds(account)
    with pytest.raises(InvalidParameter, match="trained once"):
        fit(trainer_of(strategy, max_epochs=1), module, rows)
    assert kinds(account) == before
