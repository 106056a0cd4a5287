"""Options that several commands share, and the loss that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from deniable.errors import InvalidParameter
from deniable.loss import POISSON, WITHOUT_REPLACEMENT, GaussianNoise, LaplaceNoise, Loss
from deniable.units import Unit


class Noise(StrEnum):
    """The noise of one release."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class Sampling(StrEnum):
    """How the records of one release are drawn."""

    POISSON = "poisson"
    WITHOUT_REPLACEMENT = "without-replacement"


SCHEMES = {Sampling.POISSON: POISSON, Sampling.WITHOUT_REPLACEMENT: WITHOUT_REPLACEMENT}
NOISES = {Noise.GAUSSIAN: GaussianNoise, Noise.LAPLACE: LaplaceNoise}

RATE = "Share of the records that each release sees (1: all of them)."
NOISE = (
    "Noise multiplier: deviation (Laplace: scale) of the noise ÷ the most that one record changes the answer. "
    "That is the clip; without replacement a record is exchanged, so twice the clip."
)
SCHEME = "How each sample is drawn: poisson or without-replacement."
STEPS = "Number of releases, each on a new sample."
DELTA = "The δ at which ε is stated; well below 1 ÷ the number of people."

Delta: TypeAlias = Annotated[float, typer.Option("--delta", help=DELTA)]
Scheme: TypeAlias = Annotated[
    Sampling,
    typer.Option("--scheme", metavar="SCHEME", help=SCHEME),
]
Replace: TypeAlias = Annotated[
    bool, typer.Option("--replace", help="Neighbours replace one record (default: add or remove one).")
]
Kind: TypeAlias = Annotated[
    Noise, typer.Option("--mechanism", metavar="NOISE", help="The noise of one release: gaussian or laplace.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON with every digit instead of words.")]
Plot: TypeAlias = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a picture (png, pdf or svg).", dir_okay=False)
]


@dataclass(frozen=True)
class Run:
    """A run as the options describe it: `steps` releases with one noise, each on a new sample."""

    noise: float
    rate: float = 1.0
    steps: int = 1
    kind: Noise = Noise.GAUSSIAN
    sampling: Sampling = Sampling.POISSON
    replace: bool = False

    @property
    def release(self) -> Loss:
        """One release. Seeing all records, with neighbours that add or remove one, is no sampling at all."""
        leaf = NOISES[self.kind](self.noise)
        if self.rate == 1 and self.sampling is Sampling.POISSON and not self.replace:
            return leaf
        return leaf.sampled(self.rate, SCHEMES[self.sampling], replace=self.replace)

    @property
    def loss(self) -> Loss:
        return self.release * self.steps


def parse_unit(text: str, *, replace: bool) -> Unit:
    """`row`, `client`, `value`, `column:NAME` or `column:NAME:MAX_ROWS`.

    >>> print(parse_unit("column:patient_id:4", replace=False))
    all rows of one patient_id (at most 4 count), added or removed
    """
    match text.split(":"):
        case ["row"]:
            return Unit.row(replace=replace)
        case ["client"]:
            return Unit.client(replace=replace)
        case ["value"]:
            return Unit.value()
        case ["column", name]:
            return Unit.column(name, replace=replace)
        case ["column", name, rows] if rows.isdecimal():
            return Unit.column(name, max_rows=int(rows), replace=replace)
        case _:
            raise InvalidParameter(
                f"Expected unit={text!r} to be row, client, value, column:NAME or column:NAME:MAX_ROWS."
            )
