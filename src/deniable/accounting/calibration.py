"""Solve for the noise, the steps, the rate or any other number that just fits a budget.

The answer is always safe: the ε of the loss built from it was computed and lies under the budget. It is also
close: moving it by `relative` the wrong way would pass the budget's certified upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deniable.accounting.choose import epsilon
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import POISSON, Composed, GaussianNoise, Loss, Number, Scheme

_FAR = 60.0
"""ln of how far from the start a solution is looked for: e^±60."""


@guard
def calibrate(
    build: Callable[[float], Loss],
    budget: Budget,
    *,
    increasing: bool = False,
    start: float = 1.0,
    relative: float = 1e-4,
    spent: Loss | None = None,
    method: str | None = None,
) -> float:
    """The least x with ε(build(x)) within `budget`; with `increasing=True`, where ε
    grows with x, the largest.

    `spent` is what the same data has paid for before: both together stay within
    `budget`, as one composition of fixed parts. `method` asks for one of `METHODS`
    alone, as in `epsilon`: quicker where it is known to be the best.

    >>> sigma = calibrate(lambda x: GaussianNoise(x), Budget(1, 1e-5))
    >>> round(sigma, 2)
    3.73
    """
    excess = _excess(_compose_after(spent, build, budget), budget, method)
    return math.exp(_solve(excess, math.log(start), 1.0 if increasing else -1.0, relative)[0])


@guard
def calibrate_noise(
    epsilon: float,
    delta: float,
    *,
    rate: Number = 1,
    steps: int = 1,
    scheme: Scheme = POISSON,
    replace: bool = False,
    noise: Callable[[float], Loss] = GaussianNoise,
    spent: Loss | None = None,
) -> float:
    """The least noise multiplier for `steps` releases, each on a sample of `rate`, under
    (ε, δ), `spent` included.

    >>> round(calibrate_noise(3, 1e-5, rate=0.01, steps=10_000), 2)
    1.57
    """
    build = _training(noise, rate, scheme, replace)
    # The central limit of the composition as a first guess: μ ≈ rate·√steps/σ, and ε at δ of a Gaussian of
    # that μ.
    mu = 1.0
    if delta:
        mu = max(1e-3, epsilon / (2 * math.sqrt(2 * math.log(1.25 / delta))))
    start = max(0.3, float(rate) * math.sqrt(steps) / mu)
    return calibrate(lambda x: build(x) * steps, Budget(epsilon, delta), start=start, spent=spent)


@guard
def calibrate_rate(
    epsilon: float,
    delta: float,
    *,
    noise_multiplier: float,
    steps: int = 1,
    scheme: Scheme = POISSON,
    replace: bool = False,
) -> float:
    """The largest sampling rate for `steps` releases with Gaussian noise under (ε, δ); 1
    if no sampling is needed."""
    noise, budget = GaussianNoise(noise_multiplier), Budget(epsilon, delta)

    def build(rate: float) -> Loss:
        return noise.sampled(min(1.0, rate), scheme, replace=replace) * steps

    if _fits(build(1.0), budget):
        return 1.0
    return min(1.0, calibrate(build, budget, increasing=True, start=0.01))


@guard
def calibrate_steps(
    epsilon: float,
    delta: float,
    *,
    noise_multiplier: float,
    rate: Number = 1,
    scheme: Scheme = POISSON,
    replace: bool = False,
) -> int:
    """The largest number of releases with Gaussian noise, each on a sample of `rate`, under (ε, δ)."""
    step = _training(GaussianNoise, rate, scheme, replace)(noise_multiplier)
    budget = Budget(epsilon, delta)
    if not _fits(step, budget):
        raise InvalidParameter(
            f"Not even one step of ({step}) fits {budget}. Ask for more noise or a smaller rate."
        )
    start = math.log(max(1.0, (budget.epsilon * noise_multiplier / float(rate)) ** 2 / 40))
    # On whole numbers the excess is a staircase: the solution in logarithms comes near, and halving finds the
    # step.
    near, far = _solve(_excess(lambda n: step * max(1, int(n)), budget), start, 1.0, 1e-3)
    if near > 60 * math.log(2):
        raise InvalidParameter(
            f"More than 2^60 steps of ({step}) fit {budget}: there is nothing to calibrate."
        )
    good, bad = max(1, int(math.exp(near))), int(math.exp(far)) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _fits(step * middle, budget):
            good = middle
        else:
            bad = middle
    return good


def _compose_after(
    spent: Loss | None, build: Callable[[float], Loss], budget: Budget
) -> Callable[[float], Loss]:
    """`build`, composed with what was spent before; refused if that alone leaves nothing."""
    if spent is None:
        return build
    if not _fits(spent, budget):
        raise InvalidParameter(
            f"What was spent before ({spent}) passes {budget} by itself: nothing more fits."
        )
    return lambda x: Composed((spent, build(x)))


def _training(
    noise: Callable[[float], Loss], rate: Number, scheme: Scheme, replace: bool
) -> Callable[[float], Loss]:
    """One release as a function of its noise; a rate of 1 without replacement of units
    is no sampling at all."""
    if rate == 1 and not replace and scheme is POISSON:
        return noise
    return lambda x: noise(x).sampled(rate, scheme, replace=replace)


def _fits(loss: Loss, budget: Budget) -> bool:
    return epsilon(loss, float(budget.delta)).upper <= budget.epsilon


def _excess(
    build: Callable[[float], Loss], budget: Budget, method: str | None = None
) -> Callable[[float], float]:
    """ln of ε(build(e^v)) over the budget's ε."""
    if not budget.epsilon > 0:
        raise InvalidParameter(f"Expected epsilon={budget.epsilon} in (0, ∞): no finite noise gives ε = 0.")
    target, delta = float(budget.epsilon), float(budget.delta)

    def excess(v: float) -> float:
        value = epsilon(build(math.exp(v)), delta, method=method).upper
        return max(-_FAR, min(_FAR, math.log(max(value, 1e-300) / target)))

    return excess


