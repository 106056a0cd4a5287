"""A series is a fingerprint: a few days of step counts single a walker out (after de Montjoye et al.
2013)."""

from __future__ import annotations

import numpy as np

from deniable.attack import asking
from deniable.attack.learnt import Learnt, Whole, percent
from deniable.attack.linkage.anonymity import mondrian
from deniable.datasets.steps import steps
from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.mechanisms import NoisyCounts
from deniable.units import Unit

ATTACK = "link series"
MOST = 30_000
BAND = 1000


def unicity(series: Whole, days: int, *, rounding: int = 1) -> float:
    """The share of walkers whose counts on the first `days` days, rounded down to
    `rounding`, nobody else has."""
    if not 1 <= days <= series.shape[1] or rounding < 1:
        raise InvalidParameter(
            f"Expected days={days} from 1 to {series.shape[1]} and rounding={rounding} of at least 1."
        )
    _, counts = np.unique(series[:, :days] // rounding, axis=0, return_counts=True)
    return float((counts == 1).sum() / len(series))


def attack(
    original: Whole, output: Whole, days: int, *, release: str, tolerance: int = 100, seed: int = 0
) -> Learnt:
    """Find each walker's series from `days` days known to within `tolerance` steps: the
    nearest one; row i of both is walker i."""
    rng = np.random.default_rng((seed, 9))
    hints = original[:, :days] + rng.integers(-tolerance, tolerance + 1, (len(original), days))
    # Squared distances by the cosine law; walkers × walkers in memory.
    there, here = output[:, :days].astype(np.float64), hints.astype(np.float64)
    squares = (here**2).sum(1)[:, None] - 2 * here @ there.T + (there**2).sum(1)[None, :]
    right = int((squares.argmin(axis=1) == np.arange(len(original))).sum())
    reading = (
        f"{release}: {days} days of step counts, known to within {tolerance} steps, find the series of "
        f"{percent(right / len(original))} of {len(original):,} walkers; a random one would be right for "
        f"{percent(1 / len(output))}."
    )
    return Learnt(ATTACK, release, right, len(original), 1 / len(output), reading, facts={"days_known": days})


def average_classes(series: Whole, k: int = 5) -> Whole:
    """k-anonymous: walkers in classes of at least k alike, each published as the mean of its class."""
    classes = mondrian(series, k)
    sums = np.array([np.bincount(classes, day) for day in series.T]).T
    return np.asarray(np.rint(sums / np.bincount(classes)[:, None])[classes], np.int64)


def draw_series(series: Whole, epsilon: float, *, seed: int = 0, rng: Random | None = None) -> Whole:
    """Series drawn day by day from protected histograms of bands of 1,000 steps; a
    walker counts once on every day.

    One table of counts per day, all paid from one account of ε; the unit is a walker, a
    row of as many columns as days.
    """
    days = series.shape[1]
    bands = tuple(range(MOST // BAND))
    mechanism = NoisyCounts.for_budget(epsilon, (bands,) * days, tuple((day,) for day in range(days)))
    rows = np.minimum(series, MOST - 1) // BAND
    with asking.account(epsilon, unit=Unit.row()) as account:
        tables = account.run(mechanism, lambda: [tuple(row) for row in rows.tolist()], rng=rng).value
    random = np.random.default_rng((seed, 10))
    # How many walkers there are is private as well; every released table says it again.
    size = max(round(float(np.mean([table.sum() for table in tables]))), 1)
    return np.column_stack([_draw(np.asarray(table), size, random) for table in tables])


def _draw(counts: Whole, size: int, random: np.random.Generator) -> Whole:
    weights = np.maximum(counts, 0) + 1e-9
    bands = random.choice(len(counts), size, p=weights / weights.sum())
    return np.asarray(bands * BAND + random.integers(0, BAND, size), np.int64)


def compare(
    walkers: int = 2000, days: int = 6, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """Raw, rounded, k-anonymous and noisy series, and series drawn from protected histograms."""
    data = steps(walkers, max(days, 7), seed=seed)
    noise = np.random.default_rng((seed, 11)).normal(0, 500, data.shape)
    releases = {
        "raw series": data,
        "rounded to 1,000 steps": data // 1000 * 1000 + 500,
        "5-anonymous: means of fives alike": average_classes(data, min(5, walkers)),
        "noise of 500 steps on each day": np.maximum(data + np.rint(noise).astype(np.int64), 0),
        f"series drawn from histograms of ε = {epsilon:g}": draw_series(data, epsilon, seed=seed, rng=rng),
    }
    return [attack(data, version, days, release=name, seed=seed) for name, version in releases.items()]
