"""After a kill a run goes on where its money ends: no step is taken twice, no charge is
made twice, no key is saved."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deniable.errors import BudgetExceeded, DeniableError, InvalidParameter, LedgerError, UnitMismatch
from deniable.guarantee import Budget
from deniable.learn.convex.descent import Descent, GradientPerturbation
from deniable.learn.convex.losses import Logistic
from deniable.learn.sgd import DPSGD, FixedLots, Users, make_private, resume, train
from deniable.learn.sgd.training.checkpoint import Checkpoint
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, EntryKind, Filter, Ledger
from deniable.ledger.journal.chain import Head
from deniable.loss import Loss
from deniable.randomness import SecureRandom
from deniable.units import Unit
from tests.learn.sgd import runs
from tests.learn.sgd.runs import problem, small, tried_once
from tests.learn.sgd.workers import long_run, resumed_steps, train_until_killed

X, Y = problem()


@pytest.fixture(autouse=True)
def quick_checks() -> Iterator[None]:
    with tried_once():
        yield


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "ledger.key"))
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def account(url: str) -> Iterator[Account]:
    with Ledger.open(url) as ledger:
        yield runs.account(ledger, rule=Filter.renyi)


def broken_off(
    account: Account, folder: Path, at: int, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> None:
    """A run whose process is interrupted in the middle of step `at`, after it was noted."""
    with stopped_in_step(at, monkeypatch):
        train(small(steps=20, **given), (X, Y), account=account, checkpoint=folder, every=4)


@contextmanager
def stopped_in_step(at: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    honest = Trainer.clip_lot

    def clipped(self: Trainer, lot: Any) -> Any:
        if self.taken == at:
            signal.raise_signal(signal.SIGINT)
        return honest(self, lot)

    monkeypatch.setattr(Trainer, "clip_lot", clipped)
    with pytest.raises(KeyboardInterrupt):
        yield
    monkeypatch.setattr(Trainer, "clip_lot", honest)


def noisy_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of all steps that add noise from now on, in whatever run."""
    taken, honest = list[int](), Trainer.release

    def release(self: Trainer, sums: Any) -> Any:
        taken.append(self.taken)
        return honest(self, sums)

    monkeypatch.setattr(Trainer, "release", release)
    return taken


def test_a_killed_run_goes_on_after_the_ledgers_number(url: str, account: Account, tmp_path: Path) -> None:
    """A real process and a real kill -9, then a new process's worth of randomness."""
    folder, entry = tmp_path / "run", ""
    victim = multiprocessing.get_context("spawn").Process(target=train_until_killed, args=(url, str(folder)))
    victim.start()
    while victim.is_alive():
        opened = [one for one in account.history() if one.kind is EntryKind.OPEN]
        entry = str(Head(opened[0].seq, opened[0].mac)) if opened else ""
        if entry and account.begun(entry) >= 12 and (folder / "state.pt").exists():
            break
        time.sleep(0.05)
    os.kill(victim.pid or 0, signal.SIGKILL)
    victim.join(600)
    assert victim.exitcode == -signal.SIGKILL

    begun, saved = account.begun(entry), torch.load(folder / "state.pt", weights_only=True)["step"]
    assert 12 <= begun < 24
    assert begun - 5 <= saved <= begun
    spent = account.spent()
    release = resume(long_run(), (X, Y), account=account, checkpoint=folder, every=5)
    assert account.spent() == spent  # charged once, in full
    assert release.value.steps == 24
    assert (
        len(release.value.history.learning_rate) == saved + 24 - begun
    )  # lost steps are spent, not taken again
    kinds = [one.kind for one in account.history() if one.kind is not EntryKind.BEGIN]
    assert kinds == [EntryKind.CREATE, EntryKind.OPEN, EntryKind.SETTLE]


