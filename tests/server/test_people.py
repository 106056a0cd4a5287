"""Who may is proved by login: one-time passwords, sessions by hash, tokens with scope and expiry, rate
limits, sealed acts."""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.errors import (
    Forbidden,
    InvalidParameter,
    LedgerError,
    NotFound,
    NotLoggedIn,
    ProtocolError,
    TamperedLedger,
)
from deniable.ledger.journal import chain
from deniable.server.http.errors import AWAY, describe_error
from deniable.server.people import acts, keys, secrets, store
from deniable.server.people.logins import AT_THE_SHELL, Consent, ConsentNeeded
from deniable.server.people.proposals import Proposals
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.people.roster import Roster
from deniable.server.people.store import State
from deniable.server.wire import states
from deniable.server.wire.scram import ScramExchange

KEY = bytes(range(32))
GOOD = "correct horse battery"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    made = State(f"sqlite:///{tmp_path}/state.db")
    yield made
    made.close()


@pytest.fixture
def roster(state: State) -> Roster:
    return Roster(state, KEY, session_seconds=3600)


def settled(roster: Roster, name: str, *roles: str) -> tuple[str, Caller]:
    """A person with a password of her own, and a session."""
    secret, _ = roster.login(name, roster.add("test", name, roles))
    fresh = roster.set_password(secret, None, GOOD)
    return fresh, roster.session(fresh)


def test_the_first_owner_is_made_once_with_a_password_that_works_once(roster: Roster) -> None:
    password = roster.first_owner("olga")
    assert password is not None
    assert roster.first_owner("olga") is None
    secret, caller = roster.login("olga", password)
    assert caller.must_change
    assert not any(caller.may(right) for right in Right)
    with pytest.raises(Forbidden, match="scope within your own rights"):
        roster.new_token(roster.session(secret), "x", ["ask"], 60)
    fresh = roster.set_password(secret, None, GOOD)
    assert roster.session(fresh).may(Right.MANAGE)
    with pytest.raises(NotLoggedIn):
        roster.session(secret)  # a new id: nobody who saw the old one comes along


def test_a_one_time_password_is_used_up_by_the_change_and_not_by_the_login(roster: Roster) -> None:
    password = roster.add("x", "ada", ["analyst"])
    (first, _), (second, caller) = roster.login("ada", password), roster.login("ada", password)
    assert caller.must_change
    with pytest.raises(InvalidParameter, match="other than the one-time"):
        roster.set_password(first, None, password)
    roster.set_password(second, None, GOOD)
    for act in (
        lambda: roster.login("ada", password),
        lambda: roster.set_password(first, None, "another " + GOOD),
    ):
        with pytest.raises(NotLoggedIn):
            act()
    assert not roster.login("ada", GOOD)[1].must_change


def test_a_reset_ends_tokens_for_good(roster: Roster) -> None:
    _, ada = settled(roster, "ada", "analyst")
    token = roster.new_token(ada, "x", ["ask"], 60)
    password = roster.reset("olga", "ada")
    roster.set_password(roster.login("ada", password)[0], None, "another " + GOOD)
    with pytest.raises(NotLoggedIn):
        roster.token(token.text)
    assert roster.tokens("ada") == []


def test_tokens_that_an_earlier_version_suspended_do_not_come_back(roster: Roster, state: State) -> None:
    _, ada = settled(roster, "ada", "analyst")
    token = roster.new_token(ada, "x", ["ask"], 60)
    with state.writing() as connection:  # as 0.2.0 reset a password
        hashed = secrets.password_hash("the one-time one")
        connection.execute(store.people.update().values(one_time=True, password=hashed))
    roster.set_password(roster.login("ada", "the one-time one")[0], None, GOOD)
    with pytest.raises(NotLoggedIn):
        roster.token(token.text)


def test_a_token_makes_no_token(roster: Roster) -> None:
    _, ada = settled(roster, "ada", "analyst")
    by_token = roster.token(roster.new_token(ada, "x", ["ask"], 60).text)
    with pytest.raises(Forbidden, match="a token gives out no login or token"):
        roster.new_token(by_token, "x", ["ask"], 30)


# ------------------------------------------------------------------------------------------------ a second person


def an_owner(name: str) -> Caller:
    return Caller(name, frozenset({Role.OWNER}))


