"""Lots with a cap, and passes in which each row falls into one lot: drawn as the loss says."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from deniable.accounting import certify, epsilon
from deniable.errors import InvalidParameter
from deniable.learn.sgd import Adaptive, Lots
from deniable.learn.sgd.data.rows import rows
from deniable.loss import Allocated, CappedSample, GaussianNoise
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import problem, small, trainer

X, Y = problem(40)
NUMBERED = rows((torch.arange(40.0)[:, None], torch.zeros(40)))


def drawn(t: Any) -> list[int]:
    return [int(row) for batch in t.draw(NUMBERED) for row in batch.rows[0][:, 0]]


def run(lots: Lots, **given: Any) -> Any:
    return small(n=None, lot=None, steps=None, lots=lots, **given)


def test_no_lot_is_larger_than_its_cap_and_every_row_has_the_same_chance() -> None:
    capped = run(Lots(n=40, lot=10, steps=5, cap=12, at_most=50))
    t = trainer(capped)
    sizes, seen = [], np.zeros(40)
    for _ in range(1000):
        lot = drawn(t)
        sizes.append(len(lot))
        seen[lot] += 1
    assert max(sizes) == 12
    assert sizes.count(12) > 150
    assert stats.chisquare(seen).pvalue > 1e-9
    assert capped.loss == CappedSample(Fraction(1, 4), 12, 50, GaussianNoise(1.0)) * 5
    plain = small(n=40, lot=10, steps=5)
    assert epsilon(capped.loss, 1e-5).upper > epsilon(plain.loss, 1e-5).upper


def test_a_broken_promise_about_the_number_of_rows_has_a_bound_and_the_promise_is_named() -> None:
    """Of any number of rows a step reveals at most what twice the sensitivity does, and comes near it."""
    losses = [CappedSample(Fraction(1, 4), 12, rows, GaussianNoise(2.0)) * 5 for rows in (50, 100, 10**6)]
    prices = [epsilon(loss, 1e-5).upper for loss in losses]
    doubled = epsilon(GaussianNoise(2.0).grouped(2).sampled(Fraction(1, 4)) * 5, 1e-5).upper
    assert prices == sorted(prices)
    assert 0.99 * doubled < prices[-1] <= doubled * (1 + 1e-6)
    assert any("at most 50 records" in text for text in certify(losses[0], Unit.row(), 1e-5).assumptions)


def test_all_rows_of_a_pass_are_seen_once() -> None:
    passes = run(Lots(n=40, lot=10, epochs=2, allocated=True))
    assert passes.plan.steps == 8
    assert passes.loss == Allocated(4, GaussianNoise(1.0)) * 2
    t = trainer(passes)
    for _ in range(2):
        seen: list[int] = []
        for _ in range(4):
            seen += drawn(t)
            t.taken += 1
        assert sorted(seen) == list(range(40))


def test_a_row_s_lot_is_uniform_and_its_own() -> None:
    t = trainer(run(Lots(n=40, lot=10, epochs=1, allocated=True)))
    counts = np.zeros((4, 4))
    for _ in range(600):
        t.taken, places = 0, {}
        for step in range(4):
            places |= dict.fromkeys(drawn(t), step)
            t.taken += 1
        counts[places[0], places[1]] += 1
    assert stats.chisquare(counts.flatten()).pvalue > 1e-9


def test_a_pass_that_is_taken_up_in_its_middle_has_no_rows_left() -> None:
    """Its draws are lost; drawn anew, a row could be in two lots of one pass."""
    passes = run(Lots(n=40, lot=10, epochs=2, allocated=True))
    t = trainer(passes)
    drawn(t)
    resumed = trainer(passes, seed=2)
    resumed.taken = 1
    for _ in range(3):
        assert drawn(resumed) == []
        resumed.taken += 1
    assert drawn(resumed) != []
    resumed.taken = 1  # the draws of another pass say nothing of this one
    assert drawn(resumed) == []
    assert passes.loss_of(1) == passes.loss_of(4) == Allocated(4, GaussianNoise(1.0)) * 1
    assert passes.loss_of(5) == passes.loss


def test_such_runs_learn() -> None:
    x, y = problem(300)
    for lots in (
        Lots(n=300, lot=60, epochs=2, allocated=True),
        Lots(n=300, lot=60, steps=6, cap=70, at_most=400),
    ):
        trained = run(lots, noise_multiplier=None, epsilon=5, delta=1e-5)((x, y), rng=SeededRandom(1))
        assert trained.usable is not None
        assert not trained.usable.few


@pytest.mark.parametrize(
    ("lots", "given", "sentence"),
    [
        (Lots(n=40, lot=10, steps=4, cap=12), {}, "Expected cap=12 and at_most=None together"),
        (Lots(n=40, lot=10, steps=4, at_most=50), {}, "Expected cap=None and at_most=50 together"),
        (Lots(n=40, lot=10, steps=4, cap=9, at_most=50), {}, "Expected cap=9 of at least lot=10"),
        (Lots(n=40, lot=10, steps=5, allocated=True), {}, "Expected whole epochs"),
        (Lots(n=40, lot=9, epochs=1, allocated=True), {}, "Expected whole epochs"),
        (
            Lots(n=40, lot=10, epochs=2, allocated=True),
            {"noise_schedule": (1, 2)},
            "Expected one noise for all steps",
        ),
        (
            Lots(n=40, lot=10, epochs=2, allocated=True),
            {"unit": Unit.row(replace=True)},
            "added or removed with cap",
        ),
        (
            Lots(n=40, lot=10, epochs=1, cap=12, at_most=50),
            {"unit": Unit.row(replace=True)},
            "added or removed with cap",
        ),
    ],
)
def test_what_has_no_proof_is_refused(lots: Lots, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        run(lots, **given)


def test_a_bound_that_moves_goes_with_passes() -> None:
    moving = run(Lots(n=40, lot=10, epochs=1, allocated=True), clip=Adaptive(count_noise=4))
    assert isinstance(moving.loss, Allocated)
    assert epsilon(moving.loss, 1e-5).upper < 10
