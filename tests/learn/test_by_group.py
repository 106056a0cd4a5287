"""Measures by group: by hand, with intervals that cover and are not idle, and the same as a charged
mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from deniable import Budget, Unit
from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.learn import ByGroup, by_group
from deniable.learn.by_group_public import GroupMeasures, spread
from deniable.ledger import Ledger
from deniable.randomness import SeededRandom

NOISELESS = 1e6


def people(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tenth are of group b, of whom a third of the ones is found; of group a two thirds."""
    g = np.random.default_rng(seed)
    groups = np.where(g.random(rows) < 0.1, "b", "a")
    truth = (g.random(rows) < 0.3).astype(int)
    hit = g.random(rows) < np.where(groups == "b", 1 / 3, 2 / 3)
    scores = np.where(truth == 1, np.where(hit, 0.8, 0.3), np.where(g.random(rows) < 0.1, 0.7, 0.1))
    return truth, scores, groups


def test_every_measure_is_what_it_says() -> None:
    truth, scores, groups = people(2000)
    for measured in by_group(truth, scores, groups):
        own = groups == measured.group
        t, s = truth[own], scores[own]
        assert measured.rows == own.sum()
        assert measured.accuracy.value == pytest.approx(((s >= 0.5) == t).mean())
        assert measured.recall.value == pytest.approx((s[t == 1] >= 0.5).mean())
        assert measured.false_alarms.value == pytest.approx((s[t == 0] >= 0.5).mean())
        assert measured.calibration.value == pytest.approx(s.mean() - t.mean())
        for name in ("accuracy", "recall", "false_alarms", "calibration"):
            estimate = getattr(measured, name)
            assert estimate.low <= estimate.value <= estimate.high


def test_the_interval_is_clopper_and_pearsons() -> None:
    [measured] = by_group([1] * 10, [0.9] * 3 + [0.1] * 7, ["a"] * 10, confidence=0.9)
    assert measured.recall.low == pytest.approx(beta.ppf(0.05, 3, 8))
    assert measured.recall.high == pytest.approx(beta.ppf(0.95, 4, 7))
    assert math.isnan(measured.false_alarms.value)
    assert (measured.false_alarms.low, measured.false_alarms.high) == (0, 1)
    assert measured.to_dict()["false_alarms"]["value"] is None
    assert str(measured.false_alarms) == "–"


def test_the_spread_is_between_the_best_and_the_worst_served() -> None:
    assert spread(by_group(*people(20_000))) == pytest.approx(1 / 3, abs=0.1)


def released(data: object, epsilon: float, seed: int, delta: float = 0.0) -> dict[str, GroupMeasures]:
    return {m.group: m for m in ByGroup(("a", "b"), epsilon, delta)(data, rng=SeededRandom(seed))}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_to_speak_of_the_mechanism_says_the_same(delta: float) -> None:
    data = people(3000)
    exact = {m.group: m for m in by_group(*data)}
    for group, measured in released(data, 2000 if delta else NOISELESS, 0, delta).items():
        for name in ("accuracy", "recall", "false_alarms"):
            assert getattr(measured, name).value == pytest.approx(
                getattr(exact[group], name).value, abs=1e-12
            )
        assert measured.calibration.value == pytest.approx(exact[group].calibration.value, abs=0.051)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_private_intervals_cover_the_truth_and_are_not_idle(delta: float) -> None:
    """Fresh rows and fresh noise each time; at most one in twenty may miss."""
    runs, hits, widths = 120, 0, []
    for seed in range(runs):
        recall = released(people(4000, seed), 1.0, seed, delta)["b"].recall
        hits += recall.low <= 1 / 3 <= recall.high
        widths.append(recall.high - recall.low)
    assert binom.cdf(hits, runs, 0.95) > 1e-9
    exact = next(m for m in by_group(*people(4000)) if m.group == "b").recall
    assert np.mean(widths) < (2.6 if delta == 0 else 4.5) * (exact.high - exact.low)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["accuracy", "false_alarms", "calibration"])