OLD = """
CREATE TABLE people (name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, one_time BOOLEAN NOT NULL,
  disabled BOOLEAN NOT NULL, created FLOAT NOT NULL);
CREATE TABLE proposals (id TEXT PRIMARY KEY, act TEXT NOT NULL, about TEXT NOT NULL, person TEXT NOT NULL,
  reason TEXT NOT NULL, terms TEXT NOT NULL);
INSERT INTO people VALUES ('olga', 'owner', NULL, 0, 0, 1), ('otto', 'owner', NULL, 0, 0, 1), ('zoe', 'owner', NULL, 0, 0, 1);
INSERT INTO proposals VALUES ('p1', 'unfreeze', 'visits', 'olga', 'looked', '{}');
"""


def test_a_state_of_0_2_0_opens_and_an_owner_whom_another_made_alone_is_no_second_person(
    tmp_path: Path,
) -> None:
    with sqlite3.connect(tmp_path / "old.db") as old:
        old.executescript(OLD)
    state = State(f"sqlite:///{tmp_path}/old.db")
    with state.writing() as connection:
        for by, name in (("deniable", "olga"), ("olga", "otto"), ("operator", "zoe")):
            acts.record(connection, KEY, by, "add person", name, "roles: owner")
    roster, proposals = Roster(state, KEY, session_seconds=60, second_person=True), Proposals(state, KEY)
    with pytest.raises(Forbidden, match="earlier version"):
        proposals.agree(an_owner("zoe"), "p1")
    number = proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {})
    with pytest.raises(Forbidden, match="may be in one hand"):
        proposals.agree(an_owner("otto"), number)
    roster.reset("operator", "otto", consent=AT_THE_SHELL)
    with pytest.raises(Forbidden, match="after this was proposed"):
        proposals.agree(an_owner("otto"), number)
    assert (
        proposals.agree(
            an_owner("otto"), proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {})
        )[1].person
        == "otto"
    )
    assert proposals.agree(an_owner("zoe"), number)[0].about == "visits"
    state.close()


def test_what_was_proposed_by_a_login_that_was_taken_away_counts_no_more(state: State) -> None:
    """While she had another's login she proposed in that name; the other got a new one, and she agrees as herself."""
    alone = Roster(state, KEY, session_seconds=60)
    for name in ("olga", "otto"):
        alone.add("operator", name, ["owner"], consent=AT_THE_SHELL)
    alone.reset("olga", "otto")
    proposals = Proposals(state, KEY)
    number = proposals.add(an_owner("otto"), "unfreeze", "visits", "looked", {})
    alone.reset("operator", "otto", consent=AT_THE_SHELL)
    with pytest.raises(Forbidden, match="The login of otto changed"):
        proposals.agree(an_owner("olga"), number)


def test_one_who_became_an_owner_later_does_not_count_for_what_was_proposed_before(state: State) -> None:
    roster, proposals = Roster(state, KEY, session_seconds=60, second_person=True), Proposals(state, KEY)
    for name in ("olga", "otto"):
        roster.add("operator", name, ["owner"], consent=AT_THE_SHELL)
    number = proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {})
    roster.add("olga", "zoe", ["owner"], consent=Consent("otto"))
    with pytest.raises(Forbidden, match="after this was proposed"):
        proposals.agree(an_owner("zoe"), number)
    roster.change("olga", "otto", disabled=True)
    with pytest.raises(ConsentNeeded):
        roster.change("olga", "otto", disabled=False)
    roster.change("zoe", "olga", disabled=True)
    with pytest.raises(Forbidden, match="an owner no longer"):
        proposals.agree(None, number)


def test_a_link_that_one_owner_gave_is_in_her_hand_until_it_is_gone(state: State) -> None:
    """Before a second person was asked for, she linked another owner to an account of hers."""
    alone = Roster(state, KEY, session_seconds=60)
    for name in ("olga", "otto"):
        alone.add("operator", name, ["owner"], consent=AT_THE_SHELL)
    alone.link("olga", "otto", "an account of olga's")
    session = alone.log_in_subject("an account of olga's")
    assert session is not None
    token = alone.new_token(session[1], "x", ["manage"], 60)
    proposals = Proposals(state, KEY)
    with pytest.raises(Forbidden, match="one hand"):
        proposals.agree(an_owner("otto"), proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {}))
    alone.link("otto", "otto", None)
    with pytest.raises(NotLoggedIn):
        alone.token(token.text)
    proposals.agree(an_owner("otto"), proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {}))


