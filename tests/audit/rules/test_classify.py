"""Classifiers find what is there to be found, and survive a trip through JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from deniable.audit.rules.classify import (
    Boosting,
    LogisticClassifier,
    OutputView,
    ScoreModel,
    Tables,
    fit_all,
    lowest_bit,
    model_from_dict,
    views,
)
from deniable.errors import InvalidParameter

RNG = np.random.default_rng(0)
SHIFTED = RNG.laplace(1, 1, (20_000, 3)), RNG.laplace(0, 1, (20_000, 3))


def advantage(model: ScoreModel, first: Any, second: Any) -> float:
    """How often the score is right about which of two outputs came from where, less ½, doubled."""
    a, b = model.score(first), model.score(second)
    n = min(len(a), len(b))
    return float(np.mean(np.sign(a[:n] - b[:n])))


FITS: list[Callable[..., ScoreModel | None]] = [
    lambda a, b: Tables.fit(a, b, bins=8, patterns=False, is_pooled=False),
    lambda a, b: Tables.fit(a, b, bins=16, patterns=False, is_pooled=True),
    LogisticClassifier.fit,
    Boosting.fit,
]


@pytest.mark.parametrize("fit", FITS, ids=["tables", "pooled", "logistic", "boosting"])
def test_a_shift_is_learnt_and_json_keeps_it(fit: Callable[..., ScoreModel | None]) -> None:
    model = fit(*(rows[:10_000] for rows in SHIFTED))
    assert model is not None
    fresh = [rows[10_000:] for rows in SHIFTED]
    assert advantage(model, *fresh) > 0.5
    again = model_from_dict(json.loads(json.dumps(model.to_dict()).replace("Infinity", '"inf"')))
    assert np.array_equal(again.score(fresh[0]), model.score(fresh[0]))


def test_a_table_of_patterns_sees_what_no_single_coordinate_shows() -> None:
    """Two bits that agree on one neighbour and differ on the other: each alone is a fair coin."""
    bit = RNG.integers(0, 2, (5000, 1)).astype(np.float64)
    agree, differ = np.hstack([bit, bit]), np.hstack([bit, 1 - bit])
    table = Tables.fit(agree, differ, bins=8, patterns=True, is_pooled=False)
    assert table is not None
    assert advantage(table, agree, differ) == 1.0
    alone = Tables.fit(agree, differ, bins=8, patterns=False, is_pooled=False)
    assert alone is not None
    assert abs(advantage(alone, agree, differ)) < 0.1


def test_boosting_sees_an_interaction() -> None:
    x = RNG.standard_normal((40_000, 2))
    same = np.sign(x[:, 0] * x[:, 1]) > 0
    first, second = x[same], x[~same]
    assert advantage(Boosting.fit(first[:8000], second[:8000]), first[8000:], second[8000:]) > 0.5


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_the_linear_score_is_the_most_likely_one(spread: float) -> None:
    """Against a general-purpose optimiser, on heavy tails and where the two neighbours are far apart."""
    rng, ridge = np.random.default_rng(6), 1e-4
    first, second = (rng.standard_cauchy((2000, 3)) + shift for shift in (spread, 0))
    model = LogisticClassifier.fit(first, second, ridge=ridge)
    design, label = model.design(np.concatenate([first, second])), np.repeat([1.0, 0.0], 2000)

    def loss(w: Any) -> float:
        return float(np.mean(np.logaddexp(0, design @ w) - label * (design @ w)) + ridge / 2 * (w @ w))

    assert loss(model.weights) <= minimize(loss, np.zeros(len(model.weights))).fun + 1e-6


def test_scores_of_a_table_are_log_ratios() -> None:
    first, second = np.repeat([0.0, 1.0], [3000, 1000])[:, None], np.repeat([0.0, 1.0], [1000, 3000])[:, None]
    table = Tables.fit(first, second, bins=4, patterns=True, is_pooled=False)
    assert table is not None
    assert table.score(np.array([[0.0], [1.0]])) == pytest.approx([math.log(3), -math.log(3)], abs=0.01)


def test_values_never_seen_and_values_that_are_none_are_scored() -> None:
    first, second = SHIFTED
    odd = np.array([[math.nan, math.inf, -math.inf], [1e300, -1e300, 0.0]])
    for model in fit_all(first[:4000], second[:4000], boosting=True):
        assert np.all(np.isfinite(model.score(odd)))


def test_missing_values_are_told_from_present_ones() -> None:
    present = np.column_stack([RNG.random(2000), RNG.random(2000)])
    missing = present.copy()
    missing[:, 1] = math.nan
    best = max(advantage(model, present, missing) for model in fit_all(present, missing, boosting=False))
    assert best == 1.0


def test_differences_undo_running_sums() -> None:
    noise = RNG.standard_normal((100, 5))
    assert OutputView.DIFFERENCES.see(np.cumsum(noise, axis=1)) == pytest.approx(noise)


def test_the_lowest_bit_is_the_largest_power_of_two_that_divides() -> None:
    for odd, power in ((3, -60), (5, 12), (-7, 0)):
        assert lowest_bit(np.array([[math.ldexp(odd, power)]])).item() == power
    assert lowest_bit(np.array([[math.nan, math.inf]])).tolist() == [[-2000.0, -2000.0]]


def test_bits_are_looked_at_only_where_floats_use_them() -> None:
    assert OutputView.BITS in views(RNG.standard_normal((600, 1)))
    assert OutputView.BITS not in views(RNG.integers(0, 9, (600, 1)).astype(np.float64))
    assert views(RNG.integers(0, 9, (600, 2)).astype(np.float64)) == [OutputView.RAW, OutputView.DIFFERENCES]


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="got 'oracle'"):
        model_from_dict({"model": "oracle"})


@pytest.mark.parametrize("precision", [np.float32, np.float16])
def test_noise_of_fewer_bits_is_seen_by_its_lowest_ones(precision: Any) -> None:
    """Near 0 noise alone has finer bits than 1 + noise can have."""
    rng = np.random.default_rng(0)
    first, second = (
        (precision(answer) + rng.laplace(size=(500, 1)).astype(precision)).astype(np.float64)
        for answer in (0, 1)
    )
    assert OutputView.BITS in views(first)
    assert np.min(OutputView.BITS.see(first)) < np.min(OutputView.BITS.see(second))
    assert OutputView.BITS not in views(np.rint(first * 4) / 4)
