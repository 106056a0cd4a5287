"""Limits that hold for adaptively chosen losses.

A composition theorem for fixed parameters does not cover an analyst who picks the next loss after seeing the
last answer. A *filter* does: it sees the losses alone and grants while everything released stays (ε, δ)-DP,
however the losses were chosen (Rogers, Roth, Ullman, Vadhan 2016). Three rules:

- **basic**: Σε ≤ ε and Σδ ≤ δ;
- **Rényi**: every bounded order under a curve fixed when the filter was made (Feldman,
  Zrnic 2021; Lécuyer 2021);
- **Gaussian**: Σμ² under a level fixed likewise (Smith, Thakurta 2022).

>>> from deniable.loss import Pure
>>> limit = Filter.of(Budget(3))
>>> spent = limit.charge(Pure(0.1)) * 30
>>> limit.admits(spent), limit.admits(spent + limit.charge(Pure(1e-9)))
(True, False)

`Filter.renyi` admits what the basic rule admits *or* the curve admits, at the price of
the curve's δ alone: a path that ends within the basic rule has no privacy loss above ε at
all (docs/theory/filters.md, Theorem 3). Two curves would cost two δ's. Choosing the best
order afterwards is **not** a filter, and a test has the analyst who breaks it. Numerical
composition is a theorem about fixed parameters and is never used across charges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from deniable.accounting.filters.charges import UNIT, UNKNOWN, Charge, Orders, charge, cost
from deniable.accounting.filters.gaussian_rule import GaussianRule, response_of
from deniable.accounting.rounding import ceil_float, floor_float
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import Loss, Number, Pure, exact
from deniable.strict_json import rational, shown

_AROUND = (0.25, 0.5, 2.0, 4.0, 8.0)
"""Where, relative to α_max, orders are read beside it: a charge of another shape is told at its true size."""


@dataclass(frozen=True)
class Spent:
    """Book-keeping: `epsilon` at `delta` that the charges come to by `method`. The
    guarantee is the limit, not this.

    `share` is how much of the limit is used: 1 when nothing more fits.
    """

    epsilon: float
    delta: float
    method: str
    share: float


@dataclass(frozen=True)
class Left:
    """The largest single charge that still fits: a pure ε, a ρ of zCDP, a δ of an Approximate loss, or the μ
    of Gaussian noise (1/μ times the sensitivity). Rounded down."""

    epsilon: float
    rho: float
    delta: float
    mu: float = 0.0


class Purpose(StrEnum):
    """What an account is for: which of the rules share its δ."""

    MIXED = "mixed"
    """Anything: half of δ for a Rényi order, half for charges with a δ of their own."""
    COUNTS = "counts"
    """Many Gaussian answers: nearly all of δ for the Gaussian rule, a hundredth for
    charges with a δ of their own."""
    RUN = "run"
    """One or a few charges that use up the limit exactly, as (3, 10⁻⁵)-DP training does Budget(3, 1e-5)."""


@dataclass(frozen=True)
class Filter:
    """A limit and the rule that keeps it. What is spent is a `Charge`, kept by whoever asks.

    Guarantee: while each granted charge leaves a sum that is admitted, all releases together are `limit`-DP,
               for losses chosen adaptively and for sessions that interleave (Haney et al. 2023).
    Assumes:   each loss is valid for its mechanism; what is asked depends on releases, never on data.
    Reference: Rogers et al. 2016; Feldman, Zrnic 2021; Whitehouse et al. 2023; docs/theory/filters.md.

    `curve` bounds the first orders, in 1/UNIT; further `orders` are only read. `reserve` is the part of the
    limit's δ that Approximate losses may use up; the rest is the curve's.
    """

    limit: Budget
    reserve: Fraction
    orders: Orders = ()
    curve: tuple[int, ...] = ()
    gaussian: GaussianRule | None = None

    @classmethod
    def of(cls, limit: Budget, purpose: Purpose | str = Purpose.MIXED) -> Filter:
        """The rules for this purpose; for a limit without a δ, or an ε of 0, there is `basic` alone."""
        if purpose not in list(Purpose):
            raise InvalidParameter(f"Expected purpose={purpose!r} to be one of {', '.join(Purpose)}.")
        if purpose == Purpose.RUN or not (limit.delta and limit.epsilon):
            return cls.basic(limit)
        if purpose == Purpose.COUNTS:
            return cls.gaussians(limit)
        return cls.renyi(limit)

    @classmethod
    def gaussians(cls, limit: Budget, *, reserve: Number = Fraction(1, 100)) -> Filter:
        """The basic rule, or Σμ² of everything granted at most the μ² that is the limit
        (docs/theory/filters.md, Theorem 6)."""
        reserve_delta = _reserve_delta(limit, reserve)
        orders = cls.renyi(limit).orders
        return cls(
            limit,
            reserve_delta,
            orders,
            (),
            GaussianRule.fit(limit.epsilon, exact(limit.delta) - reserve_delta),
        )

    @classmethod
    def basic(cls, limit: Budget) -> Filter:
        """Σε ≤ ε and Σδ ≤ δ. To be chosen where few charges use the whole limit."""
        return cls(limit, exact(limit.delta))

    @classmethod
    def renyi(
        cls, limit: Budget, *, orders: Iterable[float] | None = None, reserve: Number = Fraction(1, 2)
    ) -> Filter:
        """The basic rule, or the zCDP line ρ·α up to an order α_max, ρ the largest whose (ε, δ) is the limit.

        The limit follows from the divergence at α_max alone, so only that order is bounded by default.
        `orders` bounds all of these by the largest line whose best conversion at one of them gives the limit.
        """
        reserve_delta = _reserve_delta(limit, reserve)
        if orders is not None:
            return _line(limit, reserve_delta, _check_orders(orders), ())
        top = max(_candidates(), key=lambda order: _level(limit, reserve_delta, order) / Fraction(order))
        around = {_round_order(top * factor) for factor in _AROUND} - {top}
        return _line(limit, reserve_delta, (top,), tuple(sorted(around)))

    def raised(self, limit: Budget) -> Filter:
        """The same orders under a higher limit. The guarantee is then that of the highest limit ever set."""
        old = exact(self.limit.delta)
        if not (exact(limit.epsilon) >= exact(self.limit.epsilon) and exact(limit.delta) >= old):
            raise InvalidParameter(
                f"Expected a limit of at least {self.limit}, got {limit}. A limit is never lowered."
            )
        if not self.orders:
            return Filter.basic(limit)
        if self.gaussian is not None:
            return Filter.gaussians(limit, reserve=self.reserve / old)._reading(self.orders)
        count = len(self.curve)
        return _line(limit, exact(limit.delta) * self.reserve / old, self.orders[:count], self.orders[count:])

    @property
    def nothing(self) -> Charge:
        """The state of an account that has spent nothing."""
        return Charge(renyi=(0,) * len(self.orders))

    @property
    def curve_delta(self) -> Fraction:
        """The part of δ that the curve costs."""
        return exact(self.limit.delta) - self.reserve - (self.gaussian.delta if self.gaussian else 0)

    @property
    def rules_delta(self) -> Fraction:
        """The part of δ that is no reserve: what an odometer may use."""
        return exact(self.limit.delta) - self.reserve

    def _reading(self, orders: Orders) -> Filter:
        return replace(self, orders=orders)

    def charge(self, loss: Loss, *, delta: Number | None = None) -> Charge:
        """What `loss` costs here; refused with the way out if no rule of this filter can bound it."""
        price = charge(loss, self.orders, delta=delta, gaussian=self.gaussian is not None)
        if self.gaussian is not None and price.impure and price.gaussian >= UNKNOWN:
            raise Unaccountable(
                f"This account prices Gaussian noise, and this loss is no Gaussian release: {loss}. Nothing "
                "was charged. Name a δ to charge it as (ε, δ), like delta=1e-8, or use an account for mixed "
                "purposes."
            )
        if price.impure and any(r >= UNKNOWN for r in price.renyi[: len(self.curve)]):
            raise Unaccountable(
                f"No Rényi divergence of order {self.orders[0]:g} is known for this loss: {loss}. Nothing "
                "was charged. Name a δ to charge it as (ε, δ), like delta=1e-8."
            )
        return price

    def admits(self, spending: Charge) -> bool:
        """Whether charges that come to `spending` keep the limit."""
        return spending.delta <= self.reserve and (
            self._basic(spending) or self._under_curve(spending) or self._under_gaussian(spending)
        )

    def _basic(self, spending: Charge) -> bool:
        return not spending.impure and spending.epsilon <= exact(self.limit.epsilon)

    def _under_curve(self, spending: Charge) -> bool:
        return bool(self.curve) and all(r <= top for r, _, top in self._bounded_orders(spending))

    def _under_gaussian(self, spending: Charge) -> bool:
        return self.gaussian is not None and self.gaussian.admits(spending.gaussian)

    def _bounded_orders(self, spending: Charge) -> Iterator[tuple[int, float, int]]:
        return zip(spending.renyi, self.orders, self.curve, strict=False)

    # ------------------------------------------------------------------------------------------- book-keeping

    def spent(self, spending: Charge) -> Spent:
        """The sum of ε's while that is within the limit, then the best of the tracked
        orders, at the curve's δ."""
        share = self._share(spending)
        if self._basic(spending) or not self.orders:
            epsilon = math.inf
            if not spending.impure:
                epsilon = above(spending.epsilon)
            return Spent(epsilon, above(spending.delta), "basic", share)
        if self.gaussian is not None:
            value, total = self.gaussian.reading(spending.gaussian), spending.delta + self.gaussian.delta
            return Spent(value, above(total), "Gaussian", share)
        readings = (
            (convert_order(r, a, self.curve_delta), a)
            for r, a in zip(spending.renyi, self.orders, strict=True)
        )
        value, order = min(readings)
        return Spent(value, above(spending.delta + self.curve_delta), f"Rényi order {order:g}", share)

    def reading(self, spending: Charge) -> float:
        """The ε that the rules themselves see: above the limit exactly where they refuse for ε."""
        curve = max(
            (convert_order(r, a, self.curve_delta) for r, a, _ in self._bounded_orders(spending)),
            default=math.inf,
        )
        gaussian = math.inf
        if self.gaussian is not None:
            gaussian = self.gaussian.reading(spending.gaussian)
        return min(curve, gaussian, math.inf if spending.impure else above(spending.epsilon))

    def _share(self, spending: Charge) -> float:
        curve = max((_ratio(r, top) for r, _, top in self._bounded_orders(spending)), default=math.inf)
        basic = math.inf
        if not spending.impure:
            basic = _ratio(spending.epsilon, exact(self.limit.epsilon))
        gaussian = math.inf
        if self.gaussian is not None:
            gaussian = _ratio(spending.gaussian, self.gaussian.level)
        return max(min(curve, basic, gaussian), _ratio(spending.delta, self.reserve))

    def left(self, spending: Charge) -> Left:
        """What one more charge may cost."""
        if not self.admits(spending):
            return Left(0.0, 0.0, 0.0)
        basic = 0.0
        if self._basic(spending):
            basic = _float_below(exact(self.limit.epsilon) - spending.epsilon)
        delta = _float_below(self.reserve - spending.delta)
        if self.gaussian is not None:
            mu = self.gaussian.left(spending.gaussian)
            return Left(max(basic, response_of(mu)), 0.0, delta, mu)
        if not self._under_curve(spending):
            return Left(basic, 0.0, delta)
        rho = min(Fraction(top - r, UNIT) / Fraction(a) for r, a, top in self._bounded_orders(spending))
        # One part in 2³⁰ covers the rounding up of a charge.
        fits = floor_float(rho * (1 - Fraction(1, 1 << 30)))
        return Left(
            max(basic, self._largest_pure(spending, basic)), fits, delta, math.sqrt(2 * fits) * (1 - 1e-12)
        )

    def _largest_pure(self, spending: Charge, least: float) -> float:
        """The largest ε whose charge stays under the curve, to a part in 2²⁰ and rounded
        down; 0 if it is not above `least`.

        Solved by the divergence of randomized response in floats, then charged once to
        be certain that it does fit.
        """
        room = [((top - r) / UNIT, order) for r, order, top in self._bounded_orders(spending)]
        largest = min(_largest_response(*each, 4 * float(self.limit.epsilon)) for each in room) * (
            1 - 2.0**-30
        )
        for doublings in range(20):
            if largest <= least:
                return 0.0
            if self._under_curve(spending + cost(Pure(largest), self.orders)):
                return largest
            largest *= 1 - 2.0 ** (doublings - 20)
        return 0.0

    # -------------------------------------------------------------------------------------------- JSON

    def to_dict(self) -> dict[str, Any]:
        """The filter with the curve itself, so that a limit never moves with a library or a machine."""
        facts: dict[str, Any] = {
            "epsilon": str(exact(self.limit.epsilon)),
            "delta": str(exact(self.limit.delta)),
            "reserve": str(self.reserve),
            "orders": list(self.orders),
            "curve": list(self.curve),
        }
        # Only where there is such a rule, so that the journals of other accounts keep their bytes.
        if self.gaussian is not None:
            return facts | {"gaussian": self.gaussian.to_dict()}
        return facts

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Filter:
        """Read what `to_dict` wrote; anything else is refused."""
        names = {"epsilon", "delta", "reserve", "orders", "curve"}
        if not isinstance(value, Mapping) or not names <= set(value) <= names | {"gaussian"}:
            raise InvalidParameter(
                "Expected the JSON of a filter with epsilon, delta, reserve, orders and curve."
            )
        numbers = {
            name: rational(value[name], InvalidParameter, name) for name in ("epsilon", "delta", "reserve")
        }
        limit = Budget(_shortest_number(numbers["epsilon"]), _shortest_number(numbers["delta"]))
        orders, curve = value["orders"], value["curve"]
        _check_tracked(orders, curve)
        if not 0 <= numbers["reserve"] <= numbers["delta"]:
            raise InvalidParameter(f"Expected reserve={shown(value['reserve'])} of a filter within its δ.")
        rule = None
        if "gaussian" in value:
            rule = GaussianRule.from_dict(value["gaussian"])
        if rule is not None and (curve or rule.delta + numbers["reserve"] != numbers["delta"]):
            raise InvalidParameter(
                "Expected the Gaussian rule of a filter to have all of its δ but the reserve."
            )
        return cls(limit, numbers["reserve"], tuple(map(float, orders)), tuple(curve), rule)


