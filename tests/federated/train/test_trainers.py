"""Clients in several processes: the same updates, and nothing is lost where a process is."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from deniable.errors import InvalidParameter
from deniable.federated import Central, iid, simulate
from deniable.federated.train import LocalRecipe, Pupil, Trainers, local_training, parameters_of
from deniable.federated.train.recipe import flat
from tests.federated.runs import run_of

CRITERION, RECIPE = nn.CrossEntropyLoss(), LocalRecipe(2, 5, 0.1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def pupils(count: int = 13) -> list[Pupil]:
    draw = torch.Generator().manual_seed(0)
    return [
        Pupil(torch.randn(7 + k, 4, generator=draw), torch.randint(0, 2, (7 + k,), generator=draw), k)
        for k in range(count)
    ]


def test_processes_compute_the_same_updates_and_a_killed_one_loses_none() -> None:
    network = model()
    start = flat(parameters_of(network))
    alone = list(local_training(network, CRITERION).updates(start, pupils(), RECIPE))
    bad = Pupil(torch.zeros(3, 9), torch.zeros(3, dtype=torch.int64), 1)
    with Trainers(network, CRITERION, 2) as workers:
        together = list(workers.updates(start, pupils(), RECIPE))
        with pytest.raises(RuntimeError):
            list(workers.updates(start, [bad], RECIPE))
        assert workers._pool is not None
        for process in workers._pool._processes:
            os.kill(process, signal.SIGKILL)
        after = list(workers.updates(start, pupils(), RECIPE))
        assert workers._pool is None
    for update, other, last in zip(alone, together, after, strict=True):
        assert torch.equal(update, other)
        assert torch.equal(update, last)


def test_a_simulation_does_not_depend_on_its_workers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    data = iid(x, (x[:, 0] > 0).astype(np.int64), clients=20)
    results = [simulate(model(), CRITERION, data, share=1, rounds=2, workers=count).model for count in (1, 2)]
    assert torch.equal(*(flat(parameters_of(result)) for result in results))


def test_what_cannot_travel_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidParameter, match="can be pickled"):
        run_of(model(), lambda x, y: CRITERION(x, y), noise=Central(1.0), workers=2)
    with pytest.raises(InvalidParameter, match="workers"):
        run_of(model(), CRITERION, noise=Central(1.0), workers=0)
