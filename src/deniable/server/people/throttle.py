"""How often: logins by person and by address, requests by person. Kept in this process's memory."""

from __future__ import annotations

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from deniable.errors import InvalidParameter, TooMany
from deniable.server.settings import Rates


class Throttle:
    """Counts what was tried, whether it went well or not: whoever guesses is stopped, and so is whoever
    floods."""

    def __init__(self, rates: Rates) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        try:
            self._limits = {name: parse(getattr(rates, name)) for name in rates.__dataclass_fields__}
        except ValueError:
            raise InvalidParameter('Expected rates like "10/minute". Nothing was started.') from None

    def hit(self, kind: str, who: str) -> None:
        """Count one, or raise where there were too many."""
        limit = self._limits[kind]
        if not self._limiter.hit(limit, kind, who):
            raise TooMany(
                f"More than {limit} of this kind. Nothing was done and nothing was charged. Wait, and ask "
                "again."
            )

    def login(self, person: str, address: str) -> None:
        self.hit("login_address", address)
        self.hit("login_person", person[:200])
