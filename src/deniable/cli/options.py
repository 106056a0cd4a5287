"""Options that several commands share, and the words of the library that they stand for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from deniable.accounting.runs.noisy_run import NoisyRun
from deniable.guarantee import Budget
from deniable.loss import POISSON, WITHOUT_REPLACEMENT, GaussianNoise, LaplaceNoise


class NoiseName(StrEnum):
    """The noise of one release."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class SamplingName(StrEnum):
    """How the records of one release are drawn."""

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without-replacement"


SCHEMES = {SamplingName.POISSON: POISSON, SamplingName.WITHOUT_REPLACEMENT: WITHOUT_REPLACEMENT}
NOISES: dict[NoiseName, type[GaussianNoise | LaplaceNoise]] = {
    NoiseName.GAUSSIAN: GaussianNoise,
    NoiseName.LAPLACE: LaplaceNoise,
}

RATE = "Share of the records that each release sees (1: all of them)."
NOISE = (
    "Noise multiplier: deviation (Laplace: scale) of the noise ÷ the most that one record changes the "
    "answer. That is the clip; without replacement a record is exchanged, so twice the clip."
)
SCHEME = "How each sample is drawn: poisson or without-replacement."
STEPS = "Number of releases, each on a new sample."
DELTA = "The δ at which ε is stated; well below 1 ÷ the number of people."

Delta: TypeAlias = Annotated[float, typer.Option("--delta", help=DELTA)]
Scheme: TypeAlias = Annotated[
    SamplingName,
    typer.Option("--scheme", metavar="SCHEME", help=SCHEME),
]
Replace: TypeAlias = Annotated[
    bool, typer.Option("--replace", help="Neighbours replace one record (default: add or remove one).")
]
Kind: TypeAlias = Annotated[
    NoiseName,
    typer.Option("--mechanism", metavar="NOISE", help="The noise of one release: gaussian or laplace."),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON with every digit instead of words.")
]
Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Also draw a picture (png, pdf or svg).", dir_okay=False),
]
Owner: TypeAlias = Annotated[
    str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
]
OutFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to write; left out: to the screen.", dir_okay=False),
]


def limit_of(text: str | None) -> Budget | None:
    """The limit as --limit says it, if it does."""
    if text is None:
        return None
    return Budget.parse(text)


def noisy_run(
    noise: float, rate: float, steps: int, kind: NoiseName, sampling: SamplingName, replace: bool
) -> NoisyRun:
    """The run that these options describe."""
    return NoisyRun(noise, rate, steps, NOISES[kind], SCHEMES[sampling], replace)
