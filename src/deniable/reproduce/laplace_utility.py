"""Privacy against error for a count with integer Laplace noise: exact, measured, and for a vector."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from deniable.mechanisms import Laplace
from deniable.plots import mechanisms as plots
from deniable.randomness import SeededRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = "The error of a count by its ε, and the best ε for a tolerated error"

EPSILONS = (0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0)
CONFIDENCES = {"95 %": 0.95, "1 − 1e-5": 1 - 1e-5}
DRAWS, COORDINATES = 200_000, 100
TOLERANCE, FAILURE = 10, 1e-5

READING = (
    "An error of {tolerance} or more at most once in 100,000 answers costs ε = {best:.4f} with integer noise "
    "(the star); the formula of continuous noise, ln(1/β)·Δ/t = {continuous:.4f}, leaves out that an integer "
    "can be exactly {tolerance}. For {k} counts at once the exact tail of the L1 norm lies {better:.1f} "
    "times below the union bound."
)


def run(folder: Path, progress: Progress) -> Report:
    rows = [row(epsilon) for epsilon in progress(EPSILONS, "ε")]
    columns = list(zip(*rows, strict=True))
    best = 1 / float(Laplace.for_error(TOLERANCE, 1 - FAILURE).scale)
    draw = partial(
        plots.falling,
        EPSILONS,
        {"all but once in 10⁵": columns[4], "95 %": columns[2], "mean": columns[1]},
        title="Error of a count with integer Laplace noise, by its ε",
        x="ε",
        y="error",
        path=folder / "laplace-utility.png",
        points={"95 %": columns[3]},
        note=(best, TOLERANCE - 1, f"{TOLERANCE} or more once in 10⁵:\nε = {best:.3f}"),
    )
    reading = READING.format(
        tolerance=TOLERANCE,
        best=best,
        continuous=math.log(1 / FAILURE) / TOLERANCE,
        k=COORDINATES,
        better=rows[0][6] / rows[0][5],
    )
    head = (
        "ε",
        "mean |noise|",
        "within, 95 %",
        "measured",
        "within, 1 − 1e-5",
        f"L1 of {COORDINATES}, 95 %",
        "union bound",
    )
    return Report("The error of a count by its ε", head, rows, draw, reading)


def row(epsilon: float) -> tuple[float, float, float, float, float, float, float]:
    scalar, many = Laplace.for_budget(epsilon), Laplace.for_budget(epsilon, dimension=COORDINATES)
    draws = np.abs(Laplace.for_budget(epsilon, dimension=DRAWS)(np.zeros(DRAWS, int), rng=SeededRandom(1)))
    typical, rare = (scalar.error(confidence) for confidence in CONFIDENCES.values())
    union = COORDINATES * math.log(COORDINATES / 0.05) / epsilon
    return (
        epsilon,
        float(typical.expected or 0.0),
        typical.within,
        float(np.sort(draws)[math.ceil(0.95 * DRAWS) - 1]),
        rare.within,
        many.norm_error(0.95).within,
        union,
    )
