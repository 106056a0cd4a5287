"""The curator: data, a ledger and SQL in one object that an analyst can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from deniable import numbers
from deniable.curator import notebook
from deniable.curator.answers.answer import Answer
from deniable.curator.desk import WAY_OUT, Desk
from deniable.curator.ibis_expressions import as_sql, unbound
from deniable.curator.inquiry import Inquiry
from deniable.curator.one_of_many import check_of
from deniable.curator.opening import accounts
from deniable.curator.opening.accounts import LedgerPlace, Payment
from deniable.curator.opening.data_set import DataSet
from deniable.curator.preview import Preview
from deniable.curator.profile import Profile, TableProfile, check_analyst, choose_allowance
from deniable.curator.question import AskTerms, Question
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Ledger, names
from deniable.loss import Number, exact
from deniable.mechanism import Random
from deniable.numbers import short_up
from deniable.process import Original
from deniable.sql.after.closed.runs import Runner
from deniable.sql.engines import open_engine
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import load
from deniable.sql.schema.overrides import Bounds, Keys, declared
from deniable.units import Unit


class Curator(Original):
    """Answers SQL about private data, within a limit that a ledger keeps. Made by `Curator.open`.

    Guarantee: all answers together are (ε, δ)-DP for the unit, ε and δ the account's limit, whatever is
               asked, in whatever order. Everything an analyst sees beside the answers (refusals, messages,
               column names and types, the order of rows) depends on the text of her queries and the declared
               schema alone.
    Assumes:   the unit, and what the schema says is public, are as the owner says; data is opened through one
               ledger only.
    Error:     told with every answer, and before it by `preview`.
    Reference: docs/theory/curator.md.
    """

    WAY_OUT = WAY_OUT

    def __init__(self, desk: Desk, ledger: Ledger) -> None:
        self._desk = desk
        self._resources: list[Any] = []
        self._proposal: accounts.OpeningProposal | None = None
        self._unbound: accounts.DataSetTerms | None = None
        self.schema = desk.schema
        self.schema_files: tuple[Path, ...] = ()
        self.account = desk.account
        self.ledger = ledger
        desk.begin = self._bind

    def __repr__(self) -> str:
        """Tables, whom they protect, the limit, and the schemas that were found beside the data."""
        tables = ", ".join(table.name for table in self.schema.tables)
        files = ""
        if self.schema_files:
            files = f"; schema: {', '.join(path.name for path in self.schema_files)}"
        try:
            limit = f"limit {self.account.limit}, spent ε = {numbers.up(self.account.spent().epsilon)}"
        except DeniableError:
            limit = "closed"
        return f"<Curator of {tables}: protects {self.account.unit}; {limit}{files}>"

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
        purpose: str | None = None,
        profile: Number | None = None,
        floor: float = 0.0,
        memory: str | None = None,
        seconds: float | None = None,
        threads: int | None = None,
        rng: Random | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Curator:
        """Open a data set: a file, a table in memory, a database, or several of them by the names of their
        tables.

        `unit` and `limit` are set at the first use and remembered by the ledger, which lies beside the data
        unless `ledger` says where. `schema` is a file or a `Schema`; without one it is the one beside the
        data (`visits.csv.schema.yaml`, named by `schema_files`) and without that, names and types of columns
        are those of the source: a CSV file says of every column that it is text. `bounds` clamp columns,
        `keys` list the public values of group keys; both are public knowledge, never taken from the data.
        `version` names the state of the data: answers are kept and given again for one version, and entries
        of the ledger name it where the owner opens the data. `account`
        names the data set in the ledger, after its private tables by default: two data sets in one ledger
        need two names. `purpose="counts"`, at the first use, is for many answers with Gaussian noise (`of=`,
        `plan_for`). `profile`, at the first use, is the ε that may be spent on the profile of the tables, in
        all: by default a tenth of the limit's where the unit is a column without max_rows, else 0, which is
        none. `analyst` says who asks; her own part of the account is used if there is one. `floor`
        rounds response times up to whole steps of so many seconds. `memory`, `seconds` and `threads` limit
        the engine. `on_failure` tells the owner, and nobody else, why an engine failed."""
        _check_terms(unit, limit)
        data = DataSet.describe(source, name, _schema(schema), account)
        if analyst is not None:
            check_analyst(names.name(analyst, "an analyst"))
        resources: list[Any] = []
        try:
            place = LedgerPlace.find(data, ledger, limit, analyst, on_failure)
            resources += place.own_ledgers
            terms = place.terms(data, unit, limit, analyst, purpose)
            full_schema = declared(data.schema, terms.unit, bounds or {}, keys or {}, version)
            engine = open_engine(data.sources, full_schema, memory=memory, seconds=seconds, threads=threads)
            resources.append(engine)
            payment = accounts.payment(place, terms, unit, on_failure)
            if payment.proposal is not None:
                allowance = choose_allowance(payment.proposal.limit, terms.unit, profile)
                payment = replace(payment, proposal=replace(payment.proposal, allowance=allowance))
            resources += payment.resources
            places = tuple(str(path.resolve()) for path in terms.paths)
            accounts.note_version(payment.account, full_schema, version)
            desk = Desk(engine, full_schema, payment.account, floor=floor, rng=rng, places=places)
            curator = cls._make_paid(desk, payment, resources)
            curator._check_allowance(profile)
            curator.schema_files = data.schema_files
            return curator
        except BaseException:  # it goes on to the owner as it is; nothing stays open behind it
            _close(resources)
            raise

    @classmethod
    def _make_paid(cls, desk: Desk, payment: Payment, resources: list[Any]) -> Curator:
        curator = cls(desk, payment.ledger)
        curator._resources, curator._proposal, curator._unbound = resources, payment.proposal, payment.unbound
        desk.profile = Profile(
            payment.ledger, payment.account.root, payment.account.unit, desk.schema, curator._begin
        )
        if payment.proposal is not None:
            payment.account.propose(curator._begin)
            desk.profile.propose(payment.proposal.allowance)
        return curator

    def _check_allowance(self, asked: Number | None) -> None:
        """An allowance is set when an account is made."""
        assert self._desk.profile is not None
        allowance = self._desk.profile.allowance
        if asked is not None and exact(asked) != allowance:
            raise InvalidParameter(
                f'The account "{self.account.root}" has an allowance of ε = {short_up(float(allowance))} for '
                "its profile, and that stays. Nothing was opened. Leave profile= out."
            )

    # -------------------------------------------------------------------------------------------- asking

    def ask(
        self,
        text: str | Any,
        *,
        epsilon: Number | None = None,
        within: Number | None = None,
        delta: Number | None = None,
        confidence: float = 0.95,
        at_least: int | None = None,
        max_groups: int | None = None,
        noise: str = "auto",
        discover: bool = False,
        of: int | None = None,
        left_out: bool | None = None,
        most_rows: int | None = None,
        bracket: bool = True,
        nonnegative: bool = False,
    ) -> Inquiry:
        """A query for `epsilon` in total, or for the smallest ε that puts every number within `within`:
        `.preview()` says what it would cost, `.answer()` answers it. Until then nothing is checked, read or
        charged. `text` is SQL, or an expression of Ibis, which is asked as the SQL that it stands for.

        `delta` is the query's δ, a hundredth of the data set's by default (`guarantee.query_delta`); it is
        used only by private group keys and Gaussian noise. `at_least` is a group size that is public
        knowledge: with it `within` works for averages too, and for quantiles, whose accuracy is a share of
        the group's rows. `max_groups` is how many private group keys one unit may add to. With `discover`,
        bounds that are not declared are found from part of ε. `of` says that this is one of so many queries
        like it: then `epsilon` and `delta` are those of all of them together, by default the whole limit, and
        each gets the noise at which they use that up.

        From a part of ε it is told what the bound on a person's rows leaves out of counts, sums and averages,
        so that their ± holds the answer of all rows, if nobody has more than `most_rows`: as many as anybody
        is seen to have, where that is not said. `left_out=False` spends all on the bounded answer, as do
        `within` and `of`, unless it is said.

        A quarter of a quantile's ε goes to its ±; `bracket=False` gives all to the number. With `nonnegative`
        counts, and sums of values that are not negative, are shown as 0 where noise made them less: that is
        free, and the same answer is kept."""
        question = Question(
            text if isinstance(text, str) else as_sql(text),
            epsilon,
            within,
            delta,
            confidence,
            at_least,
            max_groups,
            noise,
            discover,
            of,
            left_out,
            most_rows,
            bracket,
            nonnegative,
        )
        return self.inquire(question)

    def inquire(self, question: Question) -> Inquiry:
        """The same for a question that is a value already, as the doors of a service bring it."""
        return Inquiry(self._desk, question)

    def sql(self, text: str | Any, **terms: Unpack[AskTerms]) -> Answer:
        """The answer of `ask` with the same arguments. The same query on the same version of the data is
        answered once and then given again."""
        return self.ask(text, **terms).answer()

    def preview(self, text: str | Any, **terms: Unpack[AskTerms]) -> Preview:
        """What `sql` would cost, how far its answer may be off, and what would be left. No data is opened,
        nothing is charged."""
        return self.ask(text, **terms).preview()

    def ibis(self, table: str) -> Any:
        """A declared table as an unbound table of Ibis, to be asked about in its words. Needs
        ibis-framework."""
        return unbound(self.schema, table)

    def plan_for(self, many: int, *, epsilon: Number | None = None) -> Dashboard:
        """This curator for `many` queries like one another: each asked of it is one of them."""
        return Dashboard(self, check_of(many, None), epsilon)

    def _repr_html_(self) -> str:
        return notebook.curator_view(self)

    def cancel(self) -> None:
        """Stop what is being asked through this object, from any thread: each such query ends with `Stopped`.
        In the main thread Ctrl-C does the same."""
        self._desk.cancel()

    def compute_by(self, runner: Runner) -> None:
        """Have what follows a release (windows, queries over results) computed by `runner`, and not in this
        process: a server has a pool of others for it. It holds for parts that are made of this object
        afterwards too."""
        self._desk.runner = runner

    # ----------------------------------------------------------------------------------------- others who ask

    def share(self, analyst: str, limit: Budget) -> Curator:
        """The same data for `analyst`, under a limit of her own inside the data set's. What others have paid
        for costs the data set nothing when she asks it again; her own limit it does cost."""
        check_analyst(analyst)
        part = names.part(self.account.root, analyst)
        with self._desk.turn:
            self._begin()
        root = self.account.root
        self.ledger.create(part, limit=limit, parent=root)
        account = self.ledger.account(part, analyst=analyst).same_data_as(self.account)
        return Curator(self._desk.charge_to(account, analyst), self.ledger)

    def as_analyst(self, analyst: str) -> Curator:
        """The same data for an analyst who has a limit of her own already: what `share` made, found again."""
        check_analyst(analyst)
        root = self.account.root
        own = self.ledger.account(names.part(root, analyst))
        account = accounts.part_of(self.ledger, own, root, analyst).same_data_as(self.account)
        return Curator(self._desk.charge_to(account, analyst), self.ledger)

    # -------------------------------------------------------------------------------------------- the owner

    def profile(self, *parts: str, buy: bool = True) -> TableProfile:
        """What is known of the data before a question is asked: people by their rows, values of columns.

        Its owner buys the `parts` that are named, and are not there yet, from the allowance that was set when
        the account was made: "rows" (of each table, which is what is bought where none is named) or a column
        like "cost" or "visits.cost". Else the first question that needs a part buys it. `buy=False` only
        shows what is known, to whoever asks, free. What was bought stays as it is for later versions of the
        data; `renew_profile` measures it anew."""
        return self._buy_profile(parts, buy=buy, again=False)

    def renew_profile(self, *parts: str) -> TableProfile:
        """The same, bought anew of the data as it is now, or after a part was paid for and lost. For the
        owner."""
        return self._buy_profile(parts, buy=True, again=True)

    def _buy_profile(self, parts: tuple[str, ...], *, buy: bool, again: bool) -> TableProfile:
        self._desk.check_home()
        profile = self._desk.profile
        assert profile is not None
        if buy and not self.account.by_owner:
            raise InvalidParameter(
                "Only the owner buys parts of a profile by name. Nothing was charged. See what is known with "
                "buy=False; a question buys what it needs by itself."
            )
        for part in profile.name_parts(parts) if buy else ():
            with self._desk.turn:
                self._begin()
                profile.buy(part, self._desk.engine, lambda m: m, self._desk.rng, None, again=again)
        return profile.show()

    def prepare(self) -> None:
        """Bound every unit's rows once and keep the bounded table beside the engine, so that later queries
        run at the speed of plain SQL. For the owner: it reads all data, and a failure here tells about it.
        DuckDB only."""
        self._desk.check_home()
        with self._desk.turn:
            self._desk.engine.prepare(self.schema, self.account.unit)

    def _bind(self) -> None:
        """Before a charge to an account that is there. (One that is proposed is made by the charge
        itself.)"""
        if self._proposal is None:
            self._begin()

    def _begin(self) -> None:
        """Write down what was only proposed so far: the ledger, the account, its sources and the mark beside
        the data."""
        if self._unbound is not None:
            accounts.bind(self.ledger, self._unbound)
            self._unbound = None
        if self._proposal is None:
            return
        ledger, account = self._proposal.commit()
        self._proposal = None
        account.before_charge = None
        self.account.become(account)
        if self.ledger is not ledger:
            self.ledger.become(ledger)
        if self._desk.profile is not None:
            self._desk.profile.settle()

    def close(self) -> None:
        """Let go of the data and the ledger."""
        _close(self._resources)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Dashboard:
    """A curator whose queries are so many alike, and share a total. Made by `Curator.plan_for`."""

    curator: Curator
    many: int
    epsilon: Number | None = None

    def sql(self, text: str, **terms: Unpack[AskTerms]) -> Answer:
        return self.curator.sql(text, **self._terms(terms))

    def preview(self, text: str, **terms: Unpack[AskTerms]) -> Preview:
        return self.curator.preview(text, **self._terms(terms))

    def _terms(self, terms: AskTerms) -> AskTerms:
        return {"epsilon": self.epsilon, **terms, "of": self.many}


def _check_terms(unit: Any, limit: Any) -> None:
    if unit is not None and not isinstance(unit, Unit):
        raise InvalidParameter(
            f'Expected unit=Unit.column("patient_id", max_rows=4) or Unit.row(), got {unit!r}. '
            "Nothing was opened."
        )
    if limit is not None and not isinstance(limit, Budget):
        raise InvalidParameter(
            f"Expected limit=Budget(epsilon=3, delta=1e-6), got {limit!r}. Nothing was opened."
        )


def _schema(schema: str | Path | Schema | None) -> Schema | None:
    if schema is None or isinstance(schema, Schema):
        return schema
    return load(Path(schema))


def _close(things: list[Any]) -> None:
    while things:
        thing = things.pop()
        try:
            thing.close()
        except DeniableError:
            continue
