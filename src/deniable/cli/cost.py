"""`deniable cost`: what a run costs, by every method side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from deniable import numbers
from deniable.accounting import compare, epsilon
from deniable.accounting.runs.noisy_run import NoisyRun
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import (
    NOISE,
    RATE,
    STEPS,
    Delta,
    Json,
    Kind,
    NoiseName,
    Plot,
    Replace,
    SamplingName,
    Scheme,
    noisy_run,
)
from deniable.guarantee import Bound
from deniable.loss import Loss
from deniable.loss import show as number
from deniable.plots import accounting as plots
from deniable.units import Unit

ABOUT = {
    "basic": "ε's and δ's add (Dwork et al. 2006)",
    "advanced": "strong composition (Dwork et al. 2010)",
    "optimal": "from (ε, δ) alone (Kairouz et al. 2015)",
    "amplified": "generic subsampling (Balle et al. 2018)",
    "shuffle": "hiding among clones (Feldman et al. 2021)",
    "zcdp": "concentrated DP (Bun, Steinke 2016)",
    "moments": "moments, λ ≤ 32 (Abadi et al. 2016)",
    "renyi": "Rényi DP, every order (Mironov 2017)",
    "numerical": "privacy loss distribution, certified",
}


@door
def cost(
    noise: Annotated[float, typer.Option("--noise", help=NOISE)],
    delta: Delta,
    rate: Annotated[float, typer.Option("--rate", help=RATE)] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help=STEPS)] = 1,
    mechanism: Kind = NoiseName.GAUSSIAN,
    scheme: Scheme = SamplingName.POISSON,
    replace: Replace = False,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """What a run costs: ε by every known method side by side, and the bracket that holds the truth.

    100 epochs of DP-SGD: [bold]deniable cost --rate .01 --noise 4 --steps 10000 --delta 1e-5[/]

    1000 counts: [bold]deniable cost --noise 10 --steps 1000 --delta 1e-6 --mechanism laplace[/]
    """
    run = noisy_run(noise, rate, steps, mechanism, scheme, replace)
    loss, unit = run.loss, Unit.row(replace=replace)
    methods, bracket = compare(loss, delta), epsilon(loss, delta)
    picture = None
    if plot:
        picture = _draw(run, delta, plot)
    if json:
        facts = _json(loss, unit, delta, bracket, methods)
        if picture:
            facts["plot"] = picture
        show.as_json(facts)
        return
    show.heading(str(loss))
    show.say(f"Protected: {unit}. δ = {number(delta)}.", "")
    _table(methods)
    show.say("", _verdict(bracket))
    show.say_files(picture=picture)


def _json(
    loss: Loss, unit: Unit, delta: float, bracket: Bound, methods: dict[str, Bound | str]
) -> dict[str, object]:
    return {
        "loss": loss.to_dict(),
        "unit": unit.to_dict(),
        "delta": delta,
        "epsilon": {"lower": bracket.lower, "upper": bracket.upper, "method": bracket.method},
        "methods": {name: _method(bound) for name, bound in methods.items()},
    }


def _method(bound: Bound | str) -> dict[str, object]:
    if isinstance(bound, Bound):
        return {"upper": bound.upper}
    return {"refused": bound}


def _table(methods: dict[str, Bound | str]) -> None:
    """The bounds in the order of history; the methods that know no theorem for this loss are named below."""
    bounds = {name: bound.upper for name, bound in methods.items() if isinstance(bound, Bound)}
    least = min(bounds.values(), default=0.0)
    rows = [
        (name, numbers.up(value), _ratio(value, least), ABOUT.get(name, "")) for name, value in bounds.items()
    ]
    best = None
    if bounds:
        best = list(bounds.values()).index(least)
    show.table(("method", "ε", "× least", "what it is"), rows, right=(1, 2), best=best)
    others = [name for name in methods if name not in bounds]
    if others:
        show.say(f"Not applicable to this loss: {', '.join(others)}.")


def _ratio(value: float, least: float) -> str:
    if not (least > 0 and value < float("inf")):
        return "–"
    if value < 10 * least:
        return f"{value / least:.2f}"
    return f"{value / least:.0f}"


def _verdict(bound: Bound) -> str:
    if bound.lower == 0:
        return f"ε ≤ {numbers.up(bound.upper)} ({bound.method}); no lower bound is known."
    return f"The true ε lies in [{numbers.down(bound.lower)}, {numbers.up(bound.upper)}] ({bound.method})."


def _upper(bound: Bound | str) -> float:
    """What a method states; ∞ where it refuses."""
    if isinstance(bound, Bound):
        return bound.upper
    return math.inf


def _draw(run: NoisyRun, delta: float, path: Path) -> Path:
    """ε by number of releases, for every method."""
    grid = sorted({round(run.steps ** (i / 24)) for i in range(25)})
    tables = [compare(run.release * n, delta) for n in show.progress(grid, "Drawing")]
    curves = {name: [_upper(table[name]) for table in tables] for name in tables[0]}
    return plots.cost(grid, curves, delta=delta, path=path)
