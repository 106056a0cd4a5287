"""`deniable local`: report privately, collect reports, try a protocol, or have one chosen."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.local_reports import collect_reports, report
from deniable.cli.options import Json
from deniable.local.oracles.choose import best, candidates
from deniable.local.simulate import PROTOCOLS, Simulation, protocol
from deniable.local.simulate import simulate as run
from deniable.randomness import SecureRandom

app = typer.Typer(help="Reports that are private before they leave the phone.", no_args_is_help=True)
app.command("report")(report)
app.command("collect")(collect_reports)

Epsilon = Annotated[float, typer.Option("--epsilon", help="What one report may reveal.")]
Items = Annotated[int, typer.Option("--items", help="Items in the domain.")]


@app.command()
@door
def simulate(
    name: Annotated[
        str, typer.Option("--protocol", metavar="NAME", help=f"One of {', '.join(PROTOCOLS)}.")
    ] = "best",
    epsilon: Epsilon = 1.0,
    users: Annotated[int, typer.Option("--users", help="Made-up users, one report each.")] = 100_000,
    items: Items = 1024,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the made-up values; the noise is never seeded.")
    ] = 0,
    json: Json = False,
) -> None:
    """Let made-up users with Zipf values report, and compare the estimates with the truth and with theory.

    [bold]deniable local simulate --protocol olh --epsilon 1 --users 1000000[/]
    """
    done = run(protocol(name, items, epsilon), items, users, rng=SecureRandom(), seed=seed)
    if json:
        show.as_json(_facts(name, epsilon, items, done))
        return
    show.heading(
        f"{type(done.client).__name__}: {users:,} reports of {done.client.size} bytes, ε = {epsilon:g}, "
        f"{items:,} items"
    )
    show.say("")
    low, high = done.estimate.interval()
    rows = [
        (i, f"{done.truth[i]:,}", f"{done.estimate.counts[i]:,.0f}", f"{low[i]:,.0f} … {high[i]:,.0f}")
        for i in range(min(5, items))
    ]
    show.table(("item", "users", "estimate", "95 % interval"), rows, right=(0, 1, 2, 3))
    show.say(
        "",
        f"Mean squared error: {done.mse:,.0f}; theory: {done.mse_theory:,.0f} "
        f"({done.mse / done.mse_theory:.3f} of it).",
        f"{done.reports_per_second:,.0f} reports encoded and counted per second of processor time.",
    )


@app.command("best")
@door
def choose(
    epsilon: Epsilon = 1.0,
    items: Items = 1024,
    most_bytes: Annotated[
        int | None,
        typer.Option("--most-bytes", help="The longest report that is wanted.", show_default="any"),
    ] = None,
    json: Json = False,
) -> None:
    """Choose an oracle for a domain by variance and size of a report.

    [bold]deniable local best --items 1024 --epsilon 1[/]
    """
    winner, all_ = best(items, epsilon, most_bytes=most_bytes), candidates(items, epsilon)
    facts = [(type(o).__name__, o.size, float(o.variance(1, 1 / items))) for o in all_]
    if json:
        keys = ("protocol", "bytes", "variance_per_user")
        rows = [dict(zip(keys, fact, strict=True)) for fact in facts]
        show.as_json({"best": type(winner).__name__, "items": items, "epsilon": epsilon, "protocols": rows})
        return
    show.table(
        ("protocol", "bytes", "variance per user", ""),
        [
            (name, size, f"{variance:.4g}", "← best" if oracle == winner else "")
            for oracle, (name, size, variance) in zip(all_, facts, strict=True)
        ],
        right=(1, 2),
        best=all_.index(winner),
    )


def _facts(name: str, epsilon: float, items: int, simulation: Simulation) -> dict[str, object]:
    return {
        "protocol": name,
        "client": type(simulation.client).__name__,
        "epsilon": epsilon,
        "users": simulation.users,
        "items": items,
        "report_bytes": simulation.client.size,
        "mse": simulation.mse,
        "mse_theory": simulation.mse_theory,
        "reports_per_second": simulation.reports_per_second,
        "encode_seconds": simulation.encode_seconds,
        "add_seconds": simulation.add_seconds,
    }
