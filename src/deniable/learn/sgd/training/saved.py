"""Runs that are saved on the way, and go on after a kill.

Before steps s + 1 … s + k are begun, the ledger notes it. A run that is resumed goes on
after the ledger's number, whatever its folder says: no step is taken twice, never more
steps than were paid for. At most the k steps of one note are lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar

from deniable import checks
from deniable.accounting.filters.charges import Charge
from deniable.errors import InvalidParameter, LedgerError, UnitMismatch
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.training import progress
from deniable.learn.sgd.training.checkpoint import Checkpoint, names_terms
from deniable.learn.sgd.training.trainer import Trainer
from deniable.learn.sgd.training.walk import NextStep, Stepwise, Walk, Walking
from deniable.ledger import Account, Entry, EntryKind, Session, Status
from deniable.ledger.account import OPENERS, Paid
from deniable.loss import Loss
from deniable.mechanism import Random, Release
from deniable.randomness import SecureRandom
from deniable.units import Unit

LOG = logging.getLogger(__name__)
Value = TypeVar("Value")


class Priced(Protocol):
    """What a charge was made for."""

    @property
    def loss(self) -> Loss: ...

    @property
    def unit(self) -> Unit: ...


class Named(Protocol):
    """What is kept of a run beside its weights: a name, which is in the entry that paid for it, and its
    loss."""

    @property
    def name(self) -> str: ...

    @property
    def loss(self) -> str: ...


def train(
    run: Stepwise[Value],
    data: Any,
    *,
    account: Account,
    checkpoint: str | Path | None = None,
    every: int = 50,
    rng: Random | None = None,
    description: str = "DPSGD",
) -> Release[Value]:
    """Run `run` on `data`, charged to `account` at the run's own δ, and saved to the
    folder `checkpoint` every so many steps.

    `run` is a `DPSGD` or another run of steps; `data` may be a function that opens it. What is declared of
    the rows is checked before the charge. After a kill, `resume` goes on.
    """
    run.fits(None if isinstance(data, OPENERS) else data)
    block = checks.whole("every", every, at_least=1)
    if checkpoint is None:
        session, walk = _open_walk(Walking(run), data, account, rng, description)
        account.begin(session.entry, 0, run.length)
        return _driven(run, session, walk, rng is None or rng.private)
    folder = Checkpoint.create(checkpoint, loss=run.loss.to_json(), terms=terms_of(run))
    try:
        words = f"{description}, run {folder.name}"
        session, walk = run_or_discard(
            folder, lambda: _open_walk(Walking(run), data, account, rng, words), account
        )
        return _driven(run, session, walk, rng is None or rng.private, _Notes(account, folder, block))
    finally:
        folder.close()


def resume(
    run: Stepwise[Value], data: Any, *, account: Account, checkpoint: str | Path, every: int = 50
) -> Release[Value]:
    """Go on with a run that was broken off, under the charge that paid for it. `run` must be the same run.

    The steps that the ledger has noted are spent, those after the last save among them: the run goes on from
    the saved model at the next number, with fresh randomness, and takes that many steps fewer. A run whose
    steps are all spent gives what was saved.
    """
    run.fits(None if isinstance(data, OPENERS) else data)
    block = checks.whole("every", every, at_least=1)
    folder = Checkpoint.open(checkpoint)
    try:
        charge, over = find_charge(account, run, folder)
        state, begun = folder.load(), run.length if over else account.begun(charge.entry_id)
        check_state(state, begun, run.length)
        walking = Walking(run, begun, state)
        if over:
            result = walking.start(SecureRandom()).result()
            return Release(result, run.loss, run.unit, None, charge.entry_id, charge.private)
        walk = account.attempt(charge, lambda: walking.open(_data(data), rng=SecureRandom()))
        session: Session[Any] = Session(account, charge, walk)
        return _driven(run, session, walking.walks[0], charge.private, _Notes(account, folder, block))
    finally:
        folder.close()


def _open_walk(
    walking: Walking[Value], data: Any, account: Account, rng: Random | None, words: str
) -> tuple[Session[Any], Walk[Value]]:
    session = account.open(walking, data, rng=rng, delta=walking.run.delta, description=words)
    return session, walking.walks[0]


def run_or_discard(folder: Checkpoint, act: Callable[[], Value], account: Account) -> Value:
    """What `act` gives; a run that was refused before its charge leaves no folder behind."""
    try:
        return act()
    except BaseException:  # raised again: it tells only whether a charge was written
        if _entry(account, folder.name) is None:
            folder.discard()
        raise


class _Notes:
    """Tells the ledger which steps are begun before they are, and saves the run after the last of them."""

    def __init__(self, account: Account, folder: Checkpoint, every: int) -> None:
        self._account, self._folder, self._interval, self._noted_steps = account, folder, every, -1

    def note_begin(self, entry: str, step: int, length: int) -> None:
        """Note steps before step `step` + 1."""
        if step >= self._noted_steps:
            stop = min(length, step + self._interval)
            self._account.begin(entry, step, stop)
            self._noted_steps = stop

    def note_end(self, walk: Walk[Any]) -> None:
        if walk.taken == self._noted_steps:
            self._folder.save(walk.state())


def _driven(
    run: Stepwise[Value], session: Session[Any], walk: Walk[Value], private: bool, notes: _Notes | None = None
) -> Release[Value]:
    """Take the steps that are left, then settle."""
    with _bar(run) as watch:
        while walk.taken < run.length:
            trainer: Any = walk
            if isinstance(trainer, Trainer) and (reason := trainer.reason_to_stop()) is not None:
                LOG.warning("The run was stopped after step %d: %s", walk.taken, reason)
                break
            if notes is not None:
                notes.note_begin(session.entry, walk.taken, run.length)
            session.ask(NextStep())
            watch(walk)
            if notes is not None:
                notes.note_end(walk)
    session.close()
    return Release(
        walk.result(), run.loss, run.unit, None, session.entry, private, None, list_assumptions(run)
    )


def list_assumptions(run: Stepwise[Any]) -> tuple[str, ...]:
    """Sentences for a certificate."""
    return run.assumptions if isinstance(run, DPSGD) else ()


@contextmanager
def _bar(run: Stepwise[Any]) -> Iterator[Callable[[Any], None]]:
    if isinstance(run, DPSGD):
        with progress.bar(run) as watch:
            yield watch
    else:
        yield lambda walk: None


def _data(data: Any) -> Any:
    return data() if isinstance(data, OPENERS) else data


def check_state(state: dict[str, Any] | None, steps: int, length: int) -> None:
    if state is None and steps >= length:
        raise LedgerError(
            "Every step of this run was begun and none was saved: this run is over. Nothing was run."
        )
    if state is not None and int(state["step"]) > steps:
        raise LedgerError(
            "The saved model has taken steps that the ledger does not know of: this is an older copy of the "
            "ledger. This run is not resumed. Nothing was run."
        )


def _entry(account: Account, name: str) -> Entry | None:
    """The charge of the run of this name."""
    charges = (
        entry for entry in account.history() if entry.kind is EntryKind.OPEN and entry.account == account.name
    )
    return next((entry for entry in charges if entry.description.endswith(f", run {name}")), None)


def find_charge(account: Account, run: Priced, folder: Named) -> tuple[Paid, bool]:
    """The charge that paid for the run of this folder, if it stands in this account; and
    whether its session was closed."""
    entry = _entry(account, folder.name)
    if entry is None:
        raise LedgerError(
            f'No charge of the account "{account.name}" paid for this run: it was broken off before, or '
            "belongs to another one. Nothing was run. If nothing was charged, name an empty folder and begin "
            "anew."
        )
    _refuse_another(account, run, folder, entry)
    if account.status is not Status.OPEN:
        raise LedgerError(f'The account "{account.name}" is {account.status}. Nothing was run.')
    over = any(
        e.kind is EntryKind.SETTLE and e.details.get("session") == entry.seq for e in account.history()
    )
    return _rebuilt(entry, run), over


def _refuse_another(account: Account, run: Priced, folder: Named, entry: Entry) -> None:
    """Raise unless what goes on is what was paid for: its loss, the unit that the loss is stated for, and the
    terms of its steps, by which two runs of one loss may differ."""
    if run.unit != account.unit:
        raise UnitMismatch(
            f'The account "{account.name}" protects {account.unit}; this run is stated for {run.unit}. '
            "Nothing was run. Go on with the run that was broken off."
        )
    if entry.loss_json != run.loss.to_json() or folder.loss != entry.loss_json:
        raise InvalidParameter(
            "Expected the run that was broken off: this one has another loss than what was paid for. Nothing "
            "was run."
        )
    if not names_terms(folder.name, terms_of(run)):
        raise InvalidParameter(
            "Expected the run that was broken off: this one spreads the loss that was paid for over other "
            "steps (their number, noise_schedule, bands). Nothing was run."
        )


def terms_of(run: Priced) -> str:
    """What the loss of a run does not say of its steps; nothing for runs whose steps are all alike."""
    return str(getattr(run, "terms", ""))


def _rebuilt(entry: Entry, run: Priced) -> Paid:
    details = entry.details
    charges = {name: Charge.from_dict(charge) for name, charge in details["charges"].items()}
    delta = Fraction(details["delta"]) if "delta" in details else None
    return Paid(entry, run.loss, run.unit, bool(details["private"]), charges, delta)
