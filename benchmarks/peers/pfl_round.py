"""CPU seconds of a round of ten 2NN clients of 600 rows, in batches of ten: pfl's simulation, and a plain loop beside it.

.venv-bench/bin/python benchmarks/peers/pfl_round.py ROUNDS     prints JSON
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional as F

CLIENTS, ROWS, COHORT, RATE = 20, 600, 10, 0.1


class TwoLayers(nn.Module):
    """McMahan's 2NN, with the loss that pfl asks a model for."""

    def __init__(self) -> None:
        super().__init__()
        hidden = (nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU())
        self.layers = nn.Sequential(*hidden, nn.Linear(200, 10))

    def loss(self, x: torch.Tensor, y: torch.Tensor, **_: Any) -> torch.Tensor:
        return F.cross_entropy(self.layers(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, **_: Any) -> dict[str, Any]:
        return {}


class Clock(TrainingProcessCallback):  # type: ignore[misc]
    """The CPU time at the end of each round."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_begin(self, *, model: Any) -> Metrics:
        return Metrics()

    def after_central_iteration(self, _: Any, model: Any, *, central_iteration: int) -> tuple[bool, Metrics]:
        self.ends.append(time.process_time())
        return False, Metrics()


def by_pfl(x: torch.Tensor, y: torch.Tensor, rounds: int) -> list[float]:
    network, clock = TwoLayers(), Clock()
    model = PyTorchModel(
        model=network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), 1.0),
    )
    users = FederatedDataset.from_slices(
        [(x[k], y[k]) for k in range(CLIENTS)], get_user_sampler("random", range(CLIENTS))
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=COHORT,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=users, val_data=None, postprocessors=[]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_learning_rate=RATE, local_num_epochs=1, local_batch_size=10
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=10_000),
        callbacks=[clock],
    )
    return [float(each) for each in np.diff(clock.ends)]


def by_loop(x: torch.Tensor, y: torch.Tensor, rounds: int) -> list[float]:
    model, seconds = TwoLayers(), []
    start = [p.detach().clone() for p in model.parameters()]
    for _ in range(rounds):
        begun = time.process_time()
        for k in range(COHORT):
            with torch.no_grad():
                for p, value in zip(model.parameters(), start, strict=True):
                    p.copy_(value)
            optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
            for batch in torch.split(torch.randperm(ROWS), 10):
                optimizer.zero_grad()
                loss: Any = model.loss(x[k][batch], y[k][batch])
                loss.backward()
                optimizer.step()
        seconds.append(time.process_time() - begun)
    return seconds


def main() -> None:
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    rounds = int(sys.argv[1])
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(CLIENTS, ROWS, 784, generator=draw)
    y = torch.randint(0, 10, (CLIENTS, ROWS), generator=draw)
    by_pfl(x, y, 1)
    print(json.dumps({"pfl": by_pfl(x, y, rounds), "plain": by_loop(x, y, rounds)}))


if __name__ == "__main__":
    main()
