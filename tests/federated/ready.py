"""Devices for tests that are not about time: each has a memory of its own, and is waited for until it is ready."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from deniable.federated import Device, FedAvg
from deniable.federated.devices.deadline import Untimed

LIMITS = {"local_steps": 1000, "answer_after": 30.0}
"""What a run must say whose devices add noise."""
_FOLDER = tempfile.TemporaryDirectory(prefix="deniable-devices-")


def new_memory() -> Path:
    return Path(_FOLDER.name) / f"{secrets.token_hex(8)}.txt"  # not counted: a forked child counts alike


def ready_device(run: FedAvg, client: int, x: Tensor, y: Tensor, **terms: Any) -> Device:
    return Device(run, client, x, y, **({"memory": new_memory(), "clock": Untimed()} | terms))
