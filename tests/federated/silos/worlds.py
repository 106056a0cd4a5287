"""Runs over silos of one number, and all that may come of a lot, by enumeration."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable import checks
from deniable.federated import Central, CrossSilo, LocalSteps, RoundExecution, RowPrivacy, SiloRows, Silos
from deniable.federated.silos.worker import SiloLots
from deniable.learn.sgd.clipping import ALL
from deniable.randomness import SeededRandom
from deniable.units import Unit

Floats = NDArray[np.float64]
AT_ONCE = RoundExecution()
PATIENT = Unit.column("patient", max_rows=2)
Held = Sequence[tuple[float, str]]
"""What a silo holds: for each row the move that it asks for, and whose it is."""


class Weight(nn.Module):
    """One number. Its gradient on a row is less the row's label, whatever the number is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def asked(outputs: Tensor, labels: Tensor) -> Tensor:
    return -(outputs.squeeze(-1) * labels)


def silo(held: Held) -> SiloRows:
    moves = np.array([move for move, _ in held], np.float32)
    return SiloRows(np.ones((len(held), 1), np.float32), moves, [name for _, name in held])


def run_of(noise: Any, *, unit: Unit = checks.ROW, rate: Any = 0.5, rounds: int = 1, steps: int = 1, most: int = 1,
           sizes: tuple[int, ...] = (2, 2), how: RoundExecution = AT_ONCE) -> CrossSilo:  # fmt: skip
    return CrossSilo(
        Weight(), asked, silos=Silos(sizes, rate, rounds), local=LocalSteps(steps, 1.0),
        privacy=RowPrivacy(noise, unit=unit, most_silos=most), how=how,
    )  # fmt: skip


def sums(run: CrossSilo, number: int, held: Held) -> dict[int, float]:
    """What a silo's sum of one lot may be, in grid units, with its probability."""
    assert run.privacy.clip == 1
    rate = float(run.silos.rate)
    law: dict[int, float] = defaultdict(float)
    for drawn, absent, total in lots(run.unit, tuple(held)):
        law[total] += rate**drawn * (1 - rate) ** absent
    return dict(law)


@functools.lru_cache
def lots(unit: Unit, held: tuple[tuple[float, str], ...]) -> list[tuple[int, int, int]]:
    """Every set of rows (or of people): how many are in it, how many are not, and what the code that reads and
    clips them makes of it."""
    own = SiloLots(run_of(Central(1.0), unit=unit), 0, silo(held), SeededRandom(0))
    outcomes, count = [], len(own._rows)
    for coins in itertools.product((False, True), repeat=count):
        chosen = np.flatnonzero(coins)
        lot = own._rows.take(chosen, torch.float32, SeededRandom(0))
        total = int(own._trainer.clip_lot(lot).total[ALL][0])
        outcomes.append((len(chosen), count - len(chosen), total))
    return outcomes


def added(*laws: dict[int, float]) -> dict[int, float]:
    """The law of a sum of independent numbers."""
    total = {0: 1.0}
    for law in laws:
        following: dict[int, float] = defaultdict(float)
        for (a, p), (b, q) in itertools.product(total.items(), law.items()):
            following[a + b] += p * q
        total = dict(following)
    return total


@functools.lru_cache(maxsize=64)
def chances(sigma: float, reach: int, count: int) -> Floats:
    """How probable a sum of `count` integer Gaussians is below each whole number."""
    line = np.arange(-reach, reach + 1)
    noise = np.exp(-(line.astype(float) ** 2) / (2 * sigma**2))
    noise /= noise.sum()
    total = noise
    for _ in range(count - 1):
        total = np.convolve(total, noise)
    return np.concatenate([[0.0], np.cumsum(total)])


def spread(law: dict[int, float], sigma: float, width: int, reach: int, count: int = 1) -> Floats:
    """The law with `count` integer Gaussians added, seen in bins of `width`: what a bin tells, the number tells."""
    below, half = chances(sigma, reach, count), count * reach
    edges = np.arange(-half - reach, half + reach + width, width)
    bins = np.zeros(len(edges) - 1)
    for value, p in law.items():
        bins += p * np.diff(below[np.clip(edges - value + half, 0, len(below) - 1)])
    return bins


def excess(p: Floats, q: Floats, epsilon: float) -> float:
    """δ at ε, by definition: the mass of p above e^ε·q, of whichever of the two is larger."""
    factor = np.exp(epsilon)
    return max(float(np.clip(p - factor * q, 0, None).sum()), float(np.clip(q - factor * p, 0, None).sum()))
