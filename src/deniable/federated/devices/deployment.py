"""A federated run with real devices, one round at a time: charged whole at the start,
every round noted before it begins."""

from __future__ import annotations

import copy
import math
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import nn

from deniable.errors import InvalidParameter, InvalidQuery, LedgerError
from deniable.federated.devices.coordinator import Coordinator, Federation, Round
from deniable.federated.devices.device import check_terms
from deniable.federated.devices.received import AnyRun
from deniable.federated.devices.transport import Transport
from deniable.federated.noise.placement import Correlated, Shared
from deniable.federated.secure_sum import Agreement, Quorum
from deniable.federated.secure_sum.agreement import SESSION_BYTES
from deniable.learn.sgd.training.checkpoint import Checkpoint
from deniable.learn.sgd.training.saved import check_state, find_charge, run_or_discard, terms_of
from deniable.ledger import Account, Session
from deniable.mechanism import Release
from deniable.randomness import SecureRandom

WORDS = "federated run"


def agreed(
    run: AnyRun,
    roster: Mapping[int, bytes],
    *,
    threshold: int | None = None,
    neighbours: int | None = None,
) -> Agreement:
    """The terms of the secure sums of a run with noise=Shared(…), for devices with these public keys.

    They hold against the adversary that the run names, a lying server by default. `threshold`, the shares
    that open a secret, is by default the smallest that holds for the cohorts that are to be expected; numbers
    to which devices would not agree are refused, and others named. `neighbours` needs
    adversary=Adversary.CURIOUS in the run.
    """
    if not isinstance(run.noise, Shared):
        raise InvalidParameter("Expected a run with noise=Shared(…): others send no secure sums.")
    noise, mean = run.noise, run.drawing_rate * len(roster)
    if len(roster) < noise.least:
        raise InvalidParameter(
            f"Expected a roster of at least least={noise.least:,} devices, got {len(roster):,}: no sum would "
            "ever be opened. Nothing was sent."
        )
    if threshold is None:
        # A drawn cohort seldom passes its mean by three deviations; one beyond `most` is refused anyway.
        largest = min(len(roster), noise.most, mean + 3 * math.sqrt(mean * (1 - run.drawing_rate)))
        threshold = Quorum.of(math.floor(largest), noise.colluders).threshold
    length = run.sum_length
    session = secrets.token_bytes(SESSION_BYTES)
    agreement = Agreement(
        session,
        roster,
        length,
        threshold,
        noise.least,
        noise.bits,
        neighbours,
        noise.colluders,
        noise.adversary,
    )
    agreement.check_expected(math.ceil(mean))
    return agreement


