"""The solvers find what a naive search and other solvers find, and the theorems hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import lsq_linear, minimize_scalar
from scipy.stats import norm

from deniable.attack.asking import all_subsets, exact, random_subsets
from deniable.attack.counts.solve import (
    SolvingMethod,
    exhaustive,
    expected_share,
    least_squares,
    linear_program,
    solve,
)
from deniable.errors import InvalidParameter


def problem(
    people: int, queries: int, deviation: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, people)
    subsets = random_subsets(queries, people, seed)
    return bits, subsets, exact(bits)(subsets) + rng.normal(scale=deviation, size=queries)


@pytest.mark.parametrize("people", [1, 2, 5, 9])
def test_the_exhaustive_search_is_that_of_a_naive_loop(people: int) -> None:
    _, subsets, answers = problem(people, 12, 0.7, people)
    worst = {
        t: max(abs(row @ np.array(t) - a) for row, a in zip(subsets, answers, strict=True))
        for t in tables(people)
    }
    found = tuple(exhaustive(subsets, answers).tolist())
    assert worst[found] == pytest.approx(min(worst.values()), abs=1e-4)


def tables(people: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=people))


@given(st.integers(0, 2**8 - 1), st.floats(0, 2), st.integers(0, 10**6))
def test_answers_within_e_leave_at_most_4e_bits_wrong(secret: int, error: float, seed: int) -> None:
    bits, subsets = (secret >> np.arange(8)) & 1, all_subsets(8)
    answers = exact(bits)(subsets) + np.random.default_rng(seed).uniform(-error, error, len(subsets))
    assert (exhaustive(subsets, answers) != bits).sum() <= 4 * error


def test_twenty_people_are_searched_and_more_are_refused() -> None:
    bits, subsets, answers = problem(20, 80, 0.3)
    assert (exhaustive(subsets, answers) == bits).all()
    with pytest.raises(InvalidParameter, match="at most 20 people"):
        exhaustive(random_subsets(4, 21), np.zeros(4))
    with pytest.raises(InvalidParameter, match="2\\^33 comparisons"):
        exhaustive(np.zeros((2**14, 20), np.uint8), np.zeros(2**14))


def test_the_linear_program_beats_every_table_at_its_own_measure() -> None:
    _, subsets, answers = problem(10, 40, 1.0)
    for largest, measure in ((True, np.max), (False, np.sum)):
        found = measure(np.abs(subsets @ linear_program(subsets, answers, largest=largest) - answers))
        best = min(float(measure(np.abs(subsets @ np.array(t) - answers))) for t in tables(10))
        assert found <= best + 1e-6


def test_the_sum_withstands_wild_answers_and_the_largest_does_not() -> None:
    bits, subsets, answers = problem(40, 200, 0.0)
    answers[:10] += 1000
    assert (solve(subsets, answers, SolvingMethod.SUMMED) == bits).all()
    assert (solve(subsets, answers, SolvingMethod.LARGEST) != bits).any()


@pytest.mark.parametrize("method", list(SolvingMethod))
def test_exact_answers_give_every_bit(method: SolvingMethod) -> None:
    people = 16
    bits, subsets, answers = problem(people, 6 * people, 0.0, 4)
    assert (solve(subsets, answers, method) == bits).all()


@pytest.mark.parametrize(("people", "queries"), [(30, 120), (60, 90), (50, 40)])
def test_least_squares_finds_what_another_solver_finds(people: int, queries: int) -> None:
    _, subsets, answers = problem(people, queries, 2.0)
    ours = least_squares(subsets, answers, max_steps=5000, tolerance=1e-7)
    a = subsets.astype(float)
    # The same weights: the mean of all equations counts 1/n.
    rows = np.vstack([a - a.mean(0), math.sqrt(queries / people) * a.mean(0)])
    target = np.r_[answers - answers.mean(), math.sqrt(queries / people) * answers.mean()]
    theirs = lsq_linear(rows, target, (0, 1), tol=1e-12)

    def cost(x: np.ndarray) -> float:
        return float(((rows @ x - target) ** 2).sum() / 2)

    assert cost(ours) == pytest.approx(theirs.cost, rel=1e-4)


def test_without_answers_nothing_is_claimed() -> None:
    assert solve(random_subsets(5, 7), np.zeros(0)).tolist() == [0] * 7


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_the_share_of_bits_found_is_the_one_that_theory_expects(noise: float, ratio: float) -> None:
    people = 1000
    bits, subsets, answers = problem(people, int(ratio * people), noise * math.sqrt(people), 7)
    share = float((solve(subsets, answers) == bits).mean())
    expected = expected_share(noise, ratio)
    # Six deviations of a binomial share, and a little for n < ∞.
    assert abs(share - expected) < 6.2 * math.sqrt(expected * (1 - expected) / people) + 0.01


def test_the_expected_share_is_that_of_the_integral() -> None:
    def by_quadrature(noise: float, ratio: float) -> float:
        def objective(tau: float) -> float:
            tail = quad(lambda z: (z - 2 / tau) ** 2 * norm.pdf(z), 2 / tau, 2 / tau + 40)[0]
            return tau / 2 * (ratio - 0.5) + 16 * noise**2 / (2 * tau) + tau / 2 * tail

        tau = minimize_scalar(objective, bounds=(0.05, 50), method="bounded", options={"xatol": 1e-9}).x
        return float(norm.cdf(1 / tau))

    for noise, ratio in ((0.3, 4), (1, 4), (0.3, 1)):
        assert expected_share(noise, ratio) == pytest.approx(by_quadrature(noise, ratio), abs=1e-5)
    assert expected_share(0, 4) == 1


def test_half_a_question_per_person_has_no_expectation() -> None:
    with pytest.raises(InvalidParameter, match="more than half a question"):
        expected_share(0.3, 0.5)
