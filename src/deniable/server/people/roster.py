"""The people of a service, and how each proves who she is: a password and a session, or a token.

Where a second person must agree (`second_person`), nobody alone gives out a login of an owner, or of somebody
who holds a part of another owner's data: that is refused here, below every door, unless a `Consent` comes
with it.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deniable.errors import Forbidden, InvalidParameter, NotFound, NotLoggedIn
from deniable.ledger import names
from deniable.server.people import acts, logins, secrets, store
from deniable.server.people.logins import AT_THE_SHELL, EXPIRED, OPERATOR, Consent, ConsentNeeded
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.people.secrets import Token, Verifier
from deniable.server.people.store import State

FAILED = "The name or the password is not right. Nothing was done."
RESERVED = frozenset({"deniable", "unknown", OPERATOR})
TOKEN = sa.select(store.tokens, store.people).where(
    store.tokens.c.id == sa.bindparam("token"), store.people.c.name == store.tokens.c.person
)
"""Made once: it is asked for with every request."""
LONGEST_TOKEN = 366 * 24 * 3600.0


@dataclass(frozen=True)
class Person:
    """A person as owners see her."""

    name: str
    roles: tuple[str, ...]
    disabled: bool
    one_time: bool


@dataclass(frozen=True)
class TokenInfo:
    """A token without its secret."""

    id: str
    person: str
    label: str
    scope: tuple[str, ...]
    created: float
    expires: float


class Roster:
    """Everybody who may come in. `key` is the server's own secret."""

    def __init__(
        self,
        state: State,
        key: bytes,
        *,
        session_seconds: float,
        second_person: bool = False,
        is_entrusted: Callable[[str, str], bool] = lambda person, actor: False,
    ) -> None:
        """`is_entrusted` says whether a person holds a part of data that is not `actor`'s."""
        self._state = state
        self._key = key
        self._session_seconds = session_seconds
        self._second_person = second_person
        self._is_entrusted = is_entrusted
        with state.writing() as connection:
            logins.adopt(connection)

    # -------------------------------------------------------------------------------------------- people

    def first_owner(self, name: str = "owner") -> str | None:
        """Make the first owner where there is nobody; her one-time password, to be printed once and kept
        nowhere."""
        with self._state.reading() as connection:
            if connection.execute(sa.select(store.people.c.name).limit(1)).first() is not None:
                return None
        return self.add("deniable", name, (Role.OWNER,), consent=AT_THE_SHELL)

    def add(self, actor: str, name: str, roles: Collection[str], *, consent: Consent | None = None) -> str:
        """A new person; her one-time password, or the second half of it where two people give it."""
        text, password = _new_password(consent)
        with self._state.writing() as connection:
            self._insert(connection, actor, name, roles, password, consent)
        return text

    def invite(
        self, actor: str, name: str, roles: Collection[str], subject: str, *, consent: Consent | None = None
    ) -> None:
        """A new person who logs in by the OpenID provider alone."""
        with self._state.writing() as connection:
            self._insert(connection, actor, name, roles, None, consent)
            self._link(connection, actor, name, subject, consent)

    def _insert(
        self,
        connection: sa.Connection,
        actor: str,
        name: str,
        roles: Collection[str],
        password: str | None,
        consent: Consent | None,
    ) -> None:
        names.name(name, "a person")
        if name in RESERVED:
            raise InvalidParameter(
                f"The name {name!r} is the service's own. Nothing was done. Choose another."
            )
        if _row(connection, name) is not None:
            raise InvalidParameter(f"There is a person {name!r} already. Nothing was changed.")
        role_text = _roles(roles)
        self._check_consent(actor, name, role_text, consent)
        row = {"name": name, "roles": role_text, "password": password, "one_time": password is not None}
        row |= {"hands": logins.changed_hands(connection, None, "password", _sole_actor(actor, consent))}
        seq = acts.record(connection, self._key, actor, "add person", name, f"roles: {role_text}")
        connection.execute(
            store.people.insert().values(**row, disabled=False, created=time.time(), since=seq)
        )

    def _check_consent(self, actor: str, name: str, roles: str, consent: Consent | None) -> None:
        """Nobody alone gives a login to an owner, or to who holds a part of another's data."""
        if consent is not None or not self._second_person:
            return
        if Role.OWNER in roles.split() or self._is_entrusted(name, actor):
            raise ConsentNeeded

    def link(self, actor: str, name: str, subject: str | None, *, consent: Consent | None = None) -> None:
        """Let a person log in as whom the OpenID provider calls `subject`; None: no longer. Her sessions and
        tokens end, which somebody may have got by the link before."""
        with self._state.writing() as connection:
            row = self._need(connection, name)
            if subject is not None:
                self._check_consent(actor, name, row["roles"], consent)
            connection.execute(store.identities.delete().where(store.identities.c.person == name))
            _end_logins(connection, name)
            if subject is None:
                seq = acts.record(connection, self._key, actor, "unlink identity", name, "")
                hands = logins.changed_hands(connection, row, "link", None)
                _update(connection, name, hands=hands, since=seq)
            else:
                self._link(connection, actor, name, subject, consent)

    def _link(
        self, connection: sa.Connection, actor: str, name: str, subject: str, consent: Consent | None
    ) -> None:
        if not subject or len(subject) > 255 or not subject.isprintable():
            raise InvalidParameter(
                "Expected a subject of 1 to 255 characters that can be seen. Nothing was changed."
            )
        if _find_row(connection, store.identities, store.identities.c.subject == subject) is not None:
            raise InvalidParameter("This subject belongs to somebody already. Nothing was changed.")
        connection.execute(store.identities.insert().values(subject=subject, person=name))
        seq = acts.record(connection, self._key, actor, "link identity", name, subject)
        hands = logins.changed_hands(connection, _row(connection, name), "link", _sole_actor(actor, consent))
        _update(connection, name, hands=hands, since=seq)

    def people(self) -> list[Person]:
        with self._state.reading() as connection:
            rows = connection.execute(sa.select(store.people).order_by(store.people.c.name)).mappings()
            return [Person(r["name"], tuple(r["roles"].split()), r["disabled"], r["one_time"]) for r in rows]

    def change(
        self,
        actor: str,
        name: str,
        *,
        roles: Collection[str] | None = None,
        disabled: bool | None = None,
        consent: Consent | None = None,
    ) -> None:
        """Roles count from the next request on. A disabled person's sessions and tokens open nothing."""
        changes: dict[str, Any] = {}
        if roles is not None:
            changes = {"roles": _roles(roles)}
        if disabled is not None:
            changes["disabled"] = disabled
        with self._state.writing() as connection:
            before = self._need(connection, name)
            after = {**before, **changes}
            new_roles = set(after["roles"].split()) - set(before["roles"].split())
            gains = bool(new_roles) or (before["disabled"] and not after["disabled"])
            if gains:
                self._check_consent(actor, name, after["roles"], consent)
            seq = acts.record(connection, self._key, actor, "change person", name, repr(changes))
            if gains:
                changes["since"] = seq
            if changes:
                _update(connection, name, **changes)
            _keep_an_owner(connection)

    def reset(self, actor: str, name: str, *, consent: Consent | None = None) -> str:
        """A new one-time password, or the second half of it where two people give it. Every session and token
        of hers ends, for good."""
        text, password = _new_password(consent)
        with self._state.writing() as connection:
            row = self._need(connection, name)
            self._check_consent(actor, name, row["roles"], consent)
            _end_logins(connection, name)
            seq = acts.record(connection, self._key, actor, "reset password", name, "")
            hands = logins.changed_hands(connection, row, "password", _sole_actor(actor, consent))
            _update(connection, name, password=password, one_time=True, hands=hands, since=seq)
        return text

    def is_owner(self, name: str) -> bool:
        """Whether this is an owner who may come in."""
        with self._state.reading() as connection:
            return logins.is_owner(_row(connection, name))

    def exists(self, name: str) -> bool:
        with self._state.reading() as connection:
            return _row(connection, name) is not None

    # -------------------------------------------------------------------------------------------- sessions

    def login(self, name: str, password: str) -> tuple[str, Caller]:
        """The secret of a new session. A one-time password opens nothing but the change of itself, which uses
        it up."""
        with self._state.reading() as connection:
            row = _row(connection, name)
        if row is not None and row["one_time"]:
            password = secrets.hide_first_half(password)
        good = secrets.password_matches(None if row is None else row["password"], password)
        if row is None or not good or row["disabled"]:
            raise NotLoggedIn(FAILED)
        secret = secrets.new_secret()
        with self._state.writing() as connection:
            now = _row(connection, name)
            if now["password"] != row["password"] or now["disabled"]:
                raise NotLoggedIn(FAILED)  # it was changed meanwhile
            self._begin(connection, secret, name, row["one_time"])
        return secret, _come_in(now, secret, must_change=row["one_time"])

    def log_in_subject(self, subject: str) -> tuple[str, Caller] | None:
        """The secret of a new session for whom the OpenID provider has named; None if that is nobody here."""
        with self._state.writing() as connection:
            identity = _find_row(connection, store.identities, store.identities.c.subject == subject)
            row = None
            if identity is not None:
                row = _row(connection, identity["person"])
            if row is None or row["disabled"]:
                return None
            secret = secrets.new_secret()
            self._begin(connection, secret, row["name"], False)
        return secret, _come_in(row, secret, must_change=False)

    def csrf(self, secret: str) -> str:
        """What a request that changes something says beside the session's cookie: other sites can make a
        browser send the cookie, and cannot read this."""
        return hmac.digest(self._key, b"csrf of " + secrets.digest(secret).encode(), "sha256").hex()

    def _begin(self, connection: sa.Connection, secret: str, name: str, must_change: bool) -> None:
        now = time.time()
        connection.execute(store.sessions.delete().where(store.sessions.c.expires < now))
        row = {"digest": secrets.digest(secret), "person": name, "must_change": must_change}
        connection.execute(store.sessions.insert().values(**row, expires=now + self._session_seconds))

    def session(self, secret: str) -> Caller:
        with self._state.reading() as connection:
            row = _find_row(connection, store.sessions, store.sessions.c.digest == secrets.digest(secret))
            person = None
            if row is not None:
                person = _row(connection, row["person"])
        if row is None or person is None or row["expires"] <= time.time() or person["disabled"]:
            raise NotLoggedIn(EXPIRED)
        return _come_in(person, secret, must_change=row["must_change"])

    def set_password(self, secret: str, old_password: str | None, new_password: str) -> str:
        """A password of one's own, and a new session: all others end, with what may have
        been stolen of them. After a one-time password every token ends too: it was given for a new start."""
        caller = self.session(secret)
        with self._state.reading() as connection:
            row = _row(connection, caller.name)
        if not caller.must_change and not secrets.password_matches(
            row and row["password"], old_password or ""
        ):
            raise Forbidden("Expected your present password as well. Nothing was changed.")
        if caller.must_change and secrets.password_matches(
            row["password"], secrets.hide_first_half(new_password)
        ):
            raise InvalidParameter(
                "Expected a password other than the one-time password. Nothing was changed."
            )
        new_hash = secrets.password_hash(new_password)
        fresh = secrets.new_secret()
        with self._state.writing() as connection:
            now = _row(connection, caller.name)
            here = store.sessions.c.digest == secrets.digest(secret)
            session = _find_row(connection, store.sessions, here)
            if session is None or now["disabled"] or now["password"] != row["password"]:
                raise NotLoggedIn(EXPIRED)  # somebody else was faster, or she was sent away meanwhile
            if caller.must_change:
                _end_logins(connection, caller.name)
            connection.execute(store.sessions.delete().where(store.sessions.c.person == caller.name))
            _update(connection, caller.name, password=new_hash, one_time=False)
            self._begin(connection, fresh, caller.name, False)
        return fresh

    def end(self, secret: str) -> None:
        with self._state.writing() as connection:
            connection.execute(
                store.sessions.delete().where(store.sessions.c.digest == secrets.digest(secret))
            )

    def sessions(self) -> dict[str, int]:
        """How many sessions of each person are open."""
        table = store.sessions
        query = sa.select(table.c.person, sa.func.count()).where(table.c.expires > time.time())
        with self._state.reading() as connection:
            return {str(who): int(count) for who, count in connection.execute(query.group_by(table.c.person))}

    def end_all(self, actor: str, name: str) -> int:
        """End every session of a person's."""
        with self._state.writing() as connection:
            self._need(connection, name)
            count = connection.execute(
                store.sessions.delete().where(store.sessions.c.person == name)
            ).rowcount
            acts.record(connection, self._key, actor, "end sessions", name, f"{count}")
        return count

    # -------------------------------------------------------------------------------------------- tokens

    def new_token(self, caller: Caller, label: str, scope: Collection[str], seconds: float) -> Token:
        """A token of one's own, with no more rights than one has; it is shown once. A token makes none: what
        a program may do ends with its token."""
        caller.need_session()
        rights = _scope(scope)
        if caller.must_change or not rights <= caller.rights:
            raise Forbidden("Expected a scope within your own rights. Nothing was made.")
        if not 0 < seconds <= LONGEST_TOKEN:
            raise InvalidParameter(
                f"Expected an expiry within {LONGEST_TOKEN / 86400:g} days. Nothing was made."
            )
        if len(label) > 100 or not label.isprintable():
            raise InvalidParameter(
                "Expected a label of at most 100 characters that can be seen. Nothing was made."
            )
        token = Token.make()
        verifier = Verifier.derive(token.text, secrets.salt_of(self._key, caller.name))
        row = {"id": token.id, "person": caller.name, "label": label, "scope": " ".join(sorted(rights))}
        row |= {"digest": secrets.digest(token.text), "stored_key": verifier.stored_key.hex()}
        times = {"created": time.time(), "expires": time.time() + seconds}
        with self._state.writing() as connection:
            logins.check_login(connection, caller)
            connection.execute(
                store.tokens.insert().values(**row, server_key=verifier.server_key.hex(), **times)
            )
            acts.record(connection, self._key, caller.name, "new token", token.id, f"scope: {row['scope']}")
        return token

    def tokens(self, person: str | None) -> list[TokenInfo]:
        query = sa.select(store.tokens).order_by(store.tokens.c.created)
        if person is not None:
            query = query.where(store.tokens.c.person == person)
        with self._state.reading() as connection:
            rows = list(connection.execute(query).mappings())
        return [
            TokenInfo(r["id"], r["person"], r["label"], tuple(r["scope"].split()), r["created"], r["expires"])
            for r in rows
        ]

    def revoke(self, caller: Caller, token: str) -> None:
        """One's own, or, for an owner, anybody's."""
        table = store.tokens
        mine = table.c.id == token
        if not caller.may(Right.MANAGE):
            mine = mine & (table.c.person == caller.name)
        with self._state.writing() as connection:
            if connection.execute(table.delete().where(mine)).rowcount != 1:
                raise NotFound("There is no such token of yours. Nothing was changed.")
            acts.record(connection, self._key, caller.name, "revoke token", token, "")

    def token(self, text: str) -> Caller:
        """Who shows a token over HTTP."""
        row = self._find_token(secrets.token_id(text) or "")
        right = hmac.compare_digest(secrets.digest(text), "" if row is None else row["digest"])
        if row is None or not right:
            raise NotLoggedIn(EXPIRED)
        return _caller(row, row)

    def _find_token(self, token: str) -> Any:
        """A token together with its person."""
        with self._state.reading() as connection:
            return connection.execute(TOKEN, {"token": token}).mappings().first()

    def salt(self, person: str) -> bytes:
        return secrets.salt_of(self._key, person)

    def proof(self, person: str, exchange: bytes, proof: bytes) -> tuple[Caller, bytes] | None:
        """Who made a SCRAM proof with one of her tokens, and the server's signature."""
        now = time.time()
        with self._state.reading() as connection:
            owner = _row(connection, person)
            mine = (store.tokens.c.person == person) & (store.tokens.c.expires > now)
            rows = list(connection.execute(sa.select(store.tokens).where(mine)).mappings())
        for row in rows:
            verifier = Verifier(bytes.fromhex(row["stored_key"]), bytes.fromhex(row["server_key"]))
            signature = verifier.signature(exchange, proof)
            if signature is not None and owner is not None and not owner["disabled"]:
                return _caller(row, owner), signature
        return None

    def refresh_caller(self, caller: Caller) -> Caller:
        """The same caller by her token as things stand now: a connection outlives revocations."""
        row = self._find_token(caller.token or "")
        if row is None or row["name"] != caller.name:
            raise NotLoggedIn(EXPIRED)
        return _caller(row, row)

    def _need(self, connection: sa.Connection, name: str) -> Any:
        row = _row(connection, name)
        if row is None:
            raise NotFound(f"There is no person {name!r}. Nothing was changed.")
        return row


