"""`deniable profile`: what is known of a table before it is asked, and what its owner buys to know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import typer

from deniable.cli import query_options as option
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Replace, limit_of
from deniable.curator import Curator
from deniable.curator.profile import TableProfile
from deniable.errors import InvalidParameter
from deniable.sql.profile.rows import RowClasses
from deniable.sql.schema.overrides import parse_bounds, parse_unit
from deniable.units import Unit

WIDTH = 30
"""Characters of the longest bar."""

Buy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--buy", metavar="PART", help="Buy this part: rows, or a column of numbers; repeat."),
]
Renew: TypeAlias = Annotated[
    bool, typer.Option("--renew", help="Buy it anew, for data that has changed or a part that was lost.")
]
Allowance: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--allowance", help="At the first use: the ε for the profile; a tenth of the limit's by default."
    ),
]


@door
def profile(
    source: option.Source,
    buy: Buy = None,
    renew: Renew = False,
    unit: option.Unit = None,
    replace: Replace = False,
    limit: option.Limit = None,
    allowance: Allowance = None,
    bounds: option.Bounds = None,
    schema: option.Schema = None,
    name: option.Name = None,
    data_version: option.DataVersion = None,
    ledger: option.Ledger = None,
    json: Json = False,
) -> None:
    """Show what is known of a private table: how many rows people have, how large values are. Buy it as its
    owner.

    The first question that needs a part buys it. An owner can buy parts before anybody asks:

    [bold]deniable profile visits.parquet --buy rows --buy cost --unit patient_id --limit 3:1e-6[/]

    [bold]deniable profile visits.parquet[/]
    """
    protects = _read_unit(unit, replace)
    if renew and not buy:
        raise InvalidParameter("--renew says how --buy buys: name the parts too, like --buy rows --renew.")
    with Curator.open(
        source,
        unit=protects,
        limit=limit_of(limit),
        name=name,
        ledger=ledger,
        schema=schema,
        bounds=parse_bounds(bounds or []),
        version=data_version,
        profile=allowance,
    ) as curator:
        known_parts = _buy(curator, buy or [], renew)
    if json:
        show.as_json(known_parts.to_dict())
        return
    show.say(*known_parts.lines())
    _draw(known_parts)


def _buy(curator: Curator, parts: list[str], renew: bool) -> TableProfile:
    if renew:
        return curator.renew_profile(*parts)
    return curator.profile(*parts, buy=bool(parts))


def _read_unit(unit: str | None, replace: bool) -> Unit | None:
    if unit is None and replace:
        raise InvalidParameter("--replace says more of --unit: name it too, like --unit patient_id.")
    if unit is None:
        return None
    return parse_unit(unit, None, replace=replace)


def _draw(known_parts: TableProfile) -> None:
    """A bar for each class of people by their rows."""
    for part in known_parts.parts:
        if isinstance(part.value, RowClasses):
            show.say("")
            show.table([f"{part.name.table}: rows", "people", ""], _bars(part.value), right=[1])


def _bars(classes: RowClasses) -> Iterator[tuple[str, str, str]]:
    largest = max(1, *(size for _, size in classes.classes()))
    for label, size in classes.classes():
        yield label, f"{size:,}", "█" * round(WIDTH * max(0, size) / largest)
