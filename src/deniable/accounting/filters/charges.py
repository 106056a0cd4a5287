"""What a loss costs: numbers that add exactly, whatever the order, on any machine.

>>> from deniable.loss import Pure
>>> (charge(Pure(0.1)) * 30).epsilon
Fraction(3, 1)

Each loss becomes a `Charge`: its ε and δ by basic composition as fractions, and its
Rényi divergence at each tracked order as a whole number of 2⁻⁶⁰, rounded up. So the sum
of a journal is the same bit for bit however often it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from deniable.accounting import renyi
from deniable.accounting.choose import epsilon as best_epsilon
from deniable.accounting.filters.gaussian_rule import shift
from deniable.accounting.methods import pure
from deniable.accounting.methods.relations import rewrite_silenced
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Approximate, Composed, Loss, Number, Pure, Repeated
from deniable.strict_json import shown

Orders = tuple[float, ...]

UNIT = 1 << 60
"""A Rényi divergence of 1."""

UNKNOWN = 1 << 120
"""No finite divergence is known at this order: more than any curve admits, and still a number that adds
up."""

LONGEST = 10**60
"""Fractions with a longer denominator are rounded up to a multiple of 1/LONGEST, so that a sum stays
short."""

_MARGIN = 1 + Fraction(1, 1 << 36)
"""Far above the rounding of the Rényi formulas, far below what anybody would notice."""


@dataclass(frozen=True)
class Charge:
    """What a loss costs, or what many cost together.

    `impure` counts the losses that have no ε of their own (Gaussian noise): with one of
    them in it, a sum of ε's says nothing. `renyi` holds a divergence for each order,
    `gaussian` a sum of μ² where a rule reads it, both in units of 1/UNIT.
    """

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    impure: int = 0
    renyi: tuple[int, ...] = ()
    gaussian: int = 0

    def __add__(self, charge: Charge) -> Charge:
        return Charge(
            _shorten(self.epsilon + charge.epsilon),
            _shorten(self.delta + charge.delta),
            self.impure + charge.impure,
            tuple(a + b for a, b in zip(self.renyi, charge.renyi, strict=True)),
            self.gaussian + charge.gaussian,
        )

    def __sub__(self, charge: Charge) -> Charge:
        """What stays when `charge`, charged before, is given back. Never below the truth: rounding is
        upward."""
        return Charge(
            _shorten(self.epsilon - charge.epsilon),
            _shorten(self.delta - charge.delta),
            self.impure - charge.impure,
            tuple(a - b for a, b in zip(self.renyi, charge.renyi, strict=True)),
            self.gaussian - charge.gaussian,
        )

    def __mul__(self, times: int) -> Charge:
        each = tuple(times * r for r in self.renyi)
        delta = _shorten(times * self.delta)
        return Charge(_shorten(times * self.epsilon), delta, times * self.impure, each, times * self.gaussian)

    def fits_into(self, charge: Charge) -> bool:
        """Whether no part of this charge is larger than in `charge`."""
        return all(a <= b for a, b in zip(self._numbers(), charge._numbers(), strict=True))

    @property
    def negative(self) -> bool:
        """Whether any part is below nothing: no loss costs that, and no account may come to it."""
        parts = (self.epsilon.numerator, self.delta.numerator, self.impure, *self.renyi, self.gaussian)
        return min(parts) < 0

    def _numbers(self) -> tuple[Fraction | int, ...]:
        return (self.epsilon, self.delta, self.impure, *self.renyi, self.gaussian)

    def to_dict(self) -> dict[str, Any]:
        """Whole numbers only: a fraction is its numerator and its denominator."""
        epsilon, delta = self.epsilon.as_integer_ratio(), self.delta.as_integer_ratio()
        facts = {
            "epsilon": list(epsilon),
            "delta": list(delta),
            "impure": self.impure,
            "renyi": list(self.renyi),
        }
        # Only where a rule reads it, so that the journals of other accounts keep their bytes.
        if self.gaussian:
            return facts | {"gaussian": self.gaussian}
        return facts

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Charge:
        """Read what `to_dict` wrote; anything else is refused."""
        names = {"epsilon", "delta", "impure", "renyi"}
        if not isinstance(value, Mapping) or not names <= set(value) <= names | {"gaussian"}:
            raise InvalidParameter("Expected the JSON of a charge with epsilon, delta, impure and renyi.")
        epsilon, delta = _read_ratio(value["epsilon"]), _read_ratio(value["delta"])
        renyi = tuple(_read_whole(r) for r in _read_list(value["renyi"]))
        gaussian = _read_whole(value.get("gaussian", 0))
        if "gaussian" in value and not gaussian:
            raise InvalidParameter("Expected gaussian of a charge to be left out where it is 0.")
        return cls(epsilon, delta, _read_whole(value["impure"]), renyi, gaussian)


def _read_ratio(value: object) -> Fraction:
    parts = [_read_whole(part) for part in _read_list(value)]
    if len(parts) != 2 or parts[1] < 1 or math.gcd(*parts) != 1:
        raise InvalidParameter(
            f"Expected a fraction in lowest terms in the JSON of a charge, got {shown(value)}."
        )
    return Fraction(*parts)


def _read_whole(value: object) -> int:
    if type(value) is not int:
        raise InvalidParameter(f"Expected whole numbers in the JSON of a charge, got {shown(value)}.")
    return value


def _read_list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidParameter(f"Expected a list in the JSON of a charge, got {shown(value)}.")
    return list(value)


@guard
def charge(loss: Loss, orders: Orders = (), *, delta: Number | None = None, gaussian: bool = False) -> Charge:
    """The cost of `loss` at the Rényi `orders`, and as Gaussian noise if `gaussian`.

    With `delta` it is charged as Approximate(ε, δ), ε by the best method there is: that
    is a theorem about this one loss, whose parameters are fixed. Without, a loss that
    has neither an ε of its own nor a Rényi curve is refused.
    """
    if delta is not None:
        loss = Approximate(_upper(loss.to_json(), float(delta)), delta)
    return _charge(loss.to_json(), orders, gaussian)


@dataclass(frozen=True)
class Price:
    """What one release costs by itself, and the δ that its charge must name, None where
    it has an ε of its own."""

    charge: Charge
    delta: Number | None


def _own_charge(loss: Loss, delta: Number | None) -> Charge:
    return charge(loss, delta=delta)


def price(
    loss: Loss, delta: Number, charge_loss: Callable[[Loss, Number | None], Charge] = _own_charge
) -> Price:
    """How a release is charged where a δ is at hand: by its own ε, which adds up
    exactly, else as (ε, δ) at `delta`. An account says by `charge_loss` what a loss costs there.

    >>> from deniable.loss import Zcdp
    >>> price(Pure(0.5), 1e-6).delta, price(Zcdp(0.1), 1e-6).delta
    (None, 1e-06)
    """
    try:
        own = charge_loss(loss, None)
    except Unaccountable:
        own = None
    if own is None or own.impure:
        return Price(charge_loss(loss, delta), delta)
    return Price(own, None)


@lru_cache(maxsize=1024)
def _upper(text: str, delta: float) -> float:
    """One ε for all accounts that a loss is charged to."""
    loss = Loss.from_json(text)
    # A float means the decimal it prints, which may lie half a step from it: δ is taken a step below, ε a
    # step above.
    upper = best_epsilon(loss, math.nextafter(delta, 0.0)).upper
    if math.isinf(upper):
        raise Unaccountable(f"No ε is known for {loss} at δ = {delta:g}. Name a larger δ.")
    return math.nextafter(upper, math.inf)


@lru_cache(maxsize=4096)
def _charge(text: str, orders: Orders, gaussian: bool) -> Charge:
    """Remembered by JSON, which tells 0.1 from the binary number next to it; equality of losses does not."""
    return cost(rewrite_silenced(Loss.from_json(text)), orders, gaussian=gaussian)


def cost(loss: Loss, orders: Orders, *, gaussian: bool = False) -> Charge:
    """Composed parts add: exact for ε, valid at each order for adaptively chosen parts;
    δ's of Approximate parts add beside."""
    match loss:
        case Composed(parts):
            each = (cost(part, orders, gaussian=gaussian) for part in parts)
            return sum(each, Charge(renyi=(0,) * len(orders)))
        case Repeated(times, of):
            return cost(of, orders, gaussian=gaussian) * times
        case _:
            shift_charge = Charge()
            if gaussian:
                shift_charge = _shift(loss)
            rest = _rest(loss, orders, gaussian and shift_charge.gaussian < UNKNOWN)
            return replace(
                rest, delta=_shorten(rest.delta + shift_charge.delta), gaussian=shift_charge.gaussian
            )


