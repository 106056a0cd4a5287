"""An account: the only thing that runs a mechanism. It charges first, durably, and then opens the data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, TypeVar

from deniable.accounting.certificate import certify
from deniable.accounting.filters import Left, Spent
from deniable.accounting.filters.charges import Charge, Price, price
from deniable.accounting.filters.odometer import Reading, odometer
from deniable.errors import (
    AccountFrozen,
    DataError,
    DeniableError,
    InvalidParameter,
    LedgerError,
    Unaccountable,
    UnitMismatch,
)
from deniable.guarantee import Budget, Certificate
from deniable.ledger import notes, releases, requests
from deniable.ledger.balances import Balances, ChargePreview, Prices
from deniable.ledger.data_sets import forget as forgetting
from deniable.ledger.data_sets import versions as data_versions
from deniable.ledger.data_sets.forget import Forgotten
from deniable.ledger.journal import Draft, Journal, Standings, acts
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind, Standing, Status, concerns
from deniable.ledger.refusal import explain_units
from deniable.ledger.releases import Kept, LedgerView
from deniable.ledger.session import Session, check_open
from deniable.loss import Loss, Number, exact
from deniable.mechanism import Fitting, Interactive, Mechanism, Random, Release
from deniable.process import Home, Original, listening
from deniable.randomness import SecureRandom
from deniable.units import Unit

Value = TypeVar("Value")

OnFailure = Callable[[Exception], None]

OPENERS = (FunctionType, MethodType, BuiltinMethodType, functools.partial)
"""`data` of these types is called for the data, after the charge."""
ONE_ANSWER = "One charge pays for one answer, the parent's."


@dataclass(frozen=True)
class Paid:
    """A charge that stands: the entry, and what was charged to each account."""

    entry: Entry
    loss: Loss
    unit: Unit
    private: bool
    charges: dict[str, Charge]
    delta: Number | None

    @property
    def seq(self) -> int:
        return self.entry.seq

    @property
    def entry_id(self) -> str:
        return str(Head(self.entry.seq, self.entry.mac))


class Account(Original):
    """A limit on all that leaves a data set, or an analyst's own limit inside it. Made by `Ledger.create`.

    Guarantee: everything released through this account and its sub-accounts together is
               (ε, δ)-DP for its unit, ε and δ the largest limit it ever had, for
               mechanisms chosen adaptively and sessions that interleave.
    Assumes:   each mechanism's loss is true for its unit; data is opened through accounts of one ledger only.
    Reference: docs/theory/filters.md.
    """

    WAY_OUT = "In another process, open the ledger there and take the account by its name."

    def __init__(
        self, journal: Journal, path: list[Standing], analyst: str, on_failure: OnFailure | None
    ) -> None:
        self._journal = journal
        self._names = [standing.name for standing in path]
        self._analyst = analyst
        self._on_failure = on_failure
        self.name = path[0].name
        self.unit = path[0].unit
        self._unit_json = path[0].unit_json
        self._filter_json = path[0].filter_json
        self._zero_charge = path[0].filter.nothing
        self.is_new = False  # its first charge is under the limit it was made with, whoever was charged
        self._prices = Prices(self.unit, {standing.name: standing.filter for standing in path})
        self.before_charge: Callable[[], None] | None = None
        """Of an account that is only proposed: makes it. Nothing is ever charged to a proposal."""
        self._version: str | None = None
        self.owner = path[-1].owner
        self.parent = path[0].parent
        self.root = path[-1].name

    def __copy__(self) -> Account:
        """A copy is the same account: what is spent through one is spent through the other."""
        return self

    def __deepcopy__(self, memo: object) -> Account:
        return self

    def propose(self, make: Callable[[], None]) -> None:
        """This account, and the ledger it is in, are only proposed: whatever would write into them calls
        `make` first, and is written where that has put them."""
        self.before_charge = make
        self._journal.successor = lambda: self._make_journal(make)

    def _make_journal(self, make: Callable[[], None]) -> Journal:
        make()
        return self._journal

    def become(self, account: Account) -> None:
        """A proposal is this account from now on: whoever holds the one holds the other. A version that was
        declared stays so if the one who declared it owns what was made."""
        version = self._version if account.by_owner else None
        self.__dict__.update(account.__dict__)
        self._version = version

    # -------------------------------------------------------------------------------------------- releases

    def run(
        self,
        mechanism: Mechanism[Value],
        data: Any,
        *,
        rng: Random | None = None,
        delta: Number | None = None,
        analyst: str | None = None,
        description: str | None = None,
        fair: tuple[type[DeniableError], ...] = (),
    ) -> Release[Value]:
        """Charge `mechanism.loss`, then open `data`, then release what the mechanism says.

        `data` may be a function that opens it. With `delta` the loss is charged as (ε, δ). A mechanism that
        fails after its charge has been paid for, releases nothing, and freezes the account and those it is
        part of until the owner looks: that it failed may say something about data. Errors in `fair` are the
        mechanism's word that they do not, and pass.
        """
        source = self._source(rng)
        error = mechanism.error()
        if isinstance(mechanism, Fitting):
            mechanism.fits(None if isinstance(data, OPENERS) else data)
        payment = self._pay(EntryKind.RUN, mechanism, source, delta, analyst, description)
        value = self.attempt(payment, lambda: mechanism(_open_data(data), rng=source), fair=fair)
        extras = getattr(mechanism, "granularity", None), getattr(mechanism, "assumptions", ())
        return Release(value, payment.loss, payment.unit, error, payment.entry_id, payment.private, *extras)

    def open(
        self,
        interactive: Interactive[Value],
        data: Any,
        *,
        rng: Random | None = None,
        delta: Number | None = None,
        analyst: str | None = None,
        description: str | None = None,
    ) -> Session[Value]:
        """Charge the loss of a whole conversation, then begin it."""
        source = self._source(rng)
        payment = self._pay(EntryKind.OPEN, interactive, source, delta, analyst, description)
        conversation = self.attempt(payment, lambda: interactive.open(_open_data(data), rng=source))
        return Session(self, payment, conversation)

    def _source(self, rng: Random | None) -> Random:
        source: Random = SecureRandom() if rng is None else rng
        if not source.private and not self._journal.store.in_memory:
            raise InvalidParameter(
                "Expected a secure generator: what a seeded one draws can be drawn again by others. "
                "Nothing was charged and nothing was run. For a test with a seed, open the ledger sqlite:// "
                "in memory."
            )
        return source

    def _pay(
        self,
        kind: EntryKind,
        mechanism: Mechanism[Any] | Interactive[Any],
        source: Random,
        delta: Number | None,
        analyst: str | None,
        description: str | None,
    ) -> Paid:
        loss, unit = mechanism.loss, mechanism.unit
        self._check_unit(unit)
        charges = self._prices.price_loss(loss, delta)
        if self.before_charge is not None:
            # What does not fit makes nothing.
            self._balances(self._journal.standings(self._names)).admit(charges, loss)
            self.before_charge()
            self._source(source)  # of the account that is there now
        delta_detail = {} if delta is None else {"delta": str(exact(delta))}
        details = {
            "charges": {name: charge.to_dict() for name, charge in charges.items()},
            "private": source.private,
            **delta_detail,
            **data_versions.details(self._version),
            **requests.details(),
        }
        words = type(mechanism).__name__ if description is None else description
        draft = Draft(
            kind, self.name, analyst or self._analyst, words, self._unit_json, details, loss.to_json()
        )

        def decide(standings: Standings) -> Draft:
            self._check_current(standings)
            self._balances(standings).admit(charges, loss)
            return draft

        entry = self._journal.append(self._names, decide, requests.claim)
        self.is_new = False
        return Paid(entry, loss, unit, source.private, charges, delta)

    def _check_current(self, standings: Standings) -> None:
        """Unit and limit may be set anew until the first charge: what was priced by old ones is refused."""
        standing = standings[self.name]
        same = standing.unit_json == self._unit_json and standing.filter.nothing == self._zero_charge
        settable = self.is_new or self.name not in standings.tip.charged
        if not same or (settable and standing.filter_json != self._filter_json):
            raise LedgerError(
                f'The account "{self.name}" was set anew since it was opened here. Nothing was charged. Open '
                "it again."
            )

    def attempt(
        self, payment: Paid, act: Callable[[], Value], *, fair: tuple[type[DeniableError], ...] = ()
    ) -> Value:
        """Do what was paid for. Of a failure the caller learns only that; errors in
        `fair` never depend on data and pass.

        Stopped by Ctrl-C the charge stays, and nothing is frozen: it was the person who
        stopped it. Whatever else ends it, of any type, is a failure, since data may have
        steered it. Neither carries out a word of what was raised inside. A child that was
        forked on the way has paid for nothing and is told so.
        """
        home = Home()
        failure: BaseException | None = None
        with listening() as interrupt:
            try:
                value = act()
            except fair:
                raise
            except BaseException as error:
                interrupt.held = True  # a second Ctrl-C must not come between a failure and its freeze
                failure = error
            # Outside the handler, so that what is raised here carries no trace of an error that may depend on
            # data.
            if failure is None:
                home.check(f"What entry {payment.seq} paid for", ONE_ANSWER)
                self._journal.store.check_visible()  # others must see the charge, however long it took
                return value
            if interrupt.asked and isinstance(failure, KeyboardInterrupt):
                del failure
                raise KeyboardInterrupt
            self._note_failure(payment, failure)
        del failure
        raise AccountFrozen(
            f"What was paid for by entry {payment.seq} failed. Nothing was released, the charge stands, and "
            "the account "
            f'"{self.name}" is frozen until its owner looks. The reason may depend on data, so it is not '
            "told here."
        )

    def check_held(self, payment: Paid) -> None:
        """Raise unless the ledger, as others see it, still holds the charge."""
        self._journal.check_held(payment.seq, payment.entry.mac)

    def _note_failure(self, payment: Paid, failure: BaseException) -> None:
        sentence = f"What entry {payment.seq} paid for failed."
        acts.freeze(self._journal, self._names, self._names, sentence, self._analyst)
        if self._on_failure is not None:
            self._on_failure(failure if isinstance(failure, Exception) else DataError(repr(failure)))

    def settle(self, payment: Paid, used_loss: Loss | None) -> None:
        """Give back what a closed session did not use. Sums of ε's and divergences may
        be stopped at any time; a loss that was charged at a δ may not, since its ε is by
        a theorem for fixed parameters: that one stays."""
        loss = payment.loss if used_loss is None else used_loss
        costs = payment.charges
        if payment.delta is None:
            costs = self._prices.price_used(payment.charges, loss)
        refunds = {name: (payment.charges[name] - costs[name]).to_dict() for name in costs}
        draft = Draft(
            EntryKind.SETTLE,
            self.name,
            payment.entry.analyst,
            f"Closed the session of entry {payment.seq}.",
            payment.entry.unit_json,
            {"session": payment.seq, "returned": refunds},
            loss.to_json(),
        )

        def decide(standings: Standings) -> Draft:
            check_open(standings, payment.entry, payment.charges)
            return draft

        self._journal.append(self._names, decide)

    # -------------------------------------------------------------------------------------------- steps

    def begin(self, entry: str, start: int, stop: int) -> None:
        """Note durably, before they are taken, that steps start + 1 … stop of what
        `entry` paid for are begun.

        `entry` is `Release.entry` or `Session.entry`. Steps that were noted before are
        refused: they would be taken twice. Steps between the last note and `start` are
        lost. A settled session, a frozen or a closed account begins nothing.
        """
        notes.begin(self._journal, self._names, self._analyst, entry, start, stop)

    def begun(self, entry: str) -> int:
        """How many steps of what `entry` paid for were noted as begun: a run that is
        resumed goes on after this number."""
        return notes.count_begun(self._journal, entry)

    # ------------------------------------------------------------------------------------------ releases kept

    def keep(self, key: str, release: Release[Any], content: str, *, delta: Number | None = None) -> bool:
        """Keep `content`, the text of a release of this account, for the question `key`;
        `delta` is the one it was run with.

        False, and nothing is kept, if a release is kept for this question already.
        """
        self._check_unit(release.unit)
        if release.entry is None:
            raise InvalidParameter("Expected a release that an account paid for. Nothing was kept.")
        record = Kept.from_release(
            key, release.entry, release.loss, delta, release.private, content, release.unit
        )
        return releases.keep(self._journal, record, self._names)

    def recall(
        self, key: str, *, analyst: str | None = None, description: str = "Read again."
    ) -> Kept | None:
        """The release kept for the question `key` and this account's unit, if there is one.

        Free for an account that has paid for it. Else this account is charged, and those above it that have
        not paid either: what is shown was released already, so it costs the data set nothing.
        """
        view = self.view(key)
        if view.kept is not None and view.owing(self._names):
            self.admit(view, self.read(view, analyst=analyst, description=description))
        return view.kept

    def holds(self, key: str) -> bool:
        """Whether the release for the question `key` is read here for free."""
        view = self.view(key)
        return view.kept is not None and not view.owing(self._names)

    def view(self, *keys: str) -> LedgerView:
        """What the ledger says now, in one transaction, of this account and of the first of these questions
        that has an answer."""
        return releases.view(self._journal, self._names, keys, self.unit)

    def free(self, view: LedgerView) -> bool:
        """Whether the answer in `view` was paid for by this account and those above."""
        return view.kept is not None and not view.owing(self._names)

    def read(self, view: LedgerView, *, analyst: str | None = None, description: str = "Read again.") -> str:
        """Pay for the answer in `view` where that is still to be done; the entry by
        which this account paid for it."""
        if view.kept is None:
            raise InvalidParameter("Expected a question whose answer is kept. Nothing was charged.")
        owing = view.owing(self._names)
        if not owing:
            return view.readers[self.name]
        return self._pay_to_read(view.kept, owing, analyst or self._analyst, description)

    def admit(self, view: LedgerView, entry: str) -> None:
        """Write down that the answer in `view` has been paid for by `entry`: it is free from now on."""
        if view.kept is not None:
            with self._journal.store.writing() as transaction:
                releases.admit(self._journal, transaction, view.kept, view.owing(self._names), entry)

    def _pay_to_read(self, release: Kept, owing: list[str], analyst: str, description: str) -> str:
        delta = None if release.delta is None else Fraction(release.delta)
        prices = self._prices.price_loss(release.loss, delta)
        charges = {name: prices[name] for name in owing}
        delta_detail = {} if release.delta is None else {"delta": release.delta}
        details = {
            "charges": {name: charge.to_dict() for name, charge in charges.items()},
            "private": release.private,
            "reads": release.entry,
            **delta_detail,
            **requests.details(),
        }
        draft = Draft(
            EntryKind.RUN, self.name, analyst, description, self._unit_json, details, release.loss_json
        )

        def decide(standings: Standings) -> Draft:
            self._balances(standings).admit(charges)
            return draft

        entry = self._journal.append(self._names, decide, requests.claim)
        return str(Head(entry.seq, entry.mac))

    # -------------------------------------------------------------------------------------------- looking

    def standing(self) -> Standing:
        return self._journal.standings([self.name])[self.name]

    @property
    def limit(self) -> Budget:
        """The guarantee: everything released through this account together is (ε, δ)-DP."""
        return self.standing().filter.limit

    @property
    def status(self) -> Status:
        return self.standing().status

    def spent(self) -> Spent:
        """What the charges come to: book-keeping, at the least valid reading. The guarantee is the limit."""
        standing = self.standing()
        return standing.filter.spent(standing.spent)

    @property
    def _visible_names(self) -> list[str]:
        """The accounts on the path whose numbers are told here: the owner sees them all, an analyst her
        own."""
        if self.by_owner:
            return self._names
        return self._names[:1]

    def _balances(self, standings: Standings) -> Balances:
        return Balances(standings, self.name, self._visible_names)

    def remaining(self) -> Left:
        """The largest single charge that this account and, as far as its owner asks,
        those above it would still grant."""
        return self._balances(self._journal.standings(self._visible_names)).left({})

    def preview(
        self, loss: Loss, *, delta: Number | None = None, view: LedgerView | None = None
    ) -> ChargePreview:
        """Would it fit, and what would be left? Nothing is charged. With a `view` of a question whose answer
        is kept, as reading it would be charged."""
        if view is None:
            view = self.view()
        prices = self._prices.price_loss(loss, delta)
        charges = {name: prices[name] for name in view.owing(self._names)}
        return self._balances(view.standings).preview(charges, loss)

    def times(self, loss: Loss, *, delta: Number | None = None) -> int:
        """How often such a loss would still be granted, one after the other, up to a million; by the accounts
        whose numbers are told here."""
        prices = self._prices.price_loss(loss, delta)
        return self._balances(self.view().standings).times(prices)

    def price(self, loss: Loss, delta: Number) -> Price:
        """How a release would be charged here where a δ is at hand: by its own ε, else at `delta`."""
        return price(loss, delta, lambda part, share: self._prices.price_loss(part, share)[self.name])

    def accountable(self, loss: Loss) -> bool:
        """Whether every account on the path can be charged for `loss` without a δ that is named."""
        try:
            self._prices.price_loss(loss, None)
        except Unaccountable:
            return False
        return True

    def odometer(self) -> Reading:
        """A bound on the loss so far, valid at all times together; higher
        than `spent`, which is not."""
        standing = self.standing()
        return odometer(standing.filter, standing.spent)

    def history(self) -> list[Entry]:
        """Every entry of this account and of its sub-accounts, in order. That somebody was forgotten is told
        to the owner alone: it may say of a person that she was in the data."""
        with self._journal.store.reading() as transaction:
            entries = [entry for entry in self._journal.entries(transaction) if concerns(entry, self.name)]
        if self.by_owner:
            return entries
        return [entry for entry in entries if entry.kind is not EntryKind.FORGET]

    def certificate(self, release: Release[Any], *, delta: Number | None = None) -> Certificate:
        """A certificate for a release, with the ledger's head at its entry; `delta` is else the limit's."""
        if not release.private:
            raise InvalidParameter(
                "Expected a private release: this one was drawn from a seed, and protects nobody."
            )
        at = float(self.limit.delta if delta is None else delta)
        return certify(release.loss, release.unit, at, assumptions=release.assumptions, head=release.entry)

    # -------------------------------------------------------------------------------------------- the owner

    def raise_limit(self, limit: Budget, *, owner: str | None = None) -> None:
        """A higher limit, from now on, in the journal; the guarantee is that of the highest ever set."""
        acts.raise_limit(self._journal, self.name, limit, self._owner(owner, "raise its limit"))
        self._filter_json = self.standing().filter_json

    def freeze(self, reason: str = "Frozen by hand.") -> None:
        """Refuse every charge until the owner looks."""
        acts.freeze(self._journal, self._names, [self.name], reason, self._analyst)

    def unfreeze(self, note: str = "Looked at.", *, owner: str | None = None) -> None:
        """The owner has looked: this account and those above it run again. What was charged stays charged."""
        acts.thaw(self._journal, self._names, note, self._owner(owner, "unfreeze it"))

    def close(self, *, owner: str | None = None) -> None:
        """No more charges, for good. The guarantee stays what it is."""
        acts.close(self._journal, self.name, self._owner(owner, "close it"))

    def forget(
        self,
        person: object,
        *,
        erase: Callable[[Any], object] | None = None,
        declared: int | None = None,
        units: int = 1,
        owner: str | None = None,
    ) -> Forgotten:
        """A person asks to be forgotten: erase her rows, write a random receipt into the
        journal, and say what that means.

        `person` is handed to `erase`, which takes her out of the data, and is written nowhere;
        if that fails, nothing is written. `declared` is the number of people at which models and
        tables are made anew: it is named with the first request, and afterwards only lowered.
        `units` is how many of the account's units she is: her rows, where a row is protected. No
        release is called back and nothing is given back: see `deniable.ledger.data_sets.forget`.
        """
        by = self._owner(owner, "forget somebody")
        if self.parent is not None:
            raise LedgerError(
                f'A person is forgotten in the whole data set: ask the account "{self.root}". Nothing was '
                "written."
            )
        request = forgetting.ForgetRequest(self.name, by, units, declared)
        with self._journal.following() as (_, at):
            # Before anything is erased.
            request.next_declared(at.forgotten.get(self.name, forgetting.NEVER)[1])
        if erase is not None:
            erase(person)
        # The guarantee is that of the highest limit ever set, and a limit only grows.
        return forgetting.forget(self._journal, request, self.history(), self.limit, self.unit)

    @property
    def by_owner(self) -> bool:
        """Whether the one who asks through this object is the owner."""
        return self._analyst == self.owner

    @property
    def version(self) -> str | None:
        """The version of the data that releases through this object are noted to be of; None if none was
        declared."""
        return self._version

    def declare_version(self, version: str) -> None:
        """Releases through this object are of this version of the data: from now on their entries say so.
        It is the owner's word, and never read from data; an analyst's part takes it over from the owner's
        curator."""
        self._owner(None, "declare a version of its data")
        self._version = data_versions.check_version(version)

    def same_data_as(self, parent: Account) -> Account:
        """This account, of the version that was declared for `parent`, which it is part of."""
        self._version = parent._version if parent.root == self.root else None
        return self

    def versions(self) -> dict[str | None, tuple[int, ...]]:
        """The entries that released something, by the version of the data they are of; None where none was
        declared."""
        return data_versions.by_version(self.history())

    def still_held(self) -> tuple[int, ...]:
        """Entries after somebody was forgotten whose data may hold her still: of a version that was in use
        before, or of none that was declared. For the owner."""
        self._owner(None, "ask who is held still")
        return data_versions.entries_holding(self.history())

    def _owner(self, owner: str | None, wish: str) -> str:
        by = owner or self._analyst
        if by != self.owner:
            raise LedgerError(
                f'Only {self.owner}, the owner of the account "{self._names[-1]}", may {wish}; you are {by}.'
            )
        return by

    def _check_unit(self, unit: Unit) -> None:
        if unit != self.unit:
            raise UnitMismatch(
                f'The account "{self.name}" protects {self.unit}; this loss is stated for {unit}. '
                f"{explain_units(self.unit, unit)} Nothing was charged and nothing was run."
            )


def _open_data(data: Any) -> Any:
    return data() if isinstance(data, OPENERS) else data
