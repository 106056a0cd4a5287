"""`deniable query`: ordinary SQL about a private file, within a limit that a ledger keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from deniable import numbers
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot, Replace
from deniable.curator import Answer, Curator, Preview
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.sql.schema.beside import remembered
from deniable.sql.schema.file import load
from deniable.sql.schema.overrides import parse_bounds, parse_keys, parse_unit
from deniable.units import Unit


class QueryNoise(StrEnum):
    """What hides a person."""

    AUTO = "auto"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class QueryPurpose(StrEnum):
    """What an account is for."""

    MIXED = "mixed"
    COUNTS = "counts"


@dataclass(frozen=True)
class OpeningOptions:
    """How a data set is opened, as the options say it."""

    source: str
    unit: str | None
    max_rows: int | None
    replace: bool
    limit: str | None
    ledger: str | None
    schema: Path | None
    bounds: list[str]
    keys: list[str]
    name: str | None
    data_version: str | None
    analyst: str | None
    purpose: str | None = None

    def _unit(self) -> Unit | None:
        """As --unit says; else as the schema does, with what the other options say of it; None if nobody does."""
        name = self.unit
        if name is None and (self.max_rows is not None or self.replace):
            name = self._declared_unit()
        if name is None:
            return None
        return parse_unit(name, self.max_rows, replace=self.replace)

    def _declared_unit(self) -> str:
        schema = None
        if self.schema is not None:
            schema = load(self.schema)
        elif "://" not in self.source:
            schema = remembered(Path(self.source))
        units = {
            table.unit for table in (schema.tables if schema else ()) if not table.public and not table.path
        }
        if len(units) != 1 or None in units:
            raise InvalidParameter(
                "--max-rows and --replace say more of --unit: name it too, like --unit patient_id. Nothing was opened."
            )
        return str(units.pop())

    @contextmanager
    def opened(self) -> Iterator[Curator]:
        with Curator.open(
            self.source,
            unit=self._unit(),
            limit=None if self.limit is None else Budget.parse(self.limit),
            name=self.name,
            ledger=self.ledger,
            schema=self.schema,
            bounds=parse_bounds(self.bounds),
            keys=parse_keys(self.keys),
            version=self.data_version,
            analyst=self.analyst,
            purpose=self.purpose,
        ) as curator:
            yield curator


@contextmanager
def _shell_quotes() -> Iterator[None]:
    """A shell takes double quotes away that stand inside double quotes: where a name needs them, say so."""
    try:
        yield
    except InvalidQuery as refusal:
        if "double quotes" not in str(refusal):
            raise
        raise InvalidQuery(f"{refusal} In a shell, put the whole query in single quotes.") from None


@door
def query(
    source: Annotated[
        str, typer.Argument(help="A parquet, CSV or DuckDB file, or postgresql://…", metavar="SOURCE")
    ],
    text: Annotated[
        str,
        typer.Argument(help="The query, in quotes.", metavar="SQL"),
    ],
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="What the query may cost in total.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option("--within", help="Instead of ε: how close every number must be; costs the least ε."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", help="Who is protected: the column that names the person, or row. Needed once."
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", help="How many rows of one person count in an answer.", min=1)
    ] = None,
    replace: Replace = False,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="EPSILON[:DELTA]", help="The limit of all queries together. Needed once."
        ),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only tell cost and expected error; run nothing.")
    ] = False,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Bounds of a column; repeat."),
    ] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--keys", metavar="COLUMN=A,B,…", help="Public group keys; repeat.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="Types, bounds, keys (deniable schema init)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The table's name, if not that of the file.")
    ] = None,
    data_version: Annotated[
        str | None, typer.Option("--data-version", help="The state of the data; answers are kept for each.")
    ] = None,
    analyst: Annotated[str | None, typer.Option("--analyst", help="Who asks; you, by default.")] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", envvar="DENIABLE_LEDGER", metavar="URL", help="The ledger, if not beside the data."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="The query's δ; a hundredth of the limit's by default.")
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="How often an interval holds.")] = 0.95,
    at_least: Annotated[
        int | None,
        typer.Option(
            "--at-least", help="A public group size: lets --within promise averages and quantiles.", min=1
        ),
    ] = None,
    max_groups: Annotated[
        int | None,
        typer.Option("--max-groups", help="How many private group keys one person may add to.", min=1),
    ] = None,
    noise: Annotated[
        QueryNoise, typer.Option("--noise", help="auto takes what gives the smaller error.")
    ] = QueryNoise.AUTO,
    discover: Annotated[
        bool, typer.Option("--discover", help="Find missing bounds from a part of ε.")
    ] = False,
    bounded_only: Annotated[
        bool,
        typer.Option(
            "--bounded-only", help="Spend nothing on telling what the bound on a person's rows leaves out."
        ),
    ] = False,
    most_rows: Annotated[
        int | None,
        typer.Option("--most-rows", help="You know that nobody has more rows than this.", min=1),
    ] = None,
    no_bracket: Annotated[
        bool, typer.Option("--no-bracket", help="Spend all on a median or quantile itself, nothing on its ±.")
    ] = False,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="Show counts that noise made negative as 0; costs nothing.")
    ] = False,
    of: Annotated[
        int | None,
        typer.Option("--of", help="How many queries like this one share ε, or the limit.", min=2),
    ] = None,
    purpose: Annotated[
        QueryPurpose | None,
        typer.Option("--purpose", help="At the first use: counts is for many answers (--of)."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the answer as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write it as parquet.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Ask a private table in SQL: a table with a ± for every number, charged to a limit that is kept beside the data.

    The first use says who is protected and how much may leave in all:

    [bold]deniable query visits.parquet "SELECT COUNT(*) FROM visits" --unit patient_id --limit 3:1e-6 --epsilon .1[/]

    Then only ask. Sums and averages need bounds that are public knowledge:

    [bold]deniable query visits.parquet "SELECT AVG(days) FROM visits" --bounds days=0:60 --epsilon .5 --preview[/]

    [bold]deniable query visits.parquet "SELECT COUNT(*) FROM visits WHERE days > 7" --within 50[/]
    """
    opening = OpeningOptions(
        source,
        unit,
        max_rows,
        replace,
        limit,
        ledger,
        schema,
        bounds or [],
        keys or [],
        name,
        data_version,
        analyst,
        None if purpose is None else str(purpose),
    )
    terms: dict[str, Any] = {
        "epsilon": None if epsilon is None else numbers.integral(epsilon),
        "within": None if within is None else numbers.integral(within),
        "delta": delta,
        "confidence": confidence,
        "at_least": at_least,
        "max_groups": max_groups,
        "noise": str(noise),
        "discover": discover,
        "left_out": False if bounded_only else None,
        "most_rows": most_rows,
        "bracket": not no_bracket,
        "nonnegative": nonnegative,
        "of": of,
    }
    with opening.opened() as curator:
        if preview:
            with _shell_quotes():
                expected = curator.preview(text, **terms)
            _foretell(expected, json)
            return
        with _shell_quotes():
            answer = curator.sql(text, **terms)
        _write(answer, csv, parquet, plot)
        _tell(answer, curator, json)


