"""The service behind every door: who may do what, proved by a login. Doors translate; every decision about
people is made here.

An analyst has a part of her own in each data set that she was granted: an account inside the data set's, with
its own limit. What is not granted does not exist for her. Owners register, grant, raise and look; auditors
look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import sqlalchemy as sa

from deniable.accounting.certificate import certify
from deniable.curator import Answer, Curator, Preview
from deniable.curator.question import Question
from deniable.errors import (
    DeniableError,
    Forbidden,
    InvalidParameter,
    LedgerError,
    NotFound,
    TamperedLedger,
)
from deniable.guarantee import Budget, Certificate
from deniable.ledger import Account, Entry, EntryKind, Ledger, Verification, names
from deniable.process import Original
from deniable.server.after.pool import Pool
from deniable.server.asking import Pending, Turns
from deniable.server.data.declaration import Declaration
from deniable.server.data.shelf import UNKNOWN, DeclaredData, Shelf, note
from deniable.server.people import acts, keys, store
from deniable.server.people.membership import ACTS, Membership
from deniable.server.people.oidc import Provider
from deniable.server.people.proposals import Proposals, ProposedAct
from deniable.server.people.rights import Caller, Right
from deniable.server.people.roster import Roster
from deniable.server.people.store import Lost, State
from deniable.server.people.throttle import Throttle
from deniable.server.purse import Purse, Purses
from deniable.server.settings import Settings
from deniable.sql.schema.declare import TableInfo

BROKEN = "This data set cannot be opened now. Its owner can see why."
PRINCIPAL = "deniable"
"""Who opens the ledger. It owns no account: limits belong to the people who registered the data."""


class Service(Original):
    """One process of a service: its people, its data and its ledger."""

    WAY_OUT = "Open the service there from its settings; processes share ledger and state."

    def __init__(self, settings: Settings) -> None:
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.settings = settings
        self.state = State(settings.state_url)
        self.key = keys.open_key(settings.folder, self.state)
        self.ledger = Ledger.open(
            settings.ledger_url,
            key=settings.folder / "ledger.key",
            analyst=PRINCIPAL,
            on_failure=note(settings.folder),
        )
        self.roster = Roster(
            self.state,
            self.key,
            session_seconds=settings.session_hours * 3600,
            second_person=settings.second_person,
            is_entrusted=self._is_entrusted,
        )
        self.provider: Provider | None = None
        if settings.oidc is not None and settings.origin is not None:
            self.provider = Provider(settings.oidc, settings.folder, settings.origin)
        self.throttle = Throttle(settings.rates)
        self.pool = Pool()
        self.shelf = Shelf(self.state, self.ledger, settings, self.pool)
        self.proposals = Proposals(self.state, self.key)
        self.membership = Membership(self.roster, self.proposals)
        self._purses = Purses(self.state, settings.caps)
        self._turns = Turns()
        self._lost_answers = Lost(self.state)

        self._check_head()

    def _check_head(self) -> None:
        """A ledger that was set back, by itself, since this service last looked at it is not served."""
        with self.state.reading() as connection:
            row = connection.execute(sa.select(store.heads).where(store.heads.c.of == "ledger")).first()
        if row is not None and not (verification := self.ledger.verify(f"{row.count}:{row.mac}")).ok:
            problem = verification.problems[0]
            self.close()
            raise TamperedLedger(
                f"The ledger is not the one that this service wrote: {problem} Nothing was started. Restore "
                "ledger and state from one backup, or the ledger from a later one."
            )

    def mark_head(self) -> None:
        """Remember beside the ledger how far it has come: a roll-back shows against it."""
        head, here = self.ledger.head(), store.heads.c.of == "ledger"
        with self.state.reading() as connection:
            row = connection.execute(sa.select(store.heads.c.count).where(here)).first()
        if head.count == 0 or (row is not None and row[0] >= head.count):
            return
        with self.state.writing() as connection:
            connection.execute(store.heads.delete().where(here & (store.heads.c.count < head.count)))
            if connection.execute(sa.select(store.heads.c.of).where(here)).first() is None:
                connection.execute(store.heads.insert().values(of="ledger", count=head.count, mac=head.mac))

    def close(self) -> None:
        self.pool.close()
        self.shelf.close()
        self.ledger.close()
        self.state.close()

    def _record(self, person: str, act: str, target: str, words: str = "") -> None:
        with self.state.writing() as connection:
            acts.record(connection, self.key, person, act, target, words)

    # -------------------------------------------------------------------------------------------- data sets

    def datasets(self, caller: Caller) -> list[str]:
        """Those that are for the caller: all for owners and auditors, an analyst's own."""
        names = self.shelf.names()
        if caller.may(Right.LOOK) or caller.may(Right.MANAGE):
            return names
        caller.need(Right.ASK)
        return [name for name in names if self._has_part(name, caller.name)]

    def register(self, caller: Caller, declaration: Declaration) -> str | None:
        """Register a data set. Of this and the other acts that may loosen a promise (a new version, a raised
        limit, a thawed account): where a second person must agree, the number of the proposal that waits."""
        caller.need(Right.MANAGE)
        if self.settings.second_person:
            self.shelf.check(declaration)
            terms = {"declaration": declaration.to_json()}
            warning = self.warning(caller, declaration) or ""  # for the second person too
            return self.proposals.add(caller, "register data", declaration.name, warning, terms)
        self._register(caller.name, declaration)
        return None

    def _register(self, owner: str, declaration: Declaration) -> None:
        twins = self.shelf.twins(declaration)
        self.shelf.register(declaration, owner)
        words = f"limit {declaration.limit}"
        if twins:
            words += f"; same content as {', '.join(twins)}"
        self._record(owner, "register data", declaration.name, words)

    def warning(self, caller: Caller, declaration: Declaration) -> str | None:
        """What an owner should know before she registers this: that its data has a limit already."""
        caller.need(Right.MANAGE)
        twins = self.shelf.twins(declaration)
        if not twins:
            return None
        return (
            f'The content of "{declaration.name}" is that of {", ".join(twins)}, which has its own limit. '
            "Both limits together are what people may lose. Keep it only if these are not the same people."
        )

    def files(self, caller: Caller) -> list[str]:
        """What may be registered from the folders of this service."""
        caller.need(Right.MANAGE)
        return self.shelf.files()

    def describe(self, caller: Caller, source: str, table: str) -> TableInfo:
        """Names and types of a source's columns; no row is read."""
        caller.need(Right.MANAGE)
        return self.shelf.describe(source, table)

    def test(self, caller: Caller, declaration: Declaration) -> None:
        """Open it once as declared, and register nothing."""
        caller.need(Right.MANAGE)
        self.shelf.check(declaration)

    def set_version(self, caller: Caller, name: str, version: str) -> str | None:
        caller.need(Right.MANAGE)
        self._check_manager(caller, name)
        if self.settings.second_person:
            return self.proposals.add(caller, "new version", name, "", {"version": version})
        self._set_version(caller.name, name, version)
        return None

    def _set_version(self, owner: str, name: str, version: str) -> None:
        self.shelf.set_version(name, version)
        self._record(owner, "new version", name, version)

    def grant(self, caller: Caller, name: str, analyst: str, limit: Budget) -> Account:
        """A part of the data set's budget for an analyst."""
        caller.need(Right.MANAGE)
        self._check_manager(caller, name)
        if not self.roster.exists(analyst):
            raise NotFound(f"There is no person {analyst!r}. Nothing was granted.")
        account = self.shelf.curator(name).share(analyst, limit).account
        self._record(caller.name, "grant", account.name, f"limit {limit}")
        return account

    def schema(self, caller: Caller, name: str) -> DeclaredData:
        """The data set as far as its declaration goes, for whoever may see that. No engine is opened. Why it
        is broken is for its owner to know; others learn that it is."""
        if not (caller.may(Right.LOOK) or caller.may(Right.MANAGE)):
            caller.need(Right.ASK)
            self._part(name, caller.name, caller.name)
        listing = self.shelf.read_declared(name)
        if listing.problem is None or (listing.owner == caller.name and caller.may(Right.MANAGE)):
            return listing
        return replace(listing, problem=BROKEN)

    def may_ask(self, caller: Caller, name: str) -> bool:
        """Whether the caller owns the data set, or has a part of it."""
        owner = self.ledger.account(name).owner
        return (owner == caller.name and caller.may(Right.MANAGE)) or self._has_part(name, caller.name)

    def find_problems(self) -> list[str]:
        """What keeps this process from serving, in sentences that anybody may read. It looks at the ledger
        and at the service's own state."""
        sentences = []
        for look, sentence in (
            (self.ledger.head, "The ledger cannot be read."),
            (self.state.check, "The database of the service cannot be read."),
        ):
            try:
                look()
            except DeniableError:
                sentences.append(sentence)
        return sentences

    # -------------------------------------------------------------------------------------------- asking

    def curator(self, caller: Caller, name: str) -> Curator:
        """The data set for the caller: her own part of it, or, for the one who owns it, the whole."""
        caller.need(Right.ASK)
        main_curator = self.shelf.curator(name)
        if caller.name == main_curator.account.owner and caller.may(Right.MANAGE):
            return main_curator
        with self._hide_missing():
            return self.shelf.part(name, main_curator, caller.name)

    def preview(self, caller: Caller, name: str, question: Question) -> Preview:
        self.throttle.hit("previews", caller.name)
        return self.curator(caller, name).inquire(question).preview()

    def find_kept_answer(self, caller: Caller, name: str, question: Question) -> Answer | None:
        """The answer that she has paid for, if there is one. Never charges anything."""
        self.throttle.hit("requests", caller.name)
        return self.curator(caller, name).inquire(question).kept()

    def ask(
        self,
        caller: Caller,
        name: str,
        question: Question,
        *,
        key: str | None = None,
        purse: Purse | None = None,
    ) -> Answer:
        """Answer, all of it in this thread."""
        return self.asking(caller, self.curator(caller, name), name, question, key=key, purse=purse).answer()

    def asking(
        self,
        caller: Caller,
        curator: Curator,
        name: str,
        question: Question,
        *,
        key: str | None = None,
        purse: Purse | None = None,
    ) -> Pending:
        """A question that is charged at most once: for a key where one is given, else for each time that it
        was told to be lost."""
        self.throttle.hit("requests", caller.name)
        question_id = _digest("question", curator.account.name, curator.schema.version, question.digest)

        def make_key() -> str:
            if key is not None:
                return _digest("key", caller.name, key)
            return _digest(question_id, str(self._lost_answers.times(question_id)))

        def note_lost() -> None:
            if key is None:
                self._lost_answers.add(question_id)

        return Pending(
            curator,
            question,
            question_id=question_id,
            body=_digest("body", name, question.digest),
            make_key=make_key,
            note_lost=note_lost,
            purses=self._purses,
            purse=purse,
            turns=self._turns,
        )

    # -------------------------------------------------------------------------------------------- accounts

    def account(self, caller: Caller, name: str, analyst: str | None = None) -> Account:
        """A data set's account, or an analyst's part of it: each for owner and auditor, one's own for
        oneself."""
        if analyst == caller.name and caller.may(Right.ASK) and not caller.may(Right.LOOK):
            return self.curator(caller, name).account
        if not caller.may(Right.LOOK):
            caller.need(Right.ASK)
            raise NotFound(UNKNOWN)
        self.shelf.version(name)
        if analyst is None:
            return self.ledger.account(name, analyst=caller.name)
        return self._part(name, analyst, caller.name)

    def _part(self, name: str, analyst: str, caller: str) -> Account:
        with self._hide_missing():
            account = self.ledger.account(names.part(name, analyst), analyst=caller)
        if account.parent != name:
            raise NotFound(UNKNOWN)
        return account

    @contextmanager
    def _hide_missing(self) -> Iterator[None]:
        """An account that is not there is told as a data set that nobody granted; a ledger that cannot be
        read is told as that."""
        try:
            yield
        except LedgerError as error:
            if type(error) is not LedgerError:
                raise
            self.ledger.head()
            raise NotFound(UNKNOWN) from None

    def _has_part(self, name: str, analyst: str) -> bool:
        try:
            self._part(name, analyst, analyst)
        except NotFound:
            return False
        return True

    def parts(self, caller: Caller, name: str) -> list[Account]:
        caller.need(Right.LOOK)
        self.shelf.version(name)
        return [account for account in self.ledger.accounts() if account.parent == name]

    def raise_limit(
        self, caller: Caller, name: str, analyst: str | None, limit: Budget, reason: str
    ) -> str | None:
        caller.need(Right.MANAGE)
        _reason(reason)
        account = self._managed_account(caller, name, analyst)
        if self.settings.second_person:
            account.standing().filter.raised(limit)  # a limit that is none is refused now
            pair = [str(Fraction(limit.epsilon)), str(Fraction(limit.delta))]
            return self.proposals.add(caller, "raise limit", account.name, reason, {"limit": pair})
        self._raise(caller.name, account.name, limit, reason)
        return None

    def _raise(self, owner: str, account: str, limit: Budget, reason: str) -> None:
        self.ledger.account(account).raise_limit(limit, owner=owner)
        self._record(owner, "raise limit", account, f"to {limit}: {reason}")

    def agree(self, caller: Caller, number: str) -> str | None:
        """The second person, another owner, agrees: the act is done now, in the name of who proposed it, as
        far as it is still possible. The second half of a one-time password, where it gives one."""
        caller.need(Right.MANAGE)
        caller.need_session()
        return self._agree(caller, number)

    def agree_at_the_shell(self, number: str) -> str | None:
        """The operator agrees, whom no owner can be: the way to a second owner where there is one."""
        return self._agree(None, number)

    def _agree(self, caller: Caller | None, number: str) -> str | None:
        proposal, consent = self.proposals.agree(caller, number)
        owner, about, terms = proposal.person, proposal.about, proposal.terms
        if proposal.act in ACTS:
            return self.membership.perform(proposal, consent)
        match proposal.act:
            case "register data":
                self._register(owner, Declaration.from_json(about, terms["declaration"]))
            case "new version":
                self._check_owner(owner, about)
                self._set_version(owner, about, terms["version"])
            case "raise limit":
                self._raise(owner, about, Budget(*map(Fraction, terms["limit"])), proposal.reason)
            case "hand over":
                self._check_handing(owner, about, terms["to"])
                self._hand_over(owner, about, terms["to"])
            case _:
                self._unfreeze(owner, about, proposal.reason)
        return None

    def drop(self, caller: Caller, number: str) -> None:
        """An owner refuses a proposal, or takes her own back."""
        caller.need(Right.MANAGE)
        self.proposals.drop(caller.name, number)

    def waiting(self, caller: Caller) -> list[ProposedAct]:
        """What waits for a second person, for owners and auditors."""
        caller.need(Right.LOOK)
        return [proposal.hide_half for proposal in self.proposals.list_waiting()]

    def freeze(self, caller: Caller, name: str, analyst: str | None, reason: str) -> None:
        caller.need(Right.MANAGE)
        account = self._managed_account(caller, name, analyst)
        account.freeze(_reason(reason))
        self._record(caller.name, "freeze", account.name, reason)

    def unfreeze(self, caller: Caller, name: str, analyst: str | None, reason: str) -> str | None:
        caller.need(Right.MANAGE)
        account = self._managed_account(caller, name, analyst)
        if self.settings.second_person:
            return self.proposals.add(caller, "unfreeze", account.name, _reason(reason), {})
        self._unfreeze(caller.name, account.name, _reason(reason))
        return None

    def _unfreeze(self, owner: str, account: str, reason: str) -> None:
        self.ledger.account(account).unfreeze(reason, owner=owner)
        self._record(owner, "unfreeze", account, reason)

    def _managed_account(self, caller: Caller, name: str, analyst: str | None) -> Account:
        self._check_manager(caller, name)
        return self.account(caller, name, analyst)

    def _check_manager(self, caller: Caller, name: str) -> None:
        """Of several owners, the one who registered the data set, or was handed it, manages it."""
        self.shelf.version(name)
        self._check_owner(caller.name, name)

    def _check_owner(self, person: str, name: str) -> None:
        owner = self.ledger.account(name).owner
        if owner != person:
            raise Forbidden(f'Only {owner} may manage the data set "{name}". Nothing was changed.')

    def hand_over(self, caller: Caller, name: str, new_owner: str) -> str | None:
        """Another owner manages the data set from now on. Its present owner does so; where she is an owner no
        longer, any other."""
        caller.need(Right.MANAGE)
        self.shelf.version(name)
        self._check_handing(caller.name, name, new_owner)
        if self.settings.second_person:
            return self.proposals.add(caller, "hand over", name, "", {"to": new_owner})
        self._hand_over(caller.name, name, new_owner)
        return None

    def _check_handing(self, person: str, name: str, new_owner: str) -> None:
        owner = self.ledger.account(name).owner
        if owner != person and self.roster.is_owner(owner):
            raise Forbidden(f'Only {owner} may hand over the data set "{name}". Nothing was changed.')
        if new_owner == owner or not self.roster.is_owner(new_owner):
            raise InvalidParameter(
                f"Expected another owner who can log in, got {new_owner!r}. Nothing was changed."
            )

    def _hand_over(self, person: str, name: str, new_owner: str) -> None:
        self.ledger.hand_over(name, new_owner, owner=self.ledger.account(name).owner, by=person)
        self.shelf.hand_over(name, new_owner)
        self._record(person, "hand over", name, f"to {new_owner}")

    def _is_entrusted(self, person: str, actor: str) -> bool:
        """Whether a person holds data that is not `actor`'s to give: a data set of her own, though she be an
        owner no longer, or a part of another's."""
        if person == actor:
            return False
        return any(
            account.owner == person
            or (account.parent is not None and account.owner != actor and analyst_of(account) == person)
            for account in self.ledger.accounts()
        )

    # -------------------------------------------------------------------------------------------- the journal

    def history(self, caller: Caller) -> list[Entry]:
        """All of it for owner and auditor, one's own part for an analyst."""
        if caller.may(Right.LOOK):
            return self.ledger.history()
        caller.need(Right.ASK)
        own = [self._part(name, caller.name, caller.name) for name in self.datasets(caller)]
        return sorted((entry for account in own for entry in account.history()), key=lambda entry: entry.seq)

    def verify(self, caller: Caller, head: str | None) -> tuple[Verification, int | None]:
        """The journal, and the number of the first act that is not as it was written."""
        caller.need(Right.LOOK)
        return self.ledger.verify(head), acts.find_broken_seal(acts.history(self.state), self.key)

    def acts(self, caller: Caller) -> list[acts.Act]:
        caller.need(Right.LOOK)
        return acts.history(self.state)

    def certificate(self, caller: Caller, seq: int) -> Certificate:
        """What one release cost, for others to check."""
        entry = next((entry for entry in self.history(caller) if entry.seq == seq), None)
        if entry is None or entry.loss is None or entry.kind not in (EntryKind.RUN, EntryKind.OPEN):
            raise NotFound("There is no release of this number, or it is not yours.")
        if not entry.details.get("private"):
            raise InvalidParameter(
                "Expected a private release: this one was drawn from a seed, and protects nobody."
            )
        delta = float(self.ledger.account(entry.account).limit.delta)
        return certify(entry.loss, entry.unit, delta, head=f"{entry.seq}:{entry.mac}")


def analyst_of(part: Account) -> str:
    """Whose part of a data set it is."""
    return part.name.rpartition(names.STROKE)[2]


def _digest(*parts: str) -> str:
    content = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()


def _reason(reason: str) -> str:
    if not reason.strip() or len(reason) > 1000 or not reason.isprintable():
        raise InvalidParameter(
            "Expected a reason of at most 1,000 characters: it is written down. Nothing was changed."
        )
    return reason
