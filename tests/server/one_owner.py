"""A service as one owner meets it who wants more than is hers: every act of hers, through the real routes, from
every state that she can bring it to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

from deniable.curator.question import Question
from deniable.errors import DeniableError
from deniable.guarantee import Budget
from deniable.server.data.declaration import Declaration
from deniable.server.people.logins import AT_THE_SHELL
from deniable.server.people.membership import LoginOutcome
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.people.roster import Roster
from deniable.server.people.secrets import digest
from deniable.server.service import Service
from deniable.units import Unit
from tests.server.hospital import settings

SCHEMA = "tables: {t: {unit: who, columns: {who: integer, x: {type: integer, bounds: [0, 9]}}}}"
PROPOSALS = "SELECT id, act, about, person, terms FROM proposals"
UNIT = Unit.column("who", max_rows=1)
MORE = Declaration.declare("more", {"t": "more.csv"}, SCHEMA, UNIT, Budget(1_000_000, 1e-6))
PASSWORD = "correct horse battery"
MIA, OLGA, ADA, EVA = "mia", "olga", "ada", "eva"
PUPPETS = ("pia", "pim")
"""Whom she makes up. Two are enough for one to act on the other; they are told apart by nothing but their names."""
SUBJECTS = {name: f"subject of {name}" for name in PUPPETS} | {
    OLGA: "evil olga",
    ADA: "evil ada",
    MIA: "evil mia",
    EVA: "evil eva",
}
"""Accounts at the provider that are hers."""


@dataclass(frozen=True)
class Act:
    """A call of the service that a door makes for whoever `who` is logged in as."""

    who: str
    name: str
    args: tuple[Any, ...] = ()
    terms: tuple[tuple[str, Any], ...] = ()


@dataclass
class Known:
    """What she has in her hands, by person."""

    passwords: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Known:
        return Known(dict(self.passwords), dict(self.sessions), dict(self.tokens))


@dataclass(frozen=True)
class World:
    """The service at one moment, to come back to."""

    state: bytes
    ledger: bytes
    tip: Any
    known: Known


class Bench:
    """The service and its databases in memory."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._state = service.state._engine.raw_connection().driver_connection
        self._ledger = service.ledger._journal.store.engine.raw_connection().driver_connection
        self.known = Known()
        self.calls = 0
        self._standings: Any = None

    def save(self) -> World:
        tip = self.service.ledger._journal._tip
        return World(self._state.serialize(), self._ledger.serialize(), tip, self.known.copy())

    def load(self, world: World) -> None:
        self._state.deserialize(world.state)
        if self.service.ledger._journal._tip != world.tip:
            self._ledger.deserialize(world.ledger)
            self.service.ledger._journal._tip = world.tip
        self.known = world.known.copy()

    @property
    def moment(self) -> tuple[int, Any]:
        """What changes with any change."""
        return self._state.total_changes, self.service.ledger._journal._tip

    def callers(self) -> dict[str, Caller]:
        """Whom she can be now, as a door would see her."""
        return {who: self.service.roster.session(secret) for who, secret in self.known.sessions.items()}

    def do(self, act: Act, caller: Caller) -> Any:
        """What a door does for her. A refusal is the error."""
        self.calls += 1
        try:
            return attrgetter(act.name)(self.service)(caller, *act.args, **dict(act.terms))
        except DeniableError as error:
            return error

    # ---------------------------------------------------------------------------------------- what she learns

    def rows(self, query: str) -> list[Any]:
        """Straight from the database in memory: it is looked into after each act."""
        return self._state.execute(query).fetchall()

    def learn(self, act: Act, outcome: Any) -> None:
        """Use at once, and for nothing, whatever way in an act gave: a password, a link that is hers."""
        if isinstance(outcome, LoginOutcome) and outcome.proposal is None and outcome.secret is not None:
            self.known.passwords[act.args[0]] = outcome.secret
        self._forget_ended()
        for name in set(self.known.passwords) - set(self.known.sessions):
            with suppress(DeniableError):
                self.come_in(name)
        for subject, person in self.rows("SELECT subject, person FROM identities"):
            login = None
            if subject in SUBJECTS.values() and person not in self.known.sessions:
                login = self.service.roster.log_in_subject(subject)
            if login is not None:
                self.known.sessions[person] = login[0]

    def come_in(self, name: str) -> None:
        roster = self.service.roster
        secret, caller = roster.login(name, self.known.passwords[name])
        if caller.must_change:
            secret = roster.set_password(secret, None, PASSWORD)
            self.known.passwords[name] = PASSWORD
        self.known.sessions[name] = secret
        self.known.tokens[name] = roster.new_token(
            roster.session(secret), "", sorted(caller.rights), 3600
        ).text

    def _forget_ended(self) -> None:
        """Sessions and tokens that are there no longer, or whose person was sent away."""
        away = {name for (name,) in self.rows("SELECT name FROM people WHERE disabled")}
        sessions = {digest for (digest,) in self.rows("SELECT digest FROM sessions")}
        tokens = {digest for (digest,) in self.rows("SELECT digest FROM tokens")}
        for secrets, present in ((self.known.sessions, sessions), (self.known.tokens, tokens)):
            for name, secret in list(secrets.items()):
                if name in away or digest(secret) not in present:
                    del secrets[name]

    # ---------------------------------------------------------------------------------------- what stays

    def protected(self) -> Any:
        """What one owner alone must leave as it was: every limit; others' data; who may come in as others."""
        return (
            self._accounts(),
            self.rows("SELECT * FROM datasets ORDER BY name"),
            self.rows(f"SELECT password FROM people WHERE name IN ('{OLGA}', '{ADA}')"),
            self.rows(
                f"SELECT * FROM identities WHERE person IN ('{OLGA}', '{ADA}') AND subject LIKE 'evil%'"
            ),
        )

    def _accounts(self) -> Any:
        tip = self.service.ledger._journal._tip
        if self._standings is None or self._standings[0] != tip:
            accounts = {each.name: each.standing() for each in self.service.ledger.accounts()}
            hers = {name: each._replace(seq=0) for name, each in accounts.items() if name.startswith("hers")}
            mine = [(accounts[name].owner, accounts[name].filter_json) for name in ("mine", f"mine/{ADA}")]
            self._standings = (tip, (hers, mine))
        return self._standings[1]

    def proposals(self) -> list[str]:
        return [number for (number,) in self.rows("SELECT id FROM proposals")]

    def forget_older_twins(self) -> None:
        """Of proposals with the same content, the last is the easiest to agree to."""
        rows = self.rows(f"{PROPOSALS} ORDER BY seq")
        last = {content(row): row[0] for row in rows}
        for number in {row[0] for row in rows} - set(last.values()):
            self._state.execute("DELETE FROM proposals WHERE id = ?", (number,))

    def owners(self) -> set[str]:
        rows = self.rows("SELECT name, roles FROM people WHERE NOT disabled")
        return {name for name, roles in rows if Role.OWNER in roles.split()}