def _check_tracked(orders: object, curve: object) -> None:
    """Orders and the most that may be spent at each, as they stand in a JSON text."""
    if not isinstance(orders, list) or not all(_is_order(order) for order in orders):
        raise InvalidParameter(f"Expected orders={shown(orders)} of a filter to be numbers in (1, ∞).")
    are_integers = isinstance(curve, list) and all(type(top) is int for top in curve)
    if not isinstance(curve, list) or not are_integers or len(curve) > len(orders):
        raise InvalidParameter(
            f"Expected curve={shown(curve)} of a filter to be whole numbers, one for each order at most."
        )


def _is_order(value: Any) -> bool:
    return type(value) in (int, float) and 1 < value < math.inf


# ------------------------------------------------------------------------------------------------ the curve


def _reserve_delta(limit: Budget, reserve: Number) -> Fraction:
    """The part of δ for losses with a δ of their own."""
    if not (limit.epsilon > 0 and limit.delta > 0):
        raise InvalidParameter(
            f"Expected a limit with ε > 0 and δ > 0 for Rényi orders or Gaussian noise, got {limit}. Use the "
            "basic filter."
        )
    if not 0 <= exact(reserve) < 1:
        raise InvalidParameter(f"Expected reserve={reserve} in [0, 1).")
    return exact(limit.delta) * exact(reserve)


