"""Federated learning: what leaves a device is a clipped update, under noise, and at best inside a secure sum.

>>> from torch import nn
>>> from deniable.federated import Central, ClientPrivacy, Cohorts, FedAvg
>>> model = nn.Linear(4, 3)
>>> run = FedAvg(model, nn.CrossEntropyLoss(), cohorts=Cohorts(clients=1000, rate=0.1, rounds=50),
...              privacy=ClientPrivacy(Central(1.55)))
>>> print(run.unit)
one client, added or removed

All but `secure_sum` needs `deniable[learn]`; names load when they are first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deniable import extras

if TYPE_CHECKING:
    from deniable.federated.data.clients import Clients
    from deniable.federated.data.partition import dirichlet, iid, shards, unbalanced
    from deniable.federated.devices.coordinator import Federation, Round
    from deniable.federated.devices.deployment import Deployment, agreed, deploy, resume
    from deniable.federated.devices.device import Device
    from deniable.federated.devices.flower import FlowerTransport, relay_app
    from deniable.federated.devices.relay import Relay
    from deniable.federated.devices.transport import InProcess, Transport
    from deniable.federated.fedavg import FedAvg
    from deniable.federated.noise.placement import Central, Correlated, OnClient, Shared, View
    from deniable.federated.noise.weights import Capped, Uniform
    from deniable.federated.rounds import Federated, RoundHistory
    from deniable.federated.settings import ClientPrivacy, Cohorts, RoundExecution
    from deniable.federated.silos.cross_silo import CrossSilo
    from deniable.federated.silos.settings import LocalSteps, RowPrivacy, SiloRows, Silos
    from deniable.federated.silos.silo import Silo, SiloPart
    from deniable.federated.simulation import Simulated, simulate
    from deniable.federated.train.recipe import LocalRecipe

_HOMES = {
    "data.clients": "Clients",
    "data.partition": "dirichlet iid shards unbalanced",
    "devices.coordinator": "Federation Round",
    "devices.deployment": "Deployment agreed deploy resume",
    "devices.device": "Device",
    "devices.flower": "FlowerTransport relay_app",
    "devices.relay": "Relay",
    "devices.transport": "InProcess Transport",
    "fedavg": "FedAvg",
    "noise.placement": "Central Correlated OnClient Shared View",
    "noise.weights": "Capped Uniform",
    "rounds": "Federated RoundHistory",
    "settings": "ClientPrivacy Cohorts RoundExecution",
    "silos.cross_silo": "CrossSilo",
    "silos.settings": "LocalSteps RowPrivacy SiloRows Silos",
    "silos.silo": "Silo SiloPart",
    "simulation": "Simulated simulate",
    "train.recipe": "LocalRecipe",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Capped",
    "Central",
    "ClientPrivacy",
    "Clients",
    "Cohorts",
    "Correlated",
    "CrossSilo",
    "Deployment",
    "Device",
    "FedAvg",
    "Federated",
    "Federation",
    "FlowerTransport",
    "InProcess",
    "LocalRecipe",
    "LocalSteps",
    "OnClient",
    "Relay",
    "Round",
    "RoundExecution",
    "RoundHistory",
    "RowPrivacy",
    "Shared",
    "Silo",
    "SiloPart",
    "SiloRows",
    "Silos",
    "Simulated",
    "Transport",
    "Uniform",
    "View",
    "agreed",
    "deploy",
    "dirichlet",
    "iid",
    "relay_app",
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
        raise extras.missing("Federated learning needs torch", "learn") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
