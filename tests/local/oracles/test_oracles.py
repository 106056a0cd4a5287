"""Frequency oracles: ε exact and certified, variance as theory says, servers equal to naive loops."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from deniable.errors import InvalidParameter
from deniable.local import (
    CountMeanSketch,
    FastLocalHashing,
    GeneralisedResponse,
    HadamardResponse,
    HadamardSketch,
    LocalHashing,
    OptimisedUnary,
    SubsetSelection,
    SurveyCoin,
    SymmetricUnary,
    best,
    bits,
)
from deniable.local.odds import check_epsilon, covers, log_ratio, share, truth
from deniable.local.oracles import field
from deniable.local.oracles.choose import candidates
from deniable.local.oracles.oracle import Oracle
from deniable.local.protocol import HEADER, unpack
from deniable.local.simulate import Oracles, simulate
from deniable.loss import ResponseNoise
from deniable.randomness import SecureRandom, SeededRandom
from tests import chance

K = 1024
E = float(mpmath.e)


def worst_ratio(client: Oracle) -> Fraction:
    """e^ε of a client, from the closed form of its output probabilities."""
    p, q = client.p, client.q
    match client:
        case GeneralisedResponse() | SurveyCoin():
            return p / q
        case SymmetricUnary() | OptimisedUnary():
            return p * (1 - q) / (q * (1 - p))
        case LocalHashing():
            return p * (client.g - 1) / (1 - p)
        case HadamardResponse():
            return p / (1 - p)
        case SubsetSelection():
            w = client.set_size
            return p * (client.k - w) / ((1 - p) * w)
    raise AssertionError


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, Fraction(10, 3), 8])
@pytest.mark.parametrize("k", [2, 3, 1000])
def test_the_true_epsilon_is_at_most_the_stated_one_and_next_to_it(k: int, epsilon: float) -> None:
    mpmath.mp.dps = 60
    stated = mpmath.mpf(Fraction(str(epsilon)).numerator) / Fraction(str(epsilon)).denominator
    for client in candidates(k, epsilon):
        ratio = worst_ratio(client)
        true = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert true <= stated
        assert true > stated - mpmath.mpf(2) ** -36


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=40), st.integers(1, 10**6), st.integers(1, 10**6))
def test_shares_are_certified(epsilon: Fraction, inside: int, outside: int) -> None:
    mpmath.mp.dps = 80
    real = inside / (inside + outside * mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
    p = share(epsilon, inside, outside)
    rounded = mpmath.mpf(p.numerator) / p.denominator
    assert rounded <= real
    assert rounded > real - mpmath.mpf(2) ** -63


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 8))
def test_spent_covers_the_logarithm_and_is_next_to_it(a: int, b: int, times: int) -> None:
    ratio = Fraction(max(a, b), min(a, b))
    mpmath.mp.dps = 60
    true = times * mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
    assert true <= log_ratio(ratio, times) <= true + 1e-9
    assert covers(log_ratio(ratio, times), ratio, times)


def test_the_survey_coin_says_ln_3() -> None:
    assert SurveyCoin().loss == ResponseNoise(Fraction(3, 4), 2)
    assert SurveyCoin().epsilon == pytest.approx(1.0986122886681098, rel=1e-12)
    with pytest.raises(InvalidParameter, match="heads"):
        SurveyCoin(1)


THEORY = [
    (GeneralisedResponse(K, 1), 347.0),
    (SymmetricUnary(K, 1), 3.92),
    (OptimisedUnary(K, 1), 3.68),
    (LocalHashing(K, 1), 3.69),
    (HadamardResponse(K, 1), 4.68),
    (SubsetSelection(K, 1), 3.68),
    (FastLocalHashing(1, functions=1 << 11), 3.69),
    (CountMeanSketch(1), 3.92),
    (HadamardSketch(1), 4.68),
]


@pytest.mark.parametrize(("client", "per_user"), THEORY, ids=[type(c).__name__ for c, _ in THEORY])
def test_the_error_of_twenty_runs_is_within_five_per_cent_of_theory(client: Oracles, per_user: float) -> None:
    light = isinstance(client, GeneralisedResponse | LocalHashing | HadamardResponse | HadamardSketch)
    users = 100_000 if light else 10_000
    rng = SeededRandom(11)
    runs = [simulate(client, K, users, rng=rng, seed=seed) for seed in range(40)]
    mean, expected = np.mean([r.mse for r in runs]), np.mean([r.mse_theory for r in runs])
    assert mean == pytest.approx(expected, rel=0.05)
    assert np.mean([(r.estimate.standard_errors**2).mean() for r in runs]) == pytest.approx(
        expected, rel=0.12
    )
    # What the literature prints leaves out the frequency of the item and collisions.
    assert per_user * users == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    "client", [c for c, _ in THEORY if isinstance(c, Oracle)], ids=lambda c: type(c).__name__
)
def test_estimates_are_unbiased_and_intervals_hold_the_truth(client: Oracle) -> None:
    small = type(client)(16, 2)  # type: ignore[call-arg]
    runs = [simulate(small, 16, 20_000, rng=SecureRandom(), seed=3) for _ in range(30)]
    scores = np.array([(r.estimate.counts - r.truth) / r.estimate.standard_errors for r in runs])
    assert np.all(np.abs(scores.mean(axis=0)) < chance.reach(chance.EACH / 16) / np.sqrt(len(runs)))
    low, high = runs[0].estimate.interval(1 - chance.state(chance.EACH / 16))
    assert np.all((low <= runs[0].truth) & (runs[0].truth <= high))


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1), (5, 0.5), (64, 1), (100, 3)])
def test_local_hashing_counts_what_a_naive_loop_counts(k: int, epsilon: float) -> None:
    client = LocalHashing(k, epsilon)
    reports = client.reports(np.arange(300) % k, rng=SecureRandom())
    server = client.server()
    server.add(reports)
    naive = np.zeros(k, np.int64)
    for code in unpack(reports[:, HEADER:]):
        a, y = divmod(int(code), client.g)
        naive += [slow_multiply(a, x, client.m) % client.g == y for x in range(k)]
    assert np.array_equal(client.supports(server.counts, 300), naive)


def test_hadamard_response_counts_what_a_naive_loop_counts() -> None:
    client = HadamardResponse(21, 1)
    reports = client.reports(np.arange(300) % 21, rng=SecureRandom())
    server = client.server()
    server.add(reports)
    naive = [
        sum((int(y) & (x + 1)).bit_count() % 2 == 0 for y in unpack(reports[:, HEADER:])) for x in range(21)
    ]
    assert client.supports(server.counts, 300).tolist() == naive


def test_fast_local_hashing_counts_what_a_naive_loop_counts() -> None:
    client, words = FastLocalHashing(1, functions=37), ["a", "b", "c"]
    reports = client.reports(words * 100, rng=SecureRandom())
    server = client.server()
    server.add(reports)
    table = client.family.hash_all(client.inputs(words))
    codes = [divmod(int(c), client.g) for c in unpack(reports[:, HEADER:])]
    naive = [sum(table[j, i] == y for j, y in codes) for i in range(3)]
    assert client.supports(server.counts, client.inputs(words)).tolist() == naive


def test_a_server_that_would_not_fit_is_refused_and_best_does_without() -> None:
    with pytest.raises(InvalidParameter, match="counters"):
        LocalHashing(1 << 20, 5)
    assert not isinstance(best(1 << 20, 5), LocalHashing)


def test_best_follows_variance_and_size() -> None:
    assert isinstance(best(2, 1), GeneralisedResponse)
    assert isinstance(best(1024, 1), LocalHashing)
    assert isinstance(best(10, 4), GeneralisedResponse)
    assert best(1 << 22, 1).size <= 6
    for k, epsilon in [(2, 0.5), (50, 1), (300, 3), (4096, 5)]:
        chosen = best(k, epsilon)
        assert float(chosen.variance(1, 1 / k)) <= 1.05 * min(
            float(o.variance(1, 1 / k)) for o in candidates(k, epsilon)
        )
    assert best(1024, 1, most_bytes=4).size <= 4
    with pytest.raises(InvalidParameter, match="at least 4"):
        best(1024, 1, most_bytes=3)


# -------------------------------------------------------------------------------------------------- arithmetic


def slow_multiply(a: int, b: int, m: int) -> int:
    product = 0
    for j in range(m):
        product ^= (a << j) * (b >> j & 1)
    for j in range(2 * m - 2, m - 1, -1):
        product ^= (field.polynomial(m) << (j - m)) * (product >> j & 1)
    return product


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_product_by_any_nonzero_element_is_a_permutation(m: int) -> None:
    every = np.arange(1 << m)
    for a in range(1, 1 << m):
        product = field.multiply(np.full(1 << m, a), every, m)
        assert product.tolist() == [slow_multiply(a, int(b), m) for b in every]
        assert len(set(product.tolist())) == 1 << m


@pytest.mark.parametrize("m", range(9, 25))
def test_the_moduli_are_irreducible(m: int) -> None:
    """Rabin 1980: X^(2^m) = X, and X^(2^(m/p)) − X is invertible for every prime p of m."""
    x = np.array([2])

    def frobenius(times: int) -> int:
        power = x
        for _ in range(times):
            power = field.multiply(power, power, m)
        return int(power[0])

    assert frobenius(m) == 2
    for p in (p for p in (2, 3, 5, 7, 11, 13, 17, 19, 23) if m % p == 0):
        assert _gcd(field.polynomial(m), frobenius(m // p) ^ 2) == 1


def _gcd(a: int, b: int) -> int:
    while b:
        while a.bit_length() >= b.bit_length():
            a ^= b << (a.bit_length() - b.bit_length())
        a, b = b, a
    return a


@pytest.mark.parametrize(("m", "g"), [(4, 4), (6, 8), (5, 2)])
def test_two_items_collide_under_exactly_one_function_in_g(m: int, g: int) -> None:
    every = np.arange(1 << m)
    hashed = np.array([field.multiply(every, np.full(1 << m, x), m) & (g - 1) for x in range(1 << m)])
    for x in range(1 << m):
        for y in range(x):
            assert (hashed[x] == hashed[y]).sum() == (1 << m) // g


@pytest.mark.parametrize(("n", "width"), [(0, 8), (1, 13), (7, 8), (8, 64), (300, 21), (5000, 40)])
def test_column_sums_are_those_of_the_unpacked_bits(n: int, width: int) -> None:
    rows = np.random.default_rng(n).integers(0, 256, (n, bits.byte_width(width)), dtype=np.uint8)
    plain = (
        np.unpackbits(rows, axis=1).sum(axis=0, dtype=np.int64)[:width] if n else np.zeros(width, np.int64)
    )
    assert np.array_equal(bits.column_sums(rows, width), plain)


def test_the_transform_is_the_hadamard_matrix() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (3, 32))
    assert np.array_equal(bits.walsh_hadamard(a), a @ hadamard(32))


def test_bits_are_read_written_and_turned_over_in_place() -> None:
    rows = np.zeros((4, 2), np.uint8)
    columns = np.array([0, 7, 8, 15])
    bits.write(rows, columns, np.array([True, True, False, True]))
    assert bits.read(rows, columns).tolist() == [True, True, False, True]
    bits.flip(rows, columns)
    assert np.unpackbits(rows).sum() == 1
    assert bits.read(rows, columns).tolist() == [False, False, True, False]


def test_truth_grows_with_epsilon() -> None:
    assert Fraction(1, 2) < truth(0.001) < truth(1) < truth(40) < 1
    check_epsilon(Fraction(1, 3))
