"""The moments accountant of Abadi et al. 2016, as published: whole moments λ = 1 … 32
and the tail bound, for comparison.

    ε = min over λ of (Σ α(λ) + ln(1/δ))/λ,        α(λ) = λ·D_{λ+1}

>>> from deniable.loss import GaussianNoise
>>> round(epsilon(GaussianNoise(4).sampled(0.01) * 10_000, 1e-5), 2)
1.26
"""

from __future__ import annotations

import math

import numpy as np

from deniable.accounting.methods.pure import share
from deniable.accounting.refusals import guard
from deniable.accounting.renyi.tree import condition, curve
from deniable.accounting.rounding import floor_float, round_up
from deniable.errors import InvalidParameter
from deniable.loss import GaussianNoise, Loss, Number

MOMENTS = 32
"""The moments tried, as in the paper: "it suffices to compute α(λ) for λ ≤ 32"."""


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """ε by the 2016 moments accountant. The Rényi method is never worse; this one is
    kept to compare with the paper."""
    core, failure = condition(loss)
    left = -1.0
    if failure <= share(delta):
        left = floor_float(share(delta) - failure)
    if left <= 0:
        return math.inf
    moments = np.arange(1.0, MOMENTS + 1)
    return round_up(max(0.0, float(np.min(curve(core, moments + 1) - math.log(left) / moments))))


@guard
def theorem1_constant(
    rate: float, noise_multiplier: float, steps: int, delta: float, *, epsilon: float | None = None
) -> float:
    """c₂ in σ ≥ c₂·q·√(T·ln(1/δ))/ε (Abadi et al. 2016, Theorem 1), which the paper
    leaves unnamed: σε/(q√(T ln(1/δ))).

    By default with the ε of the moments accountant; pass another method's ε to see what
    it would allow. Not a bound by itself.

    >>> round(theorem1_constant(0.01, 4, 10_000, 1e-5), 2)
    1.48
    """
    if not (0 < rate <= 1 and noise_multiplier > 0 and steps >= 1 and 0 < delta < 1):
        raise InvalidParameter(
            f"Expected rate={rate} in (0, 1], noise_multiplier={noise_multiplier} in (0, ∞), steps={steps} "
            f"of at least 1 and delta={delta} in (0, 1)."
        )
    cost = _epsilon(rate, noise_multiplier, steps, delta) if epsilon is None else epsilon
    return noise_multiplier * cost / (rate * math.sqrt(steps * math.log(1 / delta)))


def _epsilon(rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    return epsilon(GaussianNoise(noise_multiplier).sampled(rate) * steps, delta)
