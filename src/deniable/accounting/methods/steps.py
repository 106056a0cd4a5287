"""A composition as a list of (ε, δ) steps: what strong and optimal composition are given.

A step with a pair of its own keeps it. Gaussian noise, zCDP and the like have an ε for every δ: they are
given the same share of δ each, which the methods then choose. A step on a sample is amplified (`sampling`).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from deniable.accounting import renyi
from deniable.accounting.methods import gaussian, shuffle
from deniable.accounting.methods.pure import exact_pair
from deniable.accounting.methods.sampling import amplify_pair
from deniable.accounting.refusals import check_time
from deniable.accounting.rounding import ceil_float, floor_float
from deniable.errors import Unaccountable
from deniable.loss import Composed, Loss, Repeated, Sampled, Shuffled, exact


@dataclass(frozen=True)
class PrivateStep:
    """`times` runs, each (epsilon, delta)-private."""

    epsilon: float
    delta: Fraction
    times: int


Steps = list[PrivateStep]
Total = Callable[[Steps, float], float]
Method = Callable[[Loss, float], float]


def best_split(
    loss: Loss,
    delta: float,
    total: Total,
    noise: Method = gaussian.epsilon,
    *,
    first_guess: Total | None = None,
) -> float:
    """The least `total(steps, δ left for the composition)` over the share of δ that each step is given.

    Every share gives a valid bound. The least is looked for on a grid of powers and then
    near its best point, with `first_guess` in place of `total` where that is quicker. `noise`
    gives the ε of Gaussian noise at its share.
    """
    if own_pairs(loss):
        return _total_at(flatten(loss, 0.0, noise), delta, total)
    if delta <= 0:
        return math.inf
    cache: dict[float, float] = {}

    def value(log_each: float) -> float:
        if log_each not in cache:
            cache[log_each] = _total_at(
                flatten(loss, min(1.0, math.exp(log_each)), noise), delta, first_guess or total
            )
        return cache[log_each]

    # The search starts from equal shares of all of δ.
    place = math.log(delta) - math.log(max(1, sum(count for _, count in _parts(loss, 1))))
    for width, points in ((8.4, 6), (1.4, 4), (0.35, 3), (0.1, 2)):
        place = min((place + width * i / points for i in range(-points, points + 1)), key=value)
    return min(value(place), _total_at(flatten(loss, min(1.0, math.exp(place)), noise), delta, total))


def _total_at(steps: Steps, delta: float, total: Total) -> float:
    check_time()
    failure = sum((step.times * step.delta for step in steps), Fraction(0))
    if failure > exact(delta) or failure >= 1:
        return math.inf
    # All of 1 − Π(1 − δᵢ) ≤ failure is spent; the composition has (δ − failure)/(1 − failure) left,
    # rounded down.
    return total(steps, floor_float((exact(delta) - failure) / (1 - failure)))


def flatten(loss: Loss, step_delta: float, noise: Method = gaussian.epsilon) -> Steps:
    """The steps of `loss`, equal ones counted together; `step_delta` is the δ of a step that has none of its
    own."""
    pairs: Counter[tuple[Fraction, Fraction]] = Counter()
    once = functools.cache(noise)  # one noise under many samples is asked once
    for part, count in _parts(loss, 1):
        pairs[_pair(part, step_delta, once)] += count
    return [PrivateStep(ceil_float(epsilon), delta, count) for (epsilon, delta), count in pairs.items()]


def any_pair(loss: Loss) -> bool:
    """Whether some step has an (ε, δ) of its own, or one that a Rényi curve may not know
    of: shuffled reports, samples."""
    return any(
        isinstance(part, Shuffled | Sampled) or _own_pair(part) is not None for part, _ in _parts(loss, 1)
    )


def own_pairs(loss: Loss) -> bool:
    """Whether every step has an (ε, δ) of its own."""
    return all(_own_pair(part) is not None for part, _ in _parts(loss, 1))


def _pair(loss: Loss, step_delta: float, noise: Method) -> tuple[Fraction, Fraction]:
    own = _own_pair(loss)
    if own is not None:
        return own
    if isinstance(loss, Sampled):
        return amplify_pair(loss, *_pair(loss.of, step_delta, noise))
    if step_delta <= 0:
        raise Unaccountable(f"This loss has an ε only at a δ above 0: {loss}.")
    epsilon = _method(loss, noise)(loss, step_delta)
    if math.isinf(epsilon):
        raise Unaccountable(f"No ε is known at δ = {step_delta:.3g} for {loss}.")
    return Fraction(epsilon), exact(step_delta)


def _method(loss: Loss, noise: Method) -> Method:
    if isinstance(loss, Shuffled):
        return shuffle.epsilon
    if gaussian.squared_mu(loss) is not None:
        return noise
    return renyi.epsilon


def _own_pair(loss: Loss) -> tuple[Fraction, Fraction] | None:
    if isinstance(loss, Shuffled):  # its own pair is the local one, which the shuffler betters at any δ > 0
        return None
    try:
        return exact_pair(loss)
    except Unaccountable:
        return None


def _parts(loss: Loss, times: int) -> list[tuple[Loss, int]]:
    match loss:
        case Repeated(count, of):
            return _parts(of, times * count)
        case Composed(parts):
            return [pair for part in parts for pair in _parts(part, times)]
        case _:
            return [(loss, times)]
