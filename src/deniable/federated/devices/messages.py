"""Messages between the server and devices: a kind, the number of the round, and bytes. Nothing is
unpickled."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from deniable.errors import ProtocolError


class DeviceTask(IntEnum):
    """What a device is asked to do."""

    UPDATE = 1
    """Train and send the update as it is (to a trusted server), or with all its noise."""
    ADVERTISE = 2
    """Train, and offer keys for a secure sum."""
    SHARE = 3
    MASK = 4
    SIGN = 5
    UNMASK = 6


@dataclass(frozen=True)
class Message:
    """One request to a device."""

    step: DeviceTask
    turn: int
    content: bytes

    def to_bytes(self) -> bytes:
        return struct.pack(">BQ", self.step, self.turn) + self.content

    @classmethod
    def from_bytes(cls, text: bytes) -> Message:
        if len(text) < 9 or text[0] not in list(DeviceTask):
            raise ProtocolError("Expected a message of a federated round. Nothing was done.")
        step, turn = struct.unpack(">BQ", text[:9])
        return cls(DeviceTask(step), turn, bytes(text[9:]))


def write_task(weights: Tensor, bound: float) -> bytes:
    """What a device gets at the beginning of a round: the clip and the model."""
    return struct.pack(">d", bound) + weights.detach().to(torch.float32).numpy().astype("<f4").tobytes()


def read_task(content: bytes, dimension: int) -> tuple[Tensor, float]:
    """A vector of exactly `dimension` finite numbers, and a clip above 0."""
    if len(content) != 8 + 4 * dimension:
        raise ProtocolError(
            f"Expected a task of {8 + 4 * dimension:,} bytes, got {len(content):,}. Nothing was done."
        )
    (bound,) = struct.unpack(">d", content[:8])
    weights = torch.frombuffer(bytearray(content[8:]), dtype=torch.float32)
    if not torch.isfinite(weights).all() or not 0 < bound < math.inf:
        raise ProtocolError("Expected weights that are numbers and a clip above 0. Nothing was done.")
    return weights, bound
