"""A strategy for a Trainer of `lightning.pytorch` that trains privately."""

from __future__ import annotations

from lightning.pytorch.strategies import SingleDeviceStrategy

from deniable.learn.loops.lightning_steps import PrivateSteps


class PrivateStrategy(PrivateSteps, SingleDeviceStrategy):  # type: ignore[misc]
    """`PrivateSteps` for the Trainer of `lightning.pytorch`."""
