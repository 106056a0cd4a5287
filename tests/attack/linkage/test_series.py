"""Six days of step counts are a fingerprint."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from deniable.attack import series
from deniable.datasets import steps
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

DATA = steps(1000, seed=1)


def test_unicity_is_counted() -> None:
    few = np.array([[1, 5], [1, 6], [2, 5]])
    assert series.unicity(few, 1) == pytest.approx(1 / 3)
    assert series.unicity(few, 2) == 1
    assert series.unicity(few, 2, rounding=10) == 0


def test_six_days_single_everybody_out_even_rounded() -> None:
    assert series.unicity(DATA, 6) == 1
    assert series.unicity(DATA, 6, rounding=1000) > 0.95
    shares = [series.unicity(DATA, days, rounding=1000) for days in range(1, 7)]
    assert shares == sorted(shares)


@pytest.mark.parametrize(("days", "rounding"), [(0, 1), (29, 1), (3, 0)])
def test_impossible_days_are_refused(days: int, rounding: int) -> None:
    with pytest.raises(InvalidParameter, match=f"days={days}"):
        series.unicity(DATA, days, rounding=rounding)


def test_rounding_and_noise_help_little_and_protected_histograms_find_nobody() -> None:
    raw, rounded, averaged, noisy, drawn = series.compare(1000, rng=SeededRandom(2))
    assert raw.share > 0.99
    assert rounded.share > 0.95
    # Nobody is told from four others, but a class of like walkers is found far more often than by chance.
    assert 10 * averaged.chance < averaged.share <= 0.2
    assert noisy.share > 0.7
    assert binom.sf(drawn.right - 1, 1000, drawn.chance) > 1e-9


def test_k_anonymous_series_stand_there_k_times() -> None:
    made = series.average_classes(DATA, 5)
    assert np.unique(made, axis=0, return_counts=True)[1].min() >= 5
    assert np.abs(made.mean(axis=0) - DATA.mean(axis=0)).max() < 1


def test_drawn_series_keep_the_daily_distribution() -> None:
    made = series.draw_series(DATA, 20.0, rng=SeededRandom(3))
    assert abs(np.median(made[:, 0]) / np.median(DATA[:, 0]) - 1) < 0.1


def test_how_many_series_are_drawn_is_noisy_too() -> None:
    assert len({len(series.draw_series(DATA[:, :3], 0.1, rng=SeededRandom(seed))) for seed in range(4)}) == 4