def test_what_was_proposed_by_a_link_that_is_gone_counts_no_more(state: State) -> None:
    """She came in as another owner by a link of hers, proposed, took the link away, and agrees as herself."""
    alone = Roster(state, KEY, session_seconds=60)
    for name in ("olga", "otto"):
        alone.add("operator", name, ["owner"], consent=AT_THE_SHELL)
    alone.link("olga", "otto", "an account of olga's")
    session = alone.log_in_subject("an account of olga's")
    assert session is not None
    proposals = Proposals(state, KEY)
    number = proposals.add(session[1], "unfreeze", "visits", "looked", {})
    alone.link("olga", "otto", None)
    with pytest.raises(Forbidden, match="The login of otto changed"):
        proposals.agree(an_owner("olga"), number)


@pytest.mark.parametrize("end", ["reset", "unlink", "end sessions", "disable"])
def test_a_request_on_its_way_does_nothing_that_outlives_its_login(state: State, end: str) -> None:
    """Who it is was looked up when the request came in; the login ends before it is done."""
    roster, proposals = Roster(state, KEY, session_seconds=60), Proposals(state, KEY)
    roster.add("operator", "olga", ["owner"], consent=AT_THE_SHELL)
    number = proposals.add(an_owner("olga"), "unfreeze", "visits", "looked", {})
    _, otto = settled(roster, "otto", "owner")
    match end:
        case "reset":
            roster.reset("operator", "otto", consent=AT_THE_SHELL)
        case "unlink":
            roster.link("operator", "otto", None)
        case "end sessions":
            roster.end_all("operator", "otto")
        case _:
            roster.change("operator", "otto", disabled=True)
    for act in (
        lambda: proposals.add(otto, "unfreeze", "visits", "looked", {}),
        lambda: proposals.agree(otto, number),
        lambda: roster.new_token(otto, "x", ["ask"], 60),
    ):
        with pytest.raises(NotLoggedIn):
            act()
    assert [each.id for each in proposals.list_waiting()] == [number]
    assert roster.tokens("otto") == []


def test_a_token_that_was_revoked_meanwhile_proposes_nothing(roster: Roster, state: State) -> None:
    _, otto = settled(roster, "otto", "owner")
    by_token = roster.token(roster.new_token(otto, "x", ["manage"], 60).text)
    roster.revoke(otto, by_token.token or "")
    with pytest.raises(NotLoggedIn):
        Proposals(state, KEY).add(by_token, "unfreeze", "visits", "looked", {})


def test_a_wrong_password_and_an_unknown_name_say_the_same(roster: Roster) -> None:
    settled(roster, "ada", "analyst")
    said = []
    for name, password in (("ada", "wrong" * 4), ("eve", "wrong" * 4), ("ada", ""), ("ada\0", GOOD)):
        with pytest.raises(NotLoggedIn) as refused:
            roster.login(name, password)
        said.append(str(refused.value))
    assert len(set(said)) == 1


def test_roles_count_from_the_next_request_on(roster: Roster) -> None:
    settled(roster, "olga", "owner")
    session, caller = settled(roster, "ada", "owner")
    assert caller.may(Right.MANAGE)
    token = roster.new_token(caller, "all", list(Right), 60)
    roster.change("olga", "ada", roles=["analyst"])
    assert roster.session(session).rights == {Right.ASK}
    assert roster.token(token.text).rights == {Right.ASK}
    roster.change("olga", "ada", disabled=True)
    for act in (
        lambda: roster.session(session),
        lambda: roster.token(token.text),
        lambda: roster.login("ada", GOOD),
    ):
        with pytest.raises(NotLoggedIn):
            act()
    assert roster.proof("ada", b"x", b"0" * 32) is None


def test_the_last_owner_stays(roster: Roster) -> None:
    settled(roster, "olga", "owner")
    for change in ({"disabled": True}, {"roles": ["analyst"]}):
        with pytest.raises(InvalidParameter, match="at least one owner"):
            roster.change("olga", "olga", **change)  # type: ignore[arg-type]
    assert roster.people()[0].roles == ("owner",)


def test_a_token_has_no_more_rights_than_its_scope_and_its_person(roster: Roster) -> None:
    _, ada = settled(roster, "ada", "analyst")
    with pytest.raises(Forbidden):
        roster.new_token(ada, "x", ["manage"], 60)
    _, olga = settled(roster, "olga", "owner")
    token = roster.new_token(olga, "x", ["look"], 60)
    assert roster.token(token.text).rights == {Right.LOOK}
    with pytest.raises(NotFound):
        roster.revoke(ada, token.id)
    roster.revoke(olga, token.id)
    with pytest.raises(NotLoggedIn):
        roster.token(token.text)


