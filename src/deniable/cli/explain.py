"""`deniable explain`: what a guarantee means, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from deniable import numbers
from deniable.accounting import meaning
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.loss import show as number
from deniable.plots import accounting as plots

PRIORS = (0.01, 0.1, 0.5, 0.9)
FALSE_ALARMS = (0.001, 0.01, 0.1)


@door
def explain(
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε of the guarantee.")],
    delta: Annotated[float, typer.Option("--delta", help="The δ of the guarantee.")] = 0.0,
    prior: Annotated[
        float | None,
        typer.Option("--prior", help="A belief before the answer, in (0, 1). Left out: several."),
    ] = None,
    group: Annotated[
        int, typer.Option("--group", help="Size of a group (a family) that is in the data together.")
    ] = 3,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """What a guarantee means: how far a belief can move, what the best attacker can do, what a group can
    expect.

    [bold]deniable explain --epsilon 1 --prior .4[/]

    [bold]deniable explain --epsilon 2 --delta 1e-6 --group 4 --plot attacker.png[/]
    """
    priors: tuple[float, ...] = PRIORS
    if prior is not None:
        priors = (prior,)
    beliefs = {p: meaning.posterior(p, epsilon, delta) for p in priors}
    power = {rate: meaning.attacker_power(rate, epsilon, delta) for rate in FALSE_ALARMS}
    advantage = meaning.advantage(epsilon, delta)
    odds, group_delta = meaning.group_odds(epsilon, group), meaning.group_delta(epsilon, delta, group)
    guarantee = f"ε = {number(epsilon)}"
    if delta:
        guarantee += f", δ = {number(delta)}"
    if plot:
        plots.attacker(
            lambda rate: meaning.attacker_power(rate, epsilon, delta), title=f"Under {guarantee}", path=plot
        )
    if json:
        _json(epsilon, delta, beliefs, power, advantage, (group, group_delta, odds))
        return
    show.heading(f"What {guarantee} means for one unit: the row or person that is protected")
    _beliefs(beliefs, delta)
    _attacker(power, advantage)
    _group(group, epsilon, group_delta, odds)
    if plot:
        show.say("", f"Picture: {plot}")


def _json(
    epsilon: float,
    delta: float,
    beliefs: Mapping[float, meaning.Posterior],
    power: Mapping[float, float],
    advantage: float,
    group: tuple[int, float, float],
) -> None:
    size, group_delta, odds = group
    show.as_json(
        {
            "epsilon": epsilon,
            "delta": delta,
            "posterior": [
                {"prior": p, "low": b.low, "high": b.high, "failure": b.failure} for p, b in beliefs.items()
            ],
            "attacker": [
                {"false_positive_rate": rate, "true_positive_rate": best} for rate, best in power.items()
            ],
            "advantage": advantage,
            "group": {"size": size, "epsilon": size * epsilon, "delta": group_delta, "odds": odds},
        }
    )


def _beliefs(beliefs: Mapping[float, meaning.Posterior], delta: float) -> None:
    show.say("", "A belief in any fact about the unit, before the answer and after it:", "")
    rows = [
        (numbers.percent_up(p), numbers.percent_down(b.low), numbers.percent_up(b.high))
        for p, b in beliefs.items()
    ]
    show.table(("before", "after, at least", "after, at most"), rows, right=(0, 1, 2))
    if delta:
        failure = max(b.failure for b in beliefs.values())
        show.say(
            "",
            "δ > 0, so no limits hold for every answer: these allow for ε + 0.1 and fail with probability at "
            f"most {numbers.up(failure, 2)}, whatever is true. An answer for which they fail may tell "
            "everything.",
        )


def _attacker(power: Mapping[float, float], advantage: float) -> None:
    show.say(
        "",
        "The best attacker there can be, who knows all other units, deciding whether this one is in the "
        "data:",
        "",
    )
    rows = [(numbers.percent_up(rate), numbers.percent_up(best)) for rate, best in power.items()]
    show.table(("false alarms", "finds at most"), rows, right=(0, 1))
    show.say(
        "",
        "Between two equally likely worlds she is right with probability "
        f"{numbers.percent_up((1 + advantage) / 2)} at most (advantage {numbers.up(advantage)}); guessing "
        "gives 50 %.",
    )


def _group(size: int, epsilon: float, delta: float, odds: float) -> None:
    if delta >= 1:
        show.say(
            "",
            f"For a group of {size} that is in the data together nothing is left of this guarantee: δ grows "
            "to 1.",
        )
        return
    tail = ""
    if delta:
        tail = f", except for δ = {numbers.up(delta, 3)}"
    show.say(
        "",
        f"For a group of {size} that is in the data together: ε = {number(size * epsilon)}, "
        "so the odds of any fact about it change "
        f"by a factor of {numbers.up(odds)} at most{tail}.",
    )
