"""`deniable audit` of systems that are not ours: a command, an address, a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deniable.audit import Finding, audit
from deniable.audit.system import Command, Paced, Recorded, Sql, Url, plan, runs_needed
from deniable.cli import show
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget

EASY = 4
"""Times as many runs as the easiest target of a plan would need."""
NEIGHBOURS = "A system is audited on two neighbours: add --data FIRST SECOND and --epsilon. Nothing was run."


@dataclass(frozen=True)
class System:
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
        return (self.command or self.url or self.query or "")[:60]

    def attack(self, claim: Budget | None, options: Mapping[str, Any]) -> Finding:
        """Audit it, with runs enough to see twice the claim unless --samples says otherwise."""
        if claim is None or self.data is None:
            raise InvalidParameter(
                "A system is audited on two neighbours: add --data FIRST SECOND and --epsilon. Nothing was run."
            )
        if sum(bool(one) for one in (self.command, self.url, self.sql)) > 1:
            raise InvalidParameter("Expected one of --command, --url and --sql. Nothing was run.")
        if self.rate is not None and not self.rate > 0:
            raise InvalidParameter(f"Expected --rate {self.rate:g} above 0. Nothing was run.")
        target = self.target()
        if self.resume is not None:
            about = f"{self.command or self.url or self.query} on {self.data[0]} and {self.data[1]}"
            target = Recorded(target, self.resume, about)
        if self.resume is not None or options["samples"] is None:
            needed = options["samples"] or EASY * runs_needed(claim, 2 * float(claim.epsilon), options["confidence"])
            options = {**options, "samples": needed}
        found = audit(target, self.data, claim, name=self.name, workers=1, **options)
        made = asdict(replace(self, resume=None))
        return replace(found, options={**(found.options or {}), "system": made})

    def target(self) -> Any:
        """What is run, at its pace."""
        plain = self._plain()
        return plain if self.rate is None else Paced(plain, self.rate)

    def _plain(self) -> Any:
        if self.command:
            return Command(self.command)
        if self.url:
            return Url(self.url, self.method.upper(), self.path, body=self.method.upper() == "POST")
        return Sql(str(self.sql), self.query or "")


def show_plan(claim: Budget | None, confidence: float, json: bool) -> None:
    """How many runs could tell which true ε from the claim."""
    if claim is None:
        raise InvalidParameter("A plan is made for a claim: add --epsilon (and --delta). Nothing was run.")
    planned = plan(claim, confidence)
    if json:
        show.as_json({"plan": [{"epsilon": epsilon, "runs": runs} for epsilon, runs in planned]})
        return
    show.say(
        f"Runs that could tell a true ε from the claimed {claim}, at confidence {confidence:g}, on the easiest target:",
        "",
    )
    show.table(("true ε", "runs"), [(f"{epsilon:.4g}", f"{runs:,}") for epsilon, runs in planned], right=(0, 1))