def _solve(
    excess: Callable[[float], float], start: float, sign: float, relative: float
) -> tuple[float, float]:
    """Two points at most `relative` apart: excess ≤ 0 at the first and > 0 at the
    second; excess·sign grows with v.

    Secant steps inside a bracket, aimed in turn a little to either side of the root so that both ends close
    in, and halving when they stall.
    """
    good, bad = _enclose(excess, start, sign)
    aim = -sign
    for turn in range(200):
        if abs(good[0] - bad[0]) <= relative:
            break
        slope = (good[1] - bad[1]) / (good[0] - bad[0])
        guess = good[0] - good[1] / slope + aim * 0.4 * relative
        if turn % 4 == 3:  # halving: a secant alone may crawl along one side of a kink
            guess = (good[0] + bad[0]) / 2
        low, high = sorted((good[0], bad[0]))
        guess = min(max(guess, low + 0.2 * relative), high - 0.2 * relative)
        point = (guess, excess(guess))
        if point[1] <= 0:
            good, aim = point, sign
        else:
            bad, aim = point, -sign
    return good[0], bad[0]


def _enclose(
    excess: Callable[[float], float], start: float, sign: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """A point where the budget holds and one where it does not, from growing steps."""
    here, step = (start, excess(start)), 0.2
    while True:
        v = here[0] + sign * step
        if here[1] > 0:
            v = here[0] - sign * step
        if abs(v - start) > _FAR:
            raise InvalidParameter(
                "No value within e^±60 of the start just fits this budget: is it a limit at all?"
            )
        there = (v, excess(v))
        if (there[1] > 0) != (here[1] > 0):
            if here[1] > 0:
                return (there, here)
            return (here, there)
        here, step = there, 2 * step
