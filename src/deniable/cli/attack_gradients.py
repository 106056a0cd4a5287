"""`deniable attack gradients`: what one client's update shows of its images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable import extras, numbers
from deniable.audit import Finding, audit
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.loss import Approximate
from deniable.plots import faces

if TYPE_CHECKING:
    from deniable.attack.gradients import Inverted, Victims

SAMPLES = 600
"""Rounds of the audit with the client, and without it."""
CONFIDENCE = 0.9999
LESSON = (
    "A failed inversion proves nothing: it fails at noise whose ε is in the hundreds, through which the "
    "audit still tells whether the client took part. Only the guarantee bounds what any attack can learn."
)


def register(app: typer.Typer) -> None:
    """Add the command to `deniable attack`."""
    app.command("gradients")(gradients)


@door
def gradients(
    data: Annotated[
        str, typer.Option("--data", help="mnist, or digits for images that need no download.")
    ] = "digits",
    images: Annotated[int, typer.Option("--images", help="How many images, one for each client.")] = 20,
    searched: Annotated[
        int, typer.Option("--searched", help="How many of the images are searched for by L-BFGS.", min=1)
    ] = 3,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The guarantee of the protected update, at δ = 1e-5.")
    ] = 2.0,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the choice of images; noise is never seeded.")
    ] = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """What does an update show? A client's images, from the gradient that it sends to a server, and under
    noise.

    [bold]deniable attack gradients --data mnist --plot updates.png[/]
    """
    missing = [name for name in ("torch", "sklearn") if find_spec(name) is None]
    if missing:
        raise extras.missing(f"Gradient inversion needs {' and '.join(missing)}", "learn")
    from deniable.attack import gradients as inversion

    victims = inversion.victims(data, images, seed=seed)
    results = inversion.compare(victims, epsilon=epsilon, search_images=min(searched, images), watch=_watch)
    findings = _audits(victims, epsilon)
    if plot is not None:
        rows = {"true": victims.images} | {
            f"{result.release},\n{result.attack}": result.images for result in results
        }
        faces.side_by_side(rows, victims.shape, title="Images in updates", path=plot)
    baseline = inversion.baseline(victims)
    if json:
        releases = [result.learnt(baseline).to_dict() for result in results]
        audits = {
            name: {"verdict": str(finding.verdict), "epsilon": finding.epsilon}
            for name, finding in findings.items()
        }
        show.as_json({"data": data, "images": images, "releases": releases, "audits": audits})
        return
    _tell(results, findings, baseline, epsilon, f"{images} images of {data}, each sent as a gradient")


def _audits(victims: Victims, epsilon: float) -> dict[str, Finding]:
    """A client's round against a silent one's: at noise where inversion fails, and at the noise of the
    guarantee."""
    from deniable.attack import gradients as inversion
    from deniable.attack.gradients import first_layer, sent

    model = first_layer.dense(victims)
    claim = Approximate(epsilon, inversion.DELTA)
    runs: dict[str, Any] = {
        f"noise of {inversion.FAINT:g} clips": sent.noisy(model, inversion.FAINT),
        f"noise for ε = {epsilon:g}": sent.for_budget(model, epsilon),
    }
    audits = {}
    for name, run in runs.items():
        canary = inversion.canary(victims, run)
        audits[name] = audit(
            canary.target, canary.pair, claim, samples=SAMPLES, confidence=CONFIDENCE, workers=1
        )
    return audits


def _tell(
    results: Sequence[Inverted], findings: dict[str, Finding], baseline: float, epsilon: float, title: str
) -> None:
    show.heading(title)
    rows = [
        (
            result.release,
            result.attack,
            f"{result.clear} of {len(result.decibels)}",
            f"{result.median:.1f} dB",
            "∞" if result.epsilon is None else numbers.up(result.epsilon),
        )
        for result in results
    ]
    show.table(("what is sent", "attack", "images found", "median", "ε at 1e-5"), rows, right=(2, 3, 4))
    show.say(
        "",
        f"The mean of other images, which everybody knows, reaches {baseline:.1f} dB. Beside it, a canary "
        "audit:",
    )
    for name, finding in findings.items():
        bound = numbers.down(finding.epsilon)
        show.say(f"   {name}: claimed ε = {epsilon:g}, certified ε ≥ {bound}: {finding.verdict}.")
    show.say("", LESSON)


def _watch(steps: Iterable[int], words: str) -> Iterable[int]:
    return show.progress(list(steps), words)
