"""The curator: data, a ledger and SQL in one object that an analyst can hold."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from deniable.accounting.charges import price
from deniable.accounting.filters import above
from deniable.curator import opening as house
from deniable.curator.answer import Answer, answer_seconds
from deniable.curator.preview import Preview
from deniable.curator.response_time import Pace, checked, paced
from deniable.curator.stop import Stop, Stoppable, by_signal
from deniable.errors import DataError, DeniableError, LedgerError, Stopped
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, names
from deniable.ledger.releases import View
from deniable.loss import Loss, Number
from deniable.mechanism import Random
from deniable.process import Home, Original
from deniable.sql.answer.cache_key import normal
from deniable.sql.engines import Engine, open_engine
from deniable.sql.engines.identity import keys as source_keys
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.schema.file import load
from deniable.sql.schema.infer import describe
from deniable.sql.schema.overrides import Bounds, Keys, declared
from deniable.sql.tree import Query
from deniable.units import Unit

DESCRIBED = 2_000
"""Characters of a query that the journal keeps."""

SHARE = 100
"""A query's δ is this part of the data set's where none is named."""


@dataclass(frozen=True)
class Asked:
    """A query as it was checked and planned, and how it is charged: `at` is the δ of the charge, None if it has none to name."""

    plan: Plan
    loss: Loss
    key: str
    at: Number | None
    epsilon: float
    delta: float


class Curator(Original):
    """Answers SQL about private data, within a limit that a ledger keeps. Made by `Curator.open`.

    Guarantee: all answers together are (ε, δ)-DP for the unit, ε and δ the account's limit, whatever is asked, in whatever
               order. Everything an analyst sees beside the answers (refusals, messages, column names and types, the order of
               rows) depends on the text of her queries and the declared schema alone.
    Assumes:   the unit, and what the schema says is public, are as the owner says; data is opened through one ledger only.
    Error:     told with every answer, and before it by `preview`.
    Reference: docs/theory/curator.md.
    """

    WAY_OUT = "Open the data there with Curator.open; processes share one ledger."

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        account: Account,
        ledger: Ledger,
        *,
        floor: float = 0.0,
        rng: Random | None = None,
        places: tuple[str, ...] = (),
    ) -> None:
        self._home = Home()
        self._engine = engine
        self._places = places
        self._floor = checked(floor)
        self._rng = rng
        self._turn = threading.Lock()
        self._owned: list[Any] = []
        self._asking: list[Stop] = []
        self.schema = schema
        self._declared = repr(schema)
        self.account = account
        self.ledger = ledger
        self._delta = account.view().standings[account.root].filter.limit.delta
        self._opening: house.Opening | None = None
        self._unbound: house.Terms | None = None

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        unit: Unit | None = None,
        limit: Budget | None = None,
        name: str | None = None,
        ledger: str | Ledger | None = None,
        schema: str | Path | Schema | None = None,
        bounds: Bounds | None = None,
        keys: Keys | None = None,
        version: str | None = None,
        account: str | None = None,
        analyst: str | None = None,
        floor: float = 0.0,
        memory: str | None = None,
        seconds: float | None = None,
        threads: int | None = None,
        rng: Random | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Curator:
        """Open a data set: a file, a table in memory, a database, or several of them by the names of their tables.

        `unit` and `limit` are set at the first use and remembered by the ledger, which lies beside the data unless `ledger` says
        where. `schema` is a file or a `Schema`; without one, names and types of columns are those of the source. `bounds` clamp
        columns, `keys` list the public values of group keys; both are public knowledge, never taken from the data. `version`
        names the state of the data: answers are kept and given again for one version. `account` names the data set in the ledger,
        after its private tables by default: two data sets in one ledger need two names. `analyst` says who asks; her own part of
        the account is used if there is one. `floor` rounds response times up to whole steps of so many seconds. `memory`,
        `seconds` and `threads` limit the engine. `on_failure` tells the owner, and nobody else, why an engine failed.
        """
        given = _schema(schema)
        sources = house.named(source, name, given)
        stated = given or Schema(tuple(_described(table, where) for table, where in sources.items()))
        data = account or house.data_name(stated)
        if analyst is not None:
            names.name(analyst, "an analyst")
        keyed = source_keys(sources, frozenset(table.name for table in stated.tables if not table.public))
        owned: list[Any] = []
        try:
            place = "this ledger" if isinstance(ledger, Ledger) else ledger or house.address(sources)
            books = (
                ledger if isinstance(ledger, Ledger) else house.known_ledger(place, data, limit, analyst, on_failure)
            )
            owned += [] if books is None or books is ledger else [books]
            data = house.data_account(books, data, account is not None, keyed)
            protected = house.protects(books, data, unit, limit)
            known = declared(stated, protected, bounds or {}, keys or {}, version)
            engine = open_engine(sources, known, memory=memory, seconds=seconds, threads=threads)
            owned.append(engine)
            terms = house.Terms(data, protected, limit, analyst, keyed, tuple(house.files(sources)))
            opening = house.opening(books, place, terms, on_failure)
            if opening is not None:
                proposal, paying = opening.proposed()
                owned.append(proposal)
            else:
                assert books is not None
                paying = house.open_account(books, data, unit, limit, analyst)
                proposal = books
            places = tuple(str(path.resolve()) for path in terms.paths)
            made = cls(engine, known, paying, books or proposal, floor=floor, rng=rng, places=places)
        except BaseException:
            _close(owned)
            raise
        made._owned, made._opening = owned, opening
        paying.before_charge = None if opening is None else made._begin
        made._unbound = None if opening is not None or house.is_bound(made.ledger, terms) else terms
        return made

    # -------------------------------------------------------------------------------------------- asking

    def sql(
        self,
        text: str,
        *,
        epsilon: Number | None = None,
        within: Number | None = None,
        delta: Number | None = None,
        confidence: float = 0.95,
        at_least: int | None = None,
        max_groups: int | None = None,
        noise: str = "auto",
        discover: bool = False,
    ) -> Answer:
        """Answer a query for `epsilon` in total, or for the smallest ε that puts every number within `within`.

        `delta` is the query's δ, a hundredth of the data set's by default; it is used only by private group keys and Gaussian
        noise. `at_least` is a group size that is public knowledge: with it `within` works for averages too, and for quantiles,
        whose accuracy is a share of the group's rows. `max_groups` is how many private group keys one unit may add to. With
        `discover`, bounds that are not declared are found from part of ε. The same query on the same version of the data is
        answered once and then given again.
        """
        terms = partial(
            Terms,
            epsilon,
            confidence=confidence,
            noise=noise,
            max_groups=max_groups,
            within=within,
            at_least=at_least,
            discover=discover,
        )
        with self._stoppable() as stop:
            with paced(self._floor, stop) as pace:
                asked, view = self._look(text, terms, delta)
                words = _cut(text)
                stop.check()
                answer = self._answer(asked, words, stop) if view.kept is None else self._read(view, words, pace)
                seconds = pace.seconds
            stop.check()
        self._keep(asked, view, answer, seconds)  # not before it is certain that it is given
        return answer

    def preview(
        self,
        text: str,
        *,
        epsilon: Number | None = None,
        within: Number | None = None,
        delta: Number | None = None,
        confidence: float = 0.95,
        at_least: int | None = None,
        max_groups: int | None = None,
        noise: str = "auto",
        discover: bool = False,
    ) -> Preview:
        """What `sql` would cost, how far its answer may be off, and what would be left. No data is opened, nothing is charged."""
        terms = partial(
            Terms,
            epsilon,
            confidence=confidence,
            noise=noise,
            max_groups=max_groups,
            within=within,
            at_least=at_least,
            discover=discover,
        )
        asked, view = self._look(text, terms, delta)
        would = self.account.preview(asked.loss, delta=asked.at, view=view)
        free = self.account.free(view)
        told = {each.name: str(each).removeprefix(f"{each.name}: ") for each in asked.plan.expected(confidence)}
        refused = None if free else would.refusal
        return Preview(asked.epsilon, asked.delta, told, confidence, would.fits or free, free, would.left, refused)

    def share(self, analyst: str, limit: Budget) -> Curator:
        """The same data for `analyst`, under a limit of her own inside the data set's. What others have paid for costs the data
        set nothing when she asks it again; her own limit it does cost."""
        part = names.part(self.account.root, analyst)
        with self._turn:
            self._begin()
        root = self.account.root
        self.ledger.create(part, limit=limit, parent=root)
        return self._with(self.ledger.account(part, analyst=analyst))

    def as_analyst(self, analyst: str) -> Curator:
        """The same data for an analyst who has a limit of her own already: what `share` made, found again."""
        root = self.account.root
        own = self.ledger.account(names.part(root, analyst))
        return self._with(house.part_of(self.ledger, own, root, analyst))

    def _with(self, account: Account) -> Curator:
        """The same data and engine, paid for by another account."""
        shared = Curator(
            self._engine, self.schema, account, self.ledger, floor=self._floor, rng=self._rng, places=self._places
        )
        shared._turn = self._turn
        return shared

    def prepare(self) -> None:
        """Bound every unit's rows once and keep the bounded table beside the engine, so that later queries run at the speed of
        plain SQL. For the owner: it reads all data, and a failure here tells about it. DuckDB only."""
        self._home.check("This curator", self.WAY_OUT)
        with self._turn:
            self._engine.prepare(self.schema, self.account.unit)

    def cancel(self) -> None:
        """Stop what is being asked through this object, from any thread: each such query ends with `Stopped`. In the main thread
        Ctrl-C does the same."""
        for stop in tuple(self._asking):
            stop.request()

    # -------------------------------------------------------------------------------------------- how

    @contextmanager
    def _stoppable(self) -> Iterator[Stop]:
        stop = Stop()
        self._asking.append(stop)
        try:
            with by_signal(stop):
                yield stop
        finally:
            self._asking.remove(stop)

    def _begin(self) -> None:
        """Write down what was only proposed so far: the ledger, the account, its sources and the mark beside the data."""
        if self._unbound is not None:
            house.bind(self.ledger, self._unbound)
            self._unbound = None
        if self._opening is None:
            return
        ledger, account = self._opening.commit()
        self._opening = None
        account.before_charge = None
        self.account.become(account)
        if self.ledger is not ledger:
            self.ledger.become(ledger)

    def _answer(self, asked: Asked, words: str, stop: Stop) -> Answer:
        with stop.turn(self._turn):
            if self._opening is None:
                self._begin()
            release = self.account.run(
                Stoppable(asked.plan, stop),
                self._engine,
                rng=self._rng,
                delta=asked.at,
                description=words,
                fair=(Stopped,),
            )
        return Answer.of(release, epsilon=asked.epsilon, delta=asked.delta)

    def _look(self, text: str, terms: Callable[..., Terms], delta: Number | None) -> tuple[Asked, View]:
        """The query as it would be charged, and what the ledger says of it now. A query's δ is a share of the data set's where
        none is named; should the owner have raised that, it is planned once more."""
        self._home.check("This curator", self.WAY_OUT)
        while True:
            asked = self._ask(text, terms(delta=self._delta / SHARE if delta is None else delta))
            view = self.account.view(asked.key)
            whole = view.standings[self.account.root].filter.limit.delta
            if delta is not None or whole == self._delta:
                return asked, view
            self._delta = whole

    def _ask(self, text: str, terms: Terms) -> Asked:
        """From metadata alone: whatever is refused here is refused whatever the data."""
        query = check(text, self.schema, self.account.unit)
        made = plan(query, self.account.unit, terms)
        loss = made.loss
        cost = price(loss, terms.delta)
        key = _key(self.account.root, self._places, query, self._declared, self.account.unit, terms)
        # Gaussian noise that was asked for by name is charged by its Rényi curve, where the account keeps one: many such
        # queries cost much less than the sum of their ε's. Noise that was chosen for the analyst costs the ε she named.
        by_curve = terms.noise == "gaussian" and self.account.accountable(loss)
        at = None if by_curve else cost.delta
        return Asked(made, loss, key, at, above(cost.charge.epsilon), above(cost.charge.delta))

    def _read(self, view: View, words: str, pace: Pace) -> Answer:
        """An answer that is kept. Who has not paid for it gets it as if it were new: with her own entry, after the same time."""
        kept, again = view.kept, self.account.free(view)
        assert kept is not None
        answer = Answer.from_kept(kept, self.account.read(view, description=words), again=again)
        if not again:
            pace.linger(answer_seconds(kept))
        return answer

    def _keep(self, asked: Asked, view: View, answer: Answer, seconds: float) -> None:
        try:
            if view.kept is None:
                self.account.keep(asked.key, answer, answer.to_text(seconds), delta=asked.at)
            elif not answer.again and answer.entry is not None:
                self.account.admit(view, answer.entry)
        except LedgerError:
            return  # the answer is paid for and stands; asked again, it only costs again

    # -------------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Let go of the data and the ledger."""
        _close(self._owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _schema(schema: str | Path | Schema | None) -> Schema | None:
    return schema if schema is None or isinstance(schema, Schema) else load(Path(schema))


def _described(table: str, source: Any) -> TableInfo:
    """The columns that a source says it has. What it cannot say is told to the owner, who is the one who opens it."""
    try:
        return describe(table, source)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f'The source of "{table}" cannot be read: {error} Nothing was opened.') from error


def _key(data: str, places: tuple[str, ...], query: Query, schema: str, unit: Unit, terms: Terms) -> str:
    """What makes two questions the same: never the data itself, only where it lies and what its owner says its version is."""
    parts = ("deniable answer 1", data, repr(places), normal(query), schema, unit.to_json(), repr(terms))
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _cut(text: str) -> str:
    """As much of a query as the journal keeps, of characters that every database can hold."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= DESCRIBED else clean[: DESCRIBED - 1] + "…"


def _close(things: list[Any]) -> None:
    while things:
        thing = things.pop()
        try:
            thing.close()
        except DeniableError:
            continue
