"""Warner's survey of 1965: what a report tells about a person, and what it costs the estimate."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from deniable.loss import exact
from deniable.mechanisms import RandomizedResponse
from deniable.plots import mechanisms as plots
from deniable.randomness import SeededRandom
from deniable.reproduce.report import Progress, Report

SUMMARY = "Randomized response with two coins: what a report reveals, and its price beside Laplace noise"

PRIOR, SHARE = 0.02, 0.3
PEOPLE = (100, 300, 1_000, 3_000, 10_000)
REPEATS = 200

READING = (
    "A yes takes a prior of {prior} to {posterior:.3f}, no further, whoever asks. The price: the variance of "
    "the estimated share is {ratio:.1f} times that of truthful answers at a share of {share} (never under 4 "
    "times), and like it falls as 1/N. A curator who sees the answers and adds integer Laplace noise of the "
    "same ε = ln 3 to the count adds {added:.2f}/N²."
)


def run(folder: Path, progress: Progress) -> Report:
    survey = RandomizedResponse.coins()
    noise = variance_of_laplace(survey)
    rows = [row(survey, n, noise) for n in progress(PEOPLE, "People")]
    truthful, response, measurements, with_noise, additions = (
        list(column) for column in list(zip(*rows, strict=True))[1:]
    )
    draw = partial(
        plots.falling,
        PEOPLE,
        {
            "randomized response": response,
            "truthful answers": truthful,
            "Laplace noise on the count": with_noise,
            "what Laplace adds": additions,
        },
        title=f"Variance of an estimated share of {SHARE}, fair coins (ε = ln 3)",
        x="people N",
        y="variance of the estimate",
        path=folder / "randomized-response.png",
        points={"randomized response": measurements},
    )
    reading = READING.format(
        prior=PRIOR,
        posterior=survey.posterior(PRIOR),
        ratio=rows[0][2] / rows[0][1],
        share=SHARE,
        added=noise,
    )
    columns = ("people", "truthful", "randomized response", "measured", "Laplace", "Laplace adds")
    return Report("Variance of an estimated share", columns, rows, draw, reading)


def row(
    survey: RandomizedResponse, people: int, noise: float
) -> tuple[int, float, float, float, float, float]:
    """Variances at this many people: computed but for the fourth, which is measured."""
    truthful = SHARE * (1 - SHARE) / people
    addition = noise / people**2
    return (
        people,
        truthful,
        survey.variance(SHARE, people),
        measure(survey, people),
        truthful + addition,
        addition,
    )


def measure(survey: RandomizedResponse, people: int) -> float:
    """The mean squared error of the estimate over fresh samples of people, each reporting once."""
    rng, draws = SeededRandom(people), np.random.default_rng(people)
    errors = []
    for _ in range(REPEATS):
        answers = (draws.random(people) < SHARE).tolist()
        errors.append(survey.estimate(survey(answers, rng=rng))[True].value - SHARE)
    return float(np.mean(np.square(errors)))


def variance_of_laplace(survey: RandomizedResponse) -> float:
    """2a/(1 − a)² for integer Laplace noise of the survey's own ε: e^(−1/scale) = a = (1 − truth)/truth."""
    a = (1 - exact(survey.truth)) / exact(survey.truth)
    return float(2 * a / (1 - a) ** 2)
