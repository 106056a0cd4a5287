"""The public functions: ε at δ, δ at ε, the whole curve, and lower bounds where no upper one is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deniable.accounting.numerical.lattice.search import delta_bounds, epsilon_bounds
from deniable.accounting.numerical.lattice.sweep import profile_bounds
from deniable.accounting.numerical.rounding import Array
from deniable.accounting.numerical.terms import cases, lower_cases
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter
from deniable.guarantee import NONE_KNOWN, Bound
from deniable.loss import Loss

METHOD = "numerical"


@guard
def epsilon(loss: Loss, delta: float) -> Bound:
    """The least ε such that `loss` is (ε, δ)-DP, bracketed.

    `Unaccountable` names the node that has no dominating pair.
    """
    if not 0 <= delta < 1:
        raise InvalidParameter(f"Expected delta={delta} in [0, 1).")
    lower_bound, upper = epsilon_bounds(cases(loss), float(delta))
    return _bound(lower_bound, upper)


@guard
def delta(loss: Loss, epsilon: float) -> Bound:
    """The least δ such that `loss` is (ε, δ)-DP, bracketed."""
    if not 0 <= epsilon < math.inf:
        raise InvalidParameter(f"Expected epsilon={epsilon} in [0, ∞).")
    lower_bound, upper = delta_bounds(cases(loss), float(epsilon))
    return _bound(lower_bound, upper)


@guard
def lower(loss: Loss, delta: float) -> float:
    """A certified lower bound on ε at δ, also for losses whose upper bound must come from another method.

    Nodes without a known attained pair count as if they revealed nothing; zCDP is attained by Gaussian noise.
    """
    if not 0 < delta < 1:
        raise InvalidParameter(f"Expected delta={delta} in (0, 1).")
    return epsilon_bounds(lower_cases(loss), float(delta))[0]


@guard
def profile(loss: Loss, epsilons: Sequence[float] | Array) -> tuple[Array, Array]:
    """δ at many ε ≥ 0 from few compositions: arrays of certified lower and upper bounds."""
    points = np.asarray(epsilons, dtype=np.float64)
    if not (np.isfinite(points).all() and (points >= 0).all()):
        raise InvalidParameter("Expected every ε of a profile in [0, ∞).")
    return profile_bounds(cases(loss), points)


def _bound(lower: float, upper: float) -> Bound:
    return Bound(lower, upper, METHOD, METHOD if lower > 0 else NONE_KNOWN)
