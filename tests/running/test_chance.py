"""Thresholds have the chance that is stated, and tests that draw real noise state one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from scipy import stats

from tests import chance


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    """What is stated here is about the words alone."""
    before = chance._stated.copy()
    yield
    chance._stated[:] = before


@pytest.mark.parametrize("stated", [1e-9, 1e-12, 3e-300])
def test_normal_noise_passes_its_reach_as_seldom_as_is_stated(stated: float) -> None:
    assert 2 * stats.norm.sf(chance.reach(stated)) == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("scale", [0.3, 2.0, 77.0])
def test_laplace_noise_passes_its_reach_as_seldom_as_is_stated(scale: float) -> None:
    past = [2 * math.exp(-(k + 1) / scale) / (1 + math.exp(-1 / scale)) for k in (0, 1)]
    reach = chance.laplace_reach(scale)
    assert past[0] * math.exp(-reach / scale) <= chance.EACH
    assert past[0] * math.exp(-(reach - 2) / scale) > chance.EACH / math.exp(1 / scale) / 2


@pytest.mark.parametrize(("trials", "probability"), [(100, 0.05), (1000, 0.5), (2000, 0.001), (7, 0.9)])
def test_counts_pass_their_ends_as_seldom_as_is_stated(trials: int, probability: float) -> None:
    most, least = chance.most(trials, probability), chance.least(trials, probability)
    assert stats.binom.sf(most, trials, probability) <= chance.EACH
    assert most == 0 or stats.binom.sf(most - 1, trials, probability) > chance.EACH
    assert stats.binom.cdf(least - 1, trials, probability) <= chance.EACH


def test_what_is_stated_is_counted_and_a_larger_chance_refused() -> None:
    chance.take_sum()
    assert chance.allows(0.5)
    assert not chance.allows(1e-13, 1e-12)
    chance.reach(1e-10)
    assert chance.take_sum() == pytest.approx(1e-9 + 1e-12 + 1e-10)
    for wrong in (0.0, 1e-8, 0.05):
        with pytest.raises(ValueError, match="Expected a chance"):
            chance.state(wrong)
