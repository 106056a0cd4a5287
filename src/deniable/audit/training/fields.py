"""Canaries by the hundred in one step, each on a coordinate of its own.

    scattered  beside the gradients of a model in training     noise, clipping, normaliser
    lengths    as long as shows most                           clipping that begins late, or weighs by length
    wake       with twenty steps before and thirty-nine after  memory, noise used again or taken back later

If noise is independent between coordinates, what a step shows on one of them is all that there is of its
canary, so a step has as many observations as canaries. A wake has sixty steps: a period of 2, 3, 4, 5, 6, 10,
12, 15, 20 or 30 steps lies alike in all of them, and what such a step keeps or takes back is learnt.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deniable.audit.statistics import Array
from deniable.audit.training.designs import LOUD, Bench, Booleans, Moments, clipped_sum, discriminant

RUNGS = np.geomspace(0.25, 6.0, 40)
"""Lengths of canaries that are tried, in units of the clip."""
TRIED, STAGES = 0.4, 4
"""The share of rounds that choose a length, in so many stages, each of which leaves the better third."""
BEFORE, AFTER = 20, 39
NEAR = 8
"""Steps after the canary whose energy is looked at apart from that of all."""
WEIGHED = 0.4
"""The share of wakes that weigh the steps against one another."""


def scatter_canaries(
    bench: Bench,
    background: Callable[[], Array] | None,
    update: Callable[[Array], None] | None,
    rounds: int,
    count: int,
) -> tuple[Array, Booleans, int]:
    """Scores and coins of `count` canaries in every round, on coordinates of their own beside the gradients
    of `background`, and the coordinate whose canaries told most."""
    scores, insides, clip = [], [], bench.training.clip
    moments = Moments.empty(bench.dimension)
    for _ in range(rounds):
        around = background() if background is not None else np.empty((0, bench.dimension))
        places, inside = _draw_places(bench, count)
        output = bench.release(np.concatenate([around, _rows(bench, places[inside], LOUD)]))
        background_sum = clipped_sum(around, clip)
        scores.append(output[places] - background_sum[places] / clip)
        insides.append(inside)
        moments.add_at(places, scores[-1], inside)
        if update is not None:
            update(output * (clip / bench.training.lot))
    return np.concatenate(scores), np.concatenate(insides), moments.loudest()


def lengths(bench: Bench, rounds: int, count: int) -> tuple[Array, Booleans]:
    """Scores and coins of canaries of the length whose canaries moved their coordinates most."""
    sums, counts = np.zeros(len(RUNGS)), np.zeros(len(RUNGS))
    candidates = np.arange(len(RUNGS))
    rounds_each = max(1, int(TRIED * rounds / STAGES))
    for _ in range(STAGES):
        for _ in range(rounds_each):
            places = bench.rng.choice(bench.dimension, count, replace=False)
            rungs = bench.rng.choice(candidates, count)
            values = bench.release(_rows(bench, places, RUNGS[rungs]))[places]
            np.add.at(sums, rungs, np.nan_to_num(values, posinf=0, neginf=0))
            np.add.at(counts, rungs, 1)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
        candidates = candidates[np.argsort(-means[candidates], kind="stable")[: max(1, len(candidates) // 3)]]
    scores, insides = [], []
    for _ in range(max(1, rounds - STAGES * rounds_each)):
        places, inside = _draw_places(bench, count)
        scores.append(bench.release(_rows(bench, places[inside], RUNGS[candidates[0]]))[places])
        insides.append(inside)
    return np.concatenate(scores), np.concatenate(insides)


def wake(bench: Bench, windows: int, count: int) -> tuple[Array, Booleans]:
    """Scores and coins of canaries, each by its coordinate in all steps of a window."""
    weigh = max(1, int(WEIGHED * windows))
    pairs = [_window(bench, count) for _ in range(weigh)]
    weights = discriminant(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
    sights = [_window(bench, count) for _ in range(max(1, windows - weigh))]
    return np.concatenate([f @ weights for f, _ in sights]), np.concatenate([coins for _, coins in sights])


def _window(bench: Bench, count: int) -> tuple[Array, Booleans]:
    """What every canary's coordinate shows in the steps of one window, and how loud it is behind the
    canary."""
    places, inside = _draw_places(bench, count)
    quiet = bench.quiet(1)
    batch = np.concatenate([quiet, _rows(bench, places[inside], LOUD)])
    steps = [quiet] * BEFORE + [batch] + [quiet] * AFTER
    values = np.nan_to_num(np.array([bench.release(rows)[places] for rows in steps]), posinf=0, neginf=0).T
    after = values[:, BEFORE + 1 :] ** 2
    energy = [np.log(part.mean(axis=1) + 1e-12) for part in (after, after[:, :NEAR])]
    return np.column_stack([values, *energy]), inside


def _draw_places(bench: Bench, count: int) -> tuple[NDArray[np.int64], Booleans]:
    """Coordinates, and a fair coin for each."""
    return bench.rng.choice(bench.dimension, count, replace=False), bench.rng.random(count) < 0.5


def _rows(bench: Bench, places: NDArray[np.int64], length: Array | float) -> Array:
    """One gradient on each coordinate, so many clips long."""
    rows = np.zeros((len(places), bench.dimension))
    rows[np.arange(len(places)), places] = np.asarray(length) * bench.training.clip
    return rows
