"""The numerical accountant against dp-accounting's PLD and prv-accountant, in one process.

    python benchmarks/accounting.py             the whole grid; writes its table into docs/benchmarks.md
    python benchmarks/accounting.py --ours      without the peers, prints only

Every point is (rate, noise multiplier, steps, δ) of the Poisson-sampled Gaussian. CPU
seconds, best of two runs for ours; a peer composes once and is asked for all δ, its time
is that of the first. Points with ε ≥ 500 are left out.
"""

from __future__ import annotations

import math
import platform
import resource
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from _report import write_section
from deniable.accounting import numerical
from deniable.guarantee import Bound
from deniable.loss import GaussianNoise, Loss

RATES = (1, 0.1, 0.01, 0.001, 1e-5)
SIGMAS = (0.4, 0.5, 1, 2, 4, 8)
STEPS = (1, 100, 10**4, 10**6)
DELTAS = (1e-5, 1e-9, 1e-13, 1e-20)
LIMIT = 10.0


@dataclass(frozen=True)
class Point:
    """One grid point: our bracket and CPU time."""

    rate: float
    sigma: float
    steps: int
    delta: float
    bound: Bound
    seconds: float

    @property
    def tight(self) -> bool:
        return self.bound.gap <= max(1e-3 * self.bound.upper, 1e-5)


def cpu(run: Callable[[], Any], repeat: int = 1) -> tuple[Any, float]:
    """The result and the least CPU time of `repeat` runs."""
    best = math.inf
    for _ in range(repeat):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return result, best


