"""Where a second person must agree, one owner alone passes nothing: a search over all states that her acts lead to,
and a list of acts that is read from the code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable import server
from deniable.cli import serve
from deniable.errors import Forbidden
from deniable.server.people.roster import Roster
from tests.meta.source import parse
from tests.server.one_owner import EVA, Act, Eva, Search, acts, bench

SOURCE = Path(inspect.getfile(server)).parent
DOORS = ("http", "console", "wire")

SEARCHED = {
    "membership.add", "membership.change", "membership.reset", "membership.link", "membership.end_sessions",
    "set_version", "hand_over", "raise_limit", "unfreeze", "grant", "freeze", "ask", "register",
    "agree",
}  # fmt: skip
"""What the search does in every state."""
BESIDE = {
    "drop": "takes a proposal away; more of them never help less",
    "roster.login": "done at once for whatever password is known",
    "roster.set_password": "done at once for whatever one-time password is known",
    "roster.log_in_subject": "done at once for whatever link is hers",
    "roster.new_token": "a token of one's own is made at once for whoever she can be",
    "roster.revoke": "takes a token away",
    "roster.end": "ends a session of one's own",
    "roster.end_all": "ends all sessions of one's own",
    "asking": "the same question as `ask`, on its way",
    "preview": "free, and opens nothing",
    "find_kept_answer": "gives what was paid for",
    "test": "registers nothing",
    "warning": "looks at content, for an owner",
    "verify": "reads",
    "mark_head": "remembers how far the ledger came",
}
"""What she can do beside, and why it is no act of the search."""
READS = {
    "account", "acts", "certificate", "close", "curator", "datasets", "describe", "files", "history", "key", "ledger",
    "ledger.account", "ledger.head", "parts", "provider", "roster", "roster.csrf", "roster.people", "roster.session",
    "roster.sessions", "roster.tokens", "roster.token", "roster.proof", "roster.salt", "roster.refresh_caller", "schema",
    "settings", "shelf", "state", "throttle", "waiting", "membership", "ask", "may_ask", "find_problems",
}  # fmt: skip
"""What changes nothing of people, limits and data."""
ROOMS = {"roster", "ledger", "shelf", "membership", "state"}
"""Parts of the service of which each method is looked at by itself."""
WRITERS = {
    "audits._keep", "console.recent.remember", "data.shelf.Shelf.register", "data.shelf.Shelf.set_version",
    "data.shelf.Shelf.hand_over", "http.jobs.Jobs._insert_job", "http.jobs.Jobs._end_job", "people.keys.rotate",
    "people.proposals.Proposals.add", "people.proposals.Proposals.agree", "people.proposals.Proposals.drop",
    "people.roster.Roster.__init__", "people.roster.Roster.add", "people.roster.Roster.invite",
    "people.roster.Roster.change", "people.roster.Roster.link", "people.roster.Roster.reset", "people.roster.Roster.login",
    "people.roster.Roster.log_in_subject", "people.roster.Roster.set_password", "people.roster.Roster.end",
    "people.roster.Roster.end_all", "people.roster.Roster.new_token", "people.roster.Roster.revoke",
    "people.store.Lost.add", "people.store.State.__init__", "purse.Purses._restore", "purse.Purses._take_day",
    "service.Service._record", "service.Service.mark_head", "stops.Stops._look", "stops.Stops._write",
}  # fmt: skip
"""Every function that writes to the service's own database."""
SHELL = {"settings", "owner", "reset", "proposals", "agree", "rotate", "demo"}
"""What the operator says at the server's shell. She may do everything: whoever has the files has the service."""


