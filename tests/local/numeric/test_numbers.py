"""Means of numbers and vectors, ranges, and several attributes: unbiased, with honest
errors, variance as theory says."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from deniable.errors import InvalidParameter
from deniable.local import (
    Duchi,
    Estimate,
    GeneralisedResponse,
    Hybrid,
    Piecewise,
    PrivUnit,
    RangeEstimate,
    Ranges,
    Split,
)
from deniable.local.numeric.numbers import GRID
from deniable.local.numeric.vectors import directions
from deniable.local.protocol import HEADER, unpack
from deniable.loss import Pure
from deniable.randomness import SecureRandom, SeededRandom
from tests import chance

N = 200_000


@pytest.mark.parametrize("client", [Duchi(1), Piecewise(0.5), Piecewise(4), Hybrid(0.5), Hybrid(3)], ids=repr)
@pytest.mark.parametrize("x", [-1.0, 0.0, 0.7])
def test_a_mean_is_unbiased_and_its_variance_is_that_of_theory(
    client: Duchi | Piecewise | Hybrid, x: float
) -> None:
    server = client.server()
    server.add(client.reports(np.full(N, x), rng=SecureRandom()))
    mean = server.estimate()
    assert abs(mean.value - x) < chance.reach() * mean.standard_error
    # A sample's variance has a deviation of √((κ − 1)/n), and reports have a kurtosis κ below 5.
    assert mean.standard_error**2 * N == pytest.approx(
        client.variance(x), rel=chance.reach() * math.sqrt(4 / N)
    )
    low, high = mean.interval(1 - chance.state())
    assert low <= x <= high


def test_piecewise_is_certified() -> None:
    mpmath.mp.dps = 50
    for epsilon in (0.01, 1, 7):
        client = Piecewise(epsilon)
        p, w = client.p, client.window
        ratio = (p / w) / ((1 - p) / (GRID - w))
        assert mpmath.mpf(ratio.numerator) / ratio.denominator <= mpmath.exp(mpmath.mpf(str(epsilon)))
        assert client.loss == Pure(epsilon)


def test_the_window_of_piecewise_is_uniform_and_so_is_the_rest() -> None:
    client = Piecewise(2)
    places = unpack(client.reports(np.full(N, -1.0), rng=SecureRandom())[:, HEADER:])
    inside = places < client.window
    assert abs(inside.mean() - float(client.p)) < chance.reach() * 0.5 / math.sqrt(N)
    for part, low, high in ((places[inside], 0, client.window), (places[~inside], client.window, GRID)):
        assert abs(part.mean() - (low + high - 1) / 2) < chance.reach() * (high - low) / math.sqrt(
            12 * len(part)
        )
        assert (part.min(), part.max()) == (low, high - 1)


def test_values_outside_are_clamped_and_what_is_no_number_is_the_middle() -> None:
    client = Piecewise(20, low=0, high=10)
    values = np.array([math.inf, -math.inf, math.nan, 99.0])
    for value, expected in zip(values, [10, 0, 5, 10], strict=True):
        server = client.server()
        server.add(client.reports(np.full(20_000, value), rng=SecureRandom()))
        mean = server.estimate()
        assert abs(mean.value - expected) < chance.reach() * mean.standard_error + 0.01
    with pytest.raises(InvalidParameter, match="low=1 < high=1"):
        Duchi(1, low=1, high=1)
    with pytest.raises(InvalidParameter, match="sequence of numbers"):
        Duchi(1).reports(["a"], rng=SecureRandom())


def test_no_reports_have_no_error_bound() -> None:
    assert Piecewise(1).server().estimate().standard_error == math.inf


@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 1), (3, 2), (20, 4)])
def test_private_directions_are_unbiased_with_the_error_they_state(dimension: int, epsilon: float) -> None:
    client, n = PrivUnit(dimension, epsilon), 20_000
    x = np.linspace(1, 2, dimension)
    x *= 0.8 / np.linalg.norm(x)
    server = client.server()
    server.add(client.reports(np.tile(x, (n, 1)), rng=SecureRandom()))
    mean = server.estimate()
    assert np.all(np.abs(mean.value - x) < chance.reach(chance.EACH / dimension) * mean.standard_errors)
    total = (mean.standard_errors**2).sum() * n
    # One coordinate of d + 1 is not estimated; by symmetry it holds about its share of 1/c².
    assert total == pytest.approx((1 - 1 / (dimension + 1)) / client.shrink**2, rel=0.25)


def test_the_ranks_of_directions_are_a_bijection_with_two_levels_of_chance() -> None:
    client = PrivUnit(2, 1)
    ratio = (client.p / client.cap) / ((1 - client.p) / (client.directions - client.cap))
    assert float(ratio) == pytest.approx(math.e, rel=1e-12)
    assert float(ratio) <= math.e
    seeds = np.full(client.directions, 7, np.uint64)
    ranks = np.arange(client.directions)
    index = client._index_at_rank(seeds, np.tile([1.0, 0.0, 0.0], (client.directions, 1)), ranks)
    assert sorted(index.tolist()) == ranks.tolist()
    near = directions(seeds, index, 3) @ np.array([1.0, 0.0, 0.0])
    assert np.all(np.diff(near) <= 0)


def test_long_and_broken_vectors_are_made_fit() -> None:
    client = PrivUnit(2, 1)
    fit = client.inputs([[3.0, 4.0], [math.nan, 0.5], [1e300, 1e300], [0.0, 0.0]])
    assert np.allclose(np.linalg.norm(fit, axis=1), 1)
    assert np.allclose(fit[:2, :2], [[0.6, 0.8], [0.0, 0.5]])
    with pytest.raises(InvalidParameter, match="rows of 2"):
        client.inputs([[1.0]])


def test_ranges_are_estimated_within_their_errors() -> None:
    client, people = Ranges(1000, 2), np.random.default_rng(0)
    values = np.clip(people.normal(500, 100, N), 0, 999).astype(np.int64)
    server = client.server()
    server.add(client.reports(values, rng=SecureRandom()))
    raw = server.estimate()
    tree = raw.consistent()
    for low, high in [
        (0, 500),
        (400, 600),
        (123, 877),
        (10, 11),
        (0, 0),
        (500, 502),
        (999, 1000),
        (4, 8),
        (3, 9),
    ]:
        truth = int(((values >= low) & (values < high)).sum())
        for estimate in (raw.range(low, high), tree.range(low, high)):
            assert abs(estimate.value - truth) <= 6.2 * estimate.standard_error
    assert raw.range(0, 1000).value == N
    assert abs(tree.quantile(0.5) - 500) < 25
    with pytest.raises(InvalidParameter, match="low=5"):
        raw.range(5, 3)


def test_every_range_is_made_of_disjoint_nodes_that_cover_it() -> None:
    estimate = Ranges(27, 1, fanout=3).server().estimate()
    for low in range(28):
        for high in range(low, 28):
            covered = [
                item
                for level, start, end in estimate._nodes(low, high)
                for node in range(start, end)
                for item in range(node * 3**level, (node + 1) * 3**level)
            ]
            assert sorted(covered) == list(range(low, high))


def test_consistent_trees_add_up_and_err_less() -> None:
    client, truth = Ranges(64, 1), np.arange(64) * 100
    values = np.repeat(np.arange(64), truth)
    errors, rng = np.zeros(2), SeededRandom(20)
    for _ in range(20):
        server = client.server()
        server.add(client.reports(values, rng=rng))
        raw = server.estimate()
        tree = raw.consistent()
        for i in range(1, len(tree.levels)):
            assert np.allclose(tree.levels[i].counts, tree.levels[i - 1].counts.reshape(-1, 4).sum(axis=1))
        assert tree.levels[-1].counts.sum() == pytest.approx(len(values))
        errors += [((e.levels[0].counts - truth) ** 2).mean() for e in (raw, tree)]
    assert errors[1] < 0.95 * errors[0]


def test_a_tree_that_adds_up_stays_as_it_is() -> None:
    leaves = np.arange(16.0)
    levels = tuple(Estimate(c, np.ones(len(c)), 120) for c in (leaves, leaves.reshape(4, 4).sum(axis=1)))
    tree = RangeEstimate(levels, 16, 4, 120).consistent()
    for before, after in zip(levels, tree.levels, strict=True):
        assert np.allclose(before.counts, after.counts)


def test_several_attributes_split_users_and_each_keeps_all_of_epsilon() -> None:
    client = Split((GeneralisedResponse(3, 1), Duchi(2), GeneralisedResponse(5, Fraction(1, 2))))
    assert client.loss == Pure(2)
    people = np.random.default_rng(0)
    columns = (people.choice(3, N, p=[0.5, 0.3, 0.2]), people.uniform(-1, 1, N), people.integers(0, 5, N))
    server = client.server()
    server.add(client.reports(list(zip(*columns, strict=True)), rng=SecureRandom()))
    first, mean, last = server.estimate()
    for estimate, column, k in ((first, columns[0], 3), (last, columns[2], 5)):
        truth = np.bincount(column, minlength=k)
        assert np.all(np.abs(estimate.counts - truth) < 6.2 * estimate.standard_errors)
        assert estimate.users == N
    assert abs(mean.value - columns[1].mean()) < 6.2 * mean.standard_error


def test_splitting_users_beats_splitting_epsilon() -> None:
    n, d = 10_000, 4
    users = d * float(GeneralisedResponse(16, 1).variance(n / d)) * d
    budget = float(GeneralisedResponse(16, Fraction(1, d)).variance(n))
    assert users < budget


def test_a_split_refuses_rows_of_another_length_and_no_parts() -> None:
    client = Split((GeneralisedResponse(3, 1), Duchi(1)))
    with pytest.raises(InvalidParameter, match="rows of 2 entries"):
        client.reports([(1,)], rng=SecureRandom())
    with pytest.raises(InvalidParameter, match="1 to 256 clients"):
        Split(())
    with pytest.raises(InvalidParameter, match="each of 2 parts"):
        client.server().estimate([1])
