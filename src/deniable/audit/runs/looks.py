"""Looks at runs that are kept: each verdict on them is counted, so that all of them share one error.

Somebody who sees a verdict and goes on if she does not like it has looked twice. The k-th look has the part
6/(π²k²) of the error (`levels.look_share`), and only runs that no earlier look has shown certify anything.
Given all that was shown before, these runs are fresh. So it does not matter how the number of runs, the seed
or the claim of a look were chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from deniable.audit.levels import look_share


@dataclass(frozen=True)
class LookTerms:
    """What a look depends on, beside the runs: the same terms on the same runs are the same look."""

    seed: int
    samples: int
    confidence: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Look:
    """The `number`-th look at kept runs; earlier ones have shown the first `shown_runs` of them."""

    number: int
    shown_runs: int
    is_repeat: bool = False
    """Whether this very look was there before: then it says the same, and is not counted twice."""

    @property
    def share(self) -> float:
        """Its part of the error."""
        return look_share(self.number)

    @property
    def sentence(self) -> str:
        """What a report says about it."""
        times = f"This is look {self.number} at the runs of one file."
        if self.number == 1:
            return f"{times} It spends {self.share:.0%} of the error, and the rest is left for later looks."
        return (
            f"{times} It spends {self.share:.1%} of the error, and the {self.shown_runs:,} runs that earlier "
            "looks have shown chose the attack but did not certify."
        )


class LookBook(ABC):
    """A target that keeps its runs and counts the looks at them."""

    @property
    @abstractmethod
    def seed(self) -> int | None:
        """The seed of the audit that these runs were made for; None if there is none yet."""

    @abstractmethod
    def open_look(self, terms: LookTerms) -> Look:
        """The look that begins now."""

    @abstractmethod
    def skip_shown(self) -> None:
        """From here on give only outputs that no earlier look has shown."""

    @abstractmethod
    def close_look(self, look: Look, terms: LookTerms, verdict: str) -> None:
        """Keep that this look was taken, before anybody hears of its verdict."""
