"""A conversation with private data, paid for in full before it begins and settled when it ends."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from deniable.errors import AccountFrozen, BudgetExceeded, InvalidQuery, LedgerError
from deniable.loss import Loss
from deniable.mechanism import Conversation, Release

if TYPE_CHECKING:
    from deniable.ledger.account import Account, Paid

Value = TypeVar("Value")

FAIR = (BudgetExceeded, InvalidQuery)
"""What a conversation may raise at a question: these speak of answers given and of the question, never of data."""


class Session(Generic[Value]):
    """An open conversation. Ask, then close; or use it in a `with` block.

    The whole loss was charged at the start. Closing gives back what the answers did not use, if the conversation can say so
    from its answers alone; a session that is never closed, because its process died, stays charged in full. Sessions of one
    account may interleave (Vadhan, Wang 2021; Haney et al. 2023).
    """

    def __init__(self, account: Account, paid: Paid, conversation: Conversation[Value]) -> None:
        self._account = account
        self._paid = paid
        self._conversation: Conversation[Value] | None = conversation

    @property
    def entry(self) -> str:
        """The ledger entry that paid for this session."""
        return self._paid.entry_id

    def ask(self, question: Any) -> Release[Value]:
        """One answer. Its loss is that of the whole session, which holds for all answers together."""
        conversation = self._live()
        try:
            value: Value = self._account.attempt(self._paid, lambda: conversation.ask(question), fair=FAIR)
        except AccountFrozen:
            self._conversation = None  # what failed stays charged in full
            raise
        return Release(value, self._paid.loss, self._paid.unit, None, self.entry, self._paid.private)

    def close(self) -> None:
        """Settle. Closing twice does nothing."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            self._account.settle(self._paid, _used(conversation))

    def _live(self) -> Conversation[Value]:
        if self._conversation is None:
            raise LedgerError(f"The session of entry {self._paid.seq} is closed. Nothing was asked; open a new one.")
        return self._conversation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _used(conversation: Conversation[Any]) -> Loss | None:
    """What the conversation says it used; None, which keeps the whole charge, if it cannot say."""
    try:
        used = conversation.used
    except Exception:
        return None
    return used if isinstance(used, Loss) else None
