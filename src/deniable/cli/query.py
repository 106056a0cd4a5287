"""`deniable query`: ordinary SQL about a private file, within a limit that a ledger keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable import numbers
from deniable.cli import outputs, show
from deniable.cli import query_options as option
from deniable.cli.door import door
from deniable.cli.options import Json, Plot, Replace, limit_of
from deniable.curator import Answer, Curator, Preview
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.sql.schema.beside import remembered
from deniable.sql.schema.declare import TableInfo
from deniable.sql.schema.file import load
from deniable.sql.schema.overrides import parse_bounds, parse_keys, parse_unit
from deniable.units import Unit


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
    purpose: option.QueryPurpose | None = None

    def _unit(self) -> Unit | None:
        """As --unit says; else as the schema does, with what the other options say of it.

        None if nobody says it.
        """
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
        tables: Sequence[TableInfo] = ()
        if schema is not None:
            tables = schema.tables
        units = {table.unit for table in tables if not table.public and not table.path}
        if len(units) != 1 or None in units:
            raise InvalidParameter(
                "--max-rows and --replace say more of --unit: name it too, like --unit patient_id. Nothing "
                "was opened."
            )
        return str(units.pop())

    @contextmanager
    def opened(self) -> Iterator[Curator]:
        with Curator.open(
            self.source,
            unit=self._unit(),
            limit=limit_of(self.limit),
            name=self.name,
            ledger=self.ledger,
            schema=self.schema,
            bounds=parse_bounds(self.bounds),
            keys=parse_keys(self.keys),
            version=self.data_version,
            analyst=self.analyst,
            purpose=None if self.purpose is None else str(self.purpose),
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
    source: option.Source,
    text: option.Text,
    epsilon: option.Epsilon = None,
    within: option.Within = None,
    unit: option.Unit = None,
    max_rows: option.MaxRows = None,
    replace: Replace = False,
    limit: option.Limit = None,
    preview: option.Preview = False,
    bounds: option.Bounds = None,
    keys: option.Keys = None,
    schema: option.Schema = None,
    name: option.Name = None,
    data_version: option.DataVersion = None,
    analyst: option.Analyst = None,
    ledger: option.Ledger = None,
    delta: option.Delta = None,
    confidence: option.Confidence = 0.95,
    at_least: option.AtLeast = None,
    max_groups: option.MaxGroups = None,
    noise: option.Noise = option.QueryNoise.AUTO,
    discover: option.Discover = False,
    bounded_only: option.BoundedOnly = False,
    most_rows: option.MostRows = None,
    no_bracket: option.NoBracket = False,
    nonnegative: option.Nonnegative = False,
    of: option.Of = None,
    purpose: option.Purpose = None,
    csv: option.Csv = None,
    parquet: option.Parquet = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Ask a private table in SQL: a table with a ± for every number, charged to a limit that is kept beside
    the data.

    The first use says who is protected and how much may leave in all:

    [bold]deniable query visits.parquet "SELECT COUNT(*) FROM visits" --unit patient_id --limit 3:1e-6
    --epsilon .1[/]

    Then only ask. Sums and averages need bounds that are public knowledge:

    [bold]deniable query visits.parquet "SELECT AVG(days) FROM visits" --bounds days=0:60 --epsilon .5
    --preview[/]

    [bold]deniable query visits.parquet "SELECT COUNT(*) FROM visits WHERE days > 7" --within 50[/]
    """
    opening = OpeningOptions(
        source, unit, max_rows, replace, limit, ledger, schema, bounds or [], keys or [], name, data_version,
        analyst, purpose,
    )  # fmt: skip
    left_out = None
    if bounded_only:
        left_out = False
    terms = _whole_numbers({
        "epsilon": epsilon, "within": within, "delta": delta, "confidence": confidence, "at_least": at_least,
        "max_groups": max_groups, "noise": str(noise), "discover": discover, "most_rows": most_rows,
        "left_out": left_out, "bracket": not no_bracket, "nonnegative": nonnegative,
        "of": of,
    })  # fmt: skip
    outputs.check(plot, csv, parquet)
    with opening.opened() as curator:
        if preview:
            with _shell_quotes():
                forecast = curator.preview(text, **terms)
            _foretell(forecast, json)
            return
        with _shell_quotes():
            answer = curator.sql(text, **terms)
        # Told first: what was paid for is seen, whatever happens to the files.
        _tell(answer, curator, json)
        _write(answer, csv, parquet, plot)


def _whole_numbers(terms: dict[str, Any]) -> dict[str, Any]:
    """The terms, with an ε or a width that was typed as 1.0 as the integer it is."""
    floats = {name: terms[name] for name in ("epsilon", "within") if terms[name] is not None}
    return terms | {name: numbers.integral(value) for name, value in floats.items()}


# --------------------------------------------------------------------------------------------- how it is said


def _foretell(preview: Preview, json: bool) -> None:
    if not json:
        show.say(*preview.lines())
        return
    show.as_json(preview.to_dict())


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
            answer.to_dict()
            | {
                "rows": answer.table.to_pylist(),  # by the names of columns: a shell's tools pick them so
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
