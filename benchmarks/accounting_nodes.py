"""Batches, matrices' cyclic samples, own mechanisms: our brackets beside dp-accounting where it has the node.

Its mixture of Gaussians is compared in tests, on fewer steps, and not timed here.

    python benchmarks/accounting_nodes.py       writes its table into docs/benchmarks.md

CPU seconds, each loss once in a process that has accounted for nothing like it; δ = 1e-6.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from _report import write_section
from deniable.accounting import matrices, numerical
from deniable.loss import (
    Allocated,
    CappedSample,
    Composed,
    DiscreteGaussianNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    Silenced,
)

DELTA = 1e-6
NODES: list[tuple[str, Loss]] = [
    ("allocation, 100 steps, σ = .4", Allocated(100, GaussianNoise(0.4))),
    ("allocation, 10⁴ steps, σ = .7", Allocated(10**4, GaussianNoise(0.7))),
    ("allocation, 10⁴ steps, σ = 1", Allocated(10**4, GaussianNoise(1))),
    ("allocation, 10⁶ steps, σ = 1", Allocated(10**6, GaussianNoise(1))),
    ("100 passes of allocation, 100 steps, σ = 1", Allocated(100, GaussianNoise(1)) * 100),
    ("allocation of integer noise, 100 steps", Allocated(100, DiscreteGaussianNoise(200, 200, 50))),
    (
        "capped sample, 10⁴ steps, cap at 4.5 deviations",
        CappedSample(0.01, 600, 50_000, GaussianNoise(1)) * 10**4,
    ),
    (
        "capped sample, zero-out, 10⁴ steps",
        Silenced(CappedSample(0.01, 600, 50_000, GaussianNoise(1)) * 10**4),
    ),
    ("draws with replacement, 1000 steps", DrawnSample(500, 50_000, GaussianNoise(1)) * 1000),
    ("integer Gaussian sum, 10⁴ rounds", IntegerGaussianSum(1000, 20, 30, 10**6) * 10**4),
    ("banded, cyclic sample, 10⁴ steps", matrices.cyclic_loss(matrices.banded(10**4, 16), rate=0.1, sigma=4)),
    ("group of 100, 10⁴ steps", (GaussianNoise(100).sampled(0.01) * 10**4).grouped(100)),
    ("mixture of Gaussians, 10⁴ steps", MixedGaussianNoise(2, (0, 1, 2), (0.97, 0.02, 0.01)) * 10**4),
    ("four outcomes, 1000 runs", FiniteOutcomes((0.26, 0.25, 0.25, 0.24), (0.24, 0.25, 0.25, 0.26)) * 1000),
    (
        "four outcomes off any lattice, 10⁴ runs",
        FiniteOutcomes((0.3, 0.25, 0.25, 0.2), (0.29, 0.25, 0.25, 0.21)) * 10**4,
    ),
    ("integer Gaussian sum of two, one coordinate", IntegerGaussianSum(2, 4, 5, 1)),
    ("1,000 unlike Laplace", Composed(tuple(LaplaceNoise(10 + 0.09 * i) for i in range(1000)))),
    (
        "1,000 unlike sampled Gaussians",
        Composed(
            tuple(
                GaussianNoise(0.8 + (i * 389 % 1200) / 1000).sampled((5 + i % 16) / (10**4 + i))
                for i in range(1000)
            )
        ),
    ),
    (
        "1,000 unlike sampled Gaussians, rates .0001 to .1",
        Composed(
            tuple(GaussianNoise(0.6 + (i * 389 % 3400) / 1000).sampled((1 + i) / 10**4) for i in range(1000))
        ),
    ),
    (
        "Gaussian and Laplace on one sample, 10⁴ steps",
        (GaussianNoise(2) + LaplaceNoise(4)).sampled(0.01) * 10**4,
    ),
]


def cpu(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def peers() -> dict[str, Any]:
    """The events of dp-accounting that describe the same runs."""
    from dp_accounting import dp_event as ev
    from dp_accounting.privacy_accountant import NeighboringRelation as Relation

    capped = ev.SelfComposedDpEvent(ev.TruncatedSubsampledGaussianDpEvent(50_000, 0.01, 600, 1.0), 10**4)
    return {
        "capped sample, 10⁴ steps, cap at 4.5 deviations": (capped, Relation.ADD_OR_REMOVE_ONE),
        "capped sample, zero-out, 10⁴ steps": (capped, Relation.REPLACE_SPECIAL),
    }


def peer(event: Any, relation: Any) -> float:
    from dp_accounting.pld import PLDAccountant

    return float(PLDAccountant(relation).compose(event).get_epsilon(DELTA))


def line(name: str, loss: Loss, events: dict[str, Any]) -> str:
    bound, seconds = cpu(lambda: numerical.epsilon(loss, DELTA))
    tight = "yes" if bound.gap <= max(1e-2 * bound.upper, 1e-4) else "no"
    other, others = "–", "–"
    if name in events:
        value, spent = cpu(lambda: peer(*events[name]))
        other, others = f"{value:.5g}", f"{spent:.2f}"
    ours = f"[{bound.lower:.5g}, {bound.upper:.5g}]"
    return f"| {name} | {ours} | {tight} | {seconds:.2f} | {other} | {others} |"


def main() -> None:
    warnings.filterwarnings("ignore")
    numerical.epsilon(GaussianNoise(1).sampled(0.01) * 1000, 1e-5)
    events = peers()
    lines = []
    for name, loss in NODES:
        lines.append(line(name, loss, events))
        print(lines[-1], flush=True)
    head = [
        "## Accounting: batches, sums of integer noise, own mechanisms",
        "",
        f"ε at δ = 1e-6; measured {datetime.now(UTC):%Y-%m-%d} on Python {platform.python_version()}, "
        f"dp-accounting {version('dp-accounting')},",
        "by `python benchmarks/accounting_nodes.py`. Within: the two sides are at most max(1e-2·ε, 1e-4) "
        "apart.",
        "",
        "| loss | our bracket | within | CPU s | dp-accounting | CPU s |",
        "|---|---|---|---|---|---|",
    ]
    write_section("accounting-nodes", "\n".join([*head, *lines]))


if __name__ == "__main__":
    main()
