"""`deniable calibrate`: the noise, the steps or the rate that just fits a budget."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable import numbers
from deniable.accounting import epsilon
from deniable.accounting.runs.noisy_run import Unknown
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
    Replace,
    SamplingName,
    Scheme,
    noisy_run,
)
from deniable.errors import InvalidParameter
from deniable.loss import show as number

LABEL = {
    "noise": "Least noise multiplier",
    "rate": "Largest sampling rate",
    "steps": "Largest number of releases",
}


@door
def calibrate(
    target: Annotated[float, typer.Option("--epsilon", help="The ε to stay under.")],
    delta: Delta,
    noise: Annotated[float | None, typer.Option("--noise", help=NOISE)] = None,
    rate: Annotated[float | None, typer.Option("--rate", help=RATE)] = None,
    steps: Annotated[int | None, typer.Option("--steps", help=STEPS)] = None,
    mechanism: Kind = NoiseName.GAUSSIAN,
    scheme: Scheme = SamplingName.POISSON,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """Solve for what is left out: the noise, or with --noise given the steps or the rate.

    How much noise? [bold]deniable calibrate --epsilon 3 --delta 1e-5 --rate .01 --steps 10000[/]

    How many steps? [bold]deniable calibrate --epsilon 3 --delta 1e-5 --rate .01 --noise 2[/]
    """
    unknown = _find_unknown(noise, rate, steps)
    if rate is None:
        rate = 1.0
    if steps is None:
        steps = 1
    start = noisy_run(noise or 1.0, rate, steps, mechanism, scheme, replace)
    run = start.solve(unknown, target, delta)
    bound = epsilon(run.loss, delta)
    values = {"noise": run.noise, "rate": run.rate, "steps": run.steps}
    if json:
        interval = {"lower": bound.lower, "upper": bound.upper, "method": bound.method}
        show.as_json(
            {"solved": unknown, **values, "delta": delta, "epsilon": interval, "loss": run.loss.to_dict()}
        )
        return
    answer = repr(values[unknown])
    if unknown is Unknown.STEPS:
        answer = number(run.steps)
    show.heading(f"{LABEL[unknown]}: {answer}")
    show.say(
        f"With it, ε lies in [{numbers.down(bound.lower)}, {numbers.up(bound.upper)}] at δ = "
        f"{number(delta)}, within ε = {number(target)}.",
        f"The run: {run.loss}.",
    )


def _find_unknown(noise: float | None, rate: float | None, steps: int | None) -> Unknown:
    """The one number to solve for: the noise if it was left out, else the one of rate and steps that was."""
    if noise is None:
        return Unknown.NOISE
    missing = [name for name, value in (("rate", rate), ("steps", steps)) if value is None]
    if len(missing) != 1:
        phrase = "both are" if not missing else "neither is"
        raise InvalidParameter(
            f"With --noise, leave out one of --rate and --steps to solve for it; {phrase} given. "
            "To see what a given run costs, use deniable cost."
        )
    return Unknown(missing[0])
