"""`deniable attack poison`: liars among local reports."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable.attack import poison as attack
from deniable.attack.learnt import percent
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.plots import attack as picture

READING = (
    "Every lie is a report that an honest person may send, so no check of single reports finds it. Made "
    "consistent, an estimate is a share again and still wrong. A median of groups of reports helps where "
    "liars come one after another, and not where they come at random. What helps is a protocol that "
    "multiplies reports less, a larger ε, and one proved report for each person."
)


def register(app: typer.Typer) -> None:
    """Add this command to `deniable attack`."""
    app.command("poison")(poison)


@door
def poison(
    items: Annotated[int, typer.Option("--items", help="Possible answers.")] = 100,
    users: Annotated[int, typer.Option("--users", help="People who report, the liars among them.")] = 20_000,
    liars: Annotated[float, typer.Option("--liars", help="The share of people who lie.")] = 0.02,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε of every report.")] = 1.0,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the made-up answers; reports are never seeded.")
    ] = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """How far do a few liars lift an item in a survey by randomized reports? (Cheu, Smith, Ullman 2021)

    [bold]deniable attack poison --liars .02 --items 100[/]
    """
    results = attack.compare(items, users, liars=liars, epsilon=epsilon, seed=seed)
    least = attack.least_reach(epsilon, liars)
    title = f"One of {items:,} items, {percent(liars)} of {users:,} people lie for it, ε = {epsilon:g}"
    if plot is not None:
        bars = {each.protocol: (each.honest, each.lied, each.consistent) for each in results}
        picture.poisoning(bars, results[0].truth, title=title, path=plot)
    if json:
        show.as_json({"least": least, "protocols": [each.to_dict() for each in results]})
        return
    show.heading(title)
    columns = ("way", "honest", "with liars", "at most", "consistent", "median", "together")
    rows = [
        (each.protocol, *map(percent, (each.honest, each.lied)), f"+{percent(each.most)}",
         *map(percent, (each.consistent, each.median, each.median_together)))
        for each in results
    ]  # fmt: skip
    show.table(columns, rows, right=tuple(range(1, 7)))
    show.say(
        "",
        f"Consistent: made a distribution again (Norm-Sub). Median: of {attack.GROUPS} groups of reports, "
        "with liars at random among them, or together.",
        f"The true share is {percent(results[0].truth)}. No unbiased sum of reports that keep ε = "
        f"{epsilon:g} is moved by less than {percent(least)} by so many liars.",
        READING,
    )
    if plot is not None:
        show.say(f"Picture: {plot}")
