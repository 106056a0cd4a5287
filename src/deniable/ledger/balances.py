"""What a loss costs on a path of accounts, each by its own filter, and what they hold at one moment: whether
a charge fits, what it would leave, how often it would fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from deniable.accounting.filters import Filter, Left, Spent
from deniable.accounting.filters.charges import Charge
from deniable.errors import BudgetExceeded, DeniableError, InvalidLoss, LedgerError, UnitMismatch
from deniable.ledger.journal import Standings
from deniable.ledger.journal.entries import Status
from deniable.ledger.refusal import parent_refusal, refusal, stop_error
from deniable.loss import Loss, Number, exact, mismatch
from deniable.units import Unit

QUOTES = 64
"""Losses whose price is remembered."""
MOST_TIMES = 1_000_000
"""Beyond this, nobody asks how often a charge would still be granted."""


class Prices:
    """The prices of one path of accounts. The orders of a filter never change, so a price needs no lock, and
    what was quoted is not computed again."""

    def __init__(self, unit: Unit, filters: Mapping[str, Filter]) -> None:
        self._unit = unit
        self._filters = dict(filters)
        self._quotes: dict[tuple[str, Fraction | None], dict[str, Charge]] = {}

    def price_loss(self, loss: Loss, delta: Number | None) -> dict[str, Charge]:
        """What `loss` costs in each account on the path; with `delta`, charged as (ε, δ)."""
        if not isinstance(loss, Loss):
            raise InvalidLoss(f"Expected a Loss, got {type(loss).__name__}. Nothing was charged.")
        if wrong := mismatch(loss, self._unit):
            raise UnitMismatch(f"{wrong} Nothing was charged and nothing was run.")
        # By its JSON and by the exact δ: 0.1 equals the binary number next to it, and does not mean it.
        question = loss.to_json(), None if delta is None else exact(delta)
        charges = self._quotes.get(question)
        if charges is None:
            charges = {name: limit.charge(loss, delta=delta) for name, limit in self._filters.items()}
            if len(self._quotes) >= QUOTES:
                self._quotes.clear()
            self._quotes[question] = charges
        return dict(charges)

    def price_used(self, charges: Mapping[str, Charge], used_loss: Loss) -> dict[str, Charge]:
        """What `used_loss` costs where that is less than what was charged, and the whole charge where it is
        not."""
        return {name: self._smaller_charge(name, charge, used_loss) for name, charge in charges.items()}

    def _smaller_charge(self, name: str, charge: Charge, used_loss: Loss) -> Charge:
        try:
            cost = self._filters[name].charge(used_loss)
        except DeniableError:
            return charge
        if cost.fits_into(charge):
            return cost
        return charge


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
