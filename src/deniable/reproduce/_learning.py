"""What the reproductions of private learning share: real data, several seeds' worth of
releases, mean and spread."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable import extras
from deniable.accounting import epsilon
from deniable.guarantee import Budget
from deniable.ledger import Filter, Ledger
from deniable.loss import Loss

DELTA = 1e-5
RUNS = 3


def need_torch() -> None:
    """Say which extra is missing, before anything else fails."""
    if importlib.util.find_spec("torch") is None:
        raise extras.missing("Private learning needs PyTorch, which is not installed", "learn")


@dataclass(frozen=True)
class Accuracy:
    """Accuracies in per cent of independent runs, and the processor seconds of each."""

    values: tuple[float, ...]
    seconds: float

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    def __str__(self) -> str:
        spread = ""
        if len(self.values) > 1:
            spread = f" ± {statistics.stdev(self.values):.2f}"
        return f"{self.mean:.2f}{spread}"


def measure(mechanism: Any, data: tuple[Any, Any], test: tuple[Any, Any], runs: Sequence[int]) -> Accuracy:
    """Independent releases by an account each, with the secure generator, scored on the
    test set (taken as public)."""
    accuracies, start = [], time.process_time()
    for _ in runs:
        limit = Budget(1.001 * upper(mechanism.loss), DELTA)  # room for the rounding of the charge
        account = Ledger.open("sqlite://").create(
            "training", mechanism.unit, limit=limit, filter=Filter.basic
        )
        release = account.run(mechanism, data, delta=DELTA)
        accuracies.append(100 * release.value.accuracy(*test))
    return Accuracy(tuple(accuracies), (time.process_time() - start) / len(accuracies))


def upper(loss: Loss) -> float:
    """The tight ε at δ = 1e-5."""
    return epsilon(loss, DELTA).upper
