"""`deniable demo`: a tour in small acts, without network and in well under two minutes.

An act is a module with a `TITLE` and a function `play()` that prints. A new part of Deniable adds its act to
`ACTS`.
"""

from __future__ import annotations

from collections.abc import Callable

from deniable.cli import show
from deniable.cli.demo import (
    attack,
    audit,
    budget,
    curator,
    federated,
    local,
    meaning,
    proof,
    smoothing,
    training,
)
from deniable.cli.door import door
from deniable.errors import MissingExtra

ACTS: tuple[tuple[str, Callable[[], None]], ...] = tuple(
    (act.TITLE, act.play)
    for act in (curator, meaning, training, proof, budget, attack, audit, local, federated, smoothing)
)


@door
def demo() -> None:
    """A tour of Deniable: SQL under a budget, what ε means, training, claims, ledgers, attacks, audits,
    phones, sums."""
    for i, (title, play) in enumerate(ACTS, 1):
        show.say("" if i == 1 else "\n")
        show.heading(f"{i}. {title}")
        show.say("")
        try:
            play()
        except MissingExtra as missing:
            show.say(str(missing))
