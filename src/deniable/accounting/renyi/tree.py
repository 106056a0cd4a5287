"""The Rényi curve of any loss: a walk over the tree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from deniable.accounting.methods.grouping import spread
from deniable.accounting.methods.pure import exact_epsilon
from deniable.accounting.methods.relations import rewrite_silenced
from deniable.accounting.methods.sampling import has_sample, refuse_shuffled
from deniable.accounting.refusals import check_time, guard
from deniable.accounting.renyi import sampled
from deniable.accounting.renyi.kernel import Array
from deniable.accounting.renyi.leaves import HUGE, leaf
from deniable.accounting.rounding import ULP, ceil_float, least_above
from deniable.accounting.runs.selection import select_curve
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    POISSON,
    Approximate,
    Composed,
    Grouped,
    Loss,
    Parallel,
    Pure,
    Repeated,
    Sampled,
    Selected,
    Shuffled,
    exact,
)

_SPLITS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Hölder exponents tried along a chain of neighbours; each gives a valid bound."""
_LONGEST_CHAIN = 64
_NEAR_ONE = np.array([1.25, 1.5, 2.0, 3.0])


def divergence(loss: Loss, order: float) -> float:
    """An upper bound on the Rényi divergence of `loss` at one order above 1, in both directions."""
    return float(curve(loss, [order])[0])


@guard
def curve(loss: Loss, orders: Iterable[float]) -> Array:
    """Upper bounds on the Rényi divergence at each order, the larger of both directions.

    Raises `Unaccountable` where a node has none; of an Approximate node, see `condition`.
    """
    array = np.asarray(list(orders), dtype=np.float64)
    if array.ndim != 1 or not np.all((array > 1) & np.isfinite(array)):
        raise InvalidParameter("Expected Rényi orders in (1, ∞).")
    # Each leaf states its own margin; this one covers products and sums along the tree.
    return _curve(rewrite_silenced(loss), array) * (1 + 1e-12)


def condition(loss: Loss) -> tuple[Loss, Fraction]:
    """`loss` on the event that no Approximate part fails, and the probability that one does.

    (ε, δ)-DP answers are, with probability 1 − δ on both sides, those of an ε-DP mechanism (Kairouz, Oh,
    Viswanath 2015, Theorem 3.3 with Blackwell's theorem). Failures add along a composition. On a Poisson
    sample a failure also needs the unit's coin: with P = (1−δ)P₁ + δP₂ and Q alike, (1−q)Q + qP and Q fail
    with qδ, and the rest is a mixture of Q₂ against itself and of (1−q)Q₁ + qP₁ against Q₁; so δ becomes qδ.
    A group of k fails as in `pure.group_pair`.
    """
    match loss:
        case Approximate(epsilon, delta):
            return Pure(epsilon), exact(delta)
        case Repeated(times, of):
            inner, delta = condition(of)
            return Repeated(times, inner), min(times * delta, Fraction(1))
        case Composed(parts):
            pairs = [condition(part) for part in parts]
            total = sum((delta for _, delta in pairs), Fraction(0))
            return Composed(tuple(part for part, _ in pairs)), min(total, Fraction(1))
        case Parallel(parts, replace) if not replace:
            pairs = [condition(part) for part in parts]
            return Parallel(tuple(part for part, _ in pairs)), max(delta for _, delta in pairs)
        case Sampled(rate, of, scheme, replace) if scheme is POISSON and not replace:
            inner, delta = condition(of)
            return Sampled(rate, inner), exact(rate) * delta
        case Grouped(size, of) if (inner_loss := spread(size, of)) is not None:
            core, delta = condition(inner_loss)
            if delta:
                return (core, delta)
            return (loss, delta)
        case _:
            return loss, Fraction(0)


def _curve(loss: Loss, orders: Array) -> Array:
    match loss:
        case Repeated(times, of):
            return times * _curve(of, orders)
        case Composed(parts):
            counts = Counter(parts)
            total = sum((n * _curve(part, orders) for part, n in counts.items()), np.zeros(len(orders)))
            return total * (1 + 2 * ULP * len(counts))
        case Parallel(parts, replace):
            if replace:
                return _parallel(parts, orders)
            largest: Array = np.max([_curve(p, orders) for p in set(parts)], axis=0)
            return largest
        case Shuffled(_, of):  # mixing the reports is post-processing
            return _curve(of, orders)
        case Sampled() | Grouped() | Selected():
            return _cached_curve(loss, tuple(orders))
        case _:
            divergences = leaf(loss, orders)
            if divergences is None:
                raise Unaccountable(_no_curve(loss))
            return divergences


@lru_cache(maxsize=512)
def _cached_curve(loss: Loss, orders: tuple[float, ...]) -> Array:
    result = _combine(loss, np.array(orders))
    result.flags.writeable = False
    return result


