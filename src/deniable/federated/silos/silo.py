"""One silo of a run over silos: it pays from an account of its own, and answers the server's rounds."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import Tensor

from deniable.errors import DeniableError, InvalidParameter, InvalidQuery, ProtocolError
from deniable.federated.devices.deadline import Clock, WallClock
from deniable.federated.devices.deployment import end_rounds
from deniable.federated.devices.device import check_terms, continue_sum
from deniable.federated.devices.messages import DeviceTask, Message, read_task
from deniable.federated.noise.encode import Floats, Integers
from deniable.federated.noise.placement import Central, Shared
from deniable.federated.secure_sum import Agreement, SumClient
from deniable.federated.silos.cross_silo import CrossSilo
from deniable.federated.silos.settings import SiloRows
from deniable.federated.silos.worker import SiloWorker
from deniable.learn.sgd.training.checkpoint import Checkpoint
from deniable.learn.sgd.training.saved import find_charge, run_or_discard
from deniable.ledger import Account, Session
from deniable.ledger.account import OPENERS
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.process import Conversing, Home, Original
from deniable.randomness import SecureRandom
from deniable.units import Unit

Sent: TypeAlias = Integers | Floats
WALL = WallClock()
WORDS = "silo of a federated run"


@dataclass(frozen=True)
class SiloPart:
    """What one silo answers in all rounds of a run: an `Interactive` whose loss is that of its own rows."""

    run: CrossSilo
    silo: int
    clock: Clock = WALL
    opened: list[SiloConversation] = field(default_factory=list, compare=False, repr=False)
    """The conversation that was opened, for who drives it."""

    @property
    def loss(self) -> Loss:
        return self.run.silo_loss_of(self.run.rounds)

    @property
    def unit(self) -> Unit:
        return self.run.unit

    @property
    def terms(self) -> str:
        return f"silo {self.silo} of {self.run.terms}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self.run.assumptions

    def fits(self, data: Any) -> None:
        """Before the charge: whether rows are of the kind that the run reads."""
        if isinstance(data, SiloRows):
            self.run.of_silo(self.silo).check(self.run.container(data))
        elif not isinstance(data, OPENERS):
            raise InvalidParameter(
                f"Expected SiloRows(x, y, ids), or a function that opens them, got {type(data).__name__}. "
                "Nothing was charged."
            )

    def open(self, data: Any, *, rng: Random) -> SiloConversation:
        self.opened.append(SiloConversation(self, data, rng))
        return self.opened[-1]


@dataclass(frozen=True)
class SiloTask:
    """A question to a silo: the number of the round and the weights of the model."""

    turn: int
    weights: Tensor


class SiloConversation(Conversing):
    """An open `SiloPart`. Answers have its noise; where that is shared only a secure sum may carry them."""

    def __init__(self, part: SiloPart, rows: SiloRows, rng: Random) -> None:
        self._part = part
        self._worker = SiloWorker(part.run, part.silo, rows, rng)
        self._last_turn = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self._part.assumptions

    @property
    def used(self) -> Loss:
        """Rounds are noted before they are answered, so those up to the last one asked are all that was."""
        return self._part.run.silo_loss_of(max(self._last_turn, 1))

    def skip(self, turn: int) -> None:
        """Rounds up to `turn` were begun before this process was."""
        self._last_turn = max(self._last_turn, turn)

    def ask(self, question: SiloTask) -> Sent:
        self.stay()
        if not isinstance(question, SiloTask) or not self._last_turn < question.turn <= self._part.run.rounds:
            raise InvalidQuery("Expected the task of a round that was not asked before. Nothing was run.")
        self._last_turn = question.turn
        asked_at = self._part.clock.read_time()
        if self._part.run.sends_sums:
            reply: Sent = self._worker.send_sum(question.weights)
        else:
            reply = self._worker.send_move(question.weights)
        self._wait_for_step(asked_at)
        return reply

    def _wait_for_step(self, asked_at: float) -> None:
        """Return at a whole number of `answer_after` after the question, one where the work was ready by
        then.

        What is sent does not depend on how long it took: a lot that was left out because it came late would
        tell of one row by all the others. Only the number of steps does, as with a query's answer."""
        clock, seconds = self._part.clock, self._part.run.how.answer_after
        if seconds is None:
            return
        ready = threading.Event()
        ready.set()
        steps = math.floor(max(0.0, clock.read_time() - asked_at) / seconds) + 1
        clock.wait(asked_at + steps * seconds, ready)


