"""The audit of a system that is not ours, by words alone: a command, an address or a
database, and two neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deniable.audit.finding import Finding
from deniable.audit.sniper import audit
from deniable.audit.system import (
    Command,
    Paced,
    Recorded,
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


def _silently(_: str) -> None:
    """For those who do not listen."""


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

    @property
    def given(self) -> bool:
        return any((self.command, self.url, self.sql))

    @property
    def name(self) -> str:
        return (self.command or without_password(self.url) or self.query or "")[:60]

    @property
    def told(self) -> dict[str, Any]:
        """What a finding says of it, enough to run it again; without passwords, since a finding is handed
        in."""
        open_words = replace(
            self, resume=None, sql=without_password(self.sql), url=without_password(self.url)
        )
        return asdict(open_words)

    @property
    def about(self) -> str:
        """What runs that are kept are of: all that an output depends on, without passwords."""
        asks = [self.command, without_password(self.url), without_password(self.sql), self.query]
        if self.url:
            asks += [self.method.upper(), self.path]
        return " ".join(filter(None, asks)) + f" on {' and '.join(self.data or ())}"

    def attack(
        self,
        claim: Budget | None,
        options: Mapping[str, Any],
        tell: Callable[[str], None] = _silently,
    ) -> Finding:
        """Audit it, with runs enough to see twice the claim unless --samples says otherwise. `tell` hears
        before the first run how many are planned, and how many are there already."""
        if claim is None or self.data is None:
            raise InvalidParameter(NEIGHBOURS)
        self._refuse()
        target = self.target()
        if self.resume is not None:
            target = Recorded(target, self.resume, self.about)
            if target.count:
                tell(f"{target.count:,} runs are kept from before; they are not made again.")
        if options["samples"] is None:
            twice = 2 * float(claim.epsilon)
            options = {**options, "samples": EASY * runs_needed(claim, twice, options["confidence"])}
        tell(self._planned(claim, options["samples"], options["confidence"]))
        finding = audit(target, self.data, claim, name=self.name, workers=1, **options)
        return replace(finding, options={**(finding.options or {}), "system": self.told})

    def _planned(self, claim: Budget, runs: int, confidence: float) -> str:
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
        if self.rate is not None and not self.rate > 0:
            raise InvalidParameter(f"Expected --rate {self.rate:g} above 0. Nothing was run.")

    def target(self) -> Any:
        """What is run, at its pace."""
        target = self._at_once()
        return target if self.rate is None else Paced(target, self.rate)

    def _at_once(self) -> Any:
        if self.command:
            return Command(self.command)
        if self.url:
            return Url(self.url, self.method.upper(), self.path, body=self.method.upper() == "POST")
        return Sql(str(self.sql), self.query or "")
