"""Amplification by shuffling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from deniable.accounting.methods.shuffle import closed_form, epsilon
from deniable.accounting.methods.strong import optimal
from deniable.errors import Unaccountable
from deniable.loss import GaussianNoise, Pure, ResponseNoise, Shuffled


def clones_delta(n: int, chance: float, local: float, tells: float, eps: float) -> float:
    """The clone pair summed out, outcome by outcome."""
    a, total = 1 / (1 + math.exp(-local)), 0.0
    for c in range(n):
        k = np.arange(c + 2)
        first, second = binom.pmf(k - 1, c, 0.5), binom.pmf(k, c, 0.5)
        p, q = a * first + (1 - a) * second, (1 - a) * first + a * second
        total += binom.pmf(c, n - 1, chance) * np.maximum(p - math.exp(eps) * q, 0).sum()
    return tells * total


@pytest.mark.parametrize(
    ("n", "local", "d"), [(1, 1.0, 0.1), (2, 1.0, 1e-3), (50, 1.0, 1e-2), (200, 2.0, 1e-4), (300, 0.5, 1e-6)]
)
def test_the_clones_are_summed_exactly(n: int, local: float, d: float) -> None:
    eps = epsilon(Shuffled(n, Pure(local)), d)
    assert clones_delta(n, math.exp(-local), local, 1.0, eps) <= d
    assert clones_delta(n, math.exp(-local), local, 1.0, eps * (1 - 1e-5)) > d


def test_randomized_response_hides_among_more_clones() -> None:
    loss = Shuffled(200, ResponseNoise(0.5, 3))
    eps = epsilon(loss, 1e-4)
    assert clones_delta(200, 0.5, math.log(2), 0.75, eps) <= 1e-4
    assert clones_delta(200, 0.5, math.log(2), 0.75, eps * (1 - 1e-5)) > 1e-4
    assert eps < epsilon(Shuffled(200, Pure(math.log(2))), 1e-4)


def shuffled_law(truth: float, options: int, values: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The exact law of the histogram of randomized responses to `values`."""
    law: dict[tuple[int, ...], float] = {}
    for reports in itertools.product(range(options), repeat=len(values)):
        chance = math.prod(
            truth if r == v else (1 - truth) / (options - 1) for r, v in zip(reports, values, strict=True)
        )
        key = tuple(reports.count(o) for o in range(options))
        law[key] = law.get(key, 0.0) + chance
    return law


@pytest.mark.parametrize(("truth", "options"), [(0.7, 2), (0.6, 3), (0.9, 2), (0.4, 4)])
def test_no_neighbouring_data_sets_of_real_reports_pass_the_bound(truth: float, options: int) -> None:
    """Five people, every value of the four others up to order: the true δ stays under the claimed one."""
    n = 5
    for d in (0.3, 0.05, 0.01):
        eps = epsilon(Shuffled(n, ResponseNoise(truth, options)), d)
        for others in itertools.combinations_with_replacement(range(options), n - 1):
            one, two = (shuffled_law(truth, options, (first, *others)) for first in (0, 1))
            assert sum(max(0.0, one[k] - math.exp(eps) * two[k]) for k in one) <= d


def test_the_numerical_bound_is_at_most_the_closed_form() -> None:
    for n, local in ((10_000, 1.0), (100_000, 4.0), (10**6, 4.0), (10**9, 8.0)):
        loss = Shuffled(n, Pure(local))
        assert epsilon(loss, 1e-6) < closed_form(loss, 1e-6) <= local
    assert closed_form(Shuffled(10, Pure(4)), 1e-6) == 4


def test_the_closed_form_is_the_theorem() -> None:
    n, e, d = 10**6, 2.0, 1e-6
    gain = 8 * math.sqrt(math.exp(e) * math.log(4 / d) / n) + 8 * math.exp(e) / n
    expected = math.log(1 + (math.exp(e) - 1) / (math.exp(e) + 1) * gain)
    assert closed_form(Shuffled(n, Pure(e)), d) == pytest.approx(expected, rel=1e-9)


def test_blocks_of_counts_only_add() -> None:
    """A hundred thousand reports, in blocks and one by one."""
    n, local, d = 100_000, 4.0, 1e-6
    eps = epsilon(Shuffled(n, Pure(local)), d)
    c = np.arange(1000, 2800)
    a = 1 / (1 + math.exp(-local))
    total = 0.0
    for count, mass in zip(c, binom.pmf(c, n - 1, math.exp(-local)), strict=True):
        k = np.arange(count // 2, count + 2)
        first, second = binom.pmf(k - 1, count, 0.5), binom.pmf(k, count, 0.5)
        p, q = a * first + (1 - a) * second, (1 - a) * first + a * second
        total += mass * np.maximum(p - math.exp(eps) * q, 0).sum()
    assert total <= d <= total * 1.01


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 10**6), st.floats(0.05, 8), st.floats(1e-12, 0.1))
def test_more_reports_and_more_delta_cost_less(n: int, local: float, d: float) -> None:
    value = epsilon(Shuffled(n, Pure(local)), d)
    assert 0 <= value <= math.nextafter(local, math.inf)
    assert epsilon(Shuffled(2 * n, Pure(local)), d) <= value * (1 + 1e-3) + 1e-9
    assert epsilon(Shuffled(n, Pure(local)), min(1.0, 2 * d)) <= value * (1 + 1e-6) + 1e-9


def test_without_delta_shuffling_is_post_processing() -> None:
    assert epsilon(Shuffled(1000, Pure(1)), 0) == 1.0
    assert epsilon(Shuffled(1000, Pure(0)), 1e-6) == 0.0


def test_repeated_surveys_are_composed() -> None:
    loss = Shuffled(10**5, Pure(1))
    assert epsilon(loss, 1e-6) < optimal(loss * 3, 1e-6) < 3 * epsilon(loss, 1e-7)


def test_what_is_no_local_report_is_refused() -> None:
    with pytest.raises(Unaccountable, match="one Shuffled loss"):
        epsilon(Pure(1), 1e-6)
    with pytest.raises(Unaccountable, match="Gaussian noise"):
        epsilon(Shuffled(100, GaussianNoise(1)), 1e-6)
