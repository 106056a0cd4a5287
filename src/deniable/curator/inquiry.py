"""A question to a curator: what it would cost, and its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

from deniable.accounting.filters import above
from deniable.curator.answers.answer import Answer, answer_seconds
from deniable.curator.answers.blocks import BlocksKept
from deniable.curator.answers.reading import explained
from deniable.curator.desk import Desk
from deniable.curator.one_of_many import check_of, noise_by_counts, one_of, share_of, total_of
from deniable.curator.preview import Preview
from deniable.curator.question import Question
from deniable.curator.response_time import Pace
from deniable.curator.stop import Stop, Stoppable, by_signal
from deniable.errors import InvalidQuery, LedgerError, Stopped
from deniable.guarantee import query_delta
from deniable.ledger.releases import LedgerView
from deniable.loss import Loss, Number, exact
from deniable.mechanism import Release
from deniable.process import Original
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.canonical import OwnBlock, own_block
from deniable.sql.after.closed.runs import RunClosed, run_here
from deniable.sql.after.release import Blocks, WithBlock, block_plan
from deniable.sql.after.released_run import ReleasedRun
from deniable.sql.after.split import SplitQuery, split_query
from deniable.sql.answer.cache_key import normal
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.clause import without_clause
from deniable.sql.tree import Query
from deniable.units import Unit

DESCRIBED = 2_000
"""Characters of a query that the journal keeps."""


LESS = 0.02
"""So much less noise on another account is worth a line."""
COMPUTED = "computed from released numbers"
"""Said of what follows a release, before it."""


@dataclass(frozen=True)
class Quote:
    """A query as it was checked and planned, and how it is charged: `at` is the δ of the charge, None if it
    names none. `after` is what is said over what its blocks release, None where the release is the answer;
    `block` is then the key of that release as the block `own` of other texts, if it is one."""

    mechanism: Plan | Blocks
    after: Afterwards | None
    terms: Terms
    loss: Loss
    key: str
    at: Number | None
    epsilon: float
    delta: float
    block: str | None = None
    own: OwnBlock | None = None

    def expected(self) -> dict[str, str]:
        """For each number of the answer how far it may be off."""
        confidence = self.terms.confidence
        if isinstance(self.mechanism, Plan):
            return _worded(self.mechanism, confidence)
        assert self.after is not None
        errors = [_worded(each, confidence) for each in self.mechanism.plans]
        direct = {name: errors[block].get(column) for name, (block, column) in self.after.direct.items()}
        return {name: direct.get(name) or COMPUTED for name in self.after.numbers}

    @property
    def plans(self) -> tuple[Plan, ...]:
        if isinstance(self.mechanism, Plan):
            return (self.mechanism,)
        return self.mechanism.plans

    def shares(self) -> tuple[str, ...]:
        """What part of ε goes elsewhere than to the numbers, of each block once."""
        return tuple(dict.fromkeys(line for each in self.plans for line in each.shares_told))


def _worded(planned: Plan, confidence: float) -> dict[str, str]:
    columns = planned.expected(confidence)
    return {column.name: str(column).removeprefix(f"{column.name}: ") for column in columns}


@dataclass(frozen=True)
class Reply:
    """What a question came to, before it is given: not until `pace.rest` is over. Then `given` keeps the
    answer, and returns it or raises what was wrong; once."""

    pace: Pace
    outcome: Callable[[], Answer]
    leave: Callable[[], None]

    def given(self) -> Answer:
        try:
            return self.outcome()
        finally:
            self.leave()


class Inquiry(Original):
    """A query that was put to a curator. Made by `Curator.ask`; nothing is checked, read or charged before it
    is asked for.

    A preview and an answer of the same inquiry are planned once.
    """

    WAY_OUT = "Ask the curator again."

    def __init__(
        self,
        desk: Desk,
        question: Question,
    ) -> None:
        self._desk = desk
        self._question = question
        self._text = question.text
        self._delta = question.delta
        self._of = question.of
        self._quotes: dict[str, Quote] = {}
        self._stops: list[Stop] = []
        self._run_after: RunClosed = run_here
        if desk.runner is not None:
            self._run_after = desk.runner(desk.account.name, self._is_stopped)

    def preview(self) -> Preview:
        """What it would cost, how far its answer may be off, and what would be left. No data is opened,
        nothing is charged."""
        quote, view = self._look()
        account = self._desk.account
        would = account.preview(quote.loss, delta=quote.at, view=view)
        free = account.free(view)
        confidence, errors = quote.terms.confidence, quote.expected()
        refusal = None if free else would.refusal
        fits = would.fits or free
        more = None
        if self._of is not None:
            more = account.times(quote.loss, delta=quote.at)
        shares = (*quote.shares(), *self._better_account(quote))
        return Preview(
            quote.epsilon, quote.delta, errors, confidence, fits, free, would.left, refusal, more, shares
        )

    def _better_account(self, quote: Quote) -> tuple[str, ...]:
        """For whoever asks many: that an account for them has less noise, if this is none."""
        if self._of is None or quote.terms.noise != "gaussian":
            return ()
        account = self._desk.account
        total = total_of(account.limit, self._question.epsilon, self._delta) or account.limit
        part = noise_by_counts(account.standing().filter, total)
        if part > 1 - LESS:
            return ()
        return (
            f'An account that is opened for this, with purpose="counts", has {part:.2f} of this noise: '
            "this one keeps a "
            "part of its δ for charges of other kinds.",
        )

    def answer(self) -> Answer:
        """The answer, charged now; the one that is kept, if the same was asked before of the same version of
        the data."""
        stop = self._desk.enter()
        try:
            with by_signal(stop):
                reply = self._replied(stop)
                reply.pace.wait()
        finally:
            self._desk.leave(stop)
        return reply.given()

    def reply(self) -> Reply:
        """The same for whoever waits by other means than a thread: what was charged and run now, to be given
        when its time has come."""
        return self._replied(self._desk.enter())

    def cancel(self) -> None:
        """Stop what this question has begun, from any thread."""
        for stop in tuple(self._stops):
            stop.request()

    def _is_stopped(self) -> bool:
        return any(stop.requested is not None for stop in tuple(self._stops))

    def _replied(self, stop: Stop) -> Reply:
        """Whatever is raised is given at the end of a step of time, as an answer is."""
        self._stops.append(stop)
        pace = Pace(self._desk.floor, stop)
        outcome: Callable[[], Answer]
        try:
            quote, view = self._look()
            words = _cut(self._text)
            stop.check()
            if quote.after is not None:
                outcome = partial(self._given_over, quote, self._said(quote, view, words, stop, pace), stop)
            else:
                answer, run = self._run_or_read(quote, view, words, stop, pace)
                outcome = partial(self._given, quote, view, answer, run, pace.seconds, stop)
        except Exception as error:  # it is raised again, as it is, when its time has come
            outcome = partial(_raise, error)
        pace.worked()
        return Reply(pace, outcome, partial(self._left, stop))

    def _given(
        self,
        quote: Quote,
        view: LedgerView,
        answer: Answer,
        run: ReleasedRun | None,
        seconds: float,
        stop: Stop,
    ) -> Answer:
        stop.check()
        if run is None or quote.block is None:
            self._keep(quote, view, answer, answer.to_text(seconds), again=answer.again)
        else:
            content = BlocksKept.text_of_run(run, answer, quote.key, seconds)
            self._keep(replace(quote, key=quote.block), view, answer, content, again=answer.again)
        return self._explained(quote, answer)

    def _given_over(self, quote: Quote, answer: Answer, stop: Stop) -> Answer:
        """An answer over blocks, which are kept already."""
        stop.check()
        return self._explained(quote, answer)

    def _explained(self, quote: Quote, answer: Answer) -> Answer:
        return explained(answer, quote.plans, quote.after, self._question.nonnegative)

    def kept(self) -> Answer | None:
        """The answer that this account has paid for before, given again; None if there is none. Nothing is
        ever charged or run."""
        quote, view = self._look()
        account = self._desk.account
        if view.kept is None or not account.free(view):
            return None
        if quote.after is not None:
            blocks = BlocksKept.from_kept(view.kept, account.read(view), quote.plans)
            return self._explained(quote, blocks.answer(quote.after, again=True))
        return self._explained(quote, Answer.from_kept(view.kept, account.read(view), again=True))

    def _left(self, stop: Stop) -> None:
        self._desk.leave(stop)
        self._stops.remove(stop)

    # -------------------------------------------------------------------------------------- before the charge

    def _look(self) -> tuple[Quote, LedgerView]:
        """The query as it would be charged, and what the ledger says of it now. Should the owner have raised
        the limit whose δ the query's is a share of, it is planned once more."""
        desk = self._desk
        desk.check_home()
        terms = self._stated()
        delta = terms.get("delta", self._delta)
        while True:
            quote = self._quote(query_delta(desk.limit_delta) if delta is None else delta, terms)
            quote, view = self._seen(quote)
            limit_delta = view.standings[desk.account.root].filter.limit.delta
            if delta is not None or limit_delta == desk.limit_delta:
                return quote, view
            desk.limit_delta = limit_delta

    def _seen(self, quote: Quote) -> tuple[Quote, LedgerView]:
        """The question, and what is kept for it. Where other texts have released the same block, what they
        paid for is read again, and the question is one that is said over it."""
        account = self._desk.account
        if quote.block is None:
            return quote, _served(account.view(quote.key), quote)
        view = account.view(quote.block, quote.key)
        if view.kept is None or view.kept.key != quote.block:
            return quote, view
        text = BlocksKept.own_answer(view.kept, quote.key)
        if text is not None:
            return quote, replace(view, kept=replace(view.kept, content=text))
        over = self._over_block(quote)
        if over is None or not BlocksKept.serves(view.kept, over.plans):
            return quote, account.view(quote.key)
        return over, view

    def _over_block(self, quote: Quote) -> Quote | None:
        """The same question as one over its block; None where that cannot be said."""
        assert isinstance(quote.mechanism, Plan)
        own = quote.own
        try:
            query = split_query(self._text, self._desk.schema, self._desk.account.unit, apart=True)
        except InvalidQuery:
            return None
        if own is None or query.after is None or answer_key(self._desk, query, quote.terms) != quote.block:
            return None
        after = Afterwards(query.blocks, query.after, self._run_after)
        _ = after.schema
        plans = (block_plan(quote.mechanism, own),)
        return replace(quote, mechanism=Blocks(plans), after=after, key=quote.block, block=None, own=None)

    def _stated(self) -> dict[str, Any]:
        """The terms that the text itself states. Where the same was said beside it, it must be the same."""
        terms = without_clause(self._text)[1].terms
        beside = self._question.terms
        for name, value in terms.items():
            other = beside.get(name)
            if other is not None and exact(other) != value:
                raise InvalidQuery(
                    f"The text says {name} = {float(value):g}, and beside it {name}={float(other):g} is "
                    "said. No data was read and nothing was charged. Say it once."
                )
        if "epsilon" in terms and beside.get("within") is not None:
            raise InvalidQuery(
                "The text says its ε, and beside it within= is said. No data was read and nothing was "
                "charged. Say one of them."
            )
        return {name: _as_typed(value) for name, value in terms.items()}

    def _quote(self, delta: Number, stated: dict[str, Any]) -> Quote:
        if repr(delta) not in self._quotes:
            planner = self._planned if self._of is None else self._shared
            self._quotes[repr(delta)] = planner(stated | {"delta": delta})
        return self._quotes[repr(delta)]

    def _planned(self, stated: dict[str, Any]) -> Quote:
        """From metadata alone: whatever is refused here is refused whatever the data."""
        terms, unit = self._question.plan_terms(stated), self._desk.account.unit
        query = split_query(self._text, self._desk.schema, unit)
        mechanism, after = _mechanism(query, unit, terms, self._run_after)
        return self._priced(query, mechanism, after, mechanism.loss, terms)

    def _shared(self, stated: dict[str, Any]) -> Quote:
        """As one of many: the ε and δ that are named are those of all of them, else they share the limit."""
        account, keywords = self._desk.account, self._question.terms | stated
        many = check_of(self._of, keywords["within"])
        total = total_of(account.limit, keywords["epsilon"], self._delta)
        budget = account.limit if total is None else total
        terms = self._question.plan_terms(
            stated | {"epsilon": budget.epsilon, "delta": query_delta(budget.delta)}
        )
        query = split_query(self._text, self._desk.schema, account.unit)
        rules, rho = share_of(account.standing().filter, total)
        plans, loss, own = one_of(query.blocks, account.unit, terms, many, rules, rho)
        if query.after is None:
            return self._priced(query, plans[0], None, loss, own)
        after = Afterwards(query.blocks, query.after, self._run_after)
        _ = after.schema
        return self._priced(query, Blocks(plans), after, loss, own)

    def _priced(
        self, asked: SplitQuery, mechanism: Plan | Blocks, after: Afterwards | None, loss: Loss, terms: Terms
    ) -> Quote:
        account = self._desk.account
        cost = account.price(loss, terms.delta)
        # Gaussian noise that was asked for by name is charged by its Rényi curve, where the account keeps
        # one: many such queries cost much less than the sum of their ε's. Noise that was chosen for the
        # analyst costs the ε she named.
        by_curve = terms.noise == "gaussian" and account.accountable(loss)
        at = None if by_curve else cost.delta
        key = answer_key(self._desk, asked, terms)
        epsilon, delta = above(cost.charge.epsilon), above(cost.charge.delta)
        own = None
        if after is None:
            own = own_block(asked.blocks[0])
        block = None
        if own is not None:
            block = _key(self._desk, "blocks", (own.query,), terms)
        return Quote(mechanism, after, terms, loss, key, at, epsilon, delta, block, own)

    # -------------------------------------------------------------------------------------------- the answer

    def _run(self, quote: Quote, words: str, stop: Stop) -> tuple[Answer, ReleasedRun | None]:
        release = self._charged(quote, words, stop)
        result, run = release.value
        answer = Answer.of(replace(release, value=result), epsilon=quote.epsilon, delta=quote.delta)
        return answer, run

    def _run_or_read(
        self, quote: Quote, view: LedgerView, words: str, stop: Stop, pace: Pace
    ) -> tuple[Answer, ReleasedRun | None]:
        if view.kept is None:
            return self._run(quote, words, stop)
        return self._read(view, words, pace), None

    def _charged(self, quote: Quote, words: str, stop: Stop) -> Release[Any]:
        desk = self._desk
        with stop.turn(desk.turn):
            desk.begin()
            return desk.account.run(
                Stoppable(_read_twice(quote), stop, quote.loss),
                desk.engine,
                rng=desk.rng,
                delta=quote.at,
                description=words,
                fair=(Stopped,),
            )

    def _said(self, quote: Quote, view: LedgerView, words: str, stop: Stop, pace: Pace) -> Answer:
        """The answer over released blocks. They are kept before it is computed: whatever fails afterwards,
        what was paid for is there to be asked again."""
        account = self._desk.account
        again = account.free(view)
        if view.kept is None:
            release = self._charged(quote, words, stop)
            blocks = BlocksKept.of(release, quote.terms.confidence, quote.epsilon, quote.delta)
        else:
            blocks = BlocksKept.from_kept(view.kept, account.read(view, description=words), quote.plans)
            if not again:
                pace.linger(blocks.seconds)
        stop.check()
        self._keep(quote, view, blocks.release, blocks.to_text(pace.seconds), again=again)
        assert quote.after is not None
        return blocks.answer(quote.after, again=again)

    def _read(self, view: LedgerView, words: str, pace: Pace) -> Answer:
        """An answer that is kept. Who has not paid for it gets it as if it were new: with her own entry,
        after the same time."""
        account, record = self._desk.account, view.kept
        again = account.free(view)
        assert record is not None
        answer = Answer.from_kept(record, account.read(view, description=words), again=again)
        if not again:
            pace.linger(answer_seconds(record))
        return answer

    def _keep(
        self, quote: Quote, view: LedgerView, release: Release[Any], content: str, *, again: bool
    ) -> None:
        """Not before it is certain that it is given."""
        account = self._desk.account
        try:
            if view.kept is None:
                account.keep(quote.key, release, content, delta=quote.at)
            elif not again and release.entry is not None:
                account.admit(view, release.entry)
        except LedgerError:
            return  # the answer is paid for and stands; asked again, it only costs again