@lru_cache(maxsize=128)
def _remembered_curve(loss: Loss, orders: tuple[float, ...]) -> Array:
    return _curve(loss, np.array(orders))


def _combine(loss: Loss, orders: Array) -> Array:
    check_time()
    match loss:
        case Grouped(size, Sampled(rate, of, scheme, True)) if (
            scheme is POISSON and size <= _LONGEST_CHAIN // 2
        ):
            # Each replaced record is one that leaves and one that enters: one chain of all of these, rather
            # than a chain of chains, which would look at every split of each.
            chain = chain_curve(2 * size, Sampled(rate, of), orders)
            return np.minimum(chain, _curve(Grouped(2 * size, of), orders))
        case Grouped(size, of):
            inner = spread(size, of)
            if inner is None:
                return chain_curve(size, of, orders)
            # Where noise is only moved, a chain cannot do better; for a small group on a sample it may.
            bound = _curve(inner, orders)
            if size <= 8 and has_sample(of):
                return np.minimum(bound, chain_curve(size, of, orders))
            return bound
        case Sampled(rate, of):
            of = spread(1, of) or of  # groups inside the sample become noise that is moved further
            return np.minimum(
                _sample_curve(loss, ceil_float(exact(rate)), of, orders), _ceiling(loss, orders)
            )
        case Selected(of, runs):
            return select_curve(
                lambda order: _remembered_curve(of, tuple(order)), _pure_epsilon(of), runs, orders
            )
        case _:
            raise Unaccountable(_no_curve(loss))


def _sample_curve(loss: Sampled, rate: float, inner: Loss, orders: Array) -> Array:
    refuse_shuffled(loss)
    second = _curve(inner, np.array([2.0]))[0]
    if second == 0 or second > HUGE:  # nothing is revealed, or too much for a sample to help
        return _curve(Grouped(2, inner) if loss.replace and loss.scheme is POISSON else inner, orders)
    if not loss.replace:
        return sampled.added_curve(rate, inner, lambda order: _remembered_curve(inner, tuple(order)), orders)
    if loss.scheme is POISSON:
        return np.minimum(
            chain_curve(2, Sampled(loss.rate, inner), orders), _curve(Grouped(2, inner), orders)
        )
    return sampled.replaced_curve(rate, lambda order: _remembered_curve(inner, tuple(order)), orders)


def chain_curve(size: int, loss: Loss, orders: Array) -> Array:
    """A chain of `size` neighbours, halved again and again.

    D_α(P‖R) ≤ (α − 1/p)/(α − 1)·D_{pα}(P‖Q) + D_{p′(α−1/p)}(Q‖R), 1/p + 1/p′ = 1 (Mironov 2017, Proposition
    11). Near order 1 that is worse than at the next higher orders, which bound it too.
    """
    if size == 1:
        return _curve(loss, orders)
    if size > _LONGEST_CHAIN:
        raise Unaccountable(
            f"No Rényi divergence is known for a group of {size} (above {_LONGEST_CHAIN}) of {loss}."
        )
    return least_above(lambda order: _halve_chain(size, loss, order), orders, _NEAR_ONE)


def _halve_chain(size: int, loss: Loss, orders: Array) -> Array:
    half, bounds = size // 2, []
    for p in _SPLITS if size == 2 else (2.0,):
        tail = orders - 1 / p
        far = chain_curve(size - half, loss, p * orders)
        near = chain_curve(half, loss, p / (p - 1) * tail)
        bounds.append(tail / (orders - 1) * far + near)
    least: Array = np.min(bounds, axis=0)
    return least * (1 + 16 * ULP)


def _parallel(parts: tuple[Loss, ...], orders: Array) -> Array:
    """A replaced unit leaves one part and enters another, or the same again."""
    distinct = sorted(Counter(parts).items(), key=lambda item: repr(item[0]))
    curves = [c for part, n in distinct for c in [_curve(part, orders)] * min(n, 2)]
    largest = np.sort(np.stack(curves), axis=0)[-2:].sum(axis=0)
    twice = [_curve(Grouped(2, part), orders) for part, _ in distinct]
    worst: Array = np.max([largest, *twice], axis=0)
    return worst


def _ceiling(loss: Loss, orders: Array) -> Array:
    """The curve of the pure ε of `loss`, where it has one."""
    epsilon = _pure_epsilon(loss)
    if epsilon is None:
        return np.full(len(orders), math.inf)
    return _curve(Pure(epsilon), orders)


@lru_cache(maxsize=512)
def _pure_epsilon(loss: Loss) -> Fraction | None:
    try:
        return exact_epsilon(loss)
    except Unaccountable:
        return None


def _no_curve(loss: Loss) -> str:
    if isinstance(loss, Approximate):
        return (
            f"A loss that fails with probability δ has no Rényi divergence: {loss}. Account it with a share "
            "of δ."
        )
    return f"No Rényi divergence is known for {loss}."
