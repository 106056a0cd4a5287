"""How many noisy copies a radius takes: the probability it needs, the fewest samples,
and looks that stop early."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.special import betainc

from deniable.accounting import proportion
from deniable.accounting.radius import radii
from deniable.accounting.radius.input_noise import InputNoise
from deniable.accounting.radius.votes import DEFAULT_ALPHA, Looks, bounds
from deniable.errors import InvalidParameter

MOST_SAMPLES = 2**40
GROWTH = 2
"""Each look has so many times the samples of the one before."""


@lru_cache(maxsize=1024)
def needed_probability(
    noise: InputNoise, radius: float, norm: float | None = None, dimension: int | None = None
) -> float:
    """The least p_a that certifies `radius` if no more is known of the others than 1 −
    p_a, rounded up; 1 if none does.

    >>> from deniable.accounting.radius.input_noise import Gaussian
    >>> round(needed_probability(Gaussian(0.25), 0.5), 4)
    0.9772
    """
    low, high = 0.0, 1.0
    while high - low > 1e-12 * (1 - low) + 1e-15:
        middle = (low + high) / 2
        reach = math.inf
        if middle < 1:
            reach = float(radii(noise, middle, 1 - middle, norm, dimension))
        if reach >= radius:
            high = middle
        else:
            low = middle
        if middle in (0.0, 1.0):
            break
    return high


def fewest_samples(p_needed: float, alpha: float, *, runner_up: bool = True) -> int:
    """How many votes, all for one class, prove that its probability is at least `p_needed`: p^n ≤ α."""
    if p_needed >= 1:
        return MOST_SAMPLES
    share = alpha
    if runner_up:  # α is shared by the two sides
        share = alpha / 2
    n = max(1, math.ceil(math.log(share) / math.log(p_needed)))
    # Logarithms may round n down by one: the bound itself decides.
    while float(proportion.lower(n, n, share)) < p_needed:
        n += 1
    return n


def looks_for(
    noise: InputNoise,
    radius: float,
    samples: int,
    alpha: float = DEFAULT_ALPHA,
    *,
    norm: float | None = None,
    dimension: int | None = None,
    runner_up: bool = True,
) -> Looks:
    """Looks that decide one given radius soon: the first where a unanimous vote could,
    then twice as many each time.

    >>> from deniable.accounting.radius.input_noise import Gaussian
    >>> looks_for(Gaussian(0.25), 0.5, 10_000).sizes
    (409, 818, 1636, 3272, 6544, 10000)
    """
    probability = needed_probability(noise, radius, norm, dimension)
    sizes: tuple[int, ...] = (samples,)
    # More looks make the share of each smaller and the first look larger: settled after a round or two.
    for _ in range(8):
        first = fewest_samples(probability, Looks(sizes, alpha).share, runner_up=runner_up)
        count = 1
        if first < samples:
            count = max(1, math.ceil(math.log(samples / first, GROWTH))) + 1
        next_sizes = (*(first * GROWTH**i for i in range(count - 1)), samples)
        if next_sizes == sizes:
            break
        sizes = next_sizes
    return Looks(sizes, alpha)


def samples_for(
    noise: InputNoise,
    radius: float,
    p_a: float,
    p_b: float | None = None,
    *,
    alpha: float = DEFAULT_ALPHA,
    power: float = 0.95,
    norm: float | None = None,
    dimension: int | None = None,
) -> int:
    """How many samples certify `radius` with probability at least `power`, if the
    classes have these probabilities.

    Left out, p_b is 1 − p_a. Three classes or more, so that both sides share α. `InvalidParameter` if the
    radius lies beyond what these probabilities have.

    >>> from deniable.accounting.radius.input_noise import Gaussian
    >>> samples_for(Gaussian(0.25), 0.5, p_a=0.99)
    2473
    """
    two, other = True, p_b
    if other is None:
        two, other = False, 1 - p_a
    if not (0 < power < 1 and 0 <= other <= p_a <= 1):
        raise InvalidParameter(f"Expected power={power} in (0, 1) and 0 ≤ p_b={other} ≤ p_a={p_a} ≤ 1.")
    if float(radii(noise, p_a, other, norm, dimension)) <= radius:
        raise InvalidParameter(
            f"No number of samples certifies the radius {radius:g}: at p_a = {p_a:g} and p_b = {other:g} the "
            f"smoothed classifier itself has {float(radii(noise, p_a, other, norm, dimension)):.4g}."
        )
    miss_share = (1 - power) / (1 + two)

    def suffices(n: int) -> bool:
        own, rival = _unlucky(n, p_a, miss_share), n - _unlucky(n, 1 - other, miss_share)
        counts = [own, rival, n - own - rival] if two and own + rival <= n else [own, n - own, 0]
        a, b = bounds([counts], [0], alpha)
        return float(radii(noise, a, b, norm, dimension)[0]) >= radius

    return _least(suffices)


def _unlucky(n: int, p: float, risk: float) -> int:
    """The largest k that a count of n is below with probability at most `risk`:
    P(Bin(n, p) ≤ k − 1) ≤ missed."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        below = 0.0
        if p < 1:
            below = float(betainc(n - middle + 1, middle, 1 - p))
        if below <= risk:
            low = middle
        else:
            high = middle - 1
    return low


def _least(holds: Callable[[int], bool]) -> int:
    """The least n from which on, up to a few per cent, it holds: counts are whole, so it
    is not quite monotone."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST_SAMPLES:
            raise InvalidParameter(
                f"More than {MOST_SAMPLES:,} samples would be needed. Nothing was planned."
            )
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