class Eva(StrEnum):
    """A third owner, who has a password of her own, and whom the first one linked to an account of hers while no
    second person was asked for."""

    NOBODY = "there is none"
    LINKED = "she is an owner"
    AWAY = "she was sent away"


@contextmanager
def bench(folder: Path, eva: Eva = Eva.NOBODY) -> Iterator[Bench]:
    """Two owners whom the operator let in, each with data of her own; an analyst with a part of both, who
    is away: every act that would let her in is open in every state."""
    (folder / "data").mkdir(exist_ok=True)
    for name in ("mine", "hers", "more"):
        (folder / "data" / f"{name}.csv").write_text("who,x\n1,2\n", encoding="utf-8")
    service = Service(settings(folder, second_person=True, ledger="sqlite://", state="sqlite://"))
    made = Bench(service)
    try:
        first = service.roster.first_owner(MIA)
        assert first is not None
        service.roster.add("operator", OLGA, ["owner"], consent=AT_THE_SHELL)
        service.roster.add("operator", ADA, ["analyst"], consent=AT_THE_SHELL)
        service.roster.link("operator", OLGA, "olga at home", consent=AT_THE_SHELL)
        for name, owner in (("mine", MIA), ("hers", OLGA)):
            service._register(
                owner, Declaration.declare(name, {"t": f"{name}.csv"}, SCHEMA, UNIT, Budget(1, 1e-6))
            )
            caller = Caller(owner, frozenset({Role.OWNER}))
            service.grant(caller, name, ADA, Budget(0.5, 1e-7))
        service.roster.change("operator", ADA, disabled=True)
        if eva is not Eva.NOBODY:
            service.roster.add("operator", EVA, ["owner"], consent=AT_THE_SHELL)
            Roster(service.state, service.key, session_seconds=60).link(MIA, EVA, SUBJECTS[EVA])
            service.roster.change("operator", EVA, disabled=eva is Eva.AWAY)
        # Whether a source can be opened is no guard of these: it only takes long.
        vars(service.shelf)["check"] = lambda declaration: {}
        made.known.passwords[MIA] = first
        made.come_in(MIA)
        made.learn(Act(MIA, "come in"), None)
        yield made
    finally:
        service.close()


# ------------------------------------------------------------------------------------------------ her acts


def acts(bench: Bench, callers: dict[str, Caller]) -> Iterator[Act]:
    """Every act that she can try now, as each of those whom she can be. As one who manages nothing she tries each
    kind once: whom it is about is not looked at before she is refused."""
    people = [name for (name,) in bench.rows("SELECT name FROM people ORDER BY name")]
    for who, caller in sorted(callers.items()):
        tried: set[str] = set()
        for act in (*_people_acts(who, people), *_data_acts(who, people)):
            if caller.may(Right.MANAGE) or act.name not in tried:
                yield act
            tried.add(act.name)


