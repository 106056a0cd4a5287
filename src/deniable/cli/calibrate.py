"""`deniable calibrate`: the noise, the steps or the rate that just fits a budget."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Annotated

import typer

from deniable import numbers
from deniable.accounting import calibrate_noise, calibrate_rate, calibrate_steps, epsilon
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import (
    NOISE,
    NOISES,
    RATE,
    SCHEMES,
    STEPS,
    Delta,
    Json,
    Kind,
    Noise,
    Replace,
    Run,
    Sampling,
    Scheme,
)
from deniable.errors import InvalidParameter
from deniable.loss import show as number

LABEL = {"noise": "Least noise multiplier", "rate": "Largest sampling rate", "steps": "Largest number of releases"}


@door
def calibrate(
    target: Annotated[float, typer.Option("--epsilon", help="The ε to stay under.")],
    delta: Delta,
    noise: Annotated[float | None, typer.Option("--noise", help=NOISE)] = None,
    rate: Annotated[float | None, typer.Option("--rate", help=RATE)] = None,
    steps: Annotated[int | None, typer.Option("--steps", help=STEPS)] = None,
    mechanism: Kind = Noise.GAUSSIAN,
    scheme: Scheme = Sampling.POISSON,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """Solve for what is left out: the noise, or with --noise given the steps or the rate.

    How much noise? [bold]deniable calibrate --epsilon 3 --delta 1e-5 --rate .01 --steps 10000[/]

    How many steps? [bold]deniable calibrate --epsilon 3 --delta 1e-5 --rate .01 --noise 2[/]
    """
    unknown = _unknown(noise, rate, steps)
    start = Run(noise or 1.0, 1.0 if rate is None else rate, 1 if steps is None else steps, mechanism, scheme, replace)
    run = _solved(unknown, start, target, delta)
    bound = epsilon(run.loss, delta)
    found = getattr(run, unknown)
    if json:
        values = {"noise": run.noise, "rate": run.rate, "steps": run.steps}
        reached = {"lower": bound.lower, "upper": bound.upper, "method": bound.method}
        show.as_json({"solved": unknown, **values, "delta": delta, "epsilon": reached, "loss": run.loss.to_dict()})
        return
    show.heading(f"{LABEL[unknown]}: {number(found) if unknown == 'steps' else repr(found)}")
    show.say(
        f"With it, ε lies in [{numbers.down(bound.lower)}, {numbers.up(bound.upper)}] at δ = {number(delta)}, "
        f"within ε = {number(target)}.",
        f"The run: {run.loss}.",
    )


def _unknown(noise: float | None, rate: float | None, steps: int | None) -> str:
    """The one number to solve for: the noise if it was left out, else the one of rate and steps that was."""
    if noise is None:
        return "noise"
    missing = [name for name, value in (("rate", rate), ("steps", steps)) if value is None]
    if len(missing) != 1:
        given = "both are" if not missing else "neither is"
        raise InvalidParameter(
            f"With --noise, leave out one of --rate and --steps to solve for it; {given} given. "
            "To see what a given run costs, use deniable cost."
        )
    return missing[0]


def _solved(unknown: str, run: Run, target: float, delta: float) -> Run:
    scheme, replace = SCHEMES[run.sampling], run.replace
    if unknown == "noise":
        kind = NOISES[run.kind]
        found = calibrate_noise(
            target, delta, rate=run.rate, steps=run.steps, scheme=scheme, replace=replace, noise=kind
        )
        return changed(run, noise=numbers.ceiling(found, 6))
    if run.kind is not Noise.GAUSSIAN:
        raise InvalidParameter(
            "Rate and steps are solved for with Gaussian noise; leave out --noise to solve for Laplace noise."
        )
    if unknown == "rate":
        rate = calibrate_rate(
            target, delta, noise_multiplier=run.noise, steps=run.steps, scheme=scheme, replace=replace
        )
        return changed(run, rate=numbers.floor(rate, 6))
    steps = calibrate_steps(target, delta, noise_multiplier=run.noise, rate=run.rate, scheme=scheme, replace=replace)
    return changed(run, steps=steps)
