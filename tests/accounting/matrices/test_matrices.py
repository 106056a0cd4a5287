"""Sensitivities against every pattern, sign and many unit vectors on small cases; noise
against the inverse matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import accounting
from deniable.accounting.matrices import (
    BufferedToeplitz,
    Participation,
    Toeplitz,
    Tree,
    banded,
    buffered,
    cyclic_loss,
    loss,
    participation,
    sensitivity,
    square_root,
)
from deniable.accounting.matrices.families import Array
from deniable.errors import InvalidParameter
from deniable.loss import GaussianNoise, Repeated, Sampled
from deniable.units import Relation


def all_patterns(who: Participation) -> list[tuple[int, ...]]:
    """Every pattern that the words of `Participation` allow, by trying all subsets."""
    subsets = (s for k in range(1, who.times + 1) for s in itertools.combinations(range(who.steps), k))
    return [s for s in subsets if all(b - a >= who.apart for a, b in itertools.pairwise(s))]


def moved(encoder: Array, pattern: tuple[int, ...], vectors: Array) -> float:
    return float(np.linalg.norm(encoder[:, pattern] @ vectors))


def reached(encoder: Array, pattern: tuple[int, ...], rng: np.random.Generator) -> float:
    """The most that unit vectors move: all signs, then ascent from random vectors (each
    turned to face the others' sum)."""
    columns = encoder[:, pattern]
    gram, k = columns.T @ columns, len(pattern)
    signs = (np.array(s, dtype=float)[:, None] for s in itertools.product((-1, 1), repeat=k))
    best = max(moved(encoder, pattern, s) for s in signs)
    for _ in range(4):
        vectors = rng.normal(size=(k, k))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for _ in range(60):
            for i in range(k):
                pull = gram[i] @ vectors - gram[i, i] * vectors[i]
                if np.linalg.norm(pull) > 1e-12:
                    vectors[i] = pull / np.linalg.norm(pull)
        best = max(best, moved(encoder, pattern, vectors))
    return best


def worst(encoder: Array, who: Participation, rng: np.random.Generator) -> float:
    return max(reached(encoder, pattern, rng) for pattern in all_patterns(who))


SMALL = [
    Participation(6, 1, 1),
    Participation(6, 2, 3),
    Participation(6, 3, 2),
    Participation(5, 5, 1),
    Participation(7, 2, 2),
]
FAMILIES: dict[str, Callable[[int], Toeplitz | Tree | BufferedToeplitz]] = {
    "square root": square_root,
    "three bands": lambda n: banded(n, 3),
    "two bands": lambda n: banded(n, 2),
    "buffered": lambda n: buffered(n, 2),
    "tree": Tree,
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("who", SMALL, ids=str)
def test_the_families_have_the_sensitivity_of_their_worst_pattern(name: str, who: Participation) -> None:
    matrix = FAMILIES[name](who.steps)
    truth = worst(matrix.encoder, who, np.random.default_rng(1))
    assert truth <= sensitivity(matrix, who) <= truth * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(SMALL))
def test_no_vectors_move_any_triangular_matrix_further_than_stated(seed: int, who: Participation) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.normal(size=(who.steps, who.steps)))
    assert worst(matrix, who, rng) <= sensitivity(matrix, who)


def test_signs_are_not_enough_where_inner_products_are_negative() -> None:
    gram = np.array([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]]) + 1e-12 * np.eye(3)
    matrix = np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1]
    assert np.allclose(matrix.T @ matrix, gram)
    assert not np.triu(matrix, 1).any()
    who = Participation(3, 3, 1)
    signs = max(
        moved(matrix, (0, 1, 2), np.array(s)[:, None]) for s in itertools.product((-1.0, 1.0), repeat=3)
    )
    turns = 2 * math.pi * np.arange(3) / 3
    plane = moved(matrix, (0, 1, 2), np.stack([np.cos(turns), np.sin(turns)], axis=1))
    assert signs == pytest.approx(2.0, abs=1e-6)
    assert plane == pytest.approx(2.1213, abs=1e-4)
    assert plane < sensitivity(matrix, who) == pytest.approx(math.sqrt(6), abs=1e-6)