def _line(limit: Budget, reserve: Fraction, first_orders: Orders, read: Orders) -> Filter:
    rho = max(_level(limit, reserve, order) / Fraction(order) for order in first_orders)
    if rho <= 0:
        raise InvalidParameter(
            f"No order up to {max(first_orders):g} can keep {limit}. Give larger orders, or use the "
            "basic filter."
        )
    return Filter(
        limit,
        reserve,
        first_orders + read,
        tuple(math.floor(rho * Fraction(order)) for order in first_orders),
    )


def _level(limit: Budget, reserve: Fraction, order: float) -> int:
    """The largest divergence of this order, in 1/UNIT, that gives (ε, δ − kept)-DP."""
    return math.floor((exact(limit.epsilon) - Fraction(_toll(order, exact(limit.delta) - reserve))) * UNIT)


def convert_order(divergence: int, order: float, delta: Fraction) -> float:
    """The ε at `delta` that follows from a Rényi divergence, in 1/UNIT, of one order;
    rounded up, ∞ where none is known."""
    if divergence >= UNKNOWN or delta <= 0:
        return math.inf
    return max(ceil_float(Fraction(divergence, UNIT) + Fraction(_toll(order, delta))), 0.0)


def _largest_response(divergence: float, order: float, limit: float) -> float:
    """The ε up to `limit` at which randomized response has this Rényi divergence of this order. Not
    rounded."""
    low, high = 0.0, limit
    for _ in range(50):
        middle = (low + high) / 2
        odds = (order - 1) * middle
        # ln(p·e^((α−1)ε) + q·e^(−(α−1)ε)) for answers of probability p = 1/(1 + e^−ε) and q = 1 − p.
        moment = odds + math.log1p(math.exp(-middle - 2 * odds)) - math.log1p(math.exp(-middle))
        if moment <= (order - 1) * divergence:
            low = middle
        else:
            high = middle
    return low