def _people_acts(who: str, people: list[str]) -> Iterator[Act]:
    fresh = next((name for name in PUPPETS if name not in people), None)
    if fresh is not None:
        for roles in (["owner"], ["analyst"]):
            yield Act(who, "membership.add", (fresh, roles))
        for roles in (["owner"], ["analyst"]):
            yield Act(who, "membership.add", (fresh, roles, SUBJECTS[fresh]))
    for name in people:
        for roles, disabled in (
            (None, False),
            (["owner"], None),
            (["owner"], False),
            (None, True),
            (["analyst"], None),
        ):
            if name != who or disabled is None or roles is not None:
                yield Act(who, "membership.change", (name,), (("roles", roles), ("disabled", disabled)))
        yield Act(who, "membership.reset", (name,))
        for subject in (SUBJECTS[name], None):
            yield Act(who, "membership.link", (name, subject))
    yield Act(who, "membership.end_sessions", (OLGA,))


def _data_acts(who: str, people: list[str]) -> Iterator[Act]:
    for data in ("mine", "hers"):
        yield Act(who, "set_version", (data, "2"))
        for to in (MIA, OLGA, *set(people[-1:]) & set(PUPPETS)):
            yield Act(who, "hand_over", (data, to))
        for analyst in (None, ADA) if data == "mine" else (None,):
            yield Act(who, "raise_limit", (data, analyst, Budget(1_000_000, 1e-6), "more"))
        yield Act(who, "unfreeze", (data, None, "more"))
    yield Act(who, "register", (MORE,))
    question = Question.read("SELECT COUNT(*) FROM t", epsilon="0.1")
    yield Act(who, "ask", ("hers", question))
    yield Act(who, "grant", ("hers", who, Budget(0.5, 1e-7)))
    yield Act(who, "freeze", ("hers", None, "more"))


def canonical(bench: Bench) -> Any:
    """A state without numbers, times and secrets, and with people whom she made up by what they are, not by name.
    Of the others' ways in it counts whether they are hers."""
    known, people = bench.known, []
    for name, roles, disabled, hands in bench.rows("SELECT name, roles, disabled, hands FROM people"):
        hers = tuple(name in each for each in (known.passwords, known.sessions, known.tokens))
        people.append((nameless(name), roles, disabled, nameless(hands), hers))
    links = [nameless(person) for (person,) in bench.rows("SELECT person FROM identities") if person != OLGA]
    pending = frozenset(nameless(content(row)) for row in bench.rows(PROPOSALS))
    return tuple(sorted(people)), tuple(sorted(links)), pending


def nameless(text: str) -> str:
    return re.sub("|".join(PUPPETS), "puppet", text)


def content(row: Any) -> str:
    """What is proposed, without its number and the half of a password."""
    terms = {name: value for name, value in json.loads(row[4]).items() if name != "half"}
    return f"{row[1]} {row[2]} {row[3]} {json.dumps(terms, sort_keys=True)}"


# ------------------------------------------------------------------------------------------------ the search


@dataclass
class Search:
    """Breadth first. What only adds (a proposal) is kept beside everything else of its state, and costs nothing:
    it never stands in the way of an act. So each level is an act that changes more than that."""

    bench: Bench
    seen: set[Any] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    def run(self, depth: int, *, agree_last: bool = False) -> list[int]:
        """How many new states each level has. With `agree_last` every consent is tried after the last act too."""
        start = self.bench.protected(), self.bench.owners()
        level, sizes = [self.bench.save()], []
        self.seen.add(canonical(self.bench))
        for left in reversed(range(depth)):
            level = [world for before in level for world in self._after(before, start, agree=bool(left))]
            sizes.append(len(level))
        for world in level if agree_last else ():
            self.bench.load(world)
            self._agree(self.bench.callers())
        return sizes

    def _after(self, world: World, start: Any, *, agree: bool) -> Iterator[World]:
        """The states that one act leads to and that were not seen before. A proposal and the consent to it are two
        acts: at the last level there is room for one."""
        bench = self.bench
        bench.load(world)
        bench.forget_older_twins()
        callers, now = bench.callers(), canonical(bench)
        for act in list(acts(bench, callers)):
            before = bench.moment
            outcome = bench.do(act, callers[act.who])
            self.kinds.add(act.name)
            if bench.moment == before:
                continue
            bench.learn(act, outcome)
            self._check(act, start)
            after = canonical(bench)
            if after[:-1] == now[:-1]:
                world = bench.save()  # a proposal
                continue
            if after not in self.seen:
                self.seen.add(after)
                yield bench.save()
            bench.load(world)
        if agree:
            bench.forget_older_twins()
            self._agree(callers)

    def _agree(self, callers: dict[str, Caller]) -> None:
        """Nobody whom she can be is a second person for any proposal."""
        for i, number in enumerate(self.bench.proposals()):
            for who, caller in callers.items():
                if i and not caller.may(Right.MANAGE):
                    continue
                act = Act(who, "agree", (number,))
                outcome = self.bench.do(act, caller)
                assert isinstance(outcome, DeniableError), (act, outcome)

    def _check(self, act: Act, start: Any) -> None:
        facts, owners = start
        assert self.bench.protected() == facts, act
        assert self.bench.owners() <= owners, act
        assert not {OLGA, ADA} & {*self.bench.known.sessions, *self.bench.known.tokens}, act
