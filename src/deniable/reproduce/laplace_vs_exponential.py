"""A coin's bias two ways: noise on the number of heads, or one draw of a tempered posterior."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from deniable.mechanisms import CoinBias, Laplace
from deniable.plots import mechanisms as plots
from deniable.randomness import SeededRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = "A coin's bias by Laplace noise (variance 1/N²) and by the exponential mechanism (variance 1/N)"

EPSILON, BIAS = 1, 0.6
TOSSES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
DRAWS = 400

READING = (
    "Both are ε = {epsilon}. The variance that Laplace noise adds falls as N^{laplace:.2f}, that of a draw "
    "from the truncated posterior as N^{exponential:.2f} once it is narrower than the interval: its width is "
    "that of a posterior whose likelihood was raised to the power ε/ln 9 = {power:.3f}, so it costs more "
    "than the sampling error itself, however many tosses."
)


def run(folder: Path, progress: Progress) -> Report:
    coin, noise = CoinBias(EPSILON), Laplace.for_budget(EPSILON)
    rows = [row(coin, noise, n) for n in progress(TOSSES, "Tosses")]
    laplace, laplace_seen, exponential, exponential_seen = (
        list(c) for c in list(zip(*rows, strict=True))[1:]
    )
    draw = partial(
        plots.falling,
        TOSSES,
        {"exponential mechanism": exponential, "Laplace mechanism": laplace},
        title=f"Variance added to the estimate of a coin's bias of {BIAS}, ε = {EPSILON}",
        x="tosses N",
        y="variance added",
        path=folder / "laplace-vs-exponential.png",
        points={"exponential mechanism": exponential_seen, "Laplace mechanism": laplace_seen},
    )
    reading = READING.format(
        epsilon=EPSILON, laplace=slope(laplace), exponential=slope(exponential), power=float(coin.power)
    )
    columns = ("tosses", "Laplace", "Laplace measured", "exponential", "exponential measured")
    return Report("Variance added for privacy", columns, rows, draw, reading)


def row(coin: CoinBias, noise: Laplace, tosses: int) -> tuple[int, float, float, float, float]:
    """Mean squared distance from the share of heads in these tosses: computed, then measured."""
    heads, rng = round(BIAS * tosses), SeededRandom(tosses)
    data = np.arange(tosses) < heads
    thetas, weights = coin.density(heads, tosses - heads)
    by_noise = [(noise(heads, rng=rng) - heads) / tosses for _ in range(DRAWS)]
    by_draw = [coin(data, rng=rng) - heads / tosses for _ in range(DRAWS)]
    return (
        tosses,
        0.5 / math.sinh(0.5 / float(noise.scale)) ** 2 / tosses**2,
        float(np.mean(np.square(by_noise))),
        float(np.sum(weights * (thetas - heads / tosses) ** 2)),
        float(np.mean(np.square(by_draw))),
    )


def slope(variances: list[float]) -> float:
    """The exponent of N over the last decade and a half."""
    return math.log(variances[-1] / variances[-4]) / math.log(TOSSES[-1] / TOSSES[-4])
