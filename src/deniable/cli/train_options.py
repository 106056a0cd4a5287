"""The options of `deniable train`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer


class ModelName(StrEnum):
    """What is trained: a linear model or a network by DP-SGD in floating point, or logistic regression in
    whole numbers."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MLP = "mlp"


class DrawName(StrEnum):
    """How rows come into lots."""

    POISSON = "poisson"
    ALLOCATED = "allocated"
    FIXED = "fixed"


Data: TypeAlias = Annotated[
    Path, typer.Argument(help="A table, as parquet or CSV.", metavar="DATA", dir_okay=False)
]
Target: TypeAlias = Annotated[str, typer.Option("--target", help="The column to be learned.")]
Epsilon: TypeAlias = Annotated[float, typer.Option("--epsilon", help="What the model may cost.")]
Delta: TypeAlias = Annotated[
    float, typer.Option("--delta", help="The δ of that cost; well below 1 ÷ the number of people.")
]
Size: TypeAlias = Annotated[
    int | None, typer.Option("--n", help="About how many rows there are: a public number.")
]
Classes: TypeAlias = Annotated[
    str | None, typer.Option("--classes", help="The classes of the target, with commas.", metavar="A,B,…")
]
Features: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        help="A column of numbers with its bounds, or of words with all of them; repeat it.",
        metavar="NAME:LOW:HIGH|NAME:WORD,…",
    ),
]
Schema: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help=(
            "A YAML file with n, classes and features (name: \\[low, high] or \\[word, …]) instead of the "
            "options."
        ),
        metavar="FILE",
        dir_okay=False,
    ),
]
Chosen: TypeAlias = Annotated[
    ModelName,
    typer.Option(
        "--model", metavar="MODEL", help="logistic (linear, in exact whole numbers), linear, or mlp."
    ),
]
Hidden: TypeAlias = Annotated[int, typer.Option("--hidden", help="Width of the mlp.")]
Epochs: TypeAlias = Annotated[
    float | None, typer.Option("--epochs", help="Passes over the data.", show_default="20, logistic 200")
]
Lot: TypeAlias = Annotated[
    float | None,
    typer.Option("--lot", help="Rows per step, on average.", show_default="a twentieth of n, logistic all"),
]
Draw: TypeAlias = Annotated[
    DrawName,
    typer.Option(
        "--draw",
        metavar="DRAW",
        help="How lots are drawn: a coin for each row and step (poisson), one lot in each epoch for each row "
        "(allocated), or the same lot in all epochs with correlated noise (fixed; DP-FTRL).",
    ),
]
Cap: TypeAlias = Annotated[
    int | None,
    typer.Option("--cap", help="The most rows of a lot drawn by coins; with --at-most.", show_default="none"),
]
AtMost: TypeAlias = Annotated[
    int | None,
    typer.Option("--at-most", help="How many rows there will ever be, for --cap.", show_default="none"),
]
Clip: TypeAlias = Annotated[
    float | None,
    typer.Option("--clip", help="The largest norm of one row's gradient.", show_default="1, logistic 0.5"),
]
LearningRate: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--learning-rate", help="Learning rate of gradient steps.", show_default="1, logistic by the noise"
    ),
]
Public: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--public",
        help="Public rows to measure accuracy on: not those of DATA.",
        metavar="FILE",
        dir_okay=False,
    ),
]
Out: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Where model and certificate go.", metavar="FOLDER", file_okay=False)
]
Saved: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="Save the run there on the way, so that a kill loses neither model nor budget.",
        metavar="FOLDER",
        file_okay=False,
    ),
]  # fmt: skip
Resumed: TypeAlias = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run in --checkpoint, under the charge that paid for it."),
]
Limit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--limit", metavar="EPSILON[:DELTA]", help="The limit of all that leaves this table. Needed once."
    ),
]
Paying: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--account", help="The account that pays.", metavar="ACCOUNT", show_default="named after the file"
    ),
]
Book: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DENIABLE_LEDGER",
        metavar="URL",
        help="The ledger.",
        show_default="beside the data",
    ),
]
