from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from deniable.randomness import SeededRandom
from deniable.randomness.noise import DIRECT_UP_TO, NoiseSampler, noise, one_minus_exp, uniform_bits

SCALES = [
    Fraction(1, 1000),
    Fraction(1, 2),
    Fraction(3),
    Fraction(8),
    Fraction(17, 2),
    Fraction(100),
    Fraction(10**4, 3),
]
P = 1e-9


def exponent(sampler: NoiseSampler, x: int) -> Fraction:
    """f(|x|), from the definition."""
    y = abs(x) / sampler.scale
    return y * y / 2 if sampler.quadratic else y


# ---------------------------------------------------------------------------------------------- exact, by construction


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("scale", [Fraction(9), Fraction(33, 2), Fraction(1000, 7), Fraction(2**60)])
def test_blocks_are_the_right_size(scale: Fraction, quadratic: bool) -> None:
    sampler = NoiseSampler(scale, quadratic)
    assert 4 < scale / 2**sampler.shift <= DIRECT_UP_TO
    assert exponent(sampler, 3 << sampler.shift) == 3 * sampler.law.first + 3 * sampler.law.second


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("scale", [Fraction(17, 2), Fraction(50)])
def test_every_integer_is_proposed_once_and_weighs_exp_of_minus_f(scripted, scale, quadratic, signed) -> None:
    """Drive blocks 0, 1, 2 with all places and signs: P(block)·P(accept) ∝ exp(−f(|x|)),
    as an identity of rationals."""
    sampler = NoiseSampler(scale, quadratic, signed)
    count, found = sampler.shift + signed, {}
    edges = [0, *sampler.table.thresholds.tolist()]
    for block in range(3):
        for low in range(1 << count):
            source = scripted(bits=[edges[block] + 1], cells=[low << (16 - count)], halves=[2**32 - 1])
            values, accepted = sampler._propose(source, 1)
            assert accepted[0]
            place, sign = (low >> 1, low & 1) if signed else (low, 0)
            gamma = sampler._exponent(block, place + sign)
            weight = block * sampler.law.first + Fraction(block * (block - 1), 2) * sampler.law.second
            assert weight + gamma == exponent(sampler, int(values[0]))
            found[int(values[0])] = 1
    size = 3 << sampler.shift
    assert sorted(found) == list(range(-size if signed else 0, size))


def limits(gamma: Fraction) -> mpmath.mpf:
    return (1 - mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)) * mpmath.mpf(2) ** 96


