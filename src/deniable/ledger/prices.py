"""What a loss costs in an account and in those above it, each by its own filter."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.errors import DeniableError, InvalidLoss, UnitMismatch
from deniable.loss import Loss, Number, exact, mismatch
from deniable.units import Unit

QUOTES = 64
"""Losses whose price is remembered."""


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
