"""A conversation with private data, paid for in full before it begins and settled when it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from deniable.accounting.filters.charges import Charge
from deniable.errors import BudgetExceeded, InvalidQuery, LedgerError
from deniable.ledger.journal import Standings
from deniable.ledger.journal.entries import Entry, EntryKind
from deniable.loss import Loss
from deniable.mechanism import Conversation, Release
from deniable.process import Home, Original

if TYPE_CHECKING:
    from deniable.ledger.account import Account, Paid

Value = TypeVar("Value")

FAIR = (BudgetExceeded, InvalidQuery)
"""What a conversation may raise at a question: these speak of answers given and of the
question, never of data."""


class Session(Original, Generic[Value]):
    """An open conversation. Ask, then close; or use it in a `with` block.

    The whole loss was charged at the start. Closing gives back what the answers did not use, if the
    conversation can say so from its answers alone; a session that is never closed, because its process died,
    stays charged in full. Sessions of one account may interleave (Vadhan, Wang 2021; Haney et al. 2023).

    One charge pays for one conversation: a session cannot be copied, pickled, or used in another process than
    its own. Threads that ask at once are answered one after the other.
    """

    WAY_OUT = "Open another session, which is charged for itself."

    def __init__(self, account: Account, payment: Paid, conversation: Conversation[Value]) -> None:
        self._account = account
        self._payment = payment
        self._conversation: Conversation[Value] | None = conversation
        self._home = Home()
        self._turn = threading.RLock()
        self._answering = False

    @property
    def entry(self) -> str:
        """The ledger entry that paid for this session."""
        return self._payment.entry_id

    def ask(self, question: Any) -> Release[Value]:
        """One answer. Its loss is that of the whole session, which holds for all answers together."""
        with self._take_turn():
            conversation = self._live()
            value = self._answer(conversation, question)
        extras = None, getattr(conversation, "assumptions", ())
        return Release(
            value, self._payment.loss, self._payment.unit, None, self.entry, self._payment.private, *extras
        )

    def _answer(self, conversation: Conversation[Value], question: Any) -> Value:
        self._account.check_held(self._payment)
        try:
            return self._account.attempt(self._payment, lambda: conversation.ask(question), fair=FAIR)
        except FAIR:
            raise
        except BaseException:
            self._conversation = None  # what failed or was stopped on the way stays charged in full
            raise

    def close(self) -> None:
        """Settle. Closing twice does nothing."""
        with self._take_turn():
            conversation, self._conversation = self._conversation, None
            if conversation is not None:
                self._account.settle(self._payment, _used_loss(conversation))

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Act in the process of this session, one thread at a time, and not from inside an answer."""
        self._home.check(f"The session of entry {self._payment.seq}", self.WAY_OUT)
        with self._turn:
            if self._answering:
                raise LedgerError(
                    f"The session of entry {self._payment.seq} is answering. Ask or close it afterwards."
                )
            self._answering = True
            try:
                yield
            finally:
                self._answering = False

    def _live(self) -> Conversation[Value]:
        if self._conversation is None:
            raise LedgerError(
                f"The session of entry {self._payment.seq} is closed. Nothing was asked; open a new one."
            )
        return self._conversation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; a child that was forked inside the block leaves that to its parent."""
        if self._home.here():
            self.close()


def _used_loss(conversation: Conversation[Any]) -> Loss | None:
    """What the conversation says it used; None, which keeps the whole charge, if it cannot say."""
    try:
        loss = conversation.used
    except Exception:  # rows may steer it: the whole charge stays, which tells nothing
        return None
    return loss if isinstance(loss, Loss) else None


def check_open(standings: Standings, payment: Entry, charges: dict[str, Charge]) -> None:
    """A session is settled once, and gives back no more than its own entry in the journal was charged."""
    entry = standings.entry(payment.seq)
    if entry is None or entry != payment or entry.kind is not EntryKind.OPEN:
        raise LedgerError(
            f"Entry {payment.seq} of the journal did not open this session. Nothing was given back."
        )
    if entry.details["charges"] != {name: charge.to_dict() for name, charge in charges.items()}:
        raise LedgerError(
            f"Entry {payment.seq} was charged something else than this session says. Nothing was given back."
        )
    if entry.seq not in standings.tip.begun:
        raise LedgerError(f"The session of entry {payment.seq} is settled already. Nothing was given back.")