def test_six_acts_of_one_owner_leave_limits_and_others_data_as_they_were(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        search = Search(made)
        sizes = search.run(6)
        assert search.kinds | {"agree"} == SEARCHED
        assert sum(sizes) > 150  # it went somewhere


@pytest.mark.parametrize("eva", [Eva.LINKED, Eva.AWAY])
def test_an_owner_whom_she_can_be_or_could_let_in_again_helps_her_to_nothing(
    tmp_path: Path, eva: Eva
) -> None:
    with bench(tmp_path, eva) as made:
        assert (EVA in made.known.sessions) is (eva is Eva.LINKED)
        Search(made).run(1, agree_last=True)


@pytest.mark.soak
def test_eight_acts_of_one_owner_leave_limits_and_others_data_as_they_were(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        Search(made).run(8)


def test_a_token_does_no_more_than_a_session(tmp_path: Path) -> None:
    """Nothing that gives somebody a way in is done by a token, and nothing is agreed to by one."""
    with bench(tmp_path) as made:
        callers = {who: made.service.roster.token(token) for who, token in made.known.tokens.items()}
        before = (
            made.rows("SELECT count(*), max(disabled) FROM people"),
            made.rows("SELECT * FROM identities"),
        )
        tried = [act for act in acts(made, callers) if act.name in ("membership.add", "membership.reset")]
        for act in (
            *tried,
            Act("mia", "agree", ("0" * 16,)),
            Act("mia", "roster.new_token", ("", ["ask"], 60.0)),
        ):
            outcome = made.do(act, callers[act.who])
            assert isinstance(outcome, Forbidden), act
            assert "a token gives out no login" in str(outcome)
        assert (
            made.rows("SELECT count(*), max(disabled) FROM people"),
            made.rows("SELECT * FROM identities"),
        ) == before


# ------------------------------------------------------------------------------------------------ what there is


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            yield name, parse(path)


def chain(node: ast.AST) -> list[str]:
    """The names of `a.b.c`, in order."""
    if isinstance(node, ast.Attribute):
        return [*chain(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def test_every_act_of_a_door_is_known_to_the_search() -> None:
    """A door reaches people, limits and data by `service.….method`, or by a name that stands for a part of it."""
    reached: set[str] = set()
    for _, tree in modules(*DOORS):
        aliases = {"roster": ["roster"], "members": ["membership"]}
        for node in ast.walk(tree):
            names = chain(node) if isinstance(node, ast.Attribute) else []
            if "service" in names[:-1]:
                reached.add(".".join(names[names.index("service") + 1 :]))
            elif names and names[0] in aliases and len(names) == 2:
                reached.add(".".join([*aliases[names[0]], names[1]]))
    heads = {name for name in reached if any(other.startswith(f"{name}.") for other in reached)}
    known = {*SEARCHED, *BESIDE, *READS - ROOMS}
    unknown = {
        name
        for name in reached - heads
        if not any(name == each or name.startswith(f"{each}.") for each in known)
    }
    # The database itself is handed to `recent`, `Jobs` and `Stops`, whose writers are among `WRITERS`.
    assert unknown - {"state", "state.sqlite"} == set(), "an act that the search does not know"
    assert reached | {"ask"} >= SEARCHED


def test_every_writer_of_people_and_data_is_known() -> None:
    found = set()
    for name, tree in modules("."):
        for scope in ast.walk(tree):
            if not isinstance(scope, ast.ClassDef | ast.Module):
                continue
            within = f"{name}.{scope.name}" if isinstance(scope, ast.ClassDef) else name
            for function in scope.body:
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                    isinstance(node, ast.Attribute) and node.attr == "writing" for node in ast.walk(function)
                ):
                    found.add(f"{within}.{function.name}")
    assert found == WRITERS


def test_no_door_gives_out_a_login_beside_the_membership() -> None:
    """`Roster` refuses it alone; that only `Membership` asks it keeps the words right."""
    for name, tree in modules(*DOORS):
        for node in ast.walk(tree):
            names = chain(node) if isinstance(node, ast.Attribute) else []
            if "roster" in names:
                assert names[-1] not in ("add", "invite", "change", "reset", "link"), name
    assert "consent" in inspect.signature(Roster.reset).parameters


def test_every_option_of_the_shell_is_the_operators() -> None:
    assert set(inspect.signature(serve.serve).parameters) == SHELL