def test_tokens_and_sessions_expire(roster: Roster, state: State) -> None:
    session, ada = settled(roster, "ada", "analyst")
    token = roster.new_token(ada, "x", ["ask"], 60)
    with state.writing() as connection:
        connection.execute(store.tokens.update().values(expires=1.0))
        connection.execute(store.sessions.update().values(expires=1.0))
    for act in (
        lambda: roster.session(session),
        lambda: roster.token(token.text),
        lambda: roster.refresh_caller(ada),
    ):
        with pytest.raises(NotLoggedIn):
            act()
    exchange = b"n=,r=x"
    assert roster.proof("ada", exchange, proof_of(token.text, roster.salt("ada"), exchange)) is None


def proof_of(secret: str, salt: bytes, exchange: bytes) -> bytes:
    """What a client computes (RFC 5802), written anew."""
    salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, secrets.ROUNDS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    mask = hmac.digest(hashlib.sha256(client).digest(), exchange, "sha256")
    return bytes(a ^ b for a, b in zip(client, mask, strict=True))


def test_a_proof_is_good_for_its_token_and_its_exchange_alone(roster: Roster) -> None:
    _, ada = settled(roster, "ada", "analyst")
    _, bob = settled(roster, "bob", "analyst")
    first, second = (roster.new_token(ada, label, ["ask"], 60) for label in "xy")
    for token in (first, second):
        proof = proof_of(token.text, roster.salt("ada"), b"exchange")
        found = roster.proof("ada", b"exchange", proof)
        assert found is not None
        assert found[0].token == token.id
        assert roster.proof("ada", b"another", proof) is None
        assert roster.proof("bob", b"exchange", proof) is None
        assert roster.proof("ada", b"exchange", proof[:-1]) is None
    assert roster.salt("ada") != roster.salt("nobody") != b""
    assert bob.name == "bob"


def test_nothing_that_logs_in_is_stored(roster: Roster, state: State, tmp_path: Path) -> None:
    one_time = roster.add("olga", "eve", ["analyst"])
    session, ada = settled(roster, "ada", "analyst")
    token = roster.new_token(ada, "x", ["ask"], 60)
    with state.writing():
        pass
    sqlite3.connect(tmp_path / "state.db").execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))
    for secret in (GOOD, one_time, session, token.text, token.text.rsplit("_", 1)[1]):
        assert secret.encode() not in stored
    assert stat.S_IMODE((tmp_path / "state.db").stat().st_mode) == 0o600
    shown = repr(acts.history(state)) + repr(roster.people()) + repr(roster.tokens(None))
    assert not any(secret in shown for secret in (GOOD, one_time, session, token.text))


def test_an_unknown_name_costs_the_same_work(monkeypatch: pytest.MonkeyPatch, roster: Roster) -> None:
    settled(roster, "ada", "analyst")
    verified: list[str] = []
    genuine = secrets._HASHER.verify

    class Counting:
        def verify(self, stored: str, password: str) -> bool:
            verified.append(stored.split("$")[3])  # argon2's costs
            return genuine(stored, password)

    monkeypatch.setattr(secrets, "_HASHER", Counting())
    for name in ("ada", "nobody"):
        with pytest.raises(NotLoggedIn):
            roster.login(name, "wrong" * 4)
    assert len(verified) == 2
    assert verified[0] == verified[1]


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\nb", "<b>\u202e", "deniable", "\u0430\u0501\u0430", "x" * 201]
)
def test_names_that_mislead_are_refused(roster: Roster, name: str) -> None:
    with pytest.raises(InvalidParameter):
        roster.add("olga", name, ["analyst"])


@pytest.mark.parametrize("roles", [[], ["root"], ["owner", "root"]])
def test_roles_are_the_three(roster: Roster, roles: list[str]) -> None:
    with pytest.raises(InvalidParameter, match="Expected roles"):
        roster.add("olga", "ada", roles)


def test_a_short_password_is_refused_and_the_session_goes_on(roster: Roster) -> None:
    secret, _ = roster.login("ada", roster.add("x", "ada", ["analyst"]))
    with pytest.raises(InvalidParameter, match="12 to 256"):
        roster.set_password(secret, None, "short")
    assert roster.session(secret).must_change


def test_a_password_is_changed_by_who_knows_it(roster: Roster) -> None:
    session, _ = settled(roster, "ada", "analyst")
    with pytest.raises(Forbidden, match="present password"):
        roster.set_password(session, "wrong", "another good password")
    roster.set_password(session, GOOD, "another good password")
    with pytest.raises(NotLoggedIn):
        roster.login("ada", GOOD)


