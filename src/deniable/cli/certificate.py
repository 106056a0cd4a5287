"""`deniable certify` and `deniable verify`: a claim that others can compute again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from deniable import accounting, numbers
from deniable.accounting.radius.robustness import Isolation, RadiusCertificate, is_radius, verify_radius
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
    OutFile,
    Replace,
    SamplingName,
    Scheme,
    noisy_run,
)
from deniable.errors import InvalidCertificate, InvalidParameter
from deniable.guarantee import Certificate
from deniable.loss import Loss
from deniable.loss import show as number
from deniable.units import Unit

UNIT = "Who is protected: row, client, value, column:NAME or column:NAME:MAX_ROWS."


@door
def certify(
    delta: Delta,
    noise: Annotated[float | None, typer.Option("--noise", help=NOISE)] = None,
    rate: Annotated[float, typer.Option("--rate", help=RATE)] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help=STEPS)] = 1,
    mechanism: Kind = NoiseName.GAUSSIAN,
    scheme: Scheme = SamplingName.POISSON,
    replace: Replace = False,
    loss: Annotated[
        str | None, typer.Option("--loss", metavar="JSON", help="Any loss as JSON, instead of --noise.")
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help=UNIT)] = "row",
    out: OutFile = None,
) -> None:
    """Write a certificate: the loss, who is protected, the bracket on ε, and every assumption it rests on.

    [bold]deniable certify --rate .01 --noise 4 --steps 10000 --delta 1e-5 --out certificate.json[/]

    [bold]deniable certify --loss '{"node": "Pure", "epsilon": 0.1}' --delta 1e-9 --unit
    column:patient_id:4[/]
    """
    if (noise is None) == (loss is None):
        raise InvalidParameter("Expected one of --noise and --loss: a certificate is for one run.")
    run = partial(noisy_run, noise or 0.0, rate, steps, mechanism, scheme, replace)
    certificate = accounting.certify(_loss(loss, run), Unit.parse(unit, replace=replace), delta)
    if out is None:
        typer.echo(certificate.to_json(), nl=False)
        return
    out.write_text(certificate.to_json(), encoding="utf-8")
    show.say(f"{out}: ε ≤ {numbers.up(certificate.bound.upper)} at δ = {number(delta)}.")


def _loss(text: str | None, run: Callable[[], NoisyRun]) -> Loss:
    """The loss that --loss says, or that of the run the other options describe."""
    if text:
        return Loss.from_json(text)
    return run().loss


@door
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as JSON.", metavar="CERTIFICATE")],
    json: Json = False,
) -> None:
    """Compute the claim of a certificate again, here and now, and say what it rests on.

    [bold]deniable verify certificate.json[/]   (exit code 2 if it does not hold)
    """
    try:
        text = certificate.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidCertificate(f"{certificate} is no text, so no certificate.") from None
    if is_radius(text):
        _verify_radius(text, json)
        return
    claim = Certificate.from_json(text)
    bound = accounting.verify(claim)
    if json:
        show.as_json(
            {
                "valid": True,
                "claimed": claim.to_dict(),
                "recomputed": {"lower": bound.lower, "upper": bound.upper},
            }
        )
        return
    show.heading(f"Valid: ε ≤ {numbers.up(claim.bound.upper)} at δ = {number(claim.delta)}")
    show.say(
        f"Computed again: [{numbers.down(bound.lower)}, {numbers.up(bound.upper)}] ({bound.method}).",
        f"Loss: {claim.loss}.",
        "It rests on:",
    )
    show.bullets(claim.assumptions)


def _verify_radius(text: str, json: bool) -> None:
    claim = RadiusCertificate.from_json(text)
    radius = verify_radius(claim)
    if json:
        show.as_json({"valid": True, "claimed": claim.to_dict(), "recomputed": {"radius": radius}})
        return
    votes = claim.votes
    show.heading(f"Valid: class {votes.label} is certain for {claim.unit} ({claim.precision})")
    show.say(
        f"Checked with {sum(votes.counts):,} votes, {votes.counts[votes.label]:,} for the class: the radius "
        f"{numbers.down(radius, 6)} holds at α = {number(votes.looks.alpha)}.",
        f"Noise: {claim.noise}. Model: {claim.evaluation.model[:16]}. Input: {claim.input[:16]}.",
        "It rests on:",
    )
    show.bullets(claim.assumptions)
    if claim.evaluation.isolation is Isolation.UNCHECKED:
        show.say(
            "This certificate is of an older form (version 0.2.0), which does not say whether the classifier "
            "answers each input on its own. If it mixes the inputs of a batch, the radius is not true: "
            "certify it again."
        )