class Silo(Original):
    """Answers the server's messages for one silo: `handle` takes bytes and returns bytes, over any transport.

    `Silo.join` charges the silo's own account, in its own ledger, for all rounds before a row is opened;
    every round is noted there before it is computed, so none is answered twice, whatever happens to the
    process. After a kill `Silo.rejoin` goes on under the same charge. Where the server is not trusted it
    answers `run.how.answer_after` seconds after it was asked, or after twice, three times … as many where its
    lot took longer. If a lot cannot be added up at all its account freezes, and it stays silent.
    """

    WAY_OUT = "Take the silo up with Silo.rejoin in the process that is to answer."

    def __init__(
        self,
        part: SiloPart,
        account: Account,
        session: Session[Sent],
        folder: Checkpoint,
        agreement: Agreement | None,
        signer: Ed25519PrivateKey | None,
    ) -> None:
        self.run, self.silo = part.run, part.silo
        self._account, self._session, self._folder = account, session, folder
        self._conversation = part.opened[-1]
        self._agreement, self._signer = agreement, signer
        self._home, self._lock = Home(), threading.Lock()
        self._sum: SumClient | None = None
        self._vector: Integers | None = None

    @classmethod
    def join(
        cls,
        run: CrossSilo,
        silo: int,
        rows: Any,
        account: Account,
        *,
        folder: str | Path,
        agreement: Agreement | None = None,
        signer: Ed25519PrivateKey | None = None,
        clock: Clock = WALL,
    ) -> Silo:
        """Charge the silo's account and open its rows. `rows` may be a function that opens them; `folder`
        keeps the name of the run, so that the charge is found again after a kill."""
        part = _checked(run, silo, agreement, signer, clock)
        part.fits(rows)
        record = Checkpoint.create(folder, loss=part.loss.to_json(), terms=part.terms)
        words = f"{WORDS}, run {record.name}"
        try:
            session: Session[Sent] = run_or_discard(
                record, lambda: account.open(part, rows, delta=run.privacy.delta, description=words), account
            )
        except BaseException:  # raised again: it only lets go of the lock, whoever steered it
            record.close()
            raise
        return cls(part, account, session, record, agreement, signer)

    @classmethod
    def rejoin(
        cls,
        run: CrossSilo,
        silo: int,
        rows: Any,
        account: Account,
        *,
        folder: str | Path,
        agreement: Agreement | None = None,
        signer: Ed25519PrivateKey | None = None,
        clock: Clock = WALL,
    ) -> Silo:
        """Go on under the charge that paid for the run. Rounds that were begun are spent."""
        part = _checked(run, silo, agreement, signer, clock)
        part.fits(rows)
        record = Checkpoint.open(folder)
        try:
            charge, over = find_charge(account, part, record)
            if over:
                raise InvalidQuery("This silo has left the run: its session is settled. Nothing was run.")
            content = rows() if isinstance(rows, OPENERS) else rows
            conversation = account.attempt(charge, lambda: part.open(content, rng=SecureRandom()))
            conversation.skip(account.begun(charge.entry_id))
            session: Session[Sent] = Session(account, charge, conversation)
        except BaseException:  # raised again: it only lets go of the lock, whoever steered it
            record.close()
            raise
        return cls(part, account, session, record, agreement, signer)

    @property
    def entry(self) -> str:
        """The entry of the silo's own ledger that paid for the run."""
        return self._session.entry

    def handle(self, text: bytes) -> bytes:
        """The reply to a message of the server. Raises `ProtocolError` where the silo stays silent."""
        self._home.check("This silo", self.WAY_OUT, ProtocolError)
        message = Message.from_bytes(text)
        with self._lock:
            if message.step in (DeviceTask.UPDATE, DeviceTask.ADVERTISE):
                return self._begin(message)
            return continue_sum(self._sum, message, self._vector, f"Silo {self.silo}")

    def _begin(self, message: Message) -> bytes:
        secure = isinstance(self.run.noise, Shared)
        if secure != (message.step is DeviceTask.ADVERTISE):
            raise ProtocolError(
                "The server asks for sums in a way that this run does not allow. Nothing was sent."
            )
        weights, _ = read_task(message.content, self.run.dimension)
        vector = self._answer(SiloTask(message.turn, weights.to(next(self.run.model.parameters()).dtype)))
        if not secure:
            return vector.astype("<i8" if self.run.sends_sums else "<f8").tobytes()
        assert self._agreement is not None
        assert self._signer is not None
        self._vector = vector.astype(np.int64)
        self._sum = SumClient(self._agreement, self.silo, self._signer, message.turn)
        return self._sum.advertise()

    def _answer(self, task: SiloTask) -> Sent:
        """Once for a round's number; in the ledger before anything is computed."""
        silence = ProtocolError(f"Silo {self.silo} takes no part in round {task.turn}.")
        try:
            begun = self._account.begun(self.entry)
            if not begun < task.turn <= self.run.rounds:
                raise silence
            self._account.begin(self.entry, begun, task.turn)
            return self._session.ask(task).value
        except ProtocolError:
            raise
        except DeniableError:  # its own account is closed or frozen: to the server it is silent
            raise silence from None

    def leave(self) -> None:
        """Let go of the folder without settling: `rejoin` takes the silo up, here or in another process."""
        self._folder.close()

    def close(self) -> None:
        """Settle: rounds that were not begun are given back where the account's rule allows it. First they
        are noted as begun, so that nobody who holds the folder answers one of them."""
        with self._lock:
            self._conversation.skip(end_rounds(self._account, self.entry, self.run.rounds))
            self._session.close()
        self.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle; after an error the silo is left as it is, so that it can rejoin."""
        if kind is None:
            self.close()
        else:
            self.leave()


def _checked(
    run: CrossSilo, silo: int, agreement: Agreement | None, signer: Ed25519PrivateKey | None, clock: Clock
) -> SiloPart:
    if not 0 <= silo < len(run.silos.sizes):
        raise InvalidParameter(
            f"Expected the number of a silo from 0 to {len(run.silos.sizes) - 1}, got {silo}. Nothing "
            "was charged."
        )
    if isinstance(run.noise, Shared) and (agreement is None or signer is None):
        raise InvalidParameter(
            "Expected an agreement and a signer with noise=Shared(…): its sums are secure sums. Nothing was "
            "charged."
        )
    if agreement is not None:
        check_terms(run, agreement)
    if not isinstance(run.noise, Central) and run.how.answer_after is None:
        raise InvalidParameter(
            "Expected RoundExecution(answer_after=…) in the run, the seconds until a silo answers: where the "
            "server is not trusted, the time of an answer would tell how many rows were drawn. Nothing was "
            "charged."
        )
    return SiloPart(run, silo, clock)
