"""Reports over time: what a device may still say, and what a server is charged for all of them.

A value reported afresh each day leaks each day. A memo is drawn once and replayed, so a constant value costs
`memo_loss` for ever. But a memo per *value* tells when the value changes: two unlike reports from one memo
are less likely than from two, and over many days that is certain. So a `ReportingDevice` draws its memo once
per period of a public calendar, whether the value changed or not. What it sends in a period depends on the
value at the period's start through one memo, hence T periods reveal at most T times `memo_loss` about any
sequence of values: basic composition, with no assumption on how they change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic

from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.guarantee import Budget
from deniable.local.odds import check_whole
from deniable.local.protocol import Client, Reports, Result
from deniable.loss import Loss, Pure, exact, show
from deniable.mechanism import Random
from deniable.units import Unit


@dataclass(frozen=True)
class ReportingDevice:
    """The state of one device: an immutable value that its owner keeps.

    >>> from deniable.local import Rappor
    >>> from deniable.randomness import SecureRandom
    >>> rng = SecureRandom()
    >>> device = ReportingDevice(Rappor(), Budget(9)).begin("red", rng=rng)
    >>> device.periods, len(device.report(rng=rng))
    (1, 20)
    """

    client: Client[Any]
    limit: Budget
    periods: int = 0
    memo: bytes | None = None

    @property
    def spent(self) -> Pure:
        """What all reports up to now may reveal together."""
        return Pure(exact(self.client.memo_epsilon) * self.periods)

    def begin(self, value: Any, *, rng: Random) -> ReportingDevice:
        """The device at the start of a period, with a new memo. Whether there is budget
        left depends on the calendar only."""
        each, limit = exact(self.client.memo_epsilon), exact(self.limit.epsilon)
        total = each * self.periods
        if total + each > limit:
            raise BudgetExceeded(
                f"A new period would bring this device to ε = {float(total + each):.6g}, over its limit "
                f"ε = {show(self.limit.epsilon)} (spent: {float(total):.6g}). Nothing was drawn. "
                "The device may go on to replay its last memo, at no further loss.",
                asked=float(each),
                spent=float(total),
                total=float(total + each),
                limit=float(limit),
            )
        return replace(self, periods=self.periods + 1, memo=self.client.memoise(value, rng=rng))

    def report(self, *, rng: Random) -> bytes:
        """A report of this period, as often as wanted."""
        if self.memo is None:
            raise InvalidParameter(
                "This device has no memo yet. Nothing was reported. Call begin(value) first."
            )
        return self.client.replay(self.memo, rng=rng)


@dataclass(frozen=True)
class Collection(Generic[Result]):
    """All reports of many devices over `periods` periods, as one mechanism that a
    server's account is charged with once.

    A device's value touches its own reports only, and replacing it leaves the other devices' reports alone:
    so the loss of the collection is that of one device, however many there are. The data are reports, already
    private; the release is the estimate of `question`.

    >>> from deniable.local import Rappor
    >>> print(Collection(Rappor(), periods=2).loss)
    2 × (ε = 4.39445)
    """

    client: Client[Result]
    periods: int = 1
    question: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        check_whole("periods", self.periods, 1, 10**6)

    @property
    def loss(self) -> Loss:
        """The lifetime loss of one device."""
        return self.client.memo_loss * self.periods

    @property
    def unit(self) -> Unit:
        return Unit.value()

    def error(self, confidence: float = 0.95) -> None:
        """Not known before the reports are: it falls with their number, and the estimate carries it."""
        return None

    def __call__(self, data: Reports, *, rng: Random) -> Result:
        server = self.client.server()
        server.add(data)
        return server.estimate(*self.question)