# --------------------------------------------------------------------------------------------- how it is said


def _foretell(preview: Preview, json: bool) -> None:
    if not json:
        show.say(*preview.lines())
        return
    show.as_json(
        {
            "epsilon": preview.epsilon,
            "delta": preview.delta,
            "expected": dict(preview.expected),
            "confidence": preview.confidence,
            "fits": preview.fits,
            "free": preview.free,
            "left": {"epsilon": preview.left.epsilon, "rho": preview.left.rho, "delta": preview.left.delta},
            "refusal": preview.refusal,
            "more": preview.more,
        }
    )


def _write(answer: Answer, csv: Path | None, parquet: Path | None, plot: Path | None) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    if csv is not None:
        pyarrow.csv.write_csv(answer.table, csv)
    if parquet is not None:
        pyarrow.parquet.write_table(answer.table, parquet)
    if plot is not None:
        answer.plot(path=plot)


def _tell(answer: Answer, curator: Curator, json: bool) -> None:
    expenditure, limit = curator.account.spent(), curator.account.limit
    if json:
        show.as_json(
            {
                "rows": answer.table.to_pylist(),
                "confidence": answer.confidence,
                "epsilon": answer.epsilon,
                "delta": answer.delta,
                "entry": answer.entry,
                "again": answer.again,
                "notes": answer.notes,
                "schema": [str(file) for file in curator.schema_files],
                "spent": {
                    "epsilon": expenditure.epsilon,
                    "delta": expenditure.delta,
                    "share": expenditure.share,
                },
            }
        )
        return
    columns = answer.value.column_names
    show.table(columns, answer.rows(), right=[i for i, name in enumerate(columns) if name in answer.numbers])
    show.say(
        "", f"Cost: {answer.cost}. Spent: ε = {numbers.up(expenditure.epsilon)} of {limit}.", *answer.notes
    )
    for file in curator.schema_files:
        show.say(f"Types, bounds and keys are those of {file.name}, which lies beside the data.")
