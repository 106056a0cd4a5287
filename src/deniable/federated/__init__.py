"""Federated learning: what leaves a device is a clipped update, under noise, and at best inside a secure sum.

>>> from torch import nn
>>> from deniable.federated import FedAvg, Central
>>> run = FedAvg(nn.Linear(4, 3), nn.CrossEntropyLoss(), clients=1000, rate=0.1, rounds=50, noise=Central(1.55))
>>> print(run.unit)
one client, added or removed
"""

from deniable.federated.clients import Clients
from deniable.federated.deployment import Deployment, Federation, agreed, deploy
from deniable.federated.device import Device
from deniable.federated.fedavg import FedAvg
from deniable.federated.partition import dirichlet, iid, shards, unbalanced
from deniable.federated.placement import Central, Correlated, OnClient, Shared, View
from deniable.federated.rounds import Federated, RoundHistory
from deniable.federated.simulation import Simulated, simulate
from deniable.federated.transport import InProcess, Transport
from deniable.federated.weights import Capped, Uniform

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
    "shards",
    "simulate",
    "unbalanced",
]
