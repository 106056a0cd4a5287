"""Quantiles: cells weigh what their points weigh, one by one, and neighbours stay within the range."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import InvalidParameter
from deniable.mechanisms import Quantile
from deniable.mechanisms.choice import Exponentials
from deniable.mechanisms.selection import quantile
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows

ROWS = st.lists(st.integers(-2, 12), max_size=8)
LEVELS = st.sampled_from([0.5, 0.25, 0.9, Fraction(1, 3)])


def brute(
    rows: list[float], level: Any, eps: float, *, points: int = 11, span: float | None = None
) -> dict[int, float]:
    """Point by point, from the definition."""
    q = float(level)
    inside = [max(0, min(points - 1, math.floor(r + 0.5))) for r in rows]
    misses = [
        abs((1 - q) * sum(r < x for r in inside) - q * sum(r > x for r in inside)) for x in range(points)
    ]
    w = [math.exp(-eps * (miss - min(misses)) / (2 * (span or max(q, 1 - q)))) for miss in misses]
    return {x: v / sum(w) for x, v in enumerate(w)}


def by_cells(m: Quantile, rows: list[float]) -> dict[int, float]:
    firsts, lengths, below, above = quantile._cells(m._positions(rows), m._points)
    a, b = Fraction(str(m.level)).as_integer_ratio()
    misses = np.abs((b - a) * below - a * above)
    w = Exponentials(m._rate, misses - misses.min(), lengths).floats()[0]
    law = {}
    for first, length, weight in zip(firsts.tolist(), lengths.tolist(), w, strict=True):
        law |= {first + i: weight / length / w.sum() for i in range(length)}
    return law


@given(ROWS, LEVELS)
def test_cells_give_every_point_its_weight(rows: list[int], level: Any) -> None:
    law, cells = brute(rows, level, 1.0), by_cells(Quantile(level, 0, 10, 1), rows)
    assert cells.keys() == law.keys()
    assert all(cells[x] == pytest.approx(law[x], rel=1e-9) for x in law)


@given(ROWS, LEVELS, st.integers(-2, 12), st.integers(-2, 12))
def test_neighbours_stay_within_the_range(rows: list[int], level: Any, row: int, other: int) -> None:
    for span, with_row in ((None, rows), (1.0, [*rows, other])):
        law, moved = brute([*rows, row], level, 1.0, span=span), brute(with_row, level, 1.0, span=span)
        logs = [math.log(law[x] / moved[x]) for x in law]
        assert max(logs) - min(logs) <= 1 + 1e-9


def test_draws_follow_the_law() -> None:
    rows, m, rng = [3, 3, 4, 9, math.nan, 20], Quantile(0.5, 0, 10, 2), SeededRandom(1)
    draws = [m(rows, rng=rng) for _ in range(4000)]
    assert follows(draws, brute([3, 3, 4, 9, 20], 0.5, 2.0))
    assert not follows(draws, brute([3, 3, 4, 9, 20], 0.5, 2.6))
    assert not follows(draws, brute([3, 3, 4, 9, 20, 0], 0.5, 2.0))


def test_replacing_costs_as_much_as_moving_across() -> None:
    assert Quantile(0.5, 0, 10, 1)._rate == Fraction(1, 2)
    assert Quantile(0.5, 0, 10, 1, unit=Unit.row(replace=True))._rate == Fraction(1, 4)
    assert Quantile(0.9, 0, 10, 1)._rate == Fraction(1, 18)
    assert Quantile(0.5, 0, 10, 1, unit=Unit.column("id", max_rows=3))._rate == Fraction(1, 6)


def test_a_large_table_on_a_fine_grid_is_answered_well() -> None:
    rows = np.random.default_rng(1).normal(50, 10, 100_000)
    m = Quantile(0.9, 0, 100, 1, granularity=2**-20)
    answer = m(rows, rng=SeededRandom(1))
    rank = (rows < answer).sum() - 0.9 * len(rows)
    assert abs(rank) <= m.error(1 - 1e-9).within + 1
    assert answer * 2**20 == int(answer * 2**20)


def test_the_error_bound_holds() -> None:
    rows, m, rng = list(range(0, 1000, 10)), Quantile(0.5, 0, 1000, 0.5), SeededRandom(2)
    within, n = m.error(0.9).within, 1000
    best = min(abs(sum(r < x for r in rows) - sum(r > x for r in rows)) / 2 for x in range(1001))
    off = [
        abs(sum(r < x for r in rows) - sum(r > x for r in rows)) / 2 - best
        for x in (m(rows, rng=rng) for _ in range(n))
    ]
    assert sum(x > within for x in off) <= n * 0.1 + 6 * math.sqrt(n * 0.09)


def test_no_rows_and_no_sense_are_answered_too() -> None:
    m, rng = Quantile(0.5, -5, 5, 1), SeededRandom(3)
    for data in ([], [math.nan], "x", None, [None, "y"], [math.inf, -math.inf], np.array([])):
        assert -5 <= m(data, rng=rng) <= 5
    assert follows([m([], rng=rng) for _ in range(4000)], dict.fromkeys(range(-5, 6), 1 / 11))


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": 0}, {"level": 1}, {"level": 0.123456789}, {"upper": 0}, {"upper": math.inf}, {"epsilon": 0}, {"lower": 0.5},
        {"granularity": 0.3}, {"unit": Unit.client()}, {"upper": 2**60},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        Quantile(**({"level": 0.5, "lower": 0, "upper": 10, "epsilon": 1} | wrong))
