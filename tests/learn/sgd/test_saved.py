"""After a kill a run goes on where its money ends: no step is taken twice, no charge is made twice, no key is saved."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from deniable.errors import AccountFrozen, InvalidParameter, LedgerError
from deniable.learn.sgd import resume, train
from deniable.learn.sgd.checkpoint import Checkpoint
from deniable.ledger import Account, Filter, Kind, Ledger
from deniable.loss import Loss
from deniable.randomness import SecureRandom
from tests.learn.sgd import runs
from tests.learn.sgd.runs import problem, small
from tests.learn.sgd.workers import long_run, train_until_killed

X, Y = problem()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "ledger.key"))
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def account(url: str) -> Iterator[Account]:
    with Ledger.open(url) as ledger:
        yield runs.account(ledger, rule=Filter.renyi)


def broken_off(account: Account, folder: Path, at: int, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """A run whose process is interrupted in the middle of step `at`, after its number was written."""
    from deniable.learn.sgd.trainer import Trainer

    honest = Trainer.clipped

    def clipped(self: Trainer, lot: Any) -> Any:
        if self.taken == at:
            signal.raise_signal(signal.SIGINT)  # by the person: what a row could raise would freeze the account
        return honest(self, lot)

    monkeypatch.setattr(Trainer, "clipped", clipped)
    with pytest.raises(KeyboardInterrupt):
        train(small(steps=20, **given), (X, Y), account=account, checkpoint=folder, every=4)
    monkeypatch.setattr(Trainer, "clipped", honest)


def test_a_killed_run_goes_on_at_the_next_number(url: str, account: Account, tmp_path: Path) -> None:
    """A real process and a real kill -9, then a new process's worth of randomness."""
    folder = tmp_path / "run"
    victim = multiprocessing.Process(target=train_until_killed, args=(url, str(folder)))
    victim.start()
    steps = folder / "steps"
    patience = time.monotonic() + 1800
    while not (steps.exists() and steps.stat().st_size >= 8 * 30) and victim.is_alive() and time.monotonic() < patience:
        time.sleep(0.005)
    os.kill(victim.pid or 0, signal.SIGKILL)
    victim.join(600)
    assert victim.exitcode == -signal.SIGKILL

    begun = -(-steps.stat().st_size // 8)
    saved = torch.load(folder / "state.pt", weights_only=True)["step"]
    assert 30 <= begun < 400
    assert begun - 7 <= saved <= begun
    spent = account.spent()
    release = resume(long_run(), (X, Y), account=account, checkpoint=folder)
    assert account.spent() == spent  # charged once, in full
    assert release.value.steps == 400
    assert len(release.value.history.learning_rate) == saved + 400 - begun  # lost steps are spent, not taken again
    assert steps.stat().st_size == 8 * 400
    assert [entry.kind for entry in account.history()] == [Kind.CREATE, Kind.OPEN, Kind.SETTLE]
    with pytest.raises(LedgerError, match="is closed: this run is over"):
        resume(long_run(), (X, Y), account=account, checkpoint=folder)


def test_a_run_resumed_starts_from_the_saved_model(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=15, monkeypatch=monkeypatch, average=0.9)
    kept = Checkpoint.open(tmp_path / "run")
    state = kept.load()
    assert state is not None
    assert (kept.begun, state["step"]) == (15, 12)
    assert Loss.from_json(state["loss"]) == small(steps=20).loss_of(12)
    kept.close()
    release = resume(small(steps=20, average=0.9), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert release.value.history.gradient_norm[:12] == state["history"]["gradient_norm"]
    assert len(release.value.history.gradient_norm) == 12 + 5
    assert release.value.steps == 20


def test_a_run_broken_off_before_its_first_save_begins_anew_with_fewer_steps(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=3, monkeypatch=monkeypatch)
    release = resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert len(release.value.history.gradient_norm) == 17


def test_resumed_steps_draw_fresh_randomness(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of one moment go two ways: nothing of the generator is in the folder."""
    broken_off(account, tmp_path / "run", at=15, monkeypatch=monkeypatch)
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert set(state) == {"model", "optimizer", "step", "loss", "bounds", "average", "history"}
    found = []
    for _ in range(2):
        from deniable.learn.sgd.trainer import Trainer

        trainer = Trainer.fresh(small(steps=20), SecureRandom())
        trainer.restore(torch.load(tmp_path / "run" / "state.pt", weights_only=True))
        found.append(trainer.step([])["weight"])
    assert not torch.equal(*found)


def test_a_copied_folder_is_refused(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older copy would let steps be taken twice."""
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with pytest.raises(LedgerError, match="is a copy or was put back"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "copy")


def test_two_processes_never_hold_one_folder(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    held = Checkpoint.open(tmp_path / "run")
    with pytest.raises(LedgerError, match="Another process is training"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")
    held.close()


def test_another_run_or_account_is_refused(
    url: str, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    for other in (small(steps=21), small(steps=20, noise_multiplier=0.5)):
        with pytest.raises(InvalidParameter, match="another loss than what was paid for"):
            resume(other, (X, Y), account=account, checkpoint=tmp_path / "run")
    with Ledger.open("sqlite://") as elsewhere, pytest.raises(LedgerError, match="No charge of the account"):
        resume(small(steps=20), (X, Y), account=runs.account(elsewhere), checkpoint=tmp_path / "run")
    account.freeze()
    with pytest.raises(LedgerError, match="is frozen"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")


def test_half_a_number_counts_as_a_step(tmp_path: Path) -> None:
    kept = Checkpoint.create(tmp_path / "run", entry="1:" + "0" * 64, loss="{}")
    kept.begin(1)
    kept.begin(2)
    with pytest.raises(LedgerError, match="Step 2 was begun before"):
        kept.begin(2)
    with (tmp_path / "run" / "steps").open("ab") as file:
        file.write(b"\0\0\0")
    assert kept.begun == 3
    kept.close()


def test_the_number_is_on_the_disk_before_the_gradient(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment a step's gradient is computed, its number has been synchronised."""
    from deniable.learn.sgd.trainer import Trainer

    events: list[str] = []
    sync, clipped = os.fsync, Trainer.clipped

    def noted_sync(file: int) -> None:
        sync(file)
        events.append("sync")

    def noted(self: Trainer, lot: Any) -> Any:
        assert (tmp_path / "run" / "steps").stat().st_size == 8 * self.taken
        events.append("gradient")
        return clipped(self, lot)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Trainer, "clipped", noted)
    train(small(steps=4), (X, Y), account=account, checkpoint=tmp_path / "run")
    first = events.index("gradient")
    assert events[first - 1 : first + 7] == ["sync", "gradient"] * 4


def test_a_folder_that_holds_a_run_is_not_written_over(account: Account, tmp_path: Path) -> None:
    train(small(steps=2), (X, Y), account=account, checkpoint=tmp_path / "run")
    with pytest.raises(InvalidParameter, match=r"holds a run\. Resume it"):
        train(small(steps=2), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert [entry.kind for entry in account.history()] == [Kind.CREATE, Kind.OPEN, Kind.SETTLE]
    with pytest.raises(InvalidParameter, match="Expected the folder of a run"):
        resume(small(steps=2), (X, Y), account=account, checkpoint=tmp_path)


def test_training_without_a_folder_is_the_same_run(account: Account) -> None:
    release = train(small(steps=3), (X, Y), account=account)
    assert release.loss == small(steps=3).loss
    assert release.value.steps == 3
    assert release.private


def test_a_failing_disk_releases_nothing(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Checkpoint, step: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Checkpoint, "begin", full)
    with pytest.raises(AccountFrozen):
        train(small(steps=3), (X, Y), account=account, checkpoint=tmp_path / "run")


def test_a_file_of_steps_that_was_cut_is_refused(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place, so that it is the same file: the saved model has taken more steps than it knows of."""
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    with (tmp_path / "run" / "steps").open("r+b") as file:
        file.truncate(8)
    with pytest.raises(LedgerError, match="was cut or put back"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")