def _toll(order: float, delta: Fraction) -> float:
    """ε − D by Canonne, Kamath, Steinke 2020, Proposition 12 (Asoodeh et al. 2020): ln(1
    − 1/α) − (ln δ + ln α)/(α − 1)."""
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    size = (abs(math.log(delta.numerator)) + abs(math.log(delta.denominator)) + math.log(order)) / (order - 1)
    toll = math.log1p(-1 / order) - (log_delta + math.log(order)) / (order - 1)
    return toll + 1e-13 * (size + 1 / (order - 1))  # rounded up; each term is right to a few parts in 2⁵³


def _candidates() -> Iterator[float]:
    """Orders from 17/16 to 2⁴⁰: whole numbers from 2 on, at which every formula holds,
    an eighth apart or less."""
    yield from (1 + k / 16 for k in range(1, 16))
    yield from map(float, range(2, 16))
    yield from (float(round(2 ** (4 + k / 8))) for k in range(8 * 36 + 1))


def _round_order(order: float) -> float:
    if order >= 2:
        return float(round(order))
    return max(round(16 * order), 17) / 16


def _check_orders(orders: Iterable[float]) -> Orders:
    values = tuple(sorted({float(order) for order in orders}))
    if not values or not all(1 < order < math.inf for order in values):
        raise InvalidParameter(f"Expected Rényi orders in (1, ∞), got {values}.")
    return values


def _ratio(part: Fraction | int, total: Fraction | int) -> float:
    if part <= 0:
        return 0.0
    if total <= 0:
        return math.inf
    return ceil_float(Fraction(part) / total)


def above(x: Fraction) -> float:
    """The least float that means at least `x` ≥ 0, where a float means the decimal it prints.

    >>> above(Fraction(251, 100))
    2.51
    """
    near = float(x)
    if exact(near) >= x:
        return near
    return math.nextafter(near, math.inf)


def _float_below(x: Fraction) -> float:
    """The largest float that means at most `x` ≥ 0, where a float means the decimal it prints."""
    near = max(float(x), 0.0)
    if exact(near) <= x:
        return near
    return math.nextafter(near, 0.0)


def _shortest_number(x: Fraction) -> Number:
    """The shortest number with this meaning: an int, else the float that prints it, else the fraction."""
    if x.denominator == 1:
        return int(x)
    if exact(float(x)) == x:
        return float(x)
    return x
