"""From a Rényi curve to (ε, δ), at the best of all orders.

    ε = D_α + ln(1 − 1/α) − (ln δ + ln α)/(α − 1)

(Canonne, Kamath, Steinke 2020, Proposition 12; Asoodeh et al. 2020 say the same.) Every order gives a valid
pair, so the search need not be exact to be safe: it looks at α − 1 from 2^−20 upwards, stops where no higher
order can win, and closes in on the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deniable.accounting.methods.pure import exact_epsilon, share
from deniable.accounting.refusals import guard
from deniable.accounting.renyi.kernel import Array
from deniable.accounting.renyi.tree import condition, curve
from deniable.accounting.rounding import ULP, ceil_float, floor_float, round_up
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Loss, Number

Objective = Callable[[Array, Array], Array]

_WHOLE = 64
"""Orders above this are tried at whole numbers only, where sums are cheapest; that costs
less than a relative 1e-4."""


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """The least ε at `delta` that any Rényi order gives; the δ's of Approximate parts
    are taken from `delta`."""
    core, failure = condition(loss)
    left = 0.0
    if failure < 1:
        left = floor_float((share(delta) - failure) / (1 - failure))
    if left <= 0:
        if share(delta) >= failure:
            return _pure(core)
        return math.inf
    bound = best(lambda order: curve(core, order), lambda order, d: to_epsilon(order, d, left))
    return max(0.0, min(round_up(bound), _pure(core)))


@guard
def delta(loss: Loss, epsilon: float) -> float:
    """The least δ at `epsilon` that any Rényi order gives."""
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidParameter(f"Expected epsilon={epsilon} in [0, ∞).")
    core, failure = condition(loss)
    if _pure(core) <= epsilon:
        return ceil_float(failure)
    log_delta = best(lambda order: curve(core, order), lambda order, d: to_log_delta(order, d, epsilon))
    return min(1.0, round_up(ceil_float(failure) + math.exp(min(log_delta, 0.0))))


def to_epsilon(orders: Array, divergences: Array, delta: float) -> Array:
    """ε for each order, with a margin for the rounding of terms of either sign."""
    gain, price = np.log1p(-1 / orders) - np.log(orders) / (orders - 1), -math.log(delta) / (orders - 1)
    return divergences + gain + price + 16 * ULP * (divergences - gain + price)


def to_log_delta(orders: Array, divergences: Array, epsilon: float) -> Array:
    """ln δ for each order, with a margin for the rounding of terms of either sign."""
    beta, rest = orders - 1, (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
    return beta * (divergences - epsilon) + rest + 16 * ULP * (beta * (divergences + epsilon) - rest)


def best(divergences: Callable[[Array], Array], objective: Objective) -> float:
    """The least value of `objective` over orders, found by widening and then narrowing grids of log(α −
    1)."""
    place, least = _scan(divergences, objective)
    for width in (0.5, 0.125, 0.03):
        near = orders_at(place + width * np.linspace(-1, 1, 9))
        values = objective(near, divergences(near))
        i = int(np.argmin(values))
        if values[i] < least:
            place, least = math.log2(near[i] - 1), float(values[i])
    return least


def _scan(divergences: Callable[[Array], Array], objective: Objective) -> tuple[float, float]:
    place, least = 0.0, math.inf
    for start, stop in ((-20.0, 2.0), (2.0, 5.0), *((float(x), x + 2.0) for x in range(5, 50, 2))):
        at = orders_at(np.arange(start, stop, 0.5))
        bounds = divergences(at)
        values = objective(at, bounds)
        i = int(np.argmin(values))
        if values[i] < least:
            place, least = math.log2(at[i] - 1), float(values[i])
        # Divergences grow with the order, so once the objective is far above the least it will not come back.
        if values[-1] > least + 1 + abs(least) and i == 0:
            break
    return place, least


def orders_at(logs: Array) -> Array:
    orders: Array = 1 + np.exp2(logs)
    return np.unique(np.where(orders > _WHOLE, np.round(orders), orders))


def _pure(loss: Loss) -> float:
    """Order ∞."""
    try:
        return ceil_float(exact_epsilon(loss))
    except Unaccountable:
        return math.inf