def _sole_actor(actor: str, consent: Consent | None) -> str | None:
    """Through whose hands alone a login goes."""
    if consent is None:
        return actor
    return None


def _new_password(consent: Consent | None) -> tuple[str, str]:
    """A one-time password, or its second half, as it is shown; and what is stored of the whole."""
    text = secrets.new_secret()
    if consent is None or consent.half_digest is None:
        return text, secrets.password_hash(text)
    return text, secrets.password_hash(f"{consent.half_digest}.{text}")


def _end_logins(connection: sa.Connection, name: str) -> None:
    for table in (store.sessions, store.tokens):
        connection.execute(table.delete().where(table.c.person == name))


def _update(connection: sa.Connection, name: str, **values: Any) -> None:
    connection.execute(store.people.update().where(store.people.c.name == name).values(**values))


def _come_in(person: Any, secret: str, *, must_change: bool) -> Caller:
    roles = _read_roles(person["roles"])
    return Caller(person["name"], roles, must_change=must_change, session=secrets.digest(secret))


def _caller(token: Any, person: Any) -> Caller:
    if token["expires"] <= time.time() or person["disabled"] or person["one_time"]:
        raise NotLoggedIn(EXPIRED)
    scope = frozenset(map(Right, token["scope"].split()))
    return Caller(person["name"], _read_roles(person["roles"]), scope, token["id"])


