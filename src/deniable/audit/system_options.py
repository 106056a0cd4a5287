"""The audit of a system that is not ours, by words alone: a command, an address or a
database, and two neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from deniable.audit.finding import Finding, Verdict
from deniable.audit.runs.worker import attempt
from deniable.audit.sniper import audit
from deniable.audit.sniper.audits import LEAST_SAMPLES, LOOK, too_little, too_slow
from deniable.audit.sniper.claims import limits_of
from deniable.audit.sniper.constants import ask_copies
from deniable.audit.system import (
    Command,
    Paced,
    Recorded,
    Renewed,
    Sql,
    Url,
    runs_needed,
    smallest_seen,
    without_password,
)
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget

EASY = 4
"""Times as many runs as the easiest target of a plan would need."""
NEIGHBOURS = "A system is audited on two neighbours: add --data FIRST SECOND and --epsilon. Nothing was run."


HEADROOM = 1.2
"""Planned seconds for a run, over those of a measured one."""


def copy_name(data: str, number: int) -> str:
    """The name of a copy of a neighbour: a number before what a file's name ends with.

    >>> copy_name("with.csv", 3), copy_name("made_up.with_her", 3)
    ('with_3.csv', 'made_up.with_her_3')
    """
    stem, dot, ending = data.rpartition(".")
    if dot and ending in ("csv", "tsv", "json", "parquet", "txt"):
        return f"{stem}_{number}.{ending}"
    return f"{data}_{number}"


def _silently(_: str) -> None:
    """Tell nothing, for those who do not listen."""


@dataclass(frozen=True)
class SystemOptions:
    """What the options say about a system."""

    command: str | None
    url: str | None
    sql: str | None
    query: str | None
    data: tuple[str, str] | None
    method: str
    path: str
    rate: float | None
    resume: Path | None
    fresh: str | None = None
    copies: int | None = None

    @property
    def is_given(self) -> bool:
        return any((self.command, self.url, self.sql))

    @property
    def name(self) -> str:
        return (self.command or without_password(self.url) or self.query or "")[:60]

    @property
    def open_options(self) -> dict[str, Any]:
        """What a finding says of it, enough to run it again; without passwords, since a finding is handed
        in."""
        open_words = replace(
            self, resume=None, sql=without_password(self.sql), url=without_password(self.url)
        )
        return asdict(open_words)

    @property
    def subject(self) -> str:
        """What runs that are kept are of: all that an output depends on, without passwords."""
        asks = [self.command, without_password(self.url), without_password(self.sql), self.query]
        if self.url:
            asks += [self.method.upper(), self.path]
        if self.fresh:
            asks.append(f"renewed by {self.fresh}")
        return " ".join(filter(None, asks)) + f" on {' and '.join(self.data or ())}"

    def attack(
        self,
        claim: Budget | None,
        options: Mapping[str, Any],
        tell: Callable[[str], None] = _silently,
        clock: Callable[[], float] = monotonic,
    ) -> Finding:
        """Audit it, with runs enough to see twice the claim, but no more than fit into --time, unless
        --samples says otherwise. `tell` hears before the first run how many are planned, and how many are
        there already."""
        if claim is None or self.data is None:
            raise InvalidParameter(NEIGHBOURS)
        self._refuse()
        start = clock()
        system = self.target()
        target = system
        if self.resume is not None:
            target = Recorded(system, self.resume, self.subject)
            if target.count:
                tell(f"{target.count:,} runs are kept from before; they are not made again.")
        if options["samples"] is None:
            runs = self._affordable(claim, options, target, clock)
            options = {**options, "samples": runs, "limit": options["time"] - (clock() - start)}
            if runs < LEAST_SAMPLES:
                limit, reason = limits_of(claim)[0], too_slow(runs, options["time"])
                return too_little(self.name, limit, options["confidence"], reason)
        tell(self._plan_text(claim, options["samples"], options["confidence"]))
        finding = audit(target, self.data, claim, name=self.name, workers=1, clock=clock, **options)
        if self.copies and finding.verdict is Verdict.VIOLATION_IF:
            finding = self._ask_copies(finding, system)
        return replace(finding, options={**(finding.options or {}), "system": self.open_options})

    def _affordable(
        self, claim: Budget, options: Mapping[str, Any], target: Any, clock: Callable[[], float]
    ) -> int:
        """Runs enough to see twice the claim, or as many as fit into the time beside those that are kept."""
        twice = EASY * runs_needed(claim, 2 * float(claim.epsilon), options["confidence"])
        if isinstance(target, Recorded):
            return target.count + min(twice, self._fitting(target.system, options["time"], clock))
        return min(twice, self._fitting(target, options["time"], clock))

    def _fitting(self, target: Any, seconds: float, clock: Callable[[], float]) -> int:
        """How many runs fit into the time, by a run on each neighbour that is used for nothing else."""
        start = clock()
        for data in self.data or ():
            attempt(target, data)
        each = (clock() - start) / 2
        return int((seconds - 2 * each) / max(HEADROOM * each, 1e-6))

    def _ask_copies(self, finding: Finding, target: Any) -> Finding:
        """A "violation if", decided by copies of the neighbours under new names."""
        first, second = self.data or ("", "")
        names = [(copy_name(first, i), copy_name(second, i)) for i in range(1, (self.copies or 0) + 1)]
        options = finding.options or {}
        return ask_copies(finding, target, names, options["seed"], options.get(LOOK))

    def _plan_text(self, claim: Budget, runs: int, confidence: float) -> str:
        pace = ""
        if self.rate is not None:
            pace = f", at most {self.rate:g} a second (about {math.ceil(runs / self.rate):,} s)"
        smallest = smallest_seen(claim, runs, confidence)
        return (
            f"Planned: {runs:,} runs{pace}. On the easiest target they tell ε = {smallest:.3g} from the "
            f"claimed {claim}; --plan says how many others need."
        )

    def _refuse(self) -> None:
        if sum(map(bool, (self.command, self.url, self.sql))) > 1:
            raise InvalidParameter("Expected one of --command, --url and --sql. Nothing was run.")
        if self.copies is not None and self.copies < 1:
            raise InvalidParameter(f"Expected --copies {self.copies} of at least 1. Nothing was run.")
        if self.rate is not None and not self.rate > 0:
            raise InvalidParameter(f"Expected --rate {self.rate:g} above 0. Nothing was run.")

    def target(self) -> Any:
        """What is run, at its pace."""
        target = self._make_system()
        if self.fresh is not None:
            target = Renewed(target, self.fresh)
        return target if self.rate is None else Paced(target, self.rate)

    def _make_system(self) -> Any:
        if self.command:
            return Command(self.command)
        if self.url:
            return Url(self.url, self.method.upper(), self.path, body=self.method.upper() == "POST")
        return Sql(str(self.sql), self.query or "")