def memory() -> float:
    """Peak resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours() -> list[Point]:
    points = []
    for rate in RATES:
        for sigma in SIGMAS:
            for steps in STEPS:
                loss: Loss = GaussianNoise(sigma).sampled(rate) * steps
                for delta in DELTAS:
                    bound, seconds = cpu(lambda loss=loss, delta=delta: numerical.epsilon(loss, delta), 2)  # type: ignore[misc]
                    if bound.lower < 500:
                        points.append(Point(rate, sigma, steps, delta, bound, seconds))
    return points


def limited(run: Callable[[], Any]) -> tuple[Any, float]:
    """`run` within LIMIT CPU seconds; None if it fails or takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return cpu(run)
    except (TimeoutError, ValueError, MemoryError, RuntimeError, AssertionError):
        return None, LIMIT
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def google(rate: float, sigma: float, steps: int) -> tuple[dict[float, float], float]:
    """dp-accounting: ε at every δ, and the CPU time to compose and answer once."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    def run() -> Any:
        accountant = PLDAccountant()
        event: Any = dp_event.GaussianDpEvent(sigma)
        event = dp_event.PoissonSampledDpEvent(rate, event) if rate < 1 else event
        accountant.compose(dp_event.SelfComposedDpEvent(event, steps))
        return accountant, accountant.get_epsilon(DELTAS[0])

    result, seconds = limited(run)
    if result is None:
        return {}, seconds
    return {delta: float(result[0].get_epsilon(delta)) for delta in DELTAS}, seconds


def microsoft(point: Point) -> tuple[tuple[float, float] | None, float]:
    """prv-accountant, asked for the width that our bracket has (its own error bars leave out the FFT's)."""
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def run() -> tuple[float, float]:
        accountant = PRVAccountant(
            prvs=[
                PoissonSubsampledGaussianMechanism(
                    noise_multiplier=point.sigma, sampling_probability=point.rate
                )
            ],
            max_self_compositions=[point.steps],
            eps_error=max(point.bound.gap, 1e-3 * point.bound.upper) / 2,
            delta_error=point.delta / 1000,
        )
        low, _, high = accountant.compute_epsilon(point.delta, [point.steps])
        return float(low), float(high)

    result, seconds = limited(run)
    return result, seconds


def line(name: str, value: str) -> str:
    return f"| {name} | {value} |"


def own_lines(points: list[Point], grown: float) -> list[str]:
    seconds = sorted(p.seconds for p in points)
    gaps = [p.bound.gap / p.bound.upper for p in points if p.bound.upper > 0]
    return [
        line("points with ε < 500", str(len(points))),
        line("bracket wider than max(1e-3·ε, 1e-5)", str(sum(not p.tight for p in points))),
        line("relative width, median", f"{statistics.median(gaps):.1e}"),
        line(
            "CPU ms, median / 90 % / max", " / ".join(f"{1e3 * _at(seconds, q):.1f}" for q in (0.5, 0.9, 1))
        ),
        line("peak memory above import", f"{grown:.0f} MB"),
    ]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def google_lines(points: list[Point]) -> list[str]:
    ratios, slower, below, loose, infinite, failed = [], [], [], 0, 0, 0
    for rate, sigma, steps in dict.fromkeys((p.rate, p.sigma, p.steps) for p in points):
        epsilons, seconds = google(rate, sigma, steps)
        for p in points:
            if (p.rate, p.sigma, p.steps) != (rate, sigma, steps):
                continue
            ratios.append(seconds / p.seconds)
            if p.seconds > seconds + 0.05:
                slower.append(p)
            peer = epsilons.get(p.delta)
            failed += peer is None
            if peer is not None:
                below += [(p, peer)] if peer < p.bound.lower else []
                infinite += math.isinf(peer)
                loose += math.isfinite(peer) and peer > 1.01 * p.bound.upper
    ratios.sort()
    spread = " / ".join(f"{r:.1f}" for r in (ratios[0], _at(ratios, 0.5), ratios[-1]))
    for p, peer in below:
        print(
            f"below the truth: {p.rate:g} {p.sigma:g} {p.steps} {p.delta:g}: {peer:.6g} < {p.bound.lower:.6g}"
        )
    for p in slower:
        print(f"slower: {p.rate:g} {p.sigma:g} {p.steps} {p.delta:g}: {p.seconds:.3f} s")
    return [
        line("dp-accounting's CPU time / ours, least / median / most", spread),
        line("points where ours is slower by more than .05 s", str(len(slower))),
        line("dp-accounting below our certified lower bound", f"{len(below)} points"),
        line(
            "dp-accounting infinite / over 1 % above / failed or over 10 s",
            f"{infinite} / {loose} / {failed} points",
        ),
    ]


def microsoft_lines(points: list[Point]) -> list[str]:
    chosen = [
        p
        for p in points
        if p.rate < 1 and 1 < p.steps <= 10**4 and p.delta >= 1e-9 and 0.1 < p.bound.upper < 50
    ]
    chosen = chosen[::3]
    ratios, failed, outside = [], 0, 0
    for p in chosen:
        found, seconds = microsoft(p)
        failed += found is None
        if found is not None:
            ratios.append(seconds / p.seconds)
            outside += found[1] < p.bound.lower or found[0] > p.bound.upper
    ratios.sort()
    done = f"{len(ratios)} of {len(chosen)}"
    return [
        line(
            f"prv-accountant's CPU time / ours at equal width, median of the {done} points it finished",
            f"{_at(ratios, 0.5):.0f}",
        ),
        line("prv-accountant off our bracket / failed or over 10 s", f"{outside} / {failed} points"),
    ]


def write(lines: list[str]) -> None:
    """Put the table into docs/benchmarks.md."""
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "scipy", "dp-accounting", "prv-accountant")
    )
    head = [
        "## Numerical accounting",
        "",
        "Grid: rate ∈ {1, .1, .01, .001, 1e-5}, σ ∈ {.4, .5, 1, 2, 4, 8}, steps ∈ {1, 1e2, 1e4, 1e6},",
        "δ ∈ {1e-5, 1e-9, 1e-13, 1e-20}.",
        f"Measured {datetime.now(UTC):%Y-%m-%d} on Python {platform.python_version()}, {versions}",
        "by `python benchmarks/accounting.py`.",
        "",
        "| measure | value |",
        "|---|---|",
    ]
    write_section("accounting", "\n".join([*head, *lines]))


def main() -> None:
    warnings.filterwarnings("ignore")
    numerical.epsilon(GaussianNoise(1).sampled(0.01) * 1000, 1e-5)
    base = memory()
    points = ours()
    lines = own_lines(points, memory() - base)
    print("\n".join(lines), flush=True)
    for p in points:
        if not p.tight:
            print(f"wide: {p.rate:g} {p.sigma:g} {p.steps} {p.delta:g}: {p.bound}")
    if "--ours" in sys.argv:
        return
    google(0.01, 4, 100)
    peers = [*google_lines(points), *microsoft_lines(points)]
    print("\n".join(peers))
    write([*lines, *peers])


if __name__ == "__main__":
    main()