def _find_row(connection: sa.Connection, table: sa.Table, condition: Any) -> Any:
    return connection.execute(sa.select(table).where(condition)).mappings().first()


def _row(connection: sa.Connection, name: str) -> Any:
    return _find_row(connection, store.people, store.people.c.name == name)


def _read_roles(text: str) -> frozenset[Role]:
    return frozenset(map(Role, text.split()))


def _roles(roles: Iterable[str]) -> str:
    role_names = sorted(set(roles))
    if not role_names or any(role not in list(Role) for role in role_names):
        raise InvalidParameter(
            f"Expected roles among {', '.join(Role)}, got {role_names!r}. Nothing was changed."
        )
    return " ".join(role_names)


def _scope(scope: Iterable[str]) -> frozenset[Right]:
    right_names = set(scope)
    if not right_names or any(right not in list(Right) for right in right_names):
        raise InvalidParameter(
            f"Expected a scope among {', '.join(Right)}, got {sorted(right_names)!r}. Nothing was made."
        )
    return frozenset(map(Right, right_names))


def _keep_an_owner(connection: sa.Connection) -> None:
    rows = connection.execute(sa.select(store.people)).mappings()
    if not any(Role.OWNER in row["roles"].split() and not row["disabled"] for row in rows):
        raise InvalidParameter("Expected at least one owner who is not disabled. Nothing was changed.")
