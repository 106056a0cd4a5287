"""A deviation per row, shrunk: the prior is found again, and it beats both extremes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from deniable.attack.members.curve import Curve
from deniable.attack.members.deviations import MOST, Side, predict_side, predict_sides, prior
from deniable.attack.members.evidence import Evidence
from deniable.attack.members.scores import ATTACKS


def scattered(freedom: float, rows: int = 20_000, models: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Signals whose variance per row is a draw of the scaled inverse χ² law of mean scale 4, and the standard
    deviations."""
    g = np.random.default_rng(3)
    deviations = (
        np.sqrt(4.0 * freedom / g.chisquare(freedom, rows)) if np.isfinite(freedom) else np.full(rows, 2.0)
    )
    return g.normal(size=(models, rows)) * deviations, deviations


@pytest.mark.parametrize("freedom", [3.0, 8.0])
def test_the_prior_is_found_again(freedom: float) -> None:
    signals, _ = scattered(freedom)
    signals += 20 * np.random.default_rng(4).normal(
        size=signals.shape[1]
    )  # means that tell nothing of variances
    found, variance = prior(Side.from_signals(signals, np.ones(signals.shape, bool)))
    assert found == pytest.approx(freedom, rel=0.1)
    assert np.median(variance) == pytest.approx(4.0, rel=0.05)


def test_rows_that_are_alike_share_one_deviation() -> None:
    signals, _ = scattered(np.inf)
    freedom, variance = prior(Side.from_signals(signals, np.ones(signals.shape, bool)))
    assert freedom > 200
    assert np.median(variance) == pytest.approx(4.0, rel=0.05)


def test_the_shrunk_deviation_is_nearer_than_both_extremes() -> None:
    signals, truth = scattered(4.0)
    side = Side.from_signals(signals, np.ones(signals.shape, bool))
    own = np.sqrt(side.squares / side.freedom)
    pooled = np.full(len(truth), np.sqrt(side.squares.sum() / side.freedom.sum()))
    shrunk = predict_side(side).scale / np.sqrt(1 + 1 / 9)
    errors = [float(np.mean(np.log(guess / truth) ** 2)) for guess in (shrunk, own, pooled)]
    assert errors[0] < min(errors[1:])


def test_what_the_next_model_says_is_covered() -> None:
    """The predicted law is that of the next signal: its distribution function is uniform."""
    signals, truth = scattered(4.0)
    side = Side.from_signals(signals, np.ones(signals.shape, bool))
    nexts = np.random.default_rng(9).normal(size=len(truth)) * truth
    shares = predict_side(side).cdf(nexts)
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        reach = 6.2 * np.sqrt(level * (1 - level) / len(truth))
        assert abs(float((shares < level).mean()) - level) < reach + 0.002


def test_a_row_that_no_model_held_is_no_error() -> None:
    side = Side.from_signals(np.zeros((3, 4)), np.zeros((3, 4), bool))
    assert prior(side)[0] == MOST
    assert np.isfinite(predict_side(side).log_density(np.ones(4))).all()


def trained(rows: int = 6000, models: int = 25) -> tuple[Evidence, np.ndarray]:
    """Rows whose variance is common to both sides, and whose gap is drawn around a multiple of their deviation."""
    g = np.random.default_rng(5)
    deviations = np.sqrt(3.0 / g.chisquare(3.0, rows))
    members, labels = g.random((models, rows)) < 0.5, np.zeros(rows, np.int64)
    gap = deviations * (1.0 + 0.3 * g.normal(size=rows))
    logits = np.zeros((models, rows, 2))
    logits[:, :, 0] = g.normal(size=rows) * 3 + deviations * g.normal(size=(models, rows)) + gap * members
    return Evidence(logits[0], logits[1:], members[1:], labels), members[0]


def test_the_other_side_tells_of_a_rows_deviation() -> None:
    """Variances that are equal on both sides are known from all models: the prior around the trend is surer, and the
    next model is told better than from one side alone."""
    seen, _ = trained()
    shadows, inside = seen.shadows_scaled()[:, 0], seen.members
    sides = Side.from_signals(shadows, inside), Side.from_signals(shadows, ~inside)
    assert prior(sides[0], sides[1])[0] > 2 * prior(sides[0])[0]
    truth = np.sqrt(3.0 / np.random.default_rng(5).chisquare(3.0, 6000))
    errors = [
        float(np.mean(np.log(law.scale / truth) ** 2))
        for law in (predict_side(sides[0], sides[1]), predict_side(sides[0]))
    ]
    assert errors[0] < 0.8 * errors[1]