def test_a_run_resumed_starts_from_the_saved_model(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=15, monkeypatch=monkeypatch, average=0.9)
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert state["step"] == 12
    assert Loss.from_json(state["loss"]) == small(steps=20).loss_of(12)
    release = resume(small(steps=20, average=0.9), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert release.value.history.gradient_norm[:12] == state["history"]["gradient_norm"]
    assert len(release.value.history.gradient_norm) == 12 + 4  # steps 13 to 16 were noted: lost
    assert release.value.steps == 20


def test_a_run_broken_off_before_its_first_save_begins_anew_with_fewer_steps(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=3, monkeypatch=monkeypatch)
    release = resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert len(release.value.history.gradient_norm) == 16


def test_resumed_steps_draw_fresh_randomness(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of one moment go two ways: nothing of the generator is in the folder."""
    broken_off(account, tmp_path / "run", at=15, monkeypatch=monkeypatch)
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert set(state) == {"model", "optimizer", "step", "loss", "bounds", "average", "history"}
    found = []
    for _ in range(2):
        trainer = Trainer.with_copy(small(steps=20), SecureRandom())
        trainer.restore(torch.load(tmp_path / "run" / "state.pt", weights_only=True))
        found.append(trainer.step([])["weight"])
    assert not torch.equal(*found)


@pytest.mark.parametrize("what", ["the folder", "the state", "a copy"])
def test_an_older_folder_put_back_takes_no_step_twice(
    what: str, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed, killed, put back, resumed, … as often as one likes: never more noisy
    steps than were paid for."""
    taken, folder = noisy_steps(monkeypatch), tmp_path / "run"
    broken_off(account, folder, at=5, monkeypatch=monkeypatch)
    shutil.copytree(folder, tmp_path / "older")
    honest = Trainer.clip_lot
    for turn in range(6):
        if what == "the folder":
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "older", folder)
        elif what == "the state":
            shutil.copyfile(tmp_path / "older" / "state.pt", folder / "state.pt")
        else:
            folder = Path(shutil.copytree(tmp_path / "older", tmp_path / f"copy{turn}"))
        enough = len(taken) + 2

        def clipped(self: Trainer, lot: Any, enough: int = enough) -> Any:
            if len(taken) >= enough:
                signal.raise_signal(signal.SIGINT)
            return honest(self, lot)

        monkeypatch.setattr(Trainer, "clip_lot", clipped)
        with suppress(KeyboardInterrupt, LedgerError):
            resume(small(steps=20), (X, Y), account=account, checkpoint=folder, every=3)
    assert len(taken) == len(set(taken)), "a step was taken twice"
    assert len(taken) <= 20
    assert max(taken) <= 20


def test_two_processes_never_hold_one_folder(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    held = Checkpoint.open(tmp_path / "run")
    with pytest.raises(LedgerError, match="Another process is training"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")
    held.close()


def test_two_processes_in_two_copies_take_no_step_twice(
    url: str, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process goes on with one copy and another process with the other, both from the same moment on."""
    broken_off(account, tmp_path / "a", at=5, monkeypatch=monkeypatch)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Event(), context.Queue()
    other = context.Process(target=resumed_steps, args=(url, str(tmp_path / "b"), ready, answers))
    other.start()
    taken = noisy_steps(monkeypatch)
    assert ready.wait(1800)
    with suppress(DeniableError):  # the other one was faster
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "a", every=1)
    taken += answers.get(timeout=1800)
    other.join(600)
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(range(9, 21))


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


def test_a_charge_for_people_does_not_pay_for_lots_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss alone does not tell: people drawn at 1/5 cost what rows drawn at 1/5 do."""
    person = Unit.column("person", max_rows=2)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("people", person, limit=Budget(100, 1e-3))
        people = Users((X, Y), [i % 150 for i in range(len(X))])
        with stopped_in_step(5, monkeypatch):
            run = small(steps=20, n=150, lot=30, unit=person)
            train(run, people, account=account, checkpoint=tmp_path / "run", every=4)
        assert small(steps=20).loss == run.loss
        with pytest.raises(UnitMismatch, match="stated for one row"):
            resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")


def fixed(epochs: int, noise: float) -> DPSGD:
    sizes = dict.fromkeys(("n", "lot", "steps"))
    return small(**sizes, lots=FixedLots(n=300, lot=30, epochs=epochs, bands=1), noise_multiplier=noise)


OTHER_STEPS = [
    (small(steps=20, noise_schedule=(1, 1, 4, 4)), small(steps=20, noise_schedule=(1, 4, 4, 1))),
    (fixed(1, 1.0), fixed(4, 2.0)),
]


@pytest.mark.parametrize(("first", "other"), OTHER_STEPS)
def test_a_loss_that_was_paid_for_is_not_spread_over_other_steps(
    first: DPSGD, other: DPSGD, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the run is spent; what the other one would take beside it was never paid for."""
    with stopped_in_step(first.length // 2, monkeypatch):
        train(first, (X, Y), account=account, checkpoint=tmp_path / "run", every=5)
    assert first.loss == other.loss
    with pytest.raises(InvalidParameter, match="over other steps"):
        resume(other, (X, Y), account=account, checkpoint=tmp_path / "run")


def test_a_grid_goes_with_the_bound_of_its_own_run(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grids of clips a power of two apart have one loss; with the saved bound a row would add four times."""
    with stopped_in_step(5, monkeypatch):
        run = small(steps=20, grid=True, clip=1.0)
        train(run, (X, Y), account=account, checkpoint=tmp_path / "run", every=4)
    other = small(steps=20, grid=True, clip=0.25)
    assert other.loss == run.loss
    release = resume(other, (X, Y), account=account, checkpoint=tmp_path / "run")
    assert [clip["all"] for clip in release.value.history.clip[4:]] == [0.25] * 12


def test_steps_are_noted_before_their_gradient(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment a step's gradient is computed, a new connection to the ledger knows of it."""
    clipped = Trainer.clip_lot
    seen = []

    def noted(self: Trainer, lot: Any) -> Any:
        notes = [one.details["stop"] for one in account.history() if one.kind is EntryKind.BEGIN]
        seen.append((self.taken, max(notes)))
        return clipped(self, lot)

    monkeypatch.setattr(Trainer, "clip_lot", noted)
    train(small(steps=5), (X, Y), account=account, checkpoint=tmp_path / "run", every=2)
    assert seen == [(1, 2), (2, 2), (3, 4), (4, 4), (5, 5)]


def test_a_run_killed_when_all_was_done_gives_its_model(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it was settled, or after: neither model nor money is lost."""
    honest, folder = account.settle, tmp_path / "run"

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(account, "settle", killed)
    with pytest.raises(KeyboardInterrupt):
        train(small(steps=4), (X, Y), account=account, checkpoint=folder, every=3)
    monkeypatch.setattr(account, "settle", honest)
    models = [
        resume(small(steps=4), (X, Y), account=account, checkpoint=folder).value.model for _ in range(2)
    ]
    saved = torch.load(folder / "state.pt", weights_only=True)["model"]
    assert all(
        torch.equal(dict(model.named_parameters())[name], saved[name]) for model in models for name in saved
    )
    assert [one.kind for one in account.history()].count(EntryKind.SETTLE) == 1


def test_a_charge_that_the_folder_does_not_know_of_yet_is_found(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the charge and the first step."""

    def killed(*given: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(DPSGD, "walk", killed)
    with pytest.raises(KeyboardInterrupt):
        train(small(steps=4), (X, Y), account=account, checkpoint=tmp_path / "run")
    monkeypatch.undo()
    spent = account.spent()
    assert resume(small(steps=4), (X, Y), account=account, checkpoint=tmp_path / "run").value.steps == 4
    assert account.spent() == spent


def test_a_refused_charge_leaves_no_folder_behind(account: Account, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        train(small(steps=2, noise_multiplier=0.05), (X, Y), account=account, checkpoint=tmp_path / "run")
    train(small(steps=2), (X, Y), account=account, checkpoint=tmp_path / "run")


def test_an_older_ledger_is_noticed(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(account, tmp_path / "run", at=5, monkeypatch=monkeypatch)
    monkeypatch.setattr(account, "begun", lambda entry: 2)
    with pytest.raises(LedgerError, match="an older copy of the ledger"):
        resume(small(steps=20), (X, Y), account=account, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("door", ["train", "loop"])
def test_what_is_not_saved_is_not_resumed(
    door: str, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed without a folder, its charge stands and all its steps are begun: a folder
    made up for it gets none."""
    run, honest = small(steps=4), Trainer.clip_lot

    def loop() -> None:
        optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
        private = make_private(run, optimizer, (X, Y), account=account)
        next(private.lots())
        private.step()

    def plain() -> None:
        train(run, (X, Y), account=account, description=f"DPSGD, run {'0' * 32}")

    monkeypatch.setattr(Trainer, "clip_lot", lambda self, lot: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        (plain if door == "train" else loop)()
    monkeypatch.setattr(Trainer, "clip_lot", honest)
    (tmp_path / "run").mkdir()
    header = {"name": "0" * 32, "loss": run.loss.to_json()}
    (tmp_path / "run" / "run.json").write_text(json.dumps(header), encoding="utf-8")
    taken = noisy_steps(monkeypatch)
    with pytest.raises(LedgerError, match=r"this run is over|No charge of the account"):
        resume(small(steps=4), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert not taken


def test_a_folder_that_holds_a_run_is_not_written_over(account: Account, tmp_path: Path) -> None:
    train(small(steps=2), (X, Y), account=account, checkpoint=tmp_path / "run")
    with pytest.raises(InvalidParameter, match=r"holds a run\. Resume it"):
        train(small(steps=2), (X, Y), account=account, checkpoint=tmp_path / "run")
    assert [entry.kind for entry in account.history()] == [
        EntryKind.CREATE,
        EntryKind.OPEN,
        EntryKind.BEGIN,
        EntryKind.SETTLE,
    ]
    with pytest.raises(InvalidParameter, match="Expected the folder of a run"):
        resume(small(steps=2), (X, Y), account=account, checkpoint=tmp_path)


def test_training_without_a_folder_is_the_same_run(account: Account) -> None:
    release = train(small(steps=3), (X, Y), account=account)
    assert release.loss == small(steps=3).loss
    assert release.value.steps == 3
    assert release.private


def test_a_failing_disk_releases_nothing(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Checkpoint, state: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Checkpoint, "save", full)
    with pytest.raises(OSError, match="No space left"):
        train(small(steps=3), (X, Y), account=account, checkpoint=tmp_path / "run", every=1)
    monkeypatch.undo()
    assert resume(small(steps=3), (X, Y), account=account, checkpoint=tmp_path / "run").value.steps == 3


def test_a_descent_in_whole_numbers_goes_on_too(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 3))
    data = (rows, np.sign(rows[:, :1] + 0.1))
    run = GradientPerturbation(Logistic(), 3, 200, 0.0, 1.0, 1e-6, descent=Descent(steps=20))
    honest, taken = GradientPerturbation.noisy, list[int]()

    def noisy(self: Any, sums: Any, rng: Any) -> Any:
        if len(taken) == 13:
            signal.raise_signal(signal.SIGINT)
        taken.append(1)
        return honest(self, sums, rng)

    monkeypatch.setattr(GradientPerturbation, "noisy", noisy)
    with pytest.raises(KeyboardInterrupt):
        train(run, data, account=account, checkpoint=tmp_path / "run", every=4)
    assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["step"] == 12
    taken.clear()
    release = resume(run, data, account=account, checkpoint=tmp_path / "run")
    assert len(taken) == 4
    assert np.isfinite(release.value).all()
    assert release.value[0, 0] > 0
