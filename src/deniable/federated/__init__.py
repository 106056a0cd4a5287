"""Federated learning: what leaves a device is a clipped update, under noise, and at best inside a secure sum.

>>> from torch import nn
>>> from deniable.federated import FedAvg, Central
>>> run = FedAvg(nn.Linear(4, 3), nn.CrossEntropyLoss(), clients=1000, rate=0.1, rounds=50, noise=Central(1.55))
>>> print(run.unit)
one client, added or removed

All but `secure_sum` needs `deniable[learn]`; names load when they are first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deniable.errors import MissingExtra

if TYPE_CHECKING:
    from deniable.federated.clients import Clients
    from deniable.federated.coordinator import Federation, Round
    from deniable.federated.deployment import Deployment, agreed, deploy, resume
    from deniable.federated.device import Device
    from deniable.federated.fedavg import FedAvg
    from deniable.federated.partition import dirichlet, iid, shards, unbalanced
    from deniable.federated.placement import Central, Correlated, OnClient, Shared, View
    from deniable.federated.rounds import Federated, RoundHistory
    from deniable.federated.simulation import Simulated, simulate
    from deniable.federated.transport import InProcess, Transport
    from deniable.federated.weights import Capped, Uniform

_HOMES = {
    "clients": "Clients",
    "coordinator": "Federation Round",
    "deployment": "Deployment agreed deploy resume",
    "device": "Device",
    "fedavg": "FedAvg",
    "partition": "dirichlet iid shards unbalanced",
    "placement": "Central Correlated OnClient Shared View",
    "rounds": "Federated RoundHistory",
    "simulation": "Simulated simulate",
    "transport": "InProcess Transport",
    "weights": "Capped Uniform",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Capped",
    "Central",
    "Clients",
    "Correlated",
    "Deployment",
    "Device",
    "FedAvg",
    "Federated",
    "Federation",
    "InProcess",
    "OnClient",
    "Round",
    "RoundHistory",
    "Shared",
    "Simulated",
    "Transport",
    "Uniform",
    "View",
    "agreed",
    "deploy",
    "dirichlet",
    "iid",
    "resume",
    "shards",
    "simulate",
    "unbalanced",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtra("Federated learning needs torch: pip install 'deniable[learn]'.") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
