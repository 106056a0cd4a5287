"""`deniable local report` and `collect`: a private report from a device, and what a file of reports says."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.local.collecting.device_file import DeviceFile
from deniable.local.collecting.estimates import NAMES, Collected, client_of, collect, read_domain, value_of
from deniable.randomness import SecureRandom

SHOWN = 20

Protocol = Annotated[
    str, typer.Option("--protocol", metavar="NAME", help=f"One of {', '.join(NAMES)}.", show_default=True)
]
Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon",
        help="What one report may reveal; with --device, what all reports of one period may reveal.",
    ),
]
Domain = Annotated[
    Path,
    typer.Option(
        "--domain",
        metavar="FILE",
        help="The values that may be reported, each on a line. The same file for report and collect.",
        dir_okay=False,
    ),
]


@door
def report(
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value to report, a line of --domain.")],
    domain: Domain,
    name: Protocol = "olh",
    epsilon: Epsilon = 1.0,
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Append the report to this file.", show_default="stdout"),
    ] = None,
    device: Annotated[
        Path | None,
        typer.Option("--device", metavar="FILE", help="The memory of this device, for reports over time."),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", metavar="NAME", help="With --device: the period this report belongs to (2026-11)."
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit", metavar="EPSILON", help="With --device: what all its reports together may reveal."
        ),
    ] = None,
) -> None:
    """Report one value privately. A few random bytes come out; send them to whoever collects.

    [bold]deniable local report --protocol olh --epsilon 1 --domain sites.txt --out reports.bin example.org[/]

    Each report made this way reveals up to --epsilon about you, so ten reports reveal up to ten times as
    much. For reports over time, give the device a memory and a limit:

    [bold]deniable local report --protocol rappor --epsilon 4 --domain sites.txt --device me.json
    --period 2026-11 --limit 12 --out reports.bin example.org[/]

    The first report of a period draws a permanent response from VALUE; later reports of that period only
    repeat it (with RAPPOR, with fresh noise on top), even if VALUE has changed. A new period that would
    pass --limit is refused. In place of a VALUE that is not listed a random line of the
    list is reported (with --device, always the same one), so nobody can tell.
    """
    if target is None and sys.stdout.isatty():
        raise InvalidParameter("A report is bytes. Nothing was reported. Name a file with --out, or pipe it.")
    values = read_domain(domain)
    client = client_of(name, epsilon, values)
    memory = None if device is None else DeviceFile(device, client, values, _limit_of(limit, period))
    if memory is None and not (period is None and limit is None):
        raise InvalidParameter("--period and --limit need --device. Nothing was reported.")
    with _open(target) as file:  # before a period is charged
        if memory is None:
            file.write(client.report(value_of(client, values, value), rng=SecureRandom()))
        else:
            file.write(_report_from(memory, value, str(period)))
        file.flush()


def _limit_of(limit: float | None, period: str | None) -> Budget:
    if period is None or limit is None:
        raise InvalidParameter("--device needs --period and --limit. Nothing was reported.")
    if not period.strip():
        raise InvalidParameter("--period is empty. Nothing was reported. Name the period, such as 2026-11.")
    if not 0 < limit < math.inf:
        raise InvalidParameter(
            f"--limit is {limit:g}. Nothing was reported. Give the ε that all reports together may reveal: a "
            "number above 0, such as 12."
        )
    return Budget(limit)


def _open(target: Path | None) -> AbstractContextManager[BinaryIO]:
    if target is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return target.open("ab")
    except OSError as error:
        raise InvalidParameter(
            f"--out {target} cannot be opened ({error.strerror}). Nothing was reported. Name a file in a "
            "folder that is there, and that you may write to."
        ) from None


def _report_from(memory: DeviceFile, value: str, period: str) -> bytes:
    try:
        return memory.report(value, period, rng=SecureRandom())
    except OSError as error:
        raise InvalidParameter(
            f"--device {memory.path} cannot be written ({error.strerror}). Nothing was reported. Name a file "
            "in a folder that is there, and that you may write to."
        ) from None


@door
def collect_reports(
    reports: Annotated[
        Path, typer.Argument(metavar="REPORTS", help="Reports, one after the other.", dir_okay=False)
    ],
    domain: Domain,
    name: Protocol = "olh",
    epsilon: Epsilon = 1.0,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Estimate from a file of reports how many devices have which value, with 95 % intervals.

    [bold]deniable local collect reports.bin --protocol olh --epsilon 1 --domain sites.txt[/]

    Use the protocol, ε and list with which the devices reported. Reports made with others are left out and
    counted. Count one report of each device: the interval takes reports for different people. Estimates can
    be negative; they are shown unchanged, so that sums over many values stay unbiased.
    """
    values = read_domain(domain)
    table = collect(client_of(name, epsilon, values), values, reports.read_bytes())
    if plot is not None:
        _draw(table, plot)
    if json:
        lines = [{"value": e.value, "count": e.count, "low": e.low, "high": e.high} for e in table.lines]
        show.as_json({"reports": table.users, "left_out": table.dropped, "values": lines})
        return
    show.heading(f"{table.users:,} reports; left out: {table.dropped:,}")
    show.say("")
    rows = [(e.value, f"{e.count:,.0f}", f"{e.low:,.0f} … {e.high:,.0f}") for e in table.lines[:SHOWN]]
    show.table(("value", "devices", "95 % interval"), rows, right=(1, 2))
    if len(table.lines) > SHOWN:
        show.say("", f"{len(table.lines) - SHOWN:,} more values: --json shows all of them.")


def _draw(table: Collected, path: Path) -> None:
    from deniable import plots

    picture, plane = plots.axes(title="Estimated from private reports", x="devices", y="")
    lines = table.lines[:SHOWN][::-1]
    counts = [each.count for each in lines]
    halves = [each.high - each.count for each in lines]
    plane.barh(range(len(lines)), counts, xerr=halves, color=plots.COLOURS[0])
    plane.set_yticks(range(len(lines)), [each.value for each in lines])
    plots.save(picture, path)