def test_thirty_days_in_a_row_cost_far_more_than_thirty_single_ones() -> None:
    year, who = square_root(365), Participation(365, 30, 1)
    days = moved(year.encoder, tuple(range(30)), np.ones((30, 1)))
    assert days == pytest.approx(39.13, abs=0.01)
    assert days <= sensitivity(year, who)
    assert math.sqrt(30) * np.linalg.norm(year.coefficients) == pytest.approx(9.40, abs=0.01)


@pytest.mark.parametrize(
    "who", [Participation(9, 3, 2), Participation(8, 4, 1), Participation(10, 2, 4)], ids=str
)
def test_the_bound_over_many_patterns_is_above_every_single_one(
    who: Participation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    matrix = np.tril(rng.normal(size=(who.steps, who.steps)))
    exact = max(np.abs(matrix.T @ matrix)[np.ix_(p, p)].sum() for p in all_patterns(who))
    assert sensitivity(matrix, who) == pytest.approx(math.sqrt(exact), rel=1e-9)
    monkeypatch.setattr(participation, "FEW_PATTERNS", 0)
    assert math.sqrt(exact) <= sensitivity(matrix, who) <= 1.5 * math.sqrt(exact)
    through = participation._through(np.abs(matrix.T @ matrix), who)
    for i in range(who.steps):
        best = max(np.abs(matrix.T @ matrix)[i, p].sum() for p in all_patterns(who) if i in p)
        assert through[i] == pytest.approx(best, rel=1e-12)


def test_a_matrix_that_looks_ahead_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="lower triangular"):
        sensitivity(np.ones((3, 3)), Participation(3))
    with pytest.raises(InvalidParameter, match="of 4 columns"):
        sensitivity(square_root(3), Participation(4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Participation(0),
        lambda: Participation(3, 0),
        lambda: Participation(3, 1, 0),
        lambda: Toeplitz(()),
        lambda: Toeplitz((0.0, 1.0)),
        lambda: Toeplitz((1.0, math.nan)),
        lambda: BufferedToeplitz(3, (0.5,), (1.5,)),
        lambda: BufferedToeplitz(3, (1.0,), (0.5,)),
        lambda: BufferedToeplitz(3, (0.5,), (-0.5,)),
        lambda: loss(square_root(3), Participation(3), sigma=0),
    ],
)
def test_bad_numbers_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        make()


@pytest.mark.parametrize("name", ["square root", "three bands", "buffered"])
def test_running_sums_of_the_noise_are_those_of_the_decoder(name: str) -> None:
    matrix, fresh = FAMILIES[name](12), np.random.default_rng(2).normal(size=(12, 3))
    decoder = np.tril(np.ones((12, 12))) @ np.linalg.inv(matrix.encoder)
    rows: list[Array] = []
    buffers = None
    for z in fresh:
        if isinstance(matrix, BufferedToeplitz):
            row, buffers = matrix.noise(z, buffers)
        else:
            assert isinstance(matrix, Toeplitz)
            row = matrix.noise(z, rows)
        rows.append(row)
    assert np.allclose(np.cumsum(rows, axis=0), decoder @ fresh)
    assert np.allclose(matrix.error(), np.linalg.norm(decoder, axis=1))


def test_the_tree_adds_up_its_blocks() -> None:
    tree = Tree(11)
    for t in range(1, 12):
        chosen, end = np.zeros(len(tree.blocks)), t
        while end:
            start = end - (end & -end)
            chosen[tree.blocks.index((start, end - 1))] = 1
            end = start
        assert np.array_equal(chosen @ tree.encoder, np.arange(11) < t)
        assert tree.error()[t - 1] == pytest.approx(np.linalg.norm(chosen))
    # A row comes when its block is full, never before.
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(tree.blocks))


def test_the_square_root_is_one() -> None:
    c = square_root(40).encoder
    assert np.allclose(c @ c, np.tril(np.ones((40, 40))))
    assert np.allclose(
        buffered(500, 6).toeplitz.coefficients[:50], square_root(500).coefficients[:50], atol=0.02
    )


