"""What is rare and plain is found: values that one neighbour can give and the other cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.audit import Finding, Verdict, audit, replay
from deniable.audit.rules.support import Support

P = 1 - math.exp(-1)


def cut(k: int) -> Callable[..., Any]:
    def mechanism(data: int, n: int, rng: np.random.Generator) -> Any:
        return data + np.clip(rng.geometric(P, n) - rng.geometric(P, n), -k, k)

    return mechanism


@pytest.mark.parametrize(
    ("k", "samples", "least"), [(5, 100_000, 4.0), (6, 300_000, 4.0), (8, 1_000_000, 2.5)]
)
def test_noise_that_is_cut_off_is_found(k: int, samples: int, least: float) -> None:
    for seed in range(2):
        found = audit(cut(k), (0, 1), 1.0, samples=samples, seed=seed)
        assert (found.verdict, found.support_differs) == (Verdict.VIOLATION, True)
        assert found.epsilon > least


def test_a_rare_finding_replays_to_the_same_counts() -> None:
    found = audit(cut(5), (0, 1), 1.0, seed=0, samples=60_000)
    again = replay(Finding.from_json(found.to_json()), cut(5))
    assert (again.epsilon, again.verdict) == (found.epsilon, Verdict.VIOLATION)
    assert replay(found, cut(50)).verdict is not Verdict.VIOLATION


def test_coupled_runs_find_it_too() -> None:
    def mechanism(data: int, seed: int) -> int:
        rng = np.random.default_rng(seed)
        return int(data + np.clip(rng.geometric(P) - rng.geometric(P), -3, 3))

    found = audit(mechanism, (0, 1), 1.0, seed=0, samples=8_000)
    assert found.verdict is Verdict.VIOLATION
    assert found.method == "sniper, coupled runs"


@pytest.mark.parametrize("audits", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_tails_that_go_on_raise_no_more_alarms_than_stated(audits: int) -> None:
    alarms = sum(
        audit(cut(10**6), (0, 1), 1.0, samples=4_000, seed=seed).exit_code == 1 for seed in range(audits)
    )
    assert alarms <= binom.ppf(1 - 1e-9, audits, 0.05)


def test_regions_are_what_one_side_alone_has() -> None:
    first, second = np.array([[0.0]] * 50 + [[9.0]] * 6), np.array([[0.0]] * 50 + [[1.0]] * 6)
    support = Support.fit(first, second)
    assert support is not None
    assert support.score(np.array([[0.0], [9.0], [1.0], [5.0]])).tolist() == [0, 1, -1, 1]
    assert Support.from_dict(support.to_dict()) == support
    assert Support.fit(first, first) is None
