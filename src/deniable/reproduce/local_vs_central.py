"""The price of trusting nobody: error against the number of users in the local, the
shuffled and the central model."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from deniable.accounting import epsilon
from deniable.local import best, simulate
from deniable.local.simulate import zipf
from deniable.loss import Pure, Shuffled
from deniable.mechanisms.integer_noise import laplace
from deniable.plots import local as plots
from deniable.randomness import SecureRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = "Local, shuffled, central: the error of a histogram of 256 items at ε = 1, by the number of users"

ITEMS, EPSILON, DELTA = 256, 1, 1e-6
USERS = (1_000, 10_000, 100_000, 1_000_000)
LARGEST_LOCAL = 12.0


def run(folder: Path, progress: Progress) -> Report:
    rng, rows = SecureRandom(), []
    for users in progress(USERS, "Users"):
        inner = largest_epsilon(users)
        local = simulate(best(ITEMS, EPSILON), ITEMS, users, rng=rng)
        mixture = simulate(best(ITEMS, inner), ITEMS, users, rng=rng)
        rows.append(
            (users, math.sqrt(local.mse) / users, inner, math.sqrt(mixture.mse) / users, central(users))
        )
    curves = {
        "local": [row[1] for row in rows],
        "shuffled": [row[3] for row in rows],
        "central": [row[4] for row in rows],
    }
    draw = partial(
        plots.errors,
        USERS,
        curves,
        title=f"Three models at ε = {EPSILON} (shuffled: δ = {DELTA:g}), {ITEMS} items",
        path=folder / "local-vs-central.png",
    )
    reading = (
        "The error of a share falls as 1/√users in the local model and as 1/users in the central one. "
        "Shuffled reports spend more each (the third column), because the mixture hides them, and lie "
        "between."
    )
    columns = ("users", "local", "ε of a shuffled report", "shuffled", "central")
    return Report("Root mean square error of an item's share", columns, rows, draw, reading)


def largest_epsilon(users: int) -> float:
    """The largest ε of a report, to two digits, that `users` shuffled reports bring down
    to ε at δ, and ε at least."""
    low, high = 100, round(100 * LARGEST_LOCAL)
    while low < high:
        middle = (low + high + 1) // 2
        fits = epsilon(Shuffled(users, Pure(middle / 100)), DELTA).upper <= EPSILON
        if fits:
            low = middle
        else:
            high = middle - 1
    return low / 100


def central(users: int) -> float:
    """A trusted curator's histogram: integer Laplace noise of scale 2/ε, since replacing
    a value changes two counts by one."""
    noise = laplace(2 / EPSILON, 2).draw(SecureRandom(), ITEMS * 100)
    truth = np.random.default_rng(0).multinomial(users, zipf(ITEMS))
    return float(np.sqrt(np.mean(((truth[None] + noise.reshape(100, ITEMS)) - truth) ** 2.0))) / users
