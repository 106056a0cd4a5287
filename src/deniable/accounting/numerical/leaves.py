"""Pairs of single releases whose noise has no pair of its own at every size: integers, choices, zCDP."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from deniable.accounting.numerical.pairs import finite
from deniable.accounting.numerical.pairs import integer_gaussian as approximations
from deniable.accounting.numerical.pairs.continuous import Gaussian, Laplace, Pair, Range
from deniable.accounting.numerical.samples import KnownPairs, attained, no_pairs, unknown
from deniable.loss import DiscreteGaussianNoise, DiscreteLaplaceNoise, IntegerGaussianSum, Loss, Zcdp, exact

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.999)
"""Lower bounds for bounded range try mechanisms with losses share·ε and (share − 1)·ε."""


def refusal(node: Loss, reason: str) -> str:
    """Why the numerical accountant has no bound for a node."""
    return (
        f"The numerical accountant has no bound for {type(node).__name__} ({node}): {reason}. "
        "Nothing was computed; another method may know one."
    )


def concentrated(node: Zcdp) -> KnownPairs:
    """zCDP is attained by Gaussian noise; which pair is its worst is not known."""
    rho = float(node.rho)
    why = refusal(node, "its worst case has no known pair")
    if rho == 0:
        return unknown(why)
    return unknown(why, lambda: [Gaussian(1 / math.sqrt(2 * rho))])


def bounded_range(epsilon: float) -> KnownPairs:
    """One choice; below, mechanisms with two losses ε apart."""
    if epsilon == 0:
        return attained(finite.response(0.0))
    return KnownPairs(Range(epsilon), lambda: (finite.choice(epsilon, share) for share in SHARES))


def integer_laplace(node: DiscreteLaplaceNoise) -> KnownPairs:
    """Its own atoms, or, beyond a number of them, fewer."""
    scale, n = float(node.scale), node.sensitivity
    if n <= finite.MOST_ATOMS:
        return attained(finite.integer_laplace(scale, n))
    # Beyond, the atoms merge to a coarser upper bound; the continuous curve lies below the integer one at
    # every loss.
    return KnownPairs(finite.coarse_laplace(scale, n), lambda: [Laplace(float(exact(node.scale) / n))])


def _one_coordinate(sigma: float, variance: Fraction, shift: int) -> Pair:
    """Integer Gaussian noise moved along one axis: exact, or a wider one."""
    if sigma <= finite.LARGEST_SIGMA:
        return finite.integer_gaussian(sigma, shift)
    return approximations.wider(variance, shift)


def integer_sum(node: IntegerGaussianSum) -> KnownPairs:
    """Within e^±distance of one integer Gaussian (T9), in one coordinate or in several."""
    variance, sensitivity = node.parties * exact(node.sigma) ** 2, exact(node.sensitivity)
    deviation, shift = math.sqrt(variance), math.floor(sensitivity)
    if shift == 0:
        return attained(finite.response(0.0))
    is_sharp, is_narrow = node.distance < approximations.UNSEEN, deviation <= finite.LARGEST_SIGMA
    if is_sharp and is_narrow and (node.dimension == 1 or sensitivity**2 < 2):
        pair = finite.integer_gaussian(deviation, shift)
        return attained(replace(pair, dropped=pair.slack + node.distance))
    return KnownPairs(
        approximations.summed(variance, sensitivity, node.distance),
        (lambda: [_one_coordinate(deviation, variance, shift)]) if is_sharp else no_pairs,
        refusal(node, "its noise is too narrow for its grid"),
    )


def integer_gaussian(node: DiscreteGaussianNoise) -> KnownPairs:
    """Exact in one coordinate; in several between a wider and a narrower Gaussian."""
    sigma, sensitivity = exact(node.sigma), exact(node.sensitivity)
    shift = math.floor(sensitivity)
    if shift == 0:
        return attained(finite.response(0.0))
    is_single = node.dimension == 1 or sensitivity**2 < 2
    if is_single and sigma <= finite.LARGEST_SIGMA:
        return attained(finite.integer_gaussian(float(sigma), shift))
    return KnownPairs(
        approximations.narrower(sigma, Fraction(shift) if is_single else sensitivity),
        lambda: [_one_coordinate(float(sigma), sigma**2, shift)],
        refusal(node, "its worst integer shift is known for one coordinate, or for larger sigma"),
    )
