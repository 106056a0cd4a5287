"""`deniable attack membership`: attacks on what a model remembers of the rows it was trained on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Annotated

import typer

from deniable import extras
from deniable.attack.learnt import percent
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.errors import InvalidParameter
from deniable.plots import membership as picture
from deniable.plots import memory

Seed = Annotated[
    int, typer.Option("--seed", help="Seed of the sampling, of training, and of the experiment's noise.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to `deniable attack`."""
    app.command("membership")(membership)
    app.command("memorize")(memorize)


@door
def membership(
    data: Annotated[
        str, typer.Option("--data", help="One of digits, location30, adult, census-kdd, mnist.")
    ] = "digits",
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", help="How many rows of it.", show_default="600 of digits, else all up to 5,000"
        ),
    ] = None,
    models: Annotated[
        int, typer.Option("--models", help="Models trained at once; a row is in each by a fair coin.")
    ] = 32,
    targets: Annotated[
        int, typer.Option("--targets", help="How many of the models are attacked, one after another.")
    ] = 4,
    epochs: Annotated[
        int, typer.Option("--epochs", help="Passes over the data, for the unprotected models.")
    ] = 80,
    steps: Annotated[int, typer.Option("--steps", help="Training steps of the private models.")] = 60,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The guarantee of the private models, at δ = 1e-5.")
    ] = 2.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Who was in the training data? Seven attacks on models with and without protection.

    [bold]deniable attack membership --data location30 --models 64 --plot roc.png[/]
    """
    need_learn("Membership inference")
    from deniable.attack import examples
    from deniable.attack.members.shadow import PlainRecipe, PrivateRecipe, measure

    if not 1 <= targets < models:
        raise InvalidParameter(
            f"Expected targets={targets} between 1 and {models - 1}, fewer than the models."
        )
    x, y = examples.rows(data, rows or {"digits": 600, "location30": None}.get(data, 5000), seed=seed)
    measurements = [
        measure(recipe, x, y, name=name, models=models, targets=targets, seed=seed, watch=watch)
        for recipe, name in (
            (PlainRecipe(epochs=epochs), "plain"),
            (PrivateRecipe(epsilon, steps=steps), f"private, ε = {epsilon:g}"),
        )
    ]
    baseline, private = measurements
    if plot is not None:
        plain_lines, private_lines = (
            {k: (c.false_rates.tolist(), c.true_rates.tolist()) for k, c in measurement.curves.items()}
            for measurement in measurements
        )
        title = f"Members of {data} found in {targets} models"
        picture.curves(plain_lines, private_lines, private.ceiling, title=title, path=plot)
    if json:
        show.as_json(
            {
                "data": data,
                "rows": len(y),
                "models": models,
                "releases": [m.learnt().to_dict() for m in measurements],
            }
        )
        return
    show.heading(
        f"{len(y):,} rows of {data}, {models} models, {targets} of them attacked; private: ε = {epsilon:g}"
    )
    table = [
        (
            measurement.name.split(",")[0],
            name,
            f"{c.area:.3f} ± {c.area_reach:.3f}",
            percent(c.power_at(0.01)),
            percent(c.power_at(0.001)),
            f"{c.advantage:.3f}",
        )
        for measurement in measurements
        for name, c in measurement.curves.items()
    ]
    show.table(
        ("model", "attack", "AUC", "TPR at FPR 1 %", "at .1 %", "advantage"), table, right=(2, 3, 4, 5)
    )
    show.say("", baseline.learnt().reading, private.learnt().reading)


@door
def memorize(
    data: Annotated[
        str, typer.Option("--data", help="tiny-shakespeare, or made-up for sentences that need no download.")
    ] = "made-up",
    lines: Annotated[int, typer.Option("--lines", help="Lines of the text to train on.")] = 2000,
    copies: Annotated[
        str, typer.Option("--copies", help="How often each secret number stands in the text.")
    ] = "0,1,4,16",
    digits: Annotated[int, typer.Option("--digits", help="Digits of a secret number, at most 6.")] = 6,
    epochs: Annotated[
        int, typer.Option("--epochs", help="Passes over the text, with and without protection.")
    ] = 8,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The ε of the protected model, for a line of text.")
    ] = 2.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Secret numbers put into a text: does the model that learnt it know them? (Carlini et al. 2019)

    [bold]deniable attack memorize --data tiny-shakespeare --lines 3000 --copies 0,1,4,16[/]
    """
    need_learn("Memorisation")
    from deniable.attack import characters, sentences

    if not 1 <= digits <= 6:
        raise InvalidParameter(
            f"Expected digits={digits} between 1 and 6, so that every filling can be ranked."
        )
    comparison = characters.compare(
        sentences.lines(data, lines, seed=seed),
        copies=_counts(copies),
        digits=digits,
        epochs=epochs,
        epsilon=epsilon,
        seed=seed,
        watch=watch,
    )
    releases = {name: characters.learnt(name, exposures) for name, exposures in comparison.items()}
    if plot is not None:
        bars = {name: [result.exposure for result in exposures] for name, exposures in comparison.items()}
        memory.exposures(
            _counts(copies),
            bars,
            ceiling=digits * math.log2(10),
            title="Secrets in a character model",
            path=plot,
        )
    if json:
        show.as_json(
            {"data": data, "lines": lines, "releases": [result.to_dict() for result in releases.values()]}
        )
        return
    show.heading(f"{lines:,} lines of {data}, secret numbers of {digits} digits among them")
    rows = [
        (
            name,
            str(result.canary.copies),
            f"{result.rank:,}",
            f"{result.exposure:.1f}",
            f"{result.sample_bits:.1f}",
            f"{result.law_bits:.1f}",
            "yes" if result.is_extracted else "",
        )
        for name, exposures in comparison.items()
        for result in exposures
    ]
    head = ("model", "copies", "rank", "exposure", "sampled", "fitted", "told")
    show.table(head, rows, right=(1, 2, 3, 4, 5))
    show.say("", *(result.reading for result in releases.values()))
    show.say(
        "A number the model never saw has an exposure of b bits or more with probability 2^-b: that is the "
        "chance level."
    )


def _counts(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(
            f"Expected copies={text!r} to be numbers with commas, like 0,1,4,16."
        ) from None


def watch(steps: Iterable[int], words: str) -> Iterable[int]:
    return show.progress(list(steps), words)


def need_learn(purpose: str) -> None:
    missing = [name for name in ("torch", "sklearn") if find_spec(name) is None]
    if missing:
        raise extras.missing(f"{purpose} needs {' and '.join(missing)}", "learn")