def test_the_other_intervals_cover_too(name: str) -> None:
    truth, scores, groups = people(400_000)
    own = groups == "a"
    t, s = truth[own], scores[own]
    law = {
        "accuracy": ((s >= 0.5) == t).mean(),
        "false_alarms": (s[t == 0] >= 0.5).mean(),
        "calibration": (s - t).mean(),
    }
    hits = 0
    for seed in range(80):
        estimate = getattr(released(people(2000, seed + 7), 1.0, seed)["a"], name)
        hits += estimate.low <= law[name] <= estimate.high
    assert binom.cdf(hits, 80, 0.95) > 1e-9


def test_noise_never_exceeds_its_reach_more_often_than_said() -> None:
    mechanism = ByGroup(("a", "b"), 0.5)
    noise = SeededRandom(0).discrete_laplace(2, 200_000).reshape(-1, 10).sum(axis=1)
    reach = mechanism.reach(10, 0.05 / 8)
    late = int((np.abs(noise) > reach).sum())
    assert binom.sf(late - 1, len(noise), 2 * 0.05 / 8) > 1e-9
    assert reach < 1.5 * np.quantile(np.abs(noise), 1 - 2 * 0.05 / 8)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_where_noise_is_most_of_it_intervals_are_not_its_corners(delta: float) -> None:
    """200 rows: counts at both ends of what the noise allows give the whole of [0, 1] or nearly."""
    mechanism = ByGroup(("a", "b"), 1.0, delta, bins=2)
    covered, widths = 0, []
    rng = np.random.default_rng(3)
    for seed in range(60):
        truth, right = np.ones(200, np.int64), rng.random(200) < 0.7
        recall = mechanism((truth, 0.25 + 0.5 * right, ["a"] * 200), rng=SeededRandom(seed))[0].recall
        covered += recall.low <= 0.7 <= recall.high
        widths.append(recall.high - recall.low)
    assert binom.cdf(covered, 60, 0.95) > 1e-9
    normal = 2 * 1.96 * math.hypot(math.sqrt(0.21 / 200), math.hypot(0.3, 0.7) * _deviation(mechanism) / 200)
    assert np.mean(widths) < 1.7 * normal


def _deviation(mechanism: ByGroup) -> float:
    draws = np.concatenate(
        [mechanism.tables.noise(np.zeros(1, np.int64), rng=SeededRandom(i)) for i in range(500)]
    )
    return float(np.std(np.asarray(draws, np.float64)))


def test_a_row_out_of_range_is_left_out_and_fails_nothing() -> None:
    rows = [1, 0, 2, None, 1], [0.9, 0.1, 0.5, 0.5, float("nan")], ["a", "a", "a", "a", "zebra"]
    assert sum(m.rows for m in released(rows, NOISELESS, 0).values()) == 2
    assert sum(m.rows for m in released(([], [], []), NOISELESS, 0).values()) == 0


def test_it_is_charged_and_refused() -> None:
    data = people(500)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(1))
        release = account.run(ByGroup(("a", "b"), 1), lambda: data)
        assert {m.group for m in release.value} == {"a", "b"}
        with pytest.raises(BudgetExceeded):
            account.run(ByGroup(("a", "b"), 0.1), data)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: by_group([1, 0], [0.5], ["a", "b"]), "one length"),
        (lambda: by_group([2], [0.5], ["a"]), "0 or 1"),
        (lambda: by_group([1], [1.5], ["a"]), "between 0 and 1"),
        (lambda: by_group([1], [0.5], ["a"], confidence=1), "confidence"),
        (lambda: ByGroup(("a", "b"), 1, bins=3), "even"),
        (lambda: ByGroup(("a", "b"), 1, confidence=0), "confidence"),
    ],
)
def test_what_cannot_be_measured_is_said(act: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        act()  # type: ignore[operator]
