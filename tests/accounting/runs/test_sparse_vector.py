"""AboveThreshold: its ε, and outputs that come close to it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.accounting.runs.sparse_vector import above_threshold
from deniable.errors import InvalidParameter
from deniable.loss import Pure


def log_chance(queries: np.ndarray, answers: list[bool], threshold_scale: float, query_scale: float) -> float:
    """ln P(answers) by integrating over the noisy threshold, queries compared with threshold 0."""
    x = np.linspace(-60, 60, 200_001)
    density = np.exp(-np.abs(x) / threshold_scale) / (2 * threshold_scale)
    for value, answer in zip(queries, answers, strict=True):
        z = (x - value) / query_scale
        above = np.where(z > 0, 0.5 * np.exp(-np.maximum(z, 0)), 1 - 0.5 * np.exp(np.minimum(z, 0)))
        density = density * (above if answer else 1 - above)
    return math.log(float(np.sum(density)) * (x[1] - x[0]))


@pytest.mark.parametrize(("threshold", "query"), [(2.0, 4.0), (1.0, 3.0)])
def test_many_negatives_and_one_positive_attain_the_claim(threshold: float, query: float) -> None:
    claimed = above_threshold(threshold, query).epsilon
    worst = 0.0
    for level in (-8.0, -4.0, 0.0, 4.0):
        one = np.array([level] * 30 + [-level])
        two = one + np.array([1.0] * 30 + [-1.0])
        answers = [False] * 30 + [True]
        worst = max(
            worst,
            abs(log_chance(one, answers, threshold, query) - log_chance(two, answers, threshold, query)),
        )
    assert worst == pytest.approx(float(claimed), rel=1e-9)  # attained, so not a hair more


def test_monotone_queries_cost_half_for_the_query() -> None:
    claimed = above_threshold(2, 4, monotone=True).epsilon
    assert claimed == Fraction(3, 4)
    for level in (-6.0, 0.0, 6.0):
        one = np.full(31, level)
        answers = [False] * 30 + [True]
        assert abs(log_chance(one, answers, 2, 4) - log_chance(one + 1, answers, 2, 4)) <= claimed


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (above_threshold(2, 4), Pure(1)),
        (above_threshold(2, 4, sensitivity=3), Pure(3)),
        (above_threshold(2, 4, answers=5), Pure(3)),
        (above_threshold(0.1, 0.3, sensitivity=0.01), Pure(Fraction(1, 6))),
    ],
)
def test_the_numbers_are_exact(loss: Pure, expected: Pure) -> None:
    assert loss == expected


@pytest.mark.parametrize(
    "bad", [{"threshold_scale": 0}, {"query_scale": -1}, {"sensitivity": 0}, {"answers": 0}]
)
def test_parameters_outside_their_range_are_refused(bad: dict[str, float]) -> None:
    arguments = {"threshold_scale": 1, "query_scale": 1} | bad
    with pytest.raises(InvalidParameter, match=next(iter(bad))):
        above_threshold(**arguments)