def test_all_rows_together_are_one_gaussian_release() -> None:
    who = Participation(100, 5, 20)
    one = loss(square_root(100), who, sigma=10, clip=2)
    assert one.multiplier == pytest.approx(10 / (2 * sensitivity(square_root(100), who)), rel=1e-9)
    assert one.multiplier * 2 * sensitivity(square_root(100), who) <= 10
    twice = loss(square_root(100), who, sigma=10, clip=2, relation=Relation.REPLACED)
    assert twice.multiplier == pytest.approx(float(one.multiplier) / 2, rel=1e-9)


def test_a_banded_matrix_on_a_cyclic_sample_is_bracketed_by_its_turns() -> None:
    """Against samples of the true likelihood ratio: 6 steps, 2 bands, the unit drawn at steps 0, 2 and 4."""
    matrix, rate, sigma = banded(6, 2), 0.3, 1.1
    claimed = cyclic_loss(matrix, rate=rate, sigma=sigma)
    assert isinstance(claimed, Repeated)
    assert isinstance(claimed.of, Sampled)
    assert isinstance(claimed.of.of, GaussianNoise)
    assert claimed.times == 3
    rng, n = np.random.default_rng(3), 400_000
    coins = rng.random((n, 3)) < rate
    seen = coins @ matrix.encoder[:, ::2].T + sigma * rng.normal(size=(n, 6))
    ratio = np.zeros(n)
    for which in itertools.product((0, 1), repeat=3):
        shift = matrix.encoder[:, ::2] @ np.array(which)
        weight = math.prod(rate if w else 1 - rate for w in which)
        ratio += weight * np.exp((seen @ shift - shift @ shift / 2) / sigma**2)
    for epsilon in (0.2, 1.0, 2.0):
        sampled = np.maximum(1 - math.exp(epsilon) / ratio, 0).mean()
        bound, off = accounting.delta(claimed, epsilon), 5 * math.sqrt(1 / n) * math.sqrt(sampled) + 20 / n
        assert bound.lower - off <= sampled <= bound.upper + off


def test_a_year_of_weekly_visits_to_a_tree_is_bounded_at_once_and_closely() -> None:
    """Patterns that get stuck are many; they were walked one by one, without end."""
    tree, who = Tree(365), Participation(365, 53, 7)
    weekly = max(np.linalg.norm(tree.encoder[:, start::7].sum(axis=1)) for start in range(7))
    assert weekly <= sensitivity(tree, who) <= 1.02 * weekly


@pytest.mark.parametrize("steps", [3, 5, 8, 11])
@pytest.mark.parametrize("times", [1, 2, 3, 9])
@pytest.mark.parametrize("apart", [1, 2, 4, 20])
def test_every_bound_holds_for_every_pattern(steps: int, times: int, apart: int) -> None:
    """All patterns beside each of the coarser bounds, and what a step sums to beside the sum itself."""
    who = Participation(steps, times, apart)
    products = np.abs(np.random.default_rng(steps * times + apart).normal(size=(steps, steps)))
    products += products.T
    patterns = all_patterns(who)
    truth = max(products[np.ix_(p, p)].sum() for p in patterns)
    through = participation._through(products, who)
    for i in range(steps):
        assert through[i] == pytest.approx(max(products[i, list(p)].sum() for p in patterns if i in p))
    for weights in (through, participation._by_windows(products, who)):
        assert truth <= participation._heaviest(weights, who) * (1 + 1e-12)
    tree = Tree(steps)
    levels = participation._by_levels(tree, who)
    assert max(moved(tree.encoder, p, np.ones((len(p), 1))) ** 2 for p in patterns) <= levels + 1e-9
    column = products[0]
    shifted = sum(
        np.concatenate([np.zeros(m * apart), column[: steps - m * apart]]) for m in range(who.max_times)
    )
    assert np.allclose(participation._shifted_sum(column, who), shifted, rtol=1e-15)


def test_long_streams_need_neither_a_matrix_nor_a_walk() -> None:
    """20,000 steps took more than 6 GB."""
    assert sensitivity(square_root(20_000), Participation(20_000, 20_000, 1)) == pytest.approx(
        15957.9, abs=0.1
    )
    assert sensitivity(Tree(2**20), Participation(2**20, 1000, 7)) > 1000
    for act in (lambda: Tree(10**6).encoder, lambda: square_root(10**6).error(), lambda: square_root(10**9)):
        with pytest.raises(InvalidParameter, match=r"the most is|at most"):
            act()
