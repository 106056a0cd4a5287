"""How often a sound target is accused: at once, after any number of looks, seeds and second samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from deniable.accounting.proportion import lower
from deniable.audit.finding import Verdict, judge
from deniable.audit.levels import ACCUSED, AT_ONCE, CONFIRMED, COPIES, Levels, look_share
from deniable.audit.rules.support import UNSEEN
from deniable.audit.runs.independence import SHARE
from deniable.audit.sniper.constants import copies_needed
from deniable.audit.statistics import from_guesses
from deniable.guarantee import Budget

RIGHT = 1 / (1 + math.exp(-1))
"""How often the easiest target of ε = 1 is guessed right: nothing that is sound comes nearer to an accusation."""
SCHEDULE = (400, 500, 1000, 2000)
"""Runs that certify where one file is carried to 500, 1,000, 2,000 and 4,000: those that no look had before."""
CERTIFICATE = 1 - SHARE - UNSEEN


def refuting(trials: int, alpha: float) -> int:
    """The least number of right guesses that refutes ε = 1."""
    right = np.arange(trials + 1)
    return int(np.argmax(lower(right, np.full(trials + 1, trials), alpha) > RIGHT))


def test_the_parts_of_an_accusation_sum_to_a_thousandth() -> None:
    levels = Levels.for_look(0.95)
    second = sum(Levels.second(0.95, time).accusing for time in range(1, 5000))
    assert pytest.approx(ACCUSED) == AT_ONCE + CONFIRMED + COPIES
    assert levels.accusing + levels.alpha * second + COPIES <= ACCUSED * (1 + 1e-12)
    assert sum(look_share(k) for k in range(1, 5000)) < 1
    assert Levels.for_look(1 - 1e-6).accusing == pytest.approx(1e-6), "who asks for more gets more"


@pytest.mark.parametrize(("confidence", "kind"), [(0.95, "doubted"), (0.95, "accused")])
def test_four_looks_at_one_file_share_the_error(confidence: float, kind: str) -> None:
    """Exactly, by binomial tails, and in a million simulated files."""
    exact, stated = 0.0, {"doubted": 1 - confidence, "accused": AT_ONCE}[kind]
    rng, wrong = np.random.default_rng(29), np.zeros(1_000_000, bool)
    for look, trials in enumerate(SCHEDULE, 1):
        levels = Levels.for_look(confidence, look_share(look))
        least = refuting(trials, CERTIFICATE * (levels.alpha if kind == "doubted" else levels.accusing))
        exact += float(binom.sf(least - 1, trials, RIGHT))
        wrong |= rng.binomial(trials, RIGHT, len(wrong)) >= least
    assert exact <= stated
    assert wrong.mean() <= exact + 6 * math.sqrt(exact / len(wrong))


def test_looks_that_are_not_paid_for_would_accuse_in_a_tenth_of_all_files() -> None:
    """What 0.2.0 did: the same runs again at each look, each at the whole error."""
    rng, wrong, right = np.random.default_rng(29), np.zeros(100_000, bool), np.zeros(100_000, np.int64)
    before = 0
    for trials in (400, 800, 1600, 3200):
        right += rng.binomial(trials - before, RIGHT, len(right))
        before = trials
        wrong |= right >= refuting(trials, 0.05)
    assert wrong.mean() > 0.09


def test_a_second_sample_confirms_within_its_part() -> None:
    """A sound target is looked at again in one audit of twenty; fresh samples confirm that in a hundredth of these at most."""
    trials = 2000
    first = binom.sf(refuting(trials, CERTIFICATE * 0.05) - 1, trials, RIGHT)
    second = sum(
        binom.sf(refuting(trials, CERTIFICATE * Levels.second(0.95, k).accusing) - 1, trials, RIGHT)
        for k in range(1, 9)
    )
    assert first * second <= CONFIRMED


def test_between_the_two_levels_the_verdict_is_to_look_again() -> None:
    assert judge(1.001, 0.999, 1.0, 1.01, 100) is Verdict.LOOK_AGAIN
    assert judge(1.002, 1.001, 1.0, 1.01, 100) is Verdict.VIOLATION
    assert judge(0.99, 0.98, 1.0, 1.01, 100) is Verdict.CONSISTENT
    assert Verdict.LOOK_AGAIN.exit_code == 7
    assert len({verdict.exit_code for verdict in Verdict}) == len(Verdict)


@pytest.mark.parametrize(("alpha", "copies"), [(0.05, 10), (0.01, 15), (COPIES, 27)])
def test_so_many_copies_are_a_proof_and_one_less_is_none(alpha: float, copies: int) -> None:
    """By the binomial tail: all right with probability (e/(1 + e))ⁿ under ε = 1; and by the certified bound."""
    assert RIGHT**copies <= alpha < RIGHT ** (copies - 1)
    assert copies_needed(Budget(1), alpha) == copies
    assert from_guesses(copies, 0, copies, delta=0, alpha=alpha) > 1
    assert from_guesses(copies - 1, 0, copies - 1, delta=0, alpha=alpha) <= 1
