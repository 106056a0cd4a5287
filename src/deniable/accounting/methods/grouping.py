"""Group privacy inside the tree: what `Grouped(size, of)` is worth as a loss without the group.

Noise of known shape is moved `size` times as far; ε's and ranges add along a chain of
neighbours; ρ grows by size² (Bun, Steinke 2016, Proposition 1.9). A Poisson sample holds
none of the group with probability (1 − q)^size, and otherwise at most all of it: the
mechanism on a sample of rate 1 − (1 − q)^size, for the whole group, reveals no less.
"""

from __future__ import annotations

from fractions import Fraction

from deniable.accounting.methods.pure import exact_pair, group_pair
from deniable.accounting.rounding import shorten_up
from deniable.loss import (
    POISSON,
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Zcdp,
    exact,
)


def spread(size: int, loss: Loss) -> Loss | None:
    """A loss that is at least `Grouped(size, loss)`; None where only a chain of
    neighbours is known to bound it."""
    match loss:
        case Repeated(times, of):
            inner = spread(size, of)
            if inner is None:
                return None
            return Repeated(times, inner)
        case Composed(parts):
            spreads = [spread(size, part) for part in parts]
            if None in spreads:
                return None
            return Composed(tuple(s for s in spreads if s is not None))
        case Grouped(inner_size, of):
            return spread(size * inner_size, of)
        case Sampled(rate, of, scheme, replace) if scheme is POISSON and not replace:
            inner = spread(size, of)
            if inner is None:
                return None
            return Sampled(_chance_of_any(size, exact(rate)), inner)
        case _:
            if size == 1:
                return loss
            return _leaf(size, loss)


def _leaf(size: int, loss: Loss) -> Loss | None:
    match loss:
        case Pure() | ResponseNoise() | Approximate():
            epsilon, delta = group_pair(size, exact_pair(loss))
            if delta:
                return Approximate(epsilon, delta)
            return Pure(epsilon)
        case Zcdp(rho):
            return Zcdp(size * size * exact(rho))
        case BoundedRange(epsilon):
            return BoundedRange(size * exact(epsilon))
        case LaplaceNoise(multiplier):
            return LaplaceNoise(exact(multiplier) / size)
        case GaussianNoise(multiplier):
            return GaussianNoise(exact(multiplier) / size)
        case DiscreteLaplaceNoise(scale, sensitivity):
            return DiscreteLaplaceNoise(scale, size * sensitivity)
        case DiscreteGaussianNoise(sigma, sensitivity, dimension):
            return DiscreteGaussianNoise(sigma, size * exact(sensitivity), dimension)
        case _:
            return None


def _chance_of_any(size: int, rate: Fraction) -> Fraction:
    """1 − (1 − q)^size, at most size·q: rounded up, or the cheaper expression, where the
    power has many digits."""
    if size > 64:
        return min(size * rate, Fraction(1))
    share = 1 - (1 - rate) ** size
    if share.denominator.bit_length() < 2000:
        return share
    return min(shorten_up(share), Fraction(1))
