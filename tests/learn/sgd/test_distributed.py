"""Two processes train as one: the same sums, noise added once, and a lost rank ends the run."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest
import torch

from deniable.errors import InvalidParameter
from deniable.learn.sgd import Distributed
from deniable.learn.sgd.training import trainer as trainers
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import problem
from tests.learn.sgd.test_noise import accepts
from tests.learn.sgd.workers import JOBS, alone, rank, shared


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    """What two processes answer to each job: all but the rank that is lost in the last one."""
    store, answers = tmp_path_factory.mktemp("ranks") / "store", multiprocessing.Queue()
    both = [multiprocessing.Process(target=rank, args=(i, str(store), answers)) for i in range(2)]
    for one in both:
        one.start()
    told = [answers.get(timeout=1800) for _ in range(2 * len(JOBS) - 1)]
    for one in both:
        one.join(600)
    return {(name, number): answer for name, number, answer in told}


def test_two_ranks_take_the_steps_of_one_process(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainers, "noisy_mean", lambda total, deviation, lot, rng: total.div_(lot))
    whole = shared()(problem(), rng=SeededRandom(1)).model
    expected = torch.cat([p.detach().flatten() for p in whole.parameters()]).double().numpy()
    assert np.array_equal(found["silent", 0], found["silent", 1])
    assert np.allclose(found["silent", 0], expected, atol=1e-5)


def test_noise_is_added_once_before_the_division(found: Any) -> None:
    """Twice (once per rank) would be √2 of it, a mean over ranks half of it."""
    deviation = 1.5 * 1.0 / alone().plan.lot
    assert accepts(found["empty", 0], deviation)
    assert not accepts(found["empty", 0], deviation * 2**0.5)
    assert not accepts(found["empty", 0], deviation / 2)


def test_ranks_follow_one_adaptive_bound(found: Any) -> None:
    """A rank that clipped by a larger bound than the noise is for would break the guarantee."""
    assert found["adaptive", 0] == found["adaptive", 1]
    assert len(set(found["adaptive", 0])) == 6


def test_a_lost_rank_stops_the_run_and_nothing_is_released(found: Any) -> None:
    assert found["lost", 0] == "stopped, and the account is frozen"
    assert ("lost", 1) not in found


def test_ranks_with_different_runs_do_not_begin(found: Any) -> None:
    assert "AccountFrozen" in found["another run", 0]
    assert "DataError: Expected the same run on every rank" in found["another run", 1]


def test_only_rank_0_is_charged_and_only_the_others_join(found: Any) -> None:
    assert "Expected a rank above 0" in found["wrong rank", 0]
    assert "Expected rank 0 to run and to be charged; this is rank 1" in found["wrong rank", 1]


def test_without_a_group_nothing_is_charged() -> None:
    with pytest.raises(InvalidParameter, match="Expected a process group"):
        Distributed(shared()).error()