def _mechanism(
    asked: SplitQuery, unit: Unit, terms: Terms, run: RunClosed
) -> tuple[Plan | Blocks, Afterwards | None]:
    """One plan, or one of each block; what is said over these is tried on tables without rows."""
    if asked.after is None:
        return plan(asked.blocks[0], unit, terms), None
    after = Afterwards(asked.blocks, asked.after, run)
    _ = after.schema
    share = terms.shared(len(asked.blocks))
    return Blocks(tuple(plan(block, unit, share) for block in asked.blocks)), after


def _read_twice(quote: Quote) -> WithBlock | Blocks:
    mechanism = quote.mechanism
    if isinstance(mechanism, Plan):
        return WithBlock(mechanism, quote.own)
    return mechanism


def _served(view: LedgerView, quote: Quote) -> LedgerView:
    """Without what was kept, where another version kept it whose plan of the same question measures
    otherwise: then it costs again."""
    if view.kept is None or quote.after is None or BlocksKept.serves(view.kept, quote.plans):
        return view
    return replace(view, kept=None, readers={})


def answer_key(desk: Desk, asked: SplitQuery | Query, terms: Terms) -> str:
    """What makes two questions the same: never the data itself, only where it lies and what its owner says
    its version is. What is said over released blocks is no part of it: that is computed anew."""
    blocks = asked.blocks if isinstance(asked, SplitQuery) else (asked,)
    kind = "blocks"
    if isinstance(asked, Query) or asked.after is None:
        kind = "answer"
    return _key(desk, kind, blocks, terms)


def _key(desk: Desk, kind: str, blocks: tuple[Query, ...], terms: Terms) -> str:
    account = desk.account
    words = (
        account.root,
        repr(desk.places),
        *(normal(block) for block in blocks),
        desk.declared,
        account.unit.to_json(),
        str(terms),
    )
    text = "\0".join((f"deniable {kind} 1", *words))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _as_typed(value: Fraction | int) -> Number:
    """A number as it would be typed beside the text, so that both are one question."""
    if isinstance(value, Fraction) and exact(float(value)) == value:
        return float(value)
    return value


def _raise(error: Exception) -> NoReturn:
    raise error


def _cut(text: str) -> str:
    """As much of a query as the journal keeps, of characters that every database can hold."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    if len(clean) <= DESCRIBED:
        return clean
    return clean[: DESCRIBED - 1] + "…"
