"""A proposal of what to guess, and what it guessed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deniable.audit.rules.classify import OutputView, ScoreModel
from deniable.audit.rules.tables import Array, Rows
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.pairs import Pair

Guesses = tuple[int, int, int]
"""Right, wrong, and (of coupled runs) pairs that met the rule on both sides."""


@dataclass(frozen=True)
class Attack:
    """What to guess from which output, for which pair, at which δ, and how far it is expected to get."""

    pair: Pair
    view: OutputView
    model: ScoreModel
    rule: Rule
    delta: float
    margin: float
    cuts: tuple[float, ...]
    is_coupled: bool = False
    tally: Guesses = (0, 0, 0)
    """What it guessed of the samples so far."""
    sample_count: int = 0
    hidden: tuple[int, ...] = ()
    """Coordinates that it does not look at."""

    def score(self, rows: Rows) -> Array:
        return self.model.score(self.view.see(hide(rows, self.hidden)))

    def add_samples(self, guesses: Iterable[int], trials: int) -> Attack:
        """The same after more samples."""
        right, wrong, both = (int(new) + old for new, old in zip(guesses, self.tally, strict=True))
        return replace(self, tally=(right, wrong, both), sample_count=self.sample_count + trials)

    def guesses(self, first: Array, second: Array) -> Guesses:
        """Right and wrong guesses from scores; of coupled runs the pairs that met the
        rule on one side only, and on both."""
        if self.is_coupled:
            return self.rule.count_pairs(first, second)
        return (*self.rule.count(first, second), 0)


def hide(rows: Rows, hidden: tuple[int, ...]) -> Rows:
    """The same rows with 0 in the hidden coordinates."""
    if not hidden:
        return rows
    visible = rows.copy()
    visible[:, list(hidden)] = 0.0
    return visible


class Tally:
    """What one attack guessed, and how its scores fall between cuts."""

    def __init__(self, attack: Attack) -> None:
        cuts = np.unique(np.array([*attack.cuts, attack.rule.high, attack.rule.low]))
        self.attack, self.cuts = attack, cuts[np.isfinite(cuts)]
        self.counts = np.zeros((len(self.cuts) + 1, 2), np.int64)
        self.guesses: Guesses = (0, 0, 0)

    def count(self, first: Rows, second: Rows) -> tuple[Any, Guesses]:
        scores = self.attack.score(first), self.attack.score(second)
        bins = [
            np.bincount(np.searchsorted(self.cuts, side_scores, side="right"), minlength=len(self.counts))
            for side_scores in scores
        ]
        return np.stack(bins, axis=1), self.attack.guesses(*scores)

    def add(self, counts: Any, guesses: Guesses) -> None:
        self.counts += counts
        right, wrong, both = self.guesses
        self.guesses = right + guesses[0], wrong + guesses[1], both + guesses[2]
