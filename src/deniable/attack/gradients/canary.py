"""The pair for an audit of the same release: an audit finds noise too small at which inversion fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deniable.attack.gradients.sent import Update, Victims, receive_update, unclipped_run
from deniable.federated.fedavg import FedAvg
from deniable.mechanism import Random


@dataclass(frozen=True)
class Canary:
    """A round with and without one client, for `audit`: `target(update, rng)` is what
    the server reads along its direction."""

    target: Callable[[Update, Random], float]
    pair: tuple[Update, Update]


def canary(victims: Victims, run: FedAvg) -> Canary:
    """The first victim's own update as the canary, beside a client that is silent but still adds its
    noise."""
    loud = receive_update(unclipped_run(run.model), *victims.rows(0, 1)) / run.start_clip
    direction = loud / float(np.linalg.norm(loud))
    total = run.noise.summing

    def target(update: Update, rng: Random) -> float:
        noisy_sum = total(run.multiplier, run.shape, rng)(iter([update]))
        return 0.0 if noisy_sum is None else float(direction @ noisy_sum)

    return Canary(target, (np.zeros_like(loud), direction * run.shape.clip))
