"""The owner's caps: how much one analyst may spend in one connection, and in one day, beside the limit of her
account.

A cap guards against accidents (a tool that scans tables by itself); the guarantee is the account's limit.
What is asked is taken from the caps before, and put back if nothing was charged: two at once never come over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa

from deniable.curator import Preview
from deniable.errors import AccountFrozen, BudgetExceeded, NotComputed, Stopped, TooMany
from deniable.server.people import store
from deniable.server.people.store import State
from deniable.server.settings import Caps

CHARGED = (AccountFrozen, NotComputed, Stopped, TooMany)
"""Errors after which the charge may stand."""


class Purse:
    """What one connection has spent."""

    def __init__(self) -> None:
        self.epsilon = 0.0
        self.turn = threading.Lock()


@dataclass(frozen=True)
class Hold:
    """What was taken from the caps, to be put back if nothing was charged."""

    undo: Callable[[], None]


class Purses:
    """Both caps of every account."""

    def __init__(self, state: State, caps: Caps) -> None:
        self._state = state
        self._caps = caps
        self.has_caps = caps != Caps()

    def take(self, preview: Preview, account: str, purse: Purse | None) -> Hold:
        """Take what a question costs from the caps."""
        cost = 0.0
        if not preview.free:
            cost = preview.epsilon
        day = datetime.now(UTC).date().isoformat()
        self._take(account, day, purse, cost)
        return Hold(partial(self._restore, account, day, purse, cost))

    def _take(self, account: str, day: str, purse: Purse | None, cost: float) -> None:
        if purse is not None and self._caps.session is not None:
            with purse.turn:
                if purse.epsilon + cost > self._caps.session:
                    raise _cap_error("this connection", cost, purse.epsilon, self._caps.session)
                purse.epsilon += cost
        if self._caps.day is not None:
            try:
                self._take_day(account, day, cost, self._caps.day)
            except BudgetExceeded:
                self._restore_purse(purse, cost)
                raise

    def _take_day(self, account: str, day: str, cost: float, cap: float) -> None:
        table = store.spending
        here = (table.c.account == account) & (table.c.day == day)
        with self._state.writing() as connection:
            row = connection.execute(sa.select(table.c.epsilon).where(here).with_for_update()).first()
            spending = 0.0
            if row is not None:
                spending = float(row[0])
            if spending + cost > cap:
                raise _cap_error("today", cost, spending, cap)
            if row is None:
                connection.execute(table.insert().values(account=account, day=day, epsilon=cost))
            else:
                connection.execute(table.update().where(here).values(epsilon=spending + cost))

    def _restore(self, account: str, day: str, purse: Purse | None, cost: float) -> None:
        self._restore_purse(purse, cost)
        if self._caps.day is not None:
            table = store.spending
            here = (table.c.account == account) & (table.c.day == day)
            with self._state.writing() as connection:
                connection.execute(table.update().where(here).values(epsilon=table.c.epsilon - cost))

    def _restore_purse(self, purse: Purse | None, cost: float) -> None:
        if purse is not None and self._caps.session is not None:
            with purse.turn:
                purse.epsilon -= cost


def _cap_error(period: str, cost: float, spending: float, cap: float) -> BudgetExceeded:
    return BudgetExceeded(
        f"This query costs ε = {cost:.6g}, and {period} you may spend ε ≤ {cap:.6g} (spent: {spending:.6g}). "
        "Nothing was run and nothing was charged. Ask for less, wait, or speak to the owner.",
        asked=cost,
        spent=spending,
        total=spending + cost,
        limit=cap,
    )
