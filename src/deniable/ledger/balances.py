"""What the accounts on a path hold at one moment: whether a charge fits, what it would leave, how often it
would fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deniable.accounting.filters import Left, Spent
from deniable.accounting.filters.charges import Charge
from deniable.errors import BudgetExceeded, LedgerError
from deniable.ledger.journal import Standings
from deniable.ledger.journal.entries import Status
from deniable.ledger.refusal import parent_refusal, refusal, stop_error
from deniable.loss import Loss

MOST_TIMES = 1_000_000
"""Beyond this, nobody asks how often a charge would still be granted."""


@dataclass(frozen=True)
class ChargePreview:
    """Whether a loss would fit, where it would bring the account, and what would be
    left. Nothing is charged."""

    fits: bool
    after: Spent
    left: Left
    refusal: str | None = None


@dataclass(frozen=True)
class Balances:
    """The standings of one account (`name`) and of those above it, of which the numbers of `visible_names`
    are told."""

    standings: Standings
    name: str
    visible_names: Sequence[str]

    def admit(self, charges: Mapping[str, Charge], loss: Loss | None = None) -> None:
        """Counts in every account on the path, or in none."""
        for name, charge in charges.items():
            standing = self.standings[name]
            if standing.status is not Status.OPEN:
                raise stop_error(standing)
            if standing.filter.admits(standing.spent + charge):
                continue
            if name not in self.visible_names:
                raise parent_refusal(self.standings[self.name])
            raise refusal(standing, charge, loss)

    def left(self, charges: Mapping[str, Charge]) -> Left:
        """The largest single charge that the accounts whose numbers are told would still grant after
        `charges`."""
        each = [self.standings[name].filter.left(self._total(name, charges)) for name in self.visible_names]
        return Left(
            *(min(getattr(left, part) for left in each) for part in ("epsilon", "rho", "delta", "mu"))
        )

    def preview(self, charges: Mapping[str, Charge], loss: Loss) -> ChargePreview:
        """What would be said of `charges`; nothing is charged."""
        after = self.standings[self.name].filter.spent(self._total(self.name, charges))
        try:
            self.admit(charges, loss)
        except (BudgetExceeded, LedgerError) as error:
            return ChargePreview(False, after, self.left({}), str(error))
        return ChargePreview(True, after, self.left(charges))

    def times(self, prices: Mapping[str, Charge]) -> int:
        """How often `prices` would still be granted, one after the other, up to a million."""
        low, high = 0, MOST_TIMES
        while low < high:
            middle = (low + high + 1) // 2
            if self._grants(prices, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _grants(self, prices: Mapping[str, Charge], times: int) -> bool:
        accounts = [self.standings[name] for name in self.visible_names]
        return all(each.filter.admits(each.spent + prices[each.name] * times) for each in accounts)

    def _total(self, name: str, charges: Mapping[str, Charge]) -> Charge:
        balance = self.standings[name].spent
        if name in charges:
            return balance + charges[name]
        return balance
