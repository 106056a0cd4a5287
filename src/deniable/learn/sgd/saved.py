"""Runs that are saved on the way, and go on after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.accounting.charges import Charge
from deniable.errors import InvalidParameter, LedgerError
from deniable.learn.sgd import progress
from deniable.learn.sgd.checkpoint import Checkpoint, vacant
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.steps import Ask, Training
from deniable.learn.sgd.trainer import Trained, Trainer
from deniable.ledger import Account, Entry, Kind, Session, Status
from deniable.ledger.account import Paid
from deniable.ledger.chain import Head
from deniable.mechanism import Random, Release
from deniable.mechanisms import checks
from deniable.randomness import SecureRandom


def train(
    run: DPSGD,
    data: Any,
    *,
    account: Account,
    checkpoint: str | Path | None = None,
    every: int = 50,
    rng: Random | None = None,
    description: str = "DPSGD",
) -> Release[Trained]:
    """Run `run` on `data`, charged to `account` at the run's own δ, and saved to the folder `checkpoint` every so many steps.

    What the container shows (shapes, types) is checked before the charge. After a kill, `resume` goes on.
    """
    run.check(data)
    checks.whole("every", every, at_least=1)
    if checkpoint is not None:
        vacant(checkpoint)
    saved = _Saved(None, every)
    training = Training(run, saved.start, begin=saved.begin)
    session = account.open(training, data, rng=rng, delta=run.delta, description=description)
    if checkpoint is not None:
        saved.checkpoint = Checkpoint.create(checkpoint, entry=session.entry, loss=run.loss.to_json())
    return saved.drive(session, run, private=rng is None or rng.private)


def resume(run: DPSGD, data: Any, *, account: Account, checkpoint: str | Path, every: int = 50) -> Release[Trained]:
    """Go on with a run that was broken off, under the charge that paid for it. `run` must be the same run.

    The steps that were begun are spent, those after the last save among them: the run goes on from the saved model at the next
    number, with fresh randomness, and takes that many steps fewer.
    """
    run.check(data)
    checks.whole("every", every, at_least=1)
    opened = Checkpoint.open(checkpoint)
    saved = _Saved(opened, every)
    try:
        _check_whole(opened)
        paid = _paid(account, run, opened.header)
        training = Training(run, saved.start, begin=saved.begin)
        conversation = account.attempt(paid, lambda: training.open(data, rng=SecureRandom()))
        return saved.drive(Session(account, paid, conversation), run, private=paid.private)
    finally:
        saved.close()


def _check_whole(opened: Checkpoint) -> None:
    state = opened.load()
    if state is not None and state["step"] > opened.begun:
        raise LedgerError(
            "The file of steps lacks steps that the saved model has taken: it was cut or put back. This run is not resumed: "
            "start a new one. Nothing was run."
        )


class _Saved:
    """Drives a session to its end, and keeps what a kill must not lose."""

    def __init__(self, checkpoint: Checkpoint | None, every: int) -> None:
        self.checkpoint, self._every = checkpoint, every
        self._trainer: Trainer | None = None

    def start(self, run: DPSGD, rng: Random) -> Trainer:
        self._trainer = trainer = Trainer.fresh(run, rng)
        if self.checkpoint is not None:
            state = self.checkpoint.load()
            if state is not None:
                trainer.restore(state)
            trainer.taken = self.checkpoint.begun
        return trainer

    def begin(self, step: int) -> None:
        if self.checkpoint is not None:
            self.checkpoint.begin(step)

    def drive(self, session: Session[Any], run: DPSGD, *, private: bool) -> Release[Trained]:
        trainer = self._trainer
        if trainer is None:
            raise LedgerError("This session has no trainer. Nothing was run.")
        try:
            with progress.bar(run) as watch:
                while trainer.taken < run.plan.steps:
                    session.ask(Ask.LOT)
                    session.ask(Ask.STEP)
                    watch(trainer)
                    self._save(trainer, last=trainer.taken == run.plan.steps)
        finally:
            self.close()
        session.close()
        return Release(trainer.result(), run.loss, run.unit, None, session.entry, private)

    def _save(self, trainer: Trainer, *, last: bool) -> None:
        if self.checkpoint is not None and (last or trainer.taken % self._every == 0):
            self.checkpoint.save(trainer.state())

    def close(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.close()


def _paid(account: Account, run: DPSGD, header: Mapping[str, Any]) -> Paid:
    """The charge that the folder names, if it is this run's, stands in this account, and its session was not closed."""
    history = account.history()
    head = Head.parse(header["entry"])
    entry = next((e for e in history if (e.seq, e.mac) == (head.count, head.mac)), None)
    if entry is None or entry.kind is not Kind.OPEN or entry.account != account.name:
        raise LedgerError(f'No charge of the account "{account.name}" paid for this run. Nothing was run.')
    if entry.loss_json != run.loss.to_json() or header["loss"] != entry.loss_json:
        raise InvalidParameter(
            "Expected the run that was broken off: this one has another loss than what was paid for. Nothing was run."
        )
    if any(e.kind is Kind.SETTLE and e.details.get("session") == entry.seq for e in history):
        raise LedgerError(f"The session of entry {entry.seq} is closed: this run is over. Nothing was run.")
    if account.status is not Status.OPEN:
        raise LedgerError(f'The account "{account.name}" is {account.status}. Nothing was run.')
    return _rebuilt(entry, run)


def _rebuilt(entry: Entry, run: DPSGD) -> Paid:
    details = entry.details
    charges = {name: Charge.from_dict(charge) for name, charge in details["charges"].items()}
    delta = Fraction(details["delta"]) if "delta" in details else None
    return Paid(entry, run.loss, run.unit, bool(details["private"]), charges, delta)
