"""The options of `deniable query`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from deniable.curator.question import TERMS


class QueryNoise(StrEnum):
    """What hides a person."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class QueryPurpose(StrEnum):
    """What an account is for."""

    MIXED = "mixed"
    COUNTS = "counts"


Source: TypeAlias = Annotated[
    str, typer.Argument(help="A parquet, CSV or DuckDB file, or postgresql://…", metavar="SOURCE")
]
Text: TypeAlias = Annotated[
    str,
    typer.Argument(help="The query, in quotes.", metavar="SQL"),
]
Epsilon: TypeAlias = Annotated[float | None, typer.Option("--epsilon", help=TERMS["epsilon"].help)]
Within: TypeAlias = Annotated[
    float | None,
    typer.Option("--within", help=TERMS["within"].help),
]
Unit: TypeAlias = Annotated[
    str | None,
    typer.Option("--unit", help="Who is protected: the column that names the person, or row. Needed once."),
]
MaxRows: TypeAlias = Annotated[
    int | None, typer.Option("--max-rows", help="How many rows of one person count in an answer.", min=1)
]
Limit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--limit", metavar="EPSILON[:DELTA]", help="The limit of all queries together. Needed once."
    ),
]
Preview: TypeAlias = Annotated[
    bool, typer.Option("--preview", help="Only tell cost and expected error; run nothing.")
]
Bounds: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Bounds of a column; repeat."),
]
Keys: TypeAlias = Annotated[
    list[str] | None, typer.Option("--keys", metavar="COLUMN=A,B,…", help="Public group keys; repeat.")
]
Schema: TypeAlias = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="Types, bounds, keys (deniable schema init)."),
]
Name: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="The table's name, if not that of the file.")
]
DataVersion: TypeAlias = Annotated[
    str | None, typer.Option("--data-version", help="The state of the data; answers are kept for each.")
]
Analyst: TypeAlias = Annotated[str | None, typer.Option("--analyst", help="Who asks; you, by default.")]
Ledger: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ledger", envvar="DENIABLE_LEDGER", metavar="URL", help="The ledger, if not beside the data."
    ),
]
Delta: TypeAlias = Annotated[float | None, typer.Option("--delta", help=TERMS["delta"].help)]
Confidence: TypeAlias = Annotated[float, typer.Option("--confidence", help=TERMS["confidence"].help)]
AtLeast: TypeAlias = Annotated[
    int | None,
    typer.Option("--at-least", help=TERMS["at_least"].help, min=TERMS["at_least"].least),
]
MaxGroups: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-groups", help=TERMS["max_groups"].help, min=TERMS["max_groups"].least),
]
Noise: TypeAlias = Annotated[QueryNoise, typer.Option("--noise", help=TERMS["noise"].help)]
Discover: TypeAlias = Annotated[bool, typer.Option("--discover", help=TERMS["discover"].help)]
BoundedOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--bounded-only", help="Spend nothing on telling what the bound on a person's rows leaves out."
    ),
]
MostRows: TypeAlias = Annotated[
    int | None,
    typer.Option("--most-rows", help=TERMS["most_rows"].help, min=TERMS["most_rows"].least),
]
NoBracket: TypeAlias = Annotated[
    bool, typer.Option("--no-bracket", help="Spend all on a median or quantile itself, nothing on its ±.")
]
Nonnegative: TypeAlias = Annotated[bool, typer.Option("--nonnegative", help=TERMS["nonnegative"].help)]
Of: TypeAlias = Annotated[
    int | None,
    typer.Option("--of", help=TERMS["of"].help, min=TERMS["of"].least),
]
Purpose: TypeAlias = Annotated[
    QueryPurpose | None,
    typer.Option("--purpose", help="At the first use: counts is for many answers (--of)."),
]
Csv: TypeAlias = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the answer as CSV.")
]
Parquet: TypeAlias = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="Write it as parquet.")
]
