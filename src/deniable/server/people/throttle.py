"""How often: logins that fail, by name and address; requests by person; what was refused, by whoever sent it.
Counted in this process's memory.

What is counted, and why nobody is locked out by a stranger:

- A login that goes well is no guess. It is counted while it runs, and given back when it has gone well.
- A failure counts for the name at the address that it came from. A stranger elsewhere fills her own count.
- Guesses from many addresses at one name are slowed as well. When `MOST_SITES` networks have failed at a name
  within an hour, the name is open only to addresses from which somebody has logged in by it. So guessing has
  at most that many addresses, each with its own small count; the person is let in where she was before, and
  only a crowd of addresses can keep her from a new one.
- A token is a random text of 256 bits, and guessing it is hopeless. Logins by token count for the address
  alone, so that each costs little.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from limits import RateLimitItem, parse_many

from deniable.errors import InvalidParameter, NotLoggedIn, TooMany
from deniable.server.settings import Rates
from deniable.server.traffic.addresses import host_of, site_of

MOST_KEYS = 10_000
"""Whoever tries that many names is swept away with those whose time is over: memory stays bounded."""
SWEEP_SECONDS = 1.0
MOST_SITES = 20
"""Networks that fail at one name, before only known addresses may try it."""
SITE_SECONDS = 3600.0
AT_ONCE = 8
"""Logins by password of one address that may run or wait at a time."""
CHARACTERS = 1000
"""Of a text that is refused, so many count as one refusal: a long text takes long to read."""

Key = tuple[str, str]


class RecentCounts:
    """What was counted of late: how many at which moment, oldest first.

    A long text counts for many but takes one place, since old ones are forgotten inside the event loop."""

    def __init__(self) -> None:
        self.counts: OrderedDict[float, int] = OrderedDict()
        self.total = 0

    def forget(self, oldest: float) -> None:
        while self.counts and next(iter(self.counts)) <= oldest:
            self.total -= self.counts.popitem(last=False)[1]

    def add(self, moment: float, weight: int) -> None:
        self.counts[moment] = self.counts.get(moment, 0) + weight
        self.total += weight

    def give_back(self, moment: float, weight: int) -> None:
        before = self.counts.get(moment, 0)
        if before > weight:
            self.counts[moment] = before - weight
        else:
            self.counts.pop(moment, None)
        self.total -= min(weight, before)

    def count_since(self, oldest: float) -> int:
        if next(iter(self.counts), math.inf) > oldest:
            return self.total
        return sum(weight for moment, weight in self.counts.items() if moment > oldest)


class Throttle:
    """Counts in moving windows.

    Rates are said in the words of `limits`; its own storage in memory starts a thread for each hit, and never
    forgets a name.
    """

    def __init__(self, rates: Rates) -> None:
        self._turn = threading.Lock()
        self._windows: dict[Key, RecentCounts] = {}
        self._sites: dict[str, dict[str, float]] = {}
        self._logins: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._sweep_time = -SWEEP_SECONDS
        try:
            self._limits = {name: parse_many(getattr(rates, name)) for name in rates.__dataclass_fields__}
            self._longest = {
                name: max(limit.get_expiry() for limit in limits) for name, limits in self._limits.items()
            }
        except ValueError:
            raise InvalidParameter('Expected rates like "10/minute". Nothing was started.') from None

    def hit(self, kind: str, party: str) -> None:
        """Count one, or raise where there were too many."""
        self._count(kind, party, 1)

    @contextmanager
    def failures(self, kind: str, party: str, weight: int = 1) -> Iterator[None]:
        """Count what fails inside. It is counted before, so that many at once are too many, and given back if
        it goes well."""
        moment, weight = self._count(kind, party, weight)
        yield
        self._give_back((kind, party), moment, weight)

    @contextmanager
    def guesses(self, party: str) -> Iterator[None]:
        """Count guesses at a password that fail. One that was not looked at, since too many wait, is none."""
        moment, weight = self._count("login_person", party, 1)
        try:
            yield
        except TooMany:
            self._give_back(("login_person", party), moment, weight)
            raise
        self._give_back(("login_person", party), moment, weight)

    @contextmanager
    def text(self, party: str, length: int) -> Iterator[None]:
        """Count a text of so many characters, if it is refused."""
        with self.failures("refusals", party, 1 + length // CHARACTERS):
            yield

    @contextmanager
    def login(self, person: str, address: str) -> Iterator[None]:
        """Count a login by a password, if it fails."""
        person, host, site = person[:200], host_of(address), site_of(address)
        with self._place(host), self.failures("login_address", host):
            self._check_sites(person, host)
            with self.guesses(f"{host} {person}"):
                try:
                    yield
                except NotLoggedIn:
                    self._note_site(person, site)
                    raise
            self._remember(person, host)

    @contextmanager
    def token_login(self, address: str) -> Iterator[None]:
        """Count a login by a token, if it fails."""
        with self.failures("login_address", host_of(address)):
            yield

    # -------------------------------------------------------------------------------------------- counts

    def _count(self, kind: str, party: str, weight: int) -> tuple[float, int]:
        """When it was counted, and for how many."""
        limits, now = self._limits[kind], time.monotonic()
        weight = min(weight, *(limit.amount for limit in limits))
        with self._turn:
            if (
                now > self._sweep_time + SWEEP_SECONDS
                and max(len(self._windows), len(self._sites)) > MOST_KEYS
            ):
                self._sweep(now)
            window = self._windows.setdefault((kind, party), RecentCounts())
            window.forget(now - self._longest[kind])
            for limit in limits:
                if window.count_since(now - limit.get_expiry()) + weight > limit.amount:
                    raise _refusal(limit)
            window.add(now, weight)
        return now, weight

    def _give_back(self, key: Key, moment: float, weight: int) -> None:
        with self._turn:
            if key in self._windows:
                self._windows[key].give_back(moment, weight)

    def _sweep(self, moment: float) -> None:
        self._sweep_time = moment
        for (kind, _), window in self._windows.items():
            window.forget(moment - self._longest[kind])
        self._windows = {key: window for key, window in self._windows.items() if window.total}
        oldest = moment - SITE_SECONDS
        self._sites = {name: sites for name, sites in self._sites.items() if max(sites.values()) > oldest}

    # -------------------------------------------------------------------------------------------- logins

    @contextmanager
    def _place(self, host: str) -> Iterator[None]:
        """One of the few logins of an address that may wait for a hash at a time."""
        with self._turn:
            if self._running[host] >= AT_ONCE:
                raise TooMany(
                    f"{AT_ONCE} logins from your address are waiting already. Nothing was done. Wait a few "
                    "seconds, and log in again."
                )
            self._running[host] += 1
        try:
            yield
        finally:
            with self._turn:
                self._running[host] -= 1
                if not self._running[host]:
                    del self._running[host]

    def _check_sites(self, person: str, host: str) -> None:
        oldest = time.monotonic() - SITE_SECONDS
        with self._turn:
            sites = self._sites.get(person, {})
            crowd = sum(1 for moment in sites.values() if moment > oldest)
            if crowd >= MOST_SITES and (person, host) not in self._logins:
                raise TooMany(
                    f"Logins by this name failed from {MOST_SITES} networks within an hour, so a new address "
                    "has to wait. Nothing was done. Log in from where you have logged in before, use a "
                    "token, or wait an hour."
                )

    def _note_site(self, person: str, site: str) -> None:
        now = time.monotonic()
        with self._turn:
            sites = self._sites.setdefault(person, {})
            sites.pop(site, None)
            sites[site] = now
            while len(sites) > MOST_SITES:
                del sites[next(iter(sites))]

    def _remember(self, person: str, host: str) -> None:
        """The login has gone well: its address is known from now on."""
        with self._turn:
            self._logins.pop((person, host), None)
            self._logins[person, host] = None
            if len(self._logins) > MOST_KEYS:
                self._logins.popitem(last=False)


def _refusal(limit: RateLimitItem) -> TooMany:
    return TooMany(
        f"More than {limit} of this kind. Nothing was done and nothing was charged. Wait, and ask again."
    )
