"""The page that says what an ε means for one person: sliders, a picture, and plain words. Everything is
rounded against the guarantee."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from deniable.accounting import meaning
from deniable.curator.question import read_number
from deniable.numbers import percent_down, percent_up, short_up
from deniable.plots import svg
from deniable.server.console.page import Here, PageRoute, trust_picture

router = APIRouter(route_class=PageRoute, include_in_schema=False)
MOST_EPSILON = 8.0
LIKENESSES = (
    (0.1, "Very strong: an attacker learns next to nothing about any one person."),
    (0.5, "Strong: a belief about one person hardly moves."),
    (1.0, "Good, and common for what is published."),
    (2.0, "Fair: somebody who knows all the others can learn something about the last one."),
    (4.0, "Weak for one person: a strong hint can become near certainty."),
    (float("inf"), "Very weak: against somebody who knows the others this promises little."),
)


@router.get("/explain")
async def page(visit: Here, epsilon: str = "1", prior: str = "0.1", group: str = "1") -> Response:
    facts = make_facts(_clamp(epsilon, 0.01, MOST_EPSILON), _clamp(prior, 0.001, 0.999), _clamp(group, 1, 20))
    return visit.draw("parts/meaning.html" if visit.fragment else "explain.html", **facts)


def _clamp(text: str, low: float, high: float) -> float:
    return min(max(float(read_number("value", text)), low), high)


def make_facts(epsilon: float, prior: float, group: float) -> dict[str, Any]:
    """What everything on the page is drawn from."""
    size = int(group)
    total = epsilon * size
    after = meaning.posterior(prior, total)
    advantage = meaning.advantage(total)
    right = (1 + advantage) / 2
    picture = svg.belief(
        prior, after.low, after.high,
        label=(
            f"A belief of {prior:.1%} can end between {percent_down(after.low, 3)} and "
            f"{percent_up(after.high, 3)}"
        ),
    )  # fmt: skip
    region = svg.region(
        lambda rate: meaning.attacker_power(rate, total), (), bound=f"ε = {total:g}",
        label=f"The most that an attacker can find for a share of false alarms, at ε = {total:g}",
    )  # fmt: skip
    return {
        "epsilon": epsilon,
        "prior": prior,
        "group": size,
        "whole": total,
        "low": percent_down(after.low, 3),
        "high": percent_up(after.high, 3),
        "odds": short_up(meaning.group_odds(epsilon, size), 3),
        "right": percent_up(right, 3),
        "caught": percent_up(meaning.attacker_power(0.01, total), 3),
        "likeness": next(words for most, words in LIKENESSES if epsilon <= most),
        "belief": trust_picture(picture),
        "region": trust_picture(region),
        "most": MOST_EPSILON,
    }