def test_a_reset_ends_every_session(roster: Roster) -> None:
    session, _ = settled(roster, "ada", "analyst")
    password = roster.reset("olga", "ada")
    with pytest.raises(NotLoggedIn):
        roster.session(session)
    assert roster.login("ada", password)[1].must_change


def test_an_edited_act_is_found(roster: Roster, state: State) -> None:
    settled(roster, "ada", "analyst")
    settled(roster, "bob", "analyst")
    assert acts.find_broken_seal(acts.history(state), KEY) is None
    with state.writing() as connection:
        connection.execute(store.acts.update().where(store.acts.c.seq == 1).values(person="mallory"))
    assert acts.find_broken_seal(acts.history(state), KEY) == 1
    with state.writing() as connection:
        connection.execute(store.acts.delete().where(store.acts.c.seq == 1))
    assert acts.find_broken_seal(acts.history(state), KEY) == 1


def test_rights_are_those_of_the_table() -> None:
    table = {role: set(Caller("x", frozenset({role})).rights) for role in Role}
    assert table == {Role.OWNER: set(Right), Role.ANALYST: {Right.ASK}, Role.AUDITOR: {Right.LOOK}}


def test_a_new_key_seals_all_acts_anew_and_ends_every_session_and_token(state: State, tmp_path: Path) -> None:
    old = keys.open_key(tmp_path, state)
    roster = Roster(state, old, session_seconds=3600)
    session, ada = settled(roster, "ada", "owner")
    token = roster.new_token(ada, "x", ["ask"], 60)
    before = [act[:-1] for act in acts.history(state)]
    keys.rotate(tmp_path, state)
    new = keys.open_key(tmp_path, state)
    assert new != old
    assert acts.find_broken_seal(acts.history(state), new) is None
    assert [act[:-1] for act in acts.history(state)][:-1] == before
    assert acts.history(state)[-1].act == "rotate key"
    again = Roster(state, new, session_seconds=3600)
    for act in (lambda: again.session(session), lambda: again.token(token.text)):
        with pytest.raises(NotLoggedIn):
            act()
    assert again.login("ada", GOOD)[1].name == "ada"


def test_a_rotation_that_was_cut_off_loses_neither_key(state: State, tmp_path: Path) -> None:
    keys.open_key(tmp_path, state)
    Roster(state, keys.open_key(tmp_path, state), session_seconds=60).add("x", "ada", ["analyst"])
    chain.make_key(tmp_path / keys.NEXT)  # cut off before the acts were sealed: the old key is the one
    assert acts.find_broken_seal(acts.history(state), keys.open_key(tmp_path, state)) is None
    keys.rotate(tmp_path, state)
    (tmp_path / keys.NAME).rename(tmp_path / keys.NEXT)  # cut off after them: the next one is
    chain.make_key(tmp_path / keys.NAME)
    assert acts.find_broken_seal(acts.history(state), keys.open_key(tmp_path, state)) is None
    with state.writing() as connection:
        connection.execute(store.acts.update().values(person="mallory"))
    with pytest.raises(TamperedLedger, match="not as it was written"):
        keys.rotate(tmp_path, state)


def test_a_login_by_scram_acts_as_nobody_else(roster: Roster) -> None:
    for header in ("n,a=olga,", "y,a=ada,", "n,x,"):
        with pytest.raises(ProtocolError, match="act as somebody else"):
            ScramExchange(roster, "ada").first(f"{header}n=,r=abcdefghijkl")
    assert ScramExchange(roster, "ada").first("n,,n=,r=abcdefghijkl").startswith("r=abcdefghijkl")


def test_no_error_tells_where_things_lie() -> None:
    for sentence in (
        "The disk of the ledger is full. The ledger is sqlite:////srv/private/privacy.db. Nothing was released.",
        "The key of the ledger in /srv/x was not found at /srv/x.key, so it can only be read.",
        "The source file:/srv/data/visits.parquet belongs to another.",
        "The ledger is postgresql+psycopg://deniable@10.0.0.3/deniable.",
        "The ledger is privacy.db.",
        r"The ledger is C:\\data\\x.",
    ):
        for kind in (LedgerError, TamperedLedger):
            assert describe_error(kind(sentence))[1]["message"] == AWAY
            assert states.describe_error(kind(sentence))[1] == AWAY
    kept = 'The data set "visits" cannot be opened now. Nothing was charged. Tell its owner.'
    assert describe_error(LedgerError(kept))[1]["message"] == kept
