"""`verify_radius` beside an independent calculation: claims just within the true radius, and just beyond it."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import pytest

from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Uniform,
)
from deniable.accounting.radius.robustness import (
    Evaluation,
    Isolation,
    RadiusCertificate,
    Votes,
    verify_radius,
)
from deniable.accounting.radius.votes import Looks
from deniable.errors import InvalidCertificate

Real = mpmath.mpf


def least(count: int, total: int, alpha: Real) -> Real:
    """p with P(Bin(total, p) ≥ count) = alpha: Clopper and Pearson's lower bound."""
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    for _ in range(90):
        middle = (low + high) / 2
        if mpmath.betainc(count, total - count + 1, 0, middle, regularized=True) <= alpha:
            low = middle
        else:
            high = middle
    return low


def stays_ahead(noise: InputNoise, radius: float, p_a: Real, p_b: Real) -> bool:
    """Whether the least probability of A exceeds the largest of B, from the noise's definition."""
    match noise:
        case Gaussian(width):
            quantile = [mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1) for p in (p_a, p_b)]
            return bool(2 * Real(radius) / Real(width) < quantile[0] - quantile[1])
        case Laplace(width):
            ratio = p_a if p_a <= 0.5 else 1 / (4 * (1 - p_a))
            return bool(2 * Real(radius) / Real(width) < mpmath.log(ratio / p_b))
        case Uniform(width):
            return bool(Real(radius) / Real(width) < p_a - p_b)
        case IntegerUniform(width):
            return bool(2 * Real(math.floor(radius)) / (2 * width + 1) < p_a - p_b)
        case Ablation(keep, pixels):
            unseen = Fraction(math.comb(pixels - math.floor(radius), keep), math.comb(pixels, keep))
            return bool(2 * (1 - Real(unseen.numerator) / unseen.denominator) < p_a - p_b)
        case IntegerLaplace(scale):
            moved = math.floor(radius)
            return _trade(Real(scale), moved, 1 - p_a) > 1 - _trade(Real(scale), moved, p_b)
        case _:
            raise AssertionError(noise)


def _trade(scale: Real, moved: int, alpha: Real) -> Real:
    """The least probability under the moved noise of an event that misses one of `alpha`, by Neyman and
    Pearson: outcomes in the order of their ratio, until 1 − alpha of the first law is used up."""
    end = moved + int(60 * scale)
    t = mpmath.exp(-1 / scale)
    unit = (1 - t) / (1 + t)
    left, power = 1 - alpha, mpmath.mpf(0)
    # Falling likelihood ratio of the first law to the moved one: ever further from it, seen from its side.
    for place in range(-end, end + moved + 1):
        first, second = unit * t ** abs(place), unit * t ** abs(place - moved)
        share = min(mpmath.mpf(1), left / first)
        left, power = left - share * first, power + share * second
        if left <= 0:
            break
    return power


def claims(draw: random.Random) -> tuple[InputNoise, Votes]:
    width = draw.choice([0.25, 1.0, 3.0, 40.0])
    noise = draw.choice(
        [
            Gaussian(width),
            Laplace(width),
            Uniform(width),
            IntegerUniform(draw.choice([3, 40, 1000])),
            Ablation(draw.choice([2, 5]), draw.choice([30, 400])),
            IntegerLaplace(draw.choice([2, 6])),
        ]
    )
    total = draw.choice([50, 1000])
    rest = draw.randrange(0, total // 4)
    rival = draw.randrange(0, rest + 1)
    votes = Votes(
        0,
        (1, 0, 0),
        (total - rest, rival, rest - rival),
        Looks((total,), draw.choice([0.001, 0.05])),
        draw.random() < 0.5,
    )
    return noise, votes


def check(seed: int, count: int) -> tuple[int, int]:
    """How many claims were taken and refused; each must agree with the calculation, up to 1e-9 of it."""
    draw, taken, refused = random.Random(seed), 0, 0
    for _ in range(count):
        noise, votes = claims(draw)
        total = sum(votes.counts)
        alpha = Real(votes.looks.alpha) / (2 if votes.runner_up else 1)
        p_a = least(votes.counts[0], total, alpha)
        p_b = 1 - p_a
        if votes.runner_up:
            p_b = min(p_b, 1 - least(total - max(votes.counts[1:]), total, alpha))
        reach = votes.radius(noise, noise.norm, 400)
        evaluation = Evaluation("model", 100, True, False, 1.0, Isolation.SEEN)
        for radius in (
            reach,
            reach * (1 - 1e-4),
            reach * (1 + 1e-6),
            reach * (1 + 1e-3),
            reach + 1,
            2 * reach + 1,
        ):
            if not radius:
                continue
            claim = RadiusCertificate(noise, noise.norm, radius, 400, votes, evaluation, "input")
            try:
                verify_radius(claim)
            except InvalidCertificate:
                refused += 1
                assert not stays_ahead(noise, radius * (1 + 1e-9), p_a, p_b), claim
            else:
                taken += 1
                assert stays_ahead(noise, radius, p_a, p_b), claim
    return taken, refused


def test_a_claim_is_taken_exactly_when_an_independent_calculation_says_so() -> None:
    taken, refused = check(1, 12)
    assert min(taken, refused) > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_claims_are_taken_exactly_when_an_independent_calculation_says_so(seed: int) -> None:
    taken, refused = check(seed, 60)
    assert min(taken, refused) > 50