class Deployment:
    """A run over a transport that an account pays for. Made by `deploy`, or by `resume` after a kill.

    Before a round begins its number is in the ledger, so no round is played twice under one charge, whatever
    happens to this process: a round whose number was written and that was never finished is lost.
    """

    def __init__(
        self, run: AnyRun, account: Account, coordinator: Coordinator, session: Session[Round] | None
    ) -> None:
        self.run = run
        self._account, self._coordinator, self._session = account, coordinator, session
        self.folder: Checkpoint | None = None
        self.entry = "" if session is None else session.entry
        """The ledger entry that paid for the run."""

    @property
    def taken(self) -> int:
        """Rounds that were begun."""
        if self._session is None:
            return self.run.rounds
        return self._account.begun(self.entry)

    @property
    def model(self) -> nn.Module:
        """The model as it was after the last round that was released."""
        return copy.deepcopy(self._coordinator.model)

    def step(self) -> Release[Round]:
        """Play the next round; with a checkpoint, save what it released."""
        begun = self.taken
        if self._session is None or begun >= self.run.rounds:
            raise InvalidQuery(f"All {self.run.rounds:,} rounds of this run are played. Open another one.")
        self._account.begin(self.entry, begun, begun + 1)
        release = self._session.ask(begun + 1)
        if self.folder is not None:
            self.folder.save(self._coordinator.state())
        return release

    def close(self) -> None:
        """Settle: rounds not begun are given back where the account's rule allows it.

        All that are left are noted as begun first. So nobody who has taken the run up elsewhere can begin one
        that was given back, and what others have begun stays charged.
        """
        if self._session is not None:
            self._coordinator.spend(end_rounds(self._account, self.entry, self.run.rounds))
            self._session.close()
        self.leave()

    def leave(self) -> None:
        """Let go of the checkpoint without settling: `resume` takes the run up, here or in another
        process."""
        if self.folder is not None:
            self.folder.close()
        self.folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle; a run with a checkpoint that was broken off is left as it is, so that it can be resumed."""
        if kind is not None and self.folder is not None:
            self.leave()
        else:
            self.close()


def deploy(
    run: AnyRun,
    transport: Transport,
    account: Account,
    *,
    agreement: Agreement | None = None,
    checkpoint: str | Path | None = None,
) -> Deployment:
    """Charge a run to an account and open it over a transport.

    With `checkpoint`, a folder, what each round released is saved there, and `resume` goes on after a kill.
    """
    _check_placement(run, agreement)
    if checkpoint is None:
        return _open_run(run, transport, account, agreement, WORDS)
    folder = Checkpoint.create(checkpoint, loss=run.loss.to_json(), terms=terms_of(run))
    try:
        words = f"{WORDS}, run {folder.name}"
        deployment = run_or_discard(
            folder, lambda: _open_run(run, transport, account, agreement, words), account
        )
    except BaseException:  # raised again: it only lets go of the lock, whoever steered it
        folder.close()
        raise
    deployment.folder = folder
    return deployment


def resume(
    run: AnyRun,
    transport: Transport,
    account: Account,
    *,
    checkpoint: str | Path,
    agreement: Agreement | None = None,
) -> Deployment:
    """Take up a run that was broken off, under the charge that paid for it. `run` and
    `agreement` must be the same.

    Rounds that the ledger has noted are spent, the one that was broken off among them:
    the run goes on with the next number, from the model as it was saved. A run that was
    closed plays no more rounds; its `model` is the saved one.
    """
    _check_placement(run, agreement)
    folder = Checkpoint.open(checkpoint)
    try:
        charge, over = find_charge(account, run, folder)
        state = folder.load()
        begun = run.rounds if over else account.begun(charge.entry_id)
        check_state(state, begun, run.rounds)
        federation = Federation(run, agreement)
        coordinator = account.attempt(charge, lambda: federation.open(transport, rng=SecureRandom()))
        coordinator.restore(state, begun)
        session: Session[Round] | None = None if over else Session(account, charge, coordinator)
        deployment = Deployment(run, account, coordinator, session)
    except BaseException:  # raised again: it only lets go of the lock, whoever steered it
        folder.close()
        raise
    deployment.folder = folder
    return deployment


def end_rounds(account: Account, entry: str, rounds: int) -> int:
    """How many rounds were begun, after which none is, whoever holds the run."""
    while True:
        begun = account.begun(entry)
        if begun >= rounds:
            return begun
        try:
            account.begin(entry, begun, rounds)
        except LedgerError:
            if account.begun(entry) == begun:  # closed or frozen: nobody begins anything
                return begun
        else:
            return begun


def _open_run(
    run: AnyRun, transport: Transport, account: Account, agreement: Agreement | None, words: str
) -> Deployment:
    coordinators: list[Coordinator] = []
    federation = Federation(run, agreement, coordinators)
    session: Session[Round] = account.open(federation, transport, delta=run.privacy.delta, description=words)
    return Deployment(run, account, coordinators[0], session)


def _check_placement(run: AnyRun, agreement: Agreement | None) -> None:
    if isinstance(run.noise, Correlated):
        raise InvalidParameter(
            "Expected noise=Central(…), OnClient(…) or Shared(…) over a transport: devices that take turns "
            "by number are for simulations. Nothing was charged."
        )
    if isinstance(run.noise, Shared) and agreement is None:
        raise InvalidParameter(
            "Expected agreement= with noise=Shared(…): see federated.agreed. Nothing was charged."
        )
    if agreement is not None:
        check_terms(run, agreement)
