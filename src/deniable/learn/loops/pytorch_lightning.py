"""A strategy for a Trainer of `pytorch_lightning` that trains privately."""

from __future__ import annotations

from pytorch_lightning.strategies import SingleDeviceStrategy

from deniable.learn.loops.lightning_steps import PrivateSteps


class PrivateStrategy(PrivateSteps, SingleDeviceStrategy):  # type: ignore[misc]
    """`PrivateSteps` for the Trainer of `pytorch_lightning`."""
