"""A coin's bias: exact weights, a certified power, and the range of neighbours."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import InvalidParameter
from deniable.loss import BoundedRange
from deniable.mechanisms import CoinBias, choice
from deniable.mechanisms.selection import coin
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows


def law(m: CoinBias, heads: int, tails: int) -> dict[float, float]:
    """From the definition, at high precision."""
    with mp.workdps(60):
        power = mp.mpf(m.power.numerator) / m.power.denominator
        thetas = [m.bias(i) for i in range(m.points)]
        logs = [
            power
            * (
                heads * mp.log(mp.mpf(t.numerator) / t.denominator)
                + tails * mp.log(1 - mp.mpf(t.numerator) / t.denominator)
            )
            for t in thetas
        ]
        w = [mp.exp(x - max(logs)) for x in logs]
        return {float(t): float(x / mp.fsum(w)) for t, x in zip(thetas, w, strict=True)}


def test_draws_follow_the_tempered_posterior() -> None:
    m, rng, data = CoinBias(2, points=16), SeededRandom(1), [1] * 6 + [0] * 3 + [math.nan, 0.5, None, "x"]
    draws = [m(data, rng=rng) for _ in range(4000)]
    assert follows(draws, law(m, 6, 3))
    assert not follows(draws, law(m, 3, 6))
    assert not follows(draws, law(CoinBias(3, points=16), 6, 3))


def test_the_power_of_an_interval_is_epsilon_over_its_span() -> None:
    assert float(CoinBias(1).power) == pytest.approx(1 / math.log(9), rel=1e-15)
    assert float(CoinBias(1, unit=Unit.row(replace=True)).power) == pytest.approx(
        1 / (2 * math.log(9)), rel=1e-15
    )
    assert float(CoinBias(1, unit=Unit.column("id", max_rows=3)).power) == pytest.approx(
        1 / (3 * math.log(9)), rel=1e-15
    )
    assert float(CoinBias(1, 0.2, 0.5).power) == pytest.approx(1 / math.log(2.5), rel=1e-15)


@pytest.mark.sampled
@pytest.mark.sampled
@pytest.mark.parametrize("unit", [Unit.row(), Unit.row(replace=True)])
@pytest.mark.parametrize("interval", [(0.1, 0.9), (0.2, 0.5), (0.3, 0.99)])
def test_neighbours_stay_within_the_range(unit: Unit, interval: tuple[float, float]) -> None:
    m = CoinBias(1.3, *interval, points=400, unit=unit)
    spans = []
    for (h, t), (h2, t2) in (((5, 5), (6, 5)), ((5, 5), (5, 6)), ((5, 6), (6, 5))):
        if unit.replace or h + t != h2 + t2:
            a, b = law(m, h, t), law(m, h2, t2)
            logs = [math.log(a[x] / b[x]) for x in a]
            spans.append(max(logs) - min(logs))
    assert max(spans) <= 1.3
    assert max(spans) > 1.3 * 0.97


@given(st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=20)
def test_brackets_hold_the_weights(heads: int, tails: int) -> None:
    m = CoinBias(1, points=8)
    weights = coin.Likelihood(m, m.power * heads, m.power * tails)
    low, slack = weights.brackets(80)
    high = [x + slack for x in low]
    truth = list(law(m, heads, tails).values())
    assert slack <= 8
    for i in range(8):
        assert low[i] / sum(high) <= truth[i] * (1 + 1e-12) + 1e-300
        assert truth[i] <= high[i] / max(sum(low), 1) * (1 + 1e-12)


@pytest.mark.parametrize("tosses", [(0, 0), (3, 1), (4000, 6000), (10**9, 3)])
def test_the_exact_stage_alone_draws_the_same(
    tosses: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = CoinBias(1, points=64)
    weights = coin.Likelihood(m, m.power * tosses[0], m.power * tosses[1])
    by_floats = [choice.draw(weights, SeededRandom(s)) for s in range(30)]
    monkeypatch.setattr(choice, "_by_floats", lambda *_: None)
    assert [choice.draw(weights, SeededRandom(s)) for s in range(30)] == by_floats


@pytest.mark.parametrize("tosses", [(0, 0), (30, 10), (40_000, 60_000), (10**7, 1)])
def test_float_weights_are_as_good_as_stated(tosses: tuple[int, int]) -> None:
    m = CoinBias(1, points=32)
    floats, error = coin.Likelihood(m, m.power * tosses[0], m.power * tosses[1]).floats()
    truth = np.array(list(law(m, *tosses).values()))
    seen = truth > 1e-250
    assert np.all(np.abs(floats[seen] / floats.sum() / truth[seen] - 1) <= 3 * error)


@given(st.fractions(min_value=1, max_value=10**6), st.sampled_from([20, 64, 300]))
def test_logarithms_are_bracketed(x: Fraction, bits: int) -> None:
    low, high = coin._log_bounds(x, bits)
    with localcontext(prec=400):
        truth = (Decimal(x.numerator) / Decimal(x.denominator)).ln() * 2**bits
    assert low <= truth <= high
    assert high - low <= 2


def test_a_precise_draw_of_many_tosses_is_near_the_truth() -> None:
    data = [1] * 70_000 + [0] * 30_000
    assert CoinBias(1)(np.array(data, bool), rng=SeededRandom(1)) == pytest.approx(0.7, abs=0.02)


def test_the_density_is_the_law() -> None:
    m = CoinBias(2, points=16)
    thetas, p = m.density(6, 3)
    assert dict(zip(thetas.tolist(), p.tolist(), strict=True)) == pytest.approx(law(m, 6, 3))


def test_no_data_whatever_makes_it_fail() -> None:
    m = CoinBias(1, points=8)
    for data in ([], None, "x", [math.inf], 5, [10**400]):
        assert 0.1 < m(data, rng=SeededRandom(1)) < 0.9
    assert m.loss == BoundedRange(1)
    assert m.error(0.9) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"lower": 0},
        {"upper": 1},
        {"lower": 0.9},
        {"points": 1},
        {"points": 2**21},
        {"unit": Unit.client()},
    ],
)
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        CoinBias(**({"epsilon": 1} | wrong))
