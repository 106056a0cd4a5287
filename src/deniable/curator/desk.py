"""What all questions to one curator share: the data, who pays, whose turn it is, and who is to be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from deniable.curator.profile import Profile
from deniable.curator.stop import Stop, check_floor
from deniable.ledger import Account
from deniable.mechanism import Random
from deniable.process import Home
from deniable.sql.after.closed.runs import Runner
from deniable.sql.after.split import SplitQuery, split_query
from deniable.sql.engines import Engine
from deniable.sql.schema.declare import Schema

WAY_OUT = "Open the data there with Curator.open; processes share one ledger."
MOST_TEXTS = 64
"""Texts whose reading is remembered."""


class Desk:
    """The data behind a curator and the account that pays for what is asked of it.

    `places` is where the data lies, `limit_delta` the δ of the data set's limit as it was last read. `begin`
    is called before an account that exists is charged. One query runs at a time: the one that has the `turn`.
    `runner` computes what follows a release; None: this process does. `profile` is what is known of the data
    beforehand, `analyst` who asks, if not whoever opened it.
    """

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        account: Account,
        *,
        floor: float = 0.0,
        rng: Random | None = None,
        places: tuple[str, ...] = (),
        turn: threading.Lock | None = None,
        runner: Runner | None = None,
        profile: Profile | None = None,
        analyst: str | None = None,
    ) -> None:
        self._home = Home()
        self._asking: list[Stop] = []
        self._split = lru_cache(MOST_TEXTS)(lambda text, unit: split_query(text, schema, unit))
        self.engine = engine
        self.schema = schema
        self.declared = str(schema)
        self.account = account
        self.floor = check_floor(floor)
        self.rng = rng
        self.places = places
        self.turn = turn or threading.Lock()
        self.runner = runner
        self.profile = profile
        self.analyst = analyst
        self.begin: Callable[[], None] = lambda: None
        self.limit_delta = account.view().standings[account.root].filter.limit.delta

    def read(self, text: str) -> SplitQuery:
        """What a text asks. The last ones are remembered: a dashboard asks the same again and again."""
        return self._split(text, self.account.unit)

    def check_home(self) -> None:
        self._home.check("This curator", WAY_OUT)

    def charge_to(self, account: Account, analyst: str) -> Desk:
        """The same data, asked about by an analyst whose own account pays."""
        return Desk(
            self.engine,
            self.schema,
            account,
            floor=self.floor,
            rng=self.rng,
            places=self.places,
            turn=self.turn,
            runner=self.runner,
            profile=self.profile,
            analyst=analyst,
        )

    def enter(self) -> Stop:
        """A question that `cancel` stops, until it leaves."""
        stop = Stop()
        self._asking.append(stop)
        return stop

    def leave(self, stop: Stop) -> None:
        if stop in self._asking:
            self._asking.remove(stop)

    def cancel(self) -> None:
        for stop in tuple(self._asking):
            stop.request()
