"""The options of `deniable federate` that `deniable train` does not have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer


class Place(StrEnum):
    """Who adds the noise."""

    SERVER = "server"
    SHARED = "shared"
    CLIENT = "client"


class NetworkName(StrEnum):
    """What is trained."""

    LINEAR = "linear"
    MLP = "mlp"


Data: TypeAlias = Annotated[
    Path,
    typer.Argument(help="A table of all clients' rows, as parquet or CSV.", metavar="DATA", dir_okay=False),
]
User: TypeAlias = Annotated[str, typer.Option("--user", help="The column that names the client of a row.")]
Number: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--clients", help="About how many clients there are: a public number, never counted. A roster has it."
    ),
]
Noise: TypeAlias = Annotated[
    Place,
    typer.Option(
        "--noise", metavar="PLACE", help="Who adds it: server (trusted), shared (in a secure sum), client."
    ),
]
Roster: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--roster",
        help=(
            "With shared or client noise: a text file with the name of every client, one on a line. Rows of "
            "others are left out."
        ),
        metavar="FILE",
        dir_okay=False,
        exists=True,
    ),
]
Rate: TypeAlias = Annotated[
    float, typer.Option("--rate", help="The share of clients that is drawn for a round.")
]
Rounds: TypeAlias = Annotated[
    int, typer.Option("--rounds", help="How often the model is sent out and updates are added up.")
]
LocalEpochs: TypeAlias = Annotated[
    int, typer.Option("--local-epochs", help="Passes of a client over its rows in a round.")
]
Batch: TypeAlias = Annotated[
    int, typer.Option("--batch", help="Rows in a step of a client; 0 is all of them (FedSGD).", min=0)
]
Clip: TypeAlias = Annotated[float, typer.Option("--clip", help="The largest norm of one client's update.")]
LearningRate: TypeAlias = Annotated[
    float, typer.Option("--learning-rate", help="Learning rate of a client's steps.")
]
Momentum: TypeAlias = Annotated[
    float, typer.Option("--momentum", help="Momentum of the server over rounds (FedAvgM).", min=0, max=0.999)
]
Least: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--least",
        help="With shared noise: answers without which no sum is opened.",
        show_default="two thirds of a mean cohort; more than half where all take part",
    ),
]
Participations: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--participations",
        help="With shared or client noise: rounds that one client may take part in.",
        show_default="half more than expected",
    ),
]
Coins: TypeAlias = Annotated[
    float,
    typer.Option(
        "--coins",
        help=(
            "With shared or client noise: the chance that a client adds its update to its noise, by a coin "
            "it tells nobody."
        ),
    ),
]
Replaced: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--replace", help="Protect a client whose rows are replaced, not one that comes or falls silent."
    ),
]
Schema: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="A YAML file with clients, classes and features (name: \\[low, high]) instead of the options.",
        metavar="FILE",
        dir_okay=False,
    ),
]
Trained: TypeAlias = Annotated[NetworkName, typer.Option("--model", metavar="MODEL", help="linear or mlp.")]
Shown: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Draw accuracy on the public rows by round; needs --public.",
        metavar="FILE",
        dir_okay=False,
    ),
]
