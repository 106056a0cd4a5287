"""`deniable attack column`: how much of a sensitive column a model gives away."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable import numbers
from deniable.cli import show
from deniable.cli.attack_models import need_learn, watch
from deniable.cli.door import door
from deniable.cli.options import Json, Plot

READING = (
    "Everybody's value is a fair coin of its own, so what the first two guess came from the person's own "
    "row. ε is for one replaced value; one stated for a row added or removed counts twice. The last column "
    "is what the guarantee is not about: the column as it is, guessed of people whom the model never saw. It "
    "follows from the rest of their row, and would without them."
)


def register(app: typer.Typer) -> None:
    """Add this command to `deniable attack`."""
    app.command("column")(column)


@door
def column(
    data: Annotated[str, typer.Option("--data", help="made-up, or adult for sex in the census.")] = "made-up",
    people: Annotated[int, typer.Option("--people", help="People in the training data.")] = 300,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the coins, of training, and of the noise.")
    ] = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """How much of a sensitive column is hidden? The best guess through a model beside what its ε allows.

    [bold]deniable attack column --data adult --plot column.png[/]
    """
    need_learn("This attack")
    from deniable.accounting.meaning import advantage
    from deniable.attack import sensitive
    from deniable.plots import hidden as picture

    comparison = sensitive.compare(data, people, seed=seed, watch=watch)
    if plot is not None:
        lines = {
            name: [(each.epsilon, each.advantage, each.reach) for each in part]
            for name, part in (
                ("a model that memorises", comparison.memorising),
                ("a model that cannot", comparison.small_learners),
                ("strangers, the column as it is", comparison.strangers),
            )
        }
        title = f"A sensitive column, guessed through a model ({data}, {people:,})"
        picture.advantages(lines, lambda e: advantage(e, sensitive.DELTA), title=title, path=plot)
    if json:
        show.as_json({"data": data, "people": people} | comparison.to_dict())
        return
    show.heading(f"{people:,} people of {data}, a column of fair coins, and models that predict it")
    rows = [
        (
            "none" if a.epsilon is None else f"{a.epsilon:g}",
            numbers.up(a.bound, 3),
            *(f"{each.advantage:.2f} ± {each.reach:.2f}" for each in (a, b, c)),
        )
        for a, b, c in zip(
            comparison.memorising, comparison.small_learners, comparison.strangers, strict=True
        )
    ]
    head = ("ε", "most allowed", "memorises", "cannot memorise", "strangers, as it is")
    show.table(head, rows, right=(0, 1, 2, 3, 4))
    show.say("", READING)