@given(
    scale=st.sampled_from(
        [Fraction(9), Fraction(1000, 3), Fraction(10**6), Fraction(2**40, 3), Fraction(2**60)]
    ),
    quadratic=st.booleans(),
    block=st.integers(0, 120),
    share=st.fractions(0, 1, max_denominator=10**6),
    away=st.sampled_from([-(10**6), -3, -2, -1, 0, 1, 2, 3, 10**6]),
    word=st.integers(0, 2**64 - 1),
)
def test_acceptance_is_decided_as_exact_arithmetic_decides(
    scripted, scale, quadratic, block, share, away, word
) -> None:
    """Uniforms at and around the threshold: quick filter, polynomial and integer
    brackets all agree with mpmath."""
    sampler = NoiseSampler(scale, quadratic)
    inside = int(share * 2**sampler.shift)
    with mpmath.workprec(400):
        threshold = limits(sampler._exponent(block, inside))
        v = min(max(int(threshold) // 2**64 + away, 0), 2**32 - 1)
        truth = (v << 64 | word) >= threshold
        if abs((v << 64 | word) - threshold) < 4:
            return
    source = scripted(bits=[word], halves=[v])
    arrays = np.array([block]), np.array([inside], object if inside >= 2**62 else np.int64)
    assert sampler._accept(source, *arrays)[0] == truth


@pytest.mark.parametrize("quadratic", [False, True])
def test_a_tied_acceptance_continues_the_same_uniform(scripted, quadratic: bool) -> None:
    sampler = NoiseSampler(Fraction(1000), quadratic)
    block, inside = np.array([5]), np.array([100])
    with mpmath.workprec(400):
        digits = int(limits(sampler._exponent(5, 100)))
    v, rest = digits >> 64, digits & (2**64 - 1)
    for word, expected in ((rest - 8, False), (rest + 8, True)):
        source = scripted(bits=[word], halves=[v])
        assert sampler._accept(source, block, inside)[0] == expected
        assert source.left["bits"] == []
    assert sampler._accept(scripted(halves=[v + 100]), block, inside)[0]
    assert not sampler._accept(scripted(halves=[v - 100]), block, inside)[0]


def test_what_is_refused_again_is_drawn_again(scripted) -> None:
    """Three rounds for one value: V = 0 refuses every place but the first, and only the
    accepted proposal comes out."""
    source = scripted(bits=[1, 2**63, 2**62], cells=[0xC000, 0xC000, 0x4000], halves=[0, 0, 2**32 - 1])
    values = NoiseSampler(Fraction(9)).draw(source, 1)
    block = int(np.searchsorted(NoiseSampler(Fraction(9)).table.thresholds, 2**62, side="right"))
    assert values.tolist() == [-1 - 2 * block]
    assert not any(source.left.values())


def test_the_polynomial_stays_within_its_margin() -> None:
    gamma = np.concatenate([np.linspace(0, 1, 20_001), 2.0 ** -np.arange(1, 60.0)])
    with mpmath.workprec(200):
        truth = [1 - mpmath.exp(-mpmath.mpf(g)) for g in gamma.tolist()]
        worst = max(abs(mpmath.mpf(v) - t) for v, t in zip(one_minus_exp(gamma).tolist(), truth, strict=True))
    assert worst < 2.0**-32 - 2.0**-46


@given(st.fractions(9, 2**60, max_denominator=10**9), st.booleans(), st.integers(0, 400), st.fractions(0, 1))
def test_gamma_in_doubles_is_within_its_stated_error(
    scale: Fraction, quadratic: bool, block: int, share
) -> None:
    sampler = NoiseSampler(scale, quadratic)
    inside = int(share * 2**sampler.shift)
    computed = Fraction(float(sampler._gamma(np.array([block]), np.array([inside], np.int64))[0]))
    truth = sampler._exponent(block, inside)
    assert abs(computed - truth) <= truth * Fraction(1, 2**50)


def test_uniform_bits_use_the_high_bits_of_one_word(scripted) -> None:
    assert uniform_bits(scripted(cells=[0xABCD]), 4, 1).tolist() == [0xA]
    assert uniform_bits(scripted(halves=[0xABCD0000]), 20, 1).tolist() == [0xABCD0]
    assert uniform_bits(scripted(bits=[0xABCD << 48]), 40, 1).tolist() == [0xABCD << 24]
    assert uniform_bits(scripted(bits=[1, 1 << 62]), 66, 1).tolist() == [1 << 2 | 1]
    assert uniform_bits(scripted(bits=[3]), 64, 1).tolist() == [3]


# ---------------------------------------------------------------------------------------------- wide values


def test_large_scales_give_python_integers_beyond_int64() -> None:
    drawn = SeededRandom(1).discrete_laplace(2**60, size=20_000)
    assert drawn.dtype == object
    assert all(type(x) is int for x in drawn[:100])
    beyond = sum(abs(x) >= 2**63 for x in drawn)  # mean 20000·e^−8 = 6.7
    assert 0 < beyond < 50
    assert type(SeededRandom(1).discrete_laplace(2**60)) is int
    huge = SeededRandom(2).discrete_gaussian(2**200, size=2000)
    assert 0.8 < np.mean([(x / 2**200) ** 2 for x in huge]) < 1.2


def test_a_value_beyond_int64_is_never_wrapped(scripted) -> None:
    """At scale 2^52 a block of 2^13 or more has probability e^−1024; where it comes, the
    vector holds Python integers."""
    sampler, ones = NoiseSampler(Fraction(2**52)), [2**64 - 1]
    source = scripted(bits=[*ones * 32, *[0] * 32, 2**63 | 12345], halves=[2**32 - 1] * 2)
    values, _ = sampler._propose(source, 1)
    assert values.dtype == object
    assert 2**62 <= abs(values[0]) == pytest.approx(2048 * np.log(2) * 2**52, rel=1e-3)
    near = scripted(bits=[*ones * 16, *[0] * 16, 2**63 | 12345], halves=[2**32 - 1])
    assert sampler._propose(near, 1)[0].dtype == np.int64


# ---------------------------------------------------------------------------------------------- in distribution


def cells(scale: float, quadratic: bool, bins: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Edges of about equal probability and the probabilities between them, from the definition of the law.

    Above scale 10^4 sums are integrals of a density constant within a step, to 1e-8 relative.
    """
    if scale <= 10**4:
        reach = int((9 if quadratic else 40) * scale) + 2
        x = np.arange(-reach, reach + 1)
        weights = np.exp(-((x / scale) ** 2) / 2) if quadratic else np.exp(-np.abs(x) / scale)
        cdf = np.cumsum(weights / weights.sum())
        edges = np.unique(x[np.searchsorted(cdf, np.arange(1, bins) / bins)])
        below = cdf[edges + reach]
    else:
        law = stats.norm(scale=scale) if quadratic else stats.laplace(scale=scale)
        edges = np.floor(law.ppf(np.arange(1, bins) / bins)).astype(np.int64)
        below = law.cdf(edges + 0.5)
    return edges, np.diff(np.concatenate([[0], below, [1]]))


def chi_square(values: np.ndarray, scale: float, quadratic: bool) -> float:
    edges, probabilities = cells(scale, quadratic)
    observed = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return float(stats.chisquare(observed, probabilities * len(values)).pvalue)


def kolmogorov(values: np.ndarray, scale: float, quadratic: bool) -> float:
    """Conservative for discrete laws: the largest gap at the edges of 400 cells."""
    edges, probabilities = cells(scale, quadratic, 400)
    empirical = np.searchsorted(np.sort(values), edges, side="right") / len(values)
    gap = np.abs(empirical - np.cumsum(probabilities)[:-1]).max()
    return float(stats.kstwobign.sf(gap * len(values) ** 0.5))


@pytest.mark.sampled
@pytest.mark.parametrize("quadratic", [False, True], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.5, 1, 3, 8, 8.5, 10, 100, 1000, 10**6, 2**40])
@pytest.mark.parametrize("piece", [1000, 400_000], ids=["searched", "guided"])
def test_the_right_scale_passes_and_wrong_ones_fail(scale: float, quadratic: bool, piece: int) -> None:
    rng = SeededRandom(int(scale * 10) + quadratic)
    draw = rng.discrete_gaussian if quadratic else rng.discrete_laplace
    values = np.concatenate([draw(scale, size=piece) for _ in range(400_000 // piece)])
    for test in (chi_square, kolmogorov):
        assert test(values, scale, quadratic) > P
        for wrong in (0.7, 1.3, 1.05):
            assert test(values, scale * wrong, quadratic) < P


@pytest.mark.parametrize("scale", [0.2, 1, 20, 10**5])
def test_geometric_is_the_one_sided_law(scale: float) -> None:
    values = SeededRandom(3).geometric(scale, size=400_000)
    assert values.min() == 0
    assert one_sided(values, scale) > P
    assert one_sided(values, scale * 1.05) < P
    assert one_sided(values, scale * 0.95) < P


def one_sided(values: np.ndarray, scale: float) -> float:
    edges = np.unique(np.ceil(-scale * np.log1p(-np.arange(1, 40) / 40)))
    beyond = np.exp(-np.concatenate([[0], edges]) / scale)
    observed = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    return float(stats.chisquare(observed, -np.diff(beyond, append=0) * len(values)).pvalue)


def test_tiny_scales_are_zero_nearly_always() -> None:
    rng = SeededRandom(9)
    assert not rng.discrete_laplace(0.001, size=100_000).any()
    assert not rng.discrete_gaussian(0.001, size=100_000).any()
    share = (rng.discrete_gaussian(0.3, size=400_000) != 0).mean()  # 2·e^−5.56 / (1 + 2·e^−5.56)
    expected = 2 * np.exp(-1 / 0.18) / (1 + 2 * np.exp(-1 / 0.18))
    assert abs(share - expected) < 6.2 * (expected / 400_000) ** 0.5


@pytest.mark.parametrize("quadratic", [False, True])
def test_scalar_draws_follow_the_same_law(quadratic: bool) -> None:
    rng = SeededRandom(11)
    draw = rng.discrete_gaussian if quadratic else rng.discrete_laplace
    values = np.array([draw(30) for _ in range(40_000)])
    assert chi_square(values, 30, quadratic) > P
    assert chi_square(values, 30 * 1.3, quadratic) < P
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 6.2 / 40_000**0.5


@pytest.mark.parametrize("scale", [7, 9, 300])
def test_signs_are_symmetric_and_zero_is_not_doubled(scale: int) -> None:
    """The classical slip: a sign drawn apart counts −0 twice."""
    values = SeededRandom(12).discrete_laplace(scale, size=2_000_000)
    zero, expected = (values == 0).mean(), np.tanh(0.5 / scale)
    assert abs(zero - expected) < 6.2 * (expected / 2e6) ** 0.5
    assert abs((values > 0).mean() - (values < 0).mean()) < 6.2 / 2e6**0.5


def test_the_sampler_is_kept_for_a_scale() -> None:
    assert noise(Fraction(7)) is noise(Fraction(7))