def _rest(loss: Loss, orders: Orders, is_known: bool) -> Charge:
    """What is charged beside the Gaussian rule: an ε where the loss has one, else its Rényi curve."""
    pair = _pair(loss)
    if pair is None:
        return _without_epsilon(loss, orders, is_known)
    return _with_epsilon(loss, *pair, orders)


def _shift(loss: Loss) -> Charge:
    """μ² of the Gaussian release that `loss` is a post-processing of, but for a δ; UNKNOWN if there is none.

    What fails with a δ is, but for that, an ε-DP answer (Kairouz, Oh, Viswanath 2015)."""
    pair = _pair(loss)
    release = shift(Pure(pair[0]) if pair is not None and pair[1] else loss)
    if release is None:
        return Charge(gaussian=UNKNOWN)
    return Charge(delta=release.left, gaussian=min(math.ceil(release.square * UNIT), UNKNOWN))


def _with_epsilon(loss: Loss, epsilon: Fraction, delta: Fraction, orders: Orders) -> Charge:
    # What is ε-DP but for a δ is randomized response of ε but for a δ (Kairouz, Oh, Viswanath 2015, Theorem
    # 3.4).
    divergences = _divergences(Pure(epsilon), orders)
    if not delta:
        divergences = tuple(map(min, divergences, _divergences(loss, orders)))
    return Charge(_shorten(epsilon), _shorten(delta), 0, divergences)


def _without_epsilon(loss: Loss, orders: Orders, gaussian: bool) -> Charge:
    divergences = _divergences(loss, orders)
    if not gaussian and all(d >= UNKNOWN for d in divergences):
        reason = "Rényi orders are not tracked here"
        if orders:
            reason = "no Rényi curve is known at the orders tracked here"
        raise Unaccountable(
            f"This loss has no ε of its own, and {reason}: {loss}. Nothing was charged. "
            "Name a δ to charge it as (ε, δ), like delta=1e-8."
        )
    return Charge(impure=1, renyi=divergences)


def _pair(loss: Loss) -> pure.Pair | None:
    try:
        return pure.exact_pair(loss)
    except Unaccountable:
        return None


def _divergences(loss: Loss, orders: Orders) -> tuple[int, ...]:
    if not orders:
        return ()
    try:
        return tuple(_units_up(float(d)) for d in renyi.curve(loss, np.array(orders)))
    except Unaccountable:
        return (UNKNOWN,) * len(orders)


def _units_up(divergence: float) -> int:
    if not math.isfinite(divergence):
        return UNKNOWN
    return min(math.ceil(Fraction(divergence) * UNIT * _MARGIN), UNKNOWN)


def _shorten(x: Fraction) -> Fraction:
    if x.denominator <= LONGEST:
        return x
    return Fraction(math.ceil(x * LONGEST), LONGEST)
