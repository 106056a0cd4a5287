"""Tables know what counts say, and no more."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from deniable.audit.rules.tables import PARTS, Coder, Tables, TableTally, shrunk


def tally(first: Any, second: Any, cells: int) -> TableTally:
    return TableTally.from_codes(np.asarray(first, np.intp), np.asarray(second, np.intp), cells)


def test_noise_alone_is_shrunk_to_nothing_and_signal_is_kept() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, 2000)
    assert np.mean(shrunk(noise, np.full(2000, 0.01)) ** 2) < 0.1 * np.mean(noise**2)
    signal = rng.normal(0, 1, 2000)
    assert shrunk(signal + noise, np.full(2000, 0.01)) == pytest.approx(signal + noise, rel=0.02)


def test_one_plain_value_survives_among_many_that_say_nothing() -> None:
    values, variance = np.append(np.zeros(4000), 5.0), np.append(np.full(4000, 1e-4), 2.0)
    assert shrunk(values, variance)[-1] > 1
    assert shrunk(np.append(np.zeros(4000), 1.4), variance)[-1] < 0.01


@pytest.mark.parametrize("coupled", [False, True])
def test_the_doubt_of_a_log_ratio_is_its_variance(coupled: bool) -> None:
    """Over 300 draws of 4,000 rows; coupled ones share nearly all of their luck, which
    is seen without being told."""
    rng = np.random.default_rng(2)
    ratios, doubts = [], []
    for _ in range(300):
        one, other = rng.random((2, 4000))
        rows = one < 0.2, (one if coupled else other) < 0.19
        made = tally(*rows, 2)
        ratios.append(made.ratio[1])
        doubts.append(made.doubt()[1])
    assert np.mean(doubts) == pytest.approx(np.var(ratios), rel=0.3)
    assert np.mean(doubts) < (1e-3 if coupled else 3e-3)


def test_a_cell_that_was_hardly_met_is_not_known() -> None:
    assert tally([0] * 500 + [1], [0] * 500, 2).doubt()[1] > 2


def test_parts_take_turns_so_that_sorted_rows_do_not_look_doubtful() -> None:
    sorted_rows = np.repeat([0, 1], 800)
    assert tally(sorted_rows, sorted_rows, 2).first.tolist() == [[800 / PARTS] * 2] * PARTS


def test_bins_without_a_difference_become_one() -> None:
    """Laplace noise: the ratio is that of the side, all else is shrunk away; and twins show nothing."""
    noise = np.random.default_rng(3).laplace(0, 1, (200_000, 1))
    table = Tables.fit(noise + 0.1, noise, bins=16, patterns=False, is_pooled=False)
    assert table is not None
    low, high = table.score(np.array([[-2.0], [2.0]]))
    assert (low, high) == pytest.approx((-0.1, 0.1), abs=0.02)
    twin = Tables.fit(noise, noise, bins=16, patterns=False, is_pooled=False)
    assert twin is not None
    assert len(twin.coder.edges[0]) == 0


def test_the_tail_of_what_is_rarely_continuous_is_binned() -> None:
    """Two values in a thousand are numbers, the others say that there was none; among
    400,000 that is still a histogram."""
    rng = np.random.default_rng(4)
    rows = np.where(rng.random((400_000, 1)) < 0.002, rng.laplace(0, 1, (400_000, 1)), -1000.0)
    assert len(Coder.fit(rows, 16).edges[0]) == 16 - 1 + 2 + 1


def test_only_edges_between_equal_weights_are_dropped() -> None:
    coder = Coder((np.array([0.0, 1.0, 2.0]),), (np.zeros(4, np.bool_),))
    table = Tables(coder, (np.array([0.01, 0.02, 0.02, 0.3]),))
    assert table.merge_bins().coder.edges[0].tolist() == [0.0, 2.0]
    rows = np.array([[-1.0], [0.5], [1.5], [3.0]])
    assert table.merge_bins().score(rows).tolist() == table.score(rows).tolist() == [0.01, 0.02, 0.02, 0.3]


def test_merging_changes_no_score_and_json_keeps_it() -> None:
    rng = np.random.default_rng(5)
    first, second = (
        np.where(rng.random((20_000, 3)) < 0.3, 0.0, rng.normal(shift, 1, (20_000, 3))) for shift in (0.2, 0)
    )
    table = Tables.fit(first, second, bins=16, patterns=True, is_pooled=False)
    assert table is not None
    assert np.array_equal(table.merge_bins().score(first), table.score(first))
    read = Tables.from_dict(json.loads(json.dumps(table.to_dict())))
    assert np.array_equal(read.score(second), table.score(second))
    odd = np.array([[math.nan, math.inf, -math.inf], [0.0, 0.0, 0.0]])
    assert np.all(np.isfinite(table.score(odd)))
