"""The certified radius: how far an input may move before another class can overtake,
from the loss tree alone.

A classifier that sees a noisy input answers A with probability at least p_a and each
other class with at most p_b. At every input whose noisy version is a neighbour under
`loss`, with f the trade-off function of `loss` (`hypotheses.misses`),

    P'[A] ≥ f(1 − p_a),        P'[B] ≤ 1 − f(p_b),

so A stays ahead wherever f(1 − p_a) > 1 − f(p_b). Both are attained at once by a classifier that answers A
where the likelihood ratio is lowest and B where it is highest (disjoint, since p_a + p_b ≤ 1): where the loss
is attained, the radius is tight. One function gives the radii of Cohen et al. 2019, Teng et al. 2020 and Yang
et al. 2020; docs/theory/smoothing.md has the proofs.

>>> from deniable.loss import GaussianNoise
>>> print(radius(lambda r: GaussianNoise(0.25 / r), 0.99, 0.01))
[0.581586, 0.581587] (closed form)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from deniable.accounting.meaning.hypotheses import ROUNDING, has_closed_form, misses
from deniable.accounting.methods.gaussian import hockey_stick
from deniable.accounting.numerical.pairs.integer_gaussian import narrower
from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
    stretch,
)
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter
from deniable.guarantee import Bound
from deniable.loss import Loss, exact

Array = NDArray[np.float64]

CLOSED, PROFILE = "closed form", "profile"
_FINE, _COARSE = 1e-13, 1e-4
"""Relative width of the search: of closed forms, and of trees that take a composition for each radius."""
_FARTHEST = 2.0**1000
_NEAREST, _BEYOND = 1e-9, 128
"""Radii, in widths of the noise, that are decided numerically."""
_FEW = 256
"""Whole radii that are tried one by one, for all inputs at once."""
_INWARD = 1 - 1e-11
"""What floating point may do to a closed form of a radius, several times over."""


@guard
def radius(loss_at: Callable[[float], Loss], p_a: float, p_b: float) -> Bound:
    """The largest R at which no class can overtake, bracketed.

    `loss_at(R)` is the loss of inputs within R. At the lower end A stays ahead whatever
    the classifier is; at the upper end some classifier with these probabilities is
    overtaken, if its loss is attained (∞ if no such radius is known).
    """
    p_a, p_b = _probabilities(p_a, p_b)
    if p_a <= p_b:
        return Bound(0.0, 0.0, CLOSED, CLOSED)
    width, method = _COARSE, PROFILE
    if has_closed_form(loss_at(1.0)):
        width, method = _FINE, CLOSED

    @cache
    def verdict(r: float) -> tuple[bool, bool]:
        return _verdict(loss_at(r), p_a, p_b)

    low = _last(lambda r: verdict(r)[0], width)[0]
    high = _last(lambda r: not verdict(r)[1], width)[1]
    return Bound(low, max(low, high), method, method)


@guard
def is_safe(loss: Loss, p_a: float, p_b: float) -> bool:
    """Whether A certainly stays ahead at every neighbour under `loss`."""
    return _verdict(loss, p_a, p_b)[0]


@guard
def overtaken(loss: Loss, p_a: float, p_b: float) -> bool:
    """Whether some classifier with these probabilities certainly loses A's lead at a neighbour under
    `loss`."""
    return _verdict(loss, p_a, p_b)[1]


def _verdict(loss: Loss, p_a: float, p_b: float) -> tuple[bool, bool]:
    """`is_safe` and `overtaken`; neither, where the two sides of the bracket do not tell."""
    (a, b), (most_a, most_b) = misses(loss, [min(math.nextafter(1 - p_a, 2), 1.0), p_b])
    return bool(a > 1 - b), bool(most_a <= 1 - most_b)


def lecture(p_a: float, p_b: float) -> float:
    """ε of the theorem by definition and post-processing: noise of ε-DP keeps a class
    that is e^(2ε) times likelier ahead.

    P'[A] ≥ e^−ε·p_a and P'[B] ≤ e^ε·p_b: with Laplace noise of scale R/ε in ℓ1, A is
    robust within R = b·½·ln(p_a/p_b).

    >>> round(lecture(0.9, 0.1), 4)
    1.0986
    """
    p_a, p_b = _probabilities(p_a, p_b)
    if p_a <= p_b:
        return 0.0
    if p_b:
        return 0.5 * math.log(p_a / p_b)
    return math.inf


@guard
def by_definition(noise: InputNoise, p_a: float, p_b: float) -> float:
    """The radius by the definition of (ε, δ)-DP alone: p_a > e^(2ε)·p_b + (1 + e^ε)·δ at
    some ε (Lecuyer et al. 2019, Prop. 1).

    For Laplace noise δ = 0 and it is the lecture's; for Gaussian noise δ(ε) is its own;
    for uniform noise it is the tight radius.

    >>> round(by_definition(Gaussian(1), 0.99, 0.01), 3), round(float(radii(Gaussian(1), 0.99, 0.01)), 3)
    (1.318, 2.326)
    """
    p_a, p_b = _probabilities(p_a, p_b)
    if p_a <= p_b:
        return 0.0
    match noise:
        case Laplace(scale):
            return float(scale) * lecture(p_a, p_b)
        case Uniform(width):
            return float(width) * (p_a - p_b)
        case Gaussian(sigma):
            top = 40.0
            if p_b:
                top = lecture(p_a, p_b)
            return float(sigma) * _last(lambda mu: _is_safe_by_definition(mu, top, p_a, p_b), 1e-6)[0]
        case _:
            raise InvalidParameter(f"Expected Gaussian, Laplace or uniform noise, got {noise}.")


def _is_safe_by_definition(mu: float, top: float, p_a: float, p_b: float) -> bool:
    return any(
        p_a > math.exp(2 * e) * p_b + (1 + math.exp(e)) * hockey_stick(mu, float(e))
        for e in np.linspace(0, top, 80)
    )


# ---------------------------------------------------------------------------------------- many inputs at once


@guard
def radii(
    noise: InputNoise, p_a: ArrayLike, p_b: ArrayLike, norm: float | None = None, dimension: int | None = None
) -> Array:
    """The certified (lower) radius for every pair of probabilities: closed forms for
    one-leaf noises, a search for others.

    0 where A is not ahead. Whole-number noises give the largest radius of a whole-number move.

    >>> radii(Laplace(1), [0.9, 0.5], [0.1, 0.5]).round(4).tolist()
    [1.6094, 0.0]
    """
    a, b = np.broadcast_arrays(np.asarray(p_a, np.float64), np.asarray(p_b, np.float64))
    if not ((a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)).all():
        raise InvalidParameter("Expected every probability in [0, 1].")
    b = np.minimum(b, np.nextafter(1 - a, 2))
    ahead = a > b
    wide = noise.norm if norm is None else norm
    factor = float(stretch(noise.norm, wide, dimension))
    distances = np.zeros(a.shape)
    if ahead.any():
        distances[ahead] = _radii(noise, a[ahead], b[ahead], factor, norm, dimension)
    return distances


@guard
def holds(
    noise: InputNoise,
    radius: float,
    p_a: float,
    p_b: float,
    norm: float | None = None,
    dimension: int | None = None,
) -> bool:
    """Whether A certainly stays ahead within `radius`: decided at that one radius, without a search.

    >>> holds(IntegerLaplace(300_000), 480_000, 0.9, 0.1), holds(IntegerLaplace(300_000), 490_000, 0.9, 0.1)
    (True, False)
    """
    own = norm in (None, noise.norm)
    match noise:
        case Gaussian() | Laplace() | Uniform():
            return bool(radius <= radii(noise, p_a, p_b, norm, dimension))
        case IntegerGaussian() if own:
            return bool(radius <= radii(noise, p_a, p_b, norm, dimension))
        case _:
            p_b = min(p_b, math.nextafter(1 - p_a, 2))
            least, most = _ratios(noise, radius * float(stretch(noise.norm, norm or noise.norm, dimension)))
            if least < _NEAREST:
                raise InvalidParameter(f"The radius {radius:g} is too small beside {noise} to be checked.")
            # No sample is large enough for a radius of so many times the noise.
            if p_a <= p_b or most > _BEYOND:
                return False
            return is_safe(noise.loss_at(radius, norm, dimension), p_a, p_b)


def _ratios(noise: InputNoise, reach: float) -> tuple[float, float]:
    """The least and the most that `reach` is, in widths of the added noises; whole-number noise has no least
    one, since a reach below a step reveals nothing."""
    match noise:
        case Releases(parts):
            ratios = [_ratios(part, reach) for part in parts]
            return min(least for least, _ in ratios), max(most for _, most in ratios)
        case IntegerGaussian(width) | IntegerLaplace(width) | IntegerUniform(width):
            return 1.0, reach / float(width)
        case Gaussian(width) | Laplace(width) | Uniform(width):
            return reach / float(width), reach / float(width)
        case _:
            return 1.0, 1.0


def _radii(
    noise: InputNoise, a: Array, b: Array, factor: float, norm: float | None, dimension: int | None
) -> Array:
    match noise:
        case Gaussian(sigma):
            return float(sigma) / factor * _inward(_gaussian_reach(a, b))
        case Laplace(scale):
            return float(scale) / factor * _inward(_laplace_reach(a, b))
        case Uniform(width):
            return float(width) / factor * _inward(a - b)
        case IntegerGaussian(sigma) if factor == 1 and norm in (None, 2.0):
            return _integer_gaussian(float(sigma), a, b)
        case IntegerLaplace() | IntegerUniform() | Ablation() if factor == 1:
            return _by_level(noise, a, b)
        case _:
            return _radius_of_each(noise, a, b, norm, dimension)


def _gaussian_reach(a: Array, b: Array) -> Array:
    """½·(Φ⁻¹(p_a) − Φ⁻¹(p_b)): Cohen, Rosenfeld, Kolter 2019, Theorem 1."""
    return np.asarray((ndtri(a) - ndtri(b)) / 2)


def _laplace_reach(a: Array, b: Array) -> Array:
    """½·ln(p_a/p_b) up to p_a = ½ (the lecture's theorem, there tight), ½·ln(1/(4·(1 − p_a)·p_b)) above.

    The solution of f(1 − p_a) = 1 − f(p_b): α = 1 − p_a ≥ p_b lies on the last piece of
    f or on the middle one, p_b on the first. At p_b = 1 − p_a it is −ln(2·(1 − p_a)) as
    in Teng et al. 2020, whose formula for other p_b lies below it.
    """
    with np.errstate(divide="ignore"):
        likely = np.where(a <= 0.5, a, 1 / (4 * np.where(a < 1, 1 - a, 0.0)))
        return np.asarray(np.log(likely / b) / 2)


def _integer_gaussian(sigma: float, a: Array, b: Array) -> Array:
    """√k for the largest k with √k/σ' < Φ⁻¹-distance, σ' that of the continuous noise
    which dominates (`smooth.narrower`).

    σ' falls in the sensitivity, so taking it at a larger one is on the safe side.
    """
    slack = 4 * ROUNDING
    reach = np.maximum(_gaussian_reach(np.maximum(a - slack, 0), np.minimum(b + slack, 1)), 0.0) * _INWARD
    far = float(np.max(reach, initial=0.0)) * sigma
    if not far >= 1:
        return np.zeros(a.shape)
    if math.isinf(far):
        raise InvalidParameter("Expected p_a < 1 or p_b > 0: no finite radius holds otherwise.")
    pair = narrower(exact(sigma), exact(far))
    if pair is None:
        return np.zeros(a.shape)
    deviation = pair.sigma * far  # the pair is stated for a sensitivity of 1
    return np.sqrt(np.floor((reach * deviation) ** 2 * _INWARD))


def _by_level(noise: InputNoise, a: Array, b: Array) -> Array:
    """Whole radii one after the other while they are few, then by doubling and halving for each input."""
    levels, left = np.zeros(a.shape), np.arange(a.size)
    for step in range(1, _FEW + 1):
        lows = misses(noise.loss_at(step), np.concatenate([_complements(a[left]), b[left]]))[0]
        left = left[lows[: len(left)] > 1 - lows[len(left) :]]
        levels[left] = step
        if not len(left):
            return levels
    levels[left] = _radius_of_each(noise, a[left], b[left], None, None)
    return levels


def _radius_of_each(
    noise: InputNoise, a: Array, b: Array, norm: float | None, dimension: int | None
) -> Array:
    pairs, back = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    single = [_radius_of_pair(noise, float(x), float(y), norm, dimension) for x, y in pairs]
    return np.asarray(single)[back.ravel()]


def _radius_of_pair(
    noise: InputNoise, a: float, b: float, norm: float | None, dimension: int | None
) -> float:
    def holds_at(r: float) -> bool:
        return is_safe(noise.loss_at(r, norm, dimension), a, b)

    if noise.level(1, norm) is None:
        return _last(holds_at, _COARSE)[0]
    low, high = 0, 1
    while holds_at(noise.level(high, norm) or 0.0):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if holds_at(noise.level(middle, norm) or 0.0):
            low = middle
        else:
            high = middle
    return noise.level(low, norm) or 0.0


# ------------------------------------------------------------------------------------------------ small parts


def _last(holds: Callable[[float], bool], width: float) -> tuple[float, float]:
    """The ends of a narrow interval: `holds` at the first (or it is 0), not at the second (or it is ∞)."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
        if high > _FARTHEST:
            return low, math.inf
    while low == 0 and high > 1 / _FARTHEST:
        half = high / 2
        low, high = (half, high) if holds(half) else (0.0, half)
    while high - low > width * high and low:
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low, high


def _inward(reach: Array) -> Array:
    """Below a reach, in multiples of the noise, by more than what rounding of its two terms can have done."""
    return np.maximum(reach * _INWARD - 1e-14, 0.0)


def _complements(p: Array) -> Array:
    return np.minimum(np.nextafter(1 - p, 2), 1.0)


def _probabilities(p_a: float, p_b: float) -> tuple[float, float]:
    if not (0 <= p_a <= 1 and 0 <= p_b <= 1):
        raise InvalidParameter(f"Expected p_a={p_a} and p_b={p_b} in [0, 1].")
    return p_a, min(p_b, 1 - p_a)
