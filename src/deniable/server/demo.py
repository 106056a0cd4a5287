"""A made-up hospital behind a service: three people, a data set, some questions. For a first look, and for
nothing that is private."""

from __future__ import annotations

import socket
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq

from deniable.curator.question import Question
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.server import audits
from deniable.server.console.pages.ask import START
from deniable.server.console.recent import remember
from deniable.server.data.declaration import Declaration
from deniable.server.people.rights import Caller, Role
from deniable.server.service import Service
from deniable.server.settings import Address, Engines, Settings
from deniable.units import Unit

SCHEMA = """
tables:
  visits:
    unit: patient_id
    columns:
      patient_id: integer
      age: {type: integer, bounds: [0, 100]}
      sex: {type: text, keys: [F, M]}
      ward: {type: text, keys: [emergency, medicine, surgery, children, eyes]}
      diagnosis: text
      admitted: date
      days: {type: integer, bounds: [0, 60]}
      cost: {type: integer, bounds: [0, 50000]}
"""
PEOPLE = (("olga", Role.OWNER), ("ada", Role.ANALYST), ("vera", Role.AUDITOR))
QUESTIONS = (
    ("SELECT COUNT(*) AS visits\nFROM visits", "0.05"),
    ("SELECT ward, COUNT(*) AS visits\nFROM visits\nGROUP BY ward", "0.2"),
    ("SELECT ward, sex, AVG(days) AS days\nFROM visits\nGROUP BY ward, sex", "0.4"),
    (
        "SELECT MONTH(admitted) AS month, COUNT(*) AS visits\nFROM visits\nWHERE age >= 60\nGROUP BY month",
        "0.3",
    ),
)
PORT = 8000
LIMIT, PART = Budget(6, 1e-6), Budget(3, 1e-7)
Tell = Callable[[str], None]


def settings(folder: Path, port: int | None = None) -> Settings:
    """Settings for a folder of its own, on loopback: at the usual port where that is free."""
    return Settings(
        folder=folder / "state",
        roots=(folder / "data",),
        http=Address("127.0.0.1", _free(PORT) if port is None else port),
        wire=Address("127.0.0.1", 0),
        engines=Engines(threads=1),
    )


def _free(port: int) -> int:
    """This port, or any where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def fill(service: Service, tell: Tell, *, patients: int = 20_000) -> dict[str, str]:
    """Make people, data, a part and some answers; the one-time passwords by name."""
    data = service.settings.roots[0]
    data.mkdir(parents=True, exist_ok=True)
    tell(f"Making up the visits of {patients:,} patients")
    pq.write_table(visits(patients), data / "visits.parquet")
    roster, (owner, *others) = service.roster, PEOPLE
    first = roster.first_owner(owner[0])
    passwords = {}
    if first is not None:
        passwords = {owner[0]: first}
    passwords |= {name: roster.add(owner[0], name, (role,)) for name, role in others}
    callers = {name: Caller(name, frozenset({role})) for name, role in PEOPLE}
    tell("Registering the data set visits")
    unit = Unit.column("patient_id", max_rows=4)
    declaration = Declaration.declare("visits", {"visits": "visits.parquet"}, SCHEMA, unit, LIMIT)
    service.register(callers["olga"], declaration)
    service.grant(callers["olga"], "visits", "ada", PART)
    for i, (text, epsilon) in enumerate(QUESTIONS, 1):
        tell(f"Asking question {i} of {len(QUESTIONS)}")
        _ask(service, callers["ada"], text, epsilon)
    tell("Attacking one of the questions on made-up tables")
    audits.run(service, callers["vera"], "visits", QUESTIONS[0][0], Fraction(1, 20), Fraction(0))
    return passwords


def _ask(service: Service, caller: Caller, text: str, epsilon: str) -> None:
    question = Question.read(text, epsilon=epsilon)
    answer = service.ask(caller, "visits", question)
    entry = int((answer.entry or "0").partition(":")[0])
    form = START | {"sql": text, "epsilon": epsilon}
    remember(service.state, caller.name, "visits", question, form, entry, answer.epsilon)
