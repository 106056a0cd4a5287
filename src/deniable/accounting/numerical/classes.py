"""Many unlike steps of one kind as few: noise rounded to a grid, down for the upper side, up for the lower.

Less noise dominates more noise of the same kind, under any sample too, so each side stays certified. Losses
that gather in two atoms ±s (Laplace noise, randomized response) are rounded to multiples of one s, so that
the atoms of all steps lie on one coarse lattice; multipliers of smooth losses to a geometric grid. Both grids
are fine enough that the two sides differ by less than a hundredth of ε (docs/theory/numerical.md, "Many
unlike steps"). Mixtures cost more time a step: where a fine grid leaves many of them and a rougher one few,
they go to the rougher one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from deniable.accounting.refusals import LARGEST, SMALLEST
from deniable.loss import (
    BoundedRange,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    Pure,
    Sampled,
    exact,
)

MANY = 150
"""Unlike steps up to which each is composed as it is."""
NEAR = 3e-3
"""How far, as a share of the variance of all losses, the two sides may move apart by rounding atoms."""
RATIOS = (1.003, 1.01)
"""Grids of mixtures: the second where there are many, of which the first leaves many and the second few."""


@dataclass(frozen=True)
class NoiseGrid:
    """Between one multiplier and the next the ratios of smooth losses, of which ε moves by about as much, for
    Gaussian noise on a sample by twice as much; `mixture` is that of shifts and their chances; `parts` of
    1 are the multiples that atoms lie at, 0 for a grid of ratios there too."""

    laplace: float
    gaussian: float
    mixture: float
    parts: int = 0


FINE, ROUGH = NoiseGrid(1.006, 1.003, RATIOS[0]), NoiseGrid(1.02, 1.02, 1.02)


def coarse(steps: Mapping[Loss, int]) -> tuple[dict[Loss, int], dict[Loss, int]] | None:
    """Steps that reveal no less, and steps that reveal no more; None where there are few, or where the two
    together would be more work than the steps as they are."""
    if len(steps) <= MANY:
        return None
    grid = replace(FINE, parts=_parts(steps))
    above, below = _rounded(steps, 0, grid), _rounded(steps, 1, grid)
    mixtures = sum(isinstance(node, MixedGaussianNoise) for node in steps)
    if mixtures > 2 * MANY and len(above) + len(below) > 2 * MANY:
        grid = replace(grid, mixture=RATIOS[1])
        fewer = _rounded(steps, 0, grid), _rounded(steps, 1, grid)
        if len(fewer[0]) + len(fewer[1]) <= 2 * MANY:
            return fewer
    if grid.parts or len(above) + len(below) < len(steps):
        return (above, below)
    return None


def less_revealing(steps: Mapping[Loss, int]) -> dict[Loss, int] | None:
    """Steps of far fewer noises that reveal no more, for a first look at what a slow method could come to;
    None where there are few."""
    if len(steps) <= MANY:
        return None
    below = _rounded(steps, 1, ROUGH)
    if 3 * len({_noise(node) for node in below}) < len(steps):
        return below
    return None


def _noise(node: Loss) -> Loss:
    if isinstance(node, Sampled):
        return node.of
    return node


def _parts(steps: Mapping[Loss, int]) -> int:
    """Into how many parts 1 is cut: where s moves by u/2 on either side, Σs² moves by uΣs, and by u² a step,
    which is compared with the variance of all losses, those without atoms among them.

    0 where nothing smooth lies between atoms: those alone are composed as they are, at no cost.
    """
    sizes = [(float(s), times) for node, times in steps.items() if (s := _atom(node)) is not None]
    if len(sizes) < 2 or all(isinstance(node, Pure | DiscreteLaplaceNoise) for node in steps):
        return 0
    squares = sum(times * s * s for s, times in sizes) + sum(
        times * _smooth_variance(node) for node, times in steps.items()
    )
    unit = NEAR * squares / sum(times * s for s, times in sizes)
    unit = min(unit, math.sqrt(NEAR * squares / sum(times for _, times in sizes)))
    if 0 < unit < math.inf:
        return math.ceil(1 / unit)
    return 0


def _smooth_variance(node: Loss) -> float:
    """About the variance of a loss without atoms, where it is known at a glance."""
    match node:
        case BoundedRange(epsilon):
            return float(epsilon) ** 2 / 4
        case GaussianNoise(multiplier):
            return float(multiplier) ** -2
        case _:
            return 0.0


def _atom(node: Loss) -> Fraction | None:
    """The s of a loss that has atoms at ±s."""
    match node:
        case LaplaceNoise(multiplier):
            return 1 / exact(multiplier)
        case DiscreteLaplaceNoise(scale, 1):
            return 1 / exact(scale)
        case Pure(epsilon) if epsilon > 0:
            return exact(epsilon)
        case _:
            return None


def _rounded(steps: Mapping[Loss, int], up: int, grid: NoiseGrid) -> dict[Loss, int]:
    """The rounded steps, those with the nearest atoms first: what their common lattice is measured by."""
    total: dict[Loss, int] = {}
    for node in sorted(steps, key=lambda node: _atom(node) or math.inf):
        near = _moved(node, up, grid)
        if near is not None:
            total[near] = total.get(near, 0) + steps[node]
    return total


def _moved(node: Loss, up: int, grid: NoiseGrid) -> Loss | None:
    """A loss with as much noise or less, or with more (`up`); None where more is so much that nothing
    shows."""
    s = None
    if grid.parts:
        s = _atom(node)
    if s is not None:
        # s is the inverse of the noise: a larger one reveals no less, a smaller one no more.
        count = math.floor(s * grid.parts) if up else math.ceil(s * grid.parts)
        if count:
            return _with_atom(node, Fraction(count, grid.parts))
        return None
    match node:
        case LaplaceNoise(multiplier):
            return LaplaceNoise(_near(exact(multiplier), grid.laplace, up))
        case Sampled(_, LaplaceNoise(multiplier)):
            return replace(node, of=LaplaceNoise(_near(exact(multiplier), grid.laplace, up)))
        case Sampled(_, GaussianNoise(multiplier)):
            return replace(node, of=GaussianNoise(_near(exact(multiplier), grid.gaussian, up)))
        case MixedGaussianNoise():
            return move_mixture(node, up, grid.mixture)
        case _:  # among them Gaussian noise by itself, of which many are one, exactly
            return node


def move_mixture(node: MixedGaussianNoise, up: int, ratio: float) -> MixedGaussianNoise:
    """Shifts in multiples of σ, and the chances to be shifted at least so far, all as large or larger; as
    small or smaller where there is to be more noise (`up`).

    The loss grows with the outcome x, so the best sets are {x > t} one way and {x ≤ t} the other. A shift
    that is stochastically larger makes P(x > t) larger for every t, and leaves Q as it is: H grows both ways.
    """
    atoms = [
        (exact(shift) / exact(node.sigma), exact(weight))
        for shift, weight in zip(node.shifts, node.weights, strict=True)
        if weight
    ]
    if any(x and not SMALLEST <= x <= LARGEST for atom in atoms for x in atom):
        return node
    total, chances = Fraction(0), dict[Fraction, Fraction]()
    for shift, weight in sorted(atoms, reverse=True):
        total += weight
        chances[exact(_near(shift, ratio, 1 - up)) if shift else shift] = total
    # From the largest shift to the least, whose chance is all that there is.
    near = (_near_chance(chance, total, ratio, up) for chance in chances.values())
    tails = [Fraction(0), *accumulate(near, max)]
    weights = (tail - before for before, tail in pairwise(tails))
    return MixedGaussianNoise(1, tuple(chances), tuple(weights))


def _near_chance(chance: Fraction, total: Fraction, ratio: float, up: int) -> Fraction:
    """On a grid that is fine at both ends: the chance to stay behind may decide as well."""
    rest = total - chance
    if not chance or rest < SMALLEST:
        return chance
    if chance <= rest:
        return min(exact(_near(chance, ratio, 1 - up)), total / 2)
    return total - min(exact(_near(rest, ratio, up)), total / 2)


def _with_atom(node: Loss, s: Fraction) -> Loss:
    match node:
        case LaplaceNoise():
            return LaplaceNoise(1 / s)
        case DiscreteLaplaceNoise():
            return DiscreteLaplaceNoise(1 / s)
        case _:
            return Pure(s)


def _near(x: Fraction, ratio: float, up: int) -> float:
    """The grid's number at or below x, or the one above; by comparison with x itself, so
    that no rounding can cross it."""
    step = math.floor(math.log(float(x)) / math.log(ratio))
    # The logarithm is a guess; these comparisons are exact.
    while _power(ratio, step) > x:
        step -= 1
    while _power(ratio, step + 1) <= x:
        step += 1
    return float(ratio ** (step + up))


@lru_cache(maxsize=4096)
def _power(ratio: float, step: int) -> Fraction:
    return exact(ratio**step)