def test_a_gap_is_shrunk_as_far_as_it_is_unknown() -> None:
    """Around the truth shrunk gaps lie nearer than the difference of two means, and many models leave them alone."""
    for models, nearer in ((13, 0.5), (801, 1.01)):
        seen, _ = trained(rows=2000, models=models)
        shadows = seen.shadows_scaled()[:, 0]
        sides = Side.from_signals(shadows, seen.members), Side.from_signals(shadows, ~seen.members)
        g = np.random.default_rng(5)
        deviations = np.sqrt(3.0 / g.chisquare(3.0, 2000))
        g.random((models, 2000))
        truth = deviations * (1.0 + 0.3 * g.normal(size=2000))
        laws = predict_sides(*sides)
        shrunk, plain = laws[0].centre - laws[1].centre, sides[0].mean - sides[1].mean
        errors = [float(np.mean(((gap - truth) / deviations) ** 2)) for gap in (shrunk, plain)]
        assert errors[0] < nearer * errors[1]


def each_its_own(seen: Evidence) -> np.ndarray:
    """LiRA as it is often written: a mean and a deviation per row, as they are."""
    phi, shadows = seen.target_scaled()[0], seen.shadows_scaled()[:, 0]
    sides = [Side.from_signals(shadows, kept) for kept in (seen.members, ~seen.members)]
    fits = [(side.mean, np.sqrt(side.variance(1.0))) for side in sides]
    return np.asarray(norm.logpdf(phi, *fits[0]) - norm.logpdf(phi, *fits[1]))


def test_shrunk_lira_beats_both_extremes() -> None:
    seen, members = trained()
    scores = (ATTACKS["lira"], one_for_all, each_its_own)
    shrunk, *others = (Curve.from_scores(score(seen), members) for score in scores)
    assert shrunk.power_at(0.01) > 1.2 * max(other.power_at(0.01) for other in others)
    assert shrunk.area > max(other.area for other in others)


def test_few_rows_have_their_mean_in_common_alone() -> None:
    """A trend of six terms through thirty rows would follow chance."""
    seen, _ = trained(rows=30)
    shadows = seen.shadows_scaled()[:, 0]
    sides = Side.from_signals(shadows, seen.members), Side.from_signals(shadows, ~seen.members)
    assert np.ptp(prior(*sides)[1]) == 0
    assert np.isfinite(ATTACKS["lira"](seen)).all()


def one_for_all(seen: Evidence) -> np.ndarray:
    """LiRA as it was: a mean per row, one deviation."""
    phi, shadows = seen.target_scaled()[0], seen.shadows_scaled()[:, 0]
    sides = [Side.from_signals(shadows, kept) for kept in (seen.members, ~seen.members)]
    fits = [(s.mean, np.sqrt(s.squares.sum() / s.freedom.sum())) for s in sides]
    return np.asarray(norm.logpdf(phi, *fits[0]) - norm.logpdf(phi, *fits[1]))


def test_lira_with_unequal_rows_beats_one_deviation_for_all() -> None:
    g = np.random.default_rng(5)
    rows, models = 6000, 24
    deviations = np.sqrt(3.0 / g.chisquare(3.0, rows))
    members, labels = g.random((models, rows)) < 0.5, np.zeros(rows, np.int64)
    logits = np.zeros((models, rows, 2))
    logits[:, :, 0] = g.normal(size=rows) * 3 + deviations * (g.normal(size=(models, rows)) + 1.5 * members)
    seen = Evidence(logits[0], logits[1:], members[1:], labels)
    shrunk, pooled = (Curve.from_scores(score(seen), members[0]) for score in (ATTACKS["lira"], one_for_all))
    assert shrunk.power_at(0.01) > 1.5 * pooled.power_at(0.01)
    assert shrunk.area > pooled.area
