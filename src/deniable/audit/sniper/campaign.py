"""The samples of one audit, what was seen in them so far, and how its error is shared out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from deniable.audit.levels import Levels
from deniable.audit.rules.support import UNSEEN, Support
from deniable.audit.runs.independence import SHARE, Constant, Record, constants, rest_changes
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.restart import explain_no_restart
from deniable.audit.runs.source import Source
from deniable.audit.runs.target import INSIDE, column_paths
from deniable.audit.sniper.attack import Attack
from deniable.audit.sniper.claims import ClaimLimit

Progress = Callable[[float, str], None]

EXPLORE = 0.2
"""The share of all samples that is spent before the certifying ones."""
EXPLORE_MORE, MANY = 0.4, 1_000_000
"""The same for coupled runs and for many samples: certificates are narrow then, and
finding the best event matters more."""
FORGIVEN = 0.01
"""A δ from which on outputs that only one neighbour gives are not looked for by themselves."""


@dataclass(frozen=True)
class Campaign:
    """One audit: its source of runs, what is claimed, the error it may make, and how many runs it has."""

    source: Source
    limits: list[ClaimLimit]
    levels: Levels
    total: int
    tell: Progress
    choosing: dict[str, Record] = field(default_factory=dict)
    """The outputs that chose a rule on each pair."""

    constants: dict[str, list[Constant]] = field(default_factory=dict)
    """Coordinates that never change and give the neighbours away, by pair, where the target may remember them
    while the rest of its output changes."""

    rare: dict[str, Support] = field(default_factory=dict)
    """What was seen on one neighbour alone, by pair."""

    shown_runs: int = 0
    """Runs that an earlier look has shown somebody: they choose an attack, and certify nothing again."""

    @property
    def alpha(self) -> float:
        """The error of all that is certified."""
        return self.levels.alpha

    @property
    def share(self) -> float:
        """What is left of an error for the certificate of a chosen attack."""
        return 1 - SHARE - UNSEEN * self.looks_for_rare

    @property
    def accusing(self) -> float:
        """The error of an accusation by a chosen attack, which is chosen for it."""
        return self.share * self.levels.accusing

    @property
    def looks_for_rare(self) -> bool:
        """A δ forgives what is rare: then there is no error to be kept for it."""
        return min(limit.delta for limit in self.limits) < FORGIVEN

    @property
    def certifying(self) -> int:
        """How many samples are kept for the certificate, at least."""
        share = EXPLORE
        if self.source.coupled or self.total >= MANY:
            share = EXPLORE_MORE
        return max(1, min(int((1 - share) * self.total), self.total - self.shown_runs))

    def hide_constants(self, pair: Pair, record: Record) -> tuple[int, ...]:
        """The coordinates that attacks on this pair do not look at: what never changes may be remembered."""
        places = constants(record.first, record.second)
        if not places or explain_no_restart(self.source.target) is None:
            return ()
        if not rest_changes(record.first, record.second, places):
            return ()
        self.constants[pair.name] = places
        hidden = {constant.column for constant in places}
        columns = column_paths(self.source.target)
        texts = {columns[column].partition(INSIDE)[0] for column in hidden if column < len(columns)}
        return tuple(sorted(hidden | {i for i, path in enumerate(columns) if path in texts}))

    def claim_at(self, attack: Attack) -> float:
        """The ε that is claimed at the δ of an attack."""
        return next(limit.epsilon for limit in self.limits if limit.delta == attack.delta)
