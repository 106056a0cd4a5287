"""How fast exact noise is, beside OpenDP's exact samplers and numpy's float ones, and
whether time tells the value.

Run: python benchmarks/noise.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
import opendp.prelude as dp
from scipy.stats import spearmanr

from _report import write_section
from deniable.randomness import SecureRandom

SIZE = 10**6
PEER_SIZE = 50_000
SCALES = (1, 10, 1000, 10**6)
LAWS = ("laplace", "gaussian")


def rate(draw: Callable[[], object], count: int, rounds: int) -> float:
    """Samples per second of CPU time, the median of `rounds`."""
    draw()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        draw()
        times.append(time.process_time() - start)
    return count / float(np.median(times))


def ours(rng: SecureRandom, law: str) -> Callable[..., Any]:
    return rng.discrete_laplace if law == "laplace" else rng.discrete_gaussian


def opendp(law: str, scale: float, *, vector: bool) -> Callable[[Any], Any]:
    """OpenDP's exact integer mechanism; run on zeros it is its sampler."""
    dp.enable_features("contrib")
    make: Any = dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian
    number: Any = dp.atom_domain(T=int)
    if not vector:
        return cast(Callable[[Any], Any], make(number, dp.absolute_distance(T=int), scale=float(scale)))
    metric = dp.l1_distance(T=int) if law == "laplace" else dp.l2_distance(T=int)
    return cast(Callable[[Any], Any], make(dp.vector_domain(number), metric, scale=float(scale)))


def vectors(rng: SecureRandom) -> list[str]:
    """The table of vector draws."""
    rows = [
        "| noise | scale | Deniable, M/s | OpenDP, M/s | ratio | numpy float (not exact), M/s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    floats = np.random.default_rng()
    for law, scale in product(LAWS, SCALES):
        plain = partial(floats.laplace if law == "laplace" else floats.normal, scale=scale, size=SIZE)
        mine = rate(partial(ours(rng, law), scale, size=SIZE), SIZE, 9)
        peer = rate(partial(opendp(law, scale, vector=True), [0] * PEER_SIZE), PEER_SIZE, 3)
        loose = rate(plain, SIZE, 5)
        cells = f"{mine / 1e6:.1f} | {peer / 1e6:.3f} | {mine / peer:.0f}× | {loose / 1e6:.1f}"
        rows.append(f"| {law} | {scale:,} | {cells} |")
    return rows


def first_draws(rng: SecureRandom, law: str, scale: int, count: int = 20) -> float:
    """Median CPU seconds of one draw at a scale never seen before."""
    times = []
    for i in range(count):
        fresh = Fraction(scale) + Fraction(i + 1, 9973)
        start = time.process_time()
        ours(rng, law)(fresh)
        times.append(time.process_time() - start)
    return float(np.median(times))


def many(draw: Callable[[], object], count: int) -> Callable[[], object]:
    return lambda: [draw() for _ in range(count)]


def scalars(rng: SecureRandom) -> list[str]:
    """The table of single draws."""
    rows = [
        "| noise | scale | one draw, µs | OpenDP, µs | first draw at a new scale, ms |",
        "|---|---:|---:|---:|---:|",
    ]
    for law, scale in product(LAWS, (1, 8, 1000, 2**60)):
        mine = 1 / rate(many(partial(ours(rng, law), scale), 6400), 6400, 5)
        peer = 1 / rate(many(partial(opendp(law, scale, vector=False), 0), 500), 500, 3)
        name = f"{scale:,}" if scale < 2**60 else "2^60"
        rows.append(
            f"| {law} | {name} | {mine * 1e6:.1f} | {peer * 1e6:.1f} | "
            f"{first_draws(rng, law, scale) * 1e3:.2f} |"
        )
    return rows


def leak(draw: Callable[[], int], count: int) -> float:
    """Spearman correlation between |value| and the wall time of the draw that gave it."""
    sizes, times = np.empty(count), np.empty(count)
    for i in range(count):
        start = time.perf_counter_ns()
        value = draw()
        times[i] = time.perf_counter_ns() - start
        sizes[i] = abs(value)
    return float(spearmanr(sizes, times).statistic)


def timing(rng: SecureRandom, count: int = 50_000) -> list[str]:
    """The table of what run time says about the value."""
    rows = ["| noise | scale | Deniable | OpenDP |", "|---|---:|---:|---:|"]
    for law, scale in product(LAWS, (10, 1000)):
        mine = leak(partial(ours(rng, law), scale), count)
        peer = leak(partial(opendp(law, scale, vector=False), 0), count)
        rows.append(f"| {law} | {scale:,} | {mine:+.3f} | {peer:+.3f} |")
    return rows


def others(rng: SecureRandom) -> list[str]:
    """The rest, in microseconds."""
    work: dict[str, Callable[[], object]] = {
        "`poisson_sample(60_000, 0.01)`": lambda: rng.poisson_sample(60_000, 0.01),
        "`bernoulli(0.3, size=10**6)`": lambda: rng.bernoulli(0.3, size=10**6),
        "`uniform_integers(1000, size=10**6)`": lambda: rng.uniform_integers(1000, size=10**6),
        "`permutation(10**6)`": lambda: rng.permutation(10**6),
        "`categorical_exp` of 1,000 exponents": lambda: rng.categorical_exp(list(range(1000))),
    }
    rows = ["| call | µs |", "|---|---:|"]
    return rows + [f"| {name} | {1e6 / rate(draw, 1, 9):,.0f} |" for name, draw in work.items()]


def main() -> None:
    rng = SecureRandom()
    parts = [
        "## Noise",
        f"Vectors of {SIZE:,}, CPU time of one core, generator included (`python benchmarks/noise.py`).",
        "\n".join(vectors(rng)),
        "Single draws, amortised over the batches of 64 that they are taken from; a first draw builds its "
        "table.",
        "\n".join(scalars(rng)),
        "Spearman correlation between |noise| and the wall time of its draw (arXiv 2112.05307), n = 50,000; "
        "by chance alone two in three such figures lie within ±0.0045.",
        "\n".join(timing(rng)),
        "Other draws.",
        "\n".join(others(rng)),
    ]
    text = "\n\n".join(parts)
    print(text)
    write_section("noise", text)


if __name__ == "__main__":
    main()
