"""How often: logins by person and by address, requests by person. Kept in this process's memory."""

from __future__ import annotations

import threading
import time
from collections import deque

from limits import RateLimitItem, parse

from deniable.errors import InvalidParameter, TooMany
from deniable.server.settings import Rates

MOST_KEYS = 10_000
"""Whoever tries that many names is swept away with those whose time is over: memory stays bounded."""


class Throttle:
    """Counts what was tried in a moving window, whether it went well or not: whoever guesses is stopped, and
    so is whoever floods.

    Rates are said in the words of `limits`; its own storage in memory starts a thread for each hit, and never
    forgets a name.
    """

    def __init__(self, rates: Rates) -> None:
        self._turn = threading.Lock()
        self._times: dict[tuple[str, str], deque[float]] = {}
        try:
            self._limits = {name: parse(getattr(rates, name)) for name in rates.__dataclass_fields__}
        except ValueError:
            raise InvalidParameter('Expected rates like "10/minute". Nothing was started.') from None

    def hit(self, kind: str, who: str) -> None:
        """Count one, or raise where there were too many."""
        limit = self._limits[kind]
        if not self._counted(limit, (kind, who)):
            raise TooMany(
                f"More than {limit} of this kind. Nothing was done and nothing was charged. Wait, and ask "
                "again."
            )

    def _counted(self, limit: RateLimitItem, key: tuple[str, str]) -> bool:
        now = time.monotonic()
        with self._turn:
            if len(self._times) > MOST_KEYS:
                self._sweep(now)
            times = self._times.setdefault(key, deque())
            while times and times[0] <= now - limit.get_expiry():
                times.popleft()
            if len(times) >= limit.amount:
                return False
            times.append(now)
            return True

    def _sweep(self, now: float) -> None:
        self._times = {
            (kind, who): times
            for (kind, who), times in self._times.items()
            if times and times[-1] > now - self._limits[kind].get_expiry()
        }

    def login(self, person: str, address: str) -> None:
        self.hit("login_address", address)
        self.hit("login_person", person[:200])
