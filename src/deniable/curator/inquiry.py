"""A question to a curator: what it would cost, and its answer. One path for every text: read it, look for
what is kept, else charge and run its blocks; wait; keep; say over the release what the text says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from deniable.curator.answers.answer import Answer
from deniable.curator.answers.kept import KeptText, PaidText
from deniable.curator.answers.reading import cut, explain, not_negative_over
from deniable.curator.answers.words import rows_of_nobody
from deniable.curator.desk import Desk
from deniable.curator.one_of_many import advise_account
from deniable.curator.preview import Preview
from deniable.curator.question import Question
from deniable.curator.quote import Quote, read_quote, state_terms
from deniable.curator.stop import Pace, Stop, Stoppable, by_signal
from deniable.errors import BudgetExceeded, LedgerError, Stopped
from deniable.guarantee import query_delta
from deniable.ledger.balances import ChargePreview
from deniable.ledger.releases import LedgerView
from deniable.mechanism import Release
from deniable.numbers import short_down, short_up
from deniable.process import Original
from deniable.sql.after.closed.runs import RunClosed, run_here
from deniable.sql.after.release import ReleasedText

DESCRIBED = 2_000
"""Characters of a query that the journal keeps."""


@dataclass(frozen=True)
class Reply:
    """What a question came to, before it is given: not until `pace.rest` is over. Then `give` keeps the
    answer, and returns it or raises what was wrong; once."""

    pace: Pace
    outcome: Callable[[], Answer]
    leave: Callable[[], None]

    def give(self) -> Answer:
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

    def __init__(self, desk: Desk, question: Question) -> None:
        self._desk = desk
        self._question = question
        self._quotes: dict[str, Quote] = {}
        self._buys = True
        self._stops: list[Stop] = []
        self._run_after: RunClosed = run_here
        if desk.runner is not None:
            self._run_after = desk.runner(desk.account.name, self._is_stopped)

    def preview(self) -> Preview:
        """What it would cost, how far its answer may be off, and what would be left. No data is opened,
        nothing is charged."""
        quote, view = self._look()
        account = self._desk.account
        would = account.preview(quote.loss, delta=quote.charge_delta, view=view)
        free = account.free(view)
        more, advice = None, list[str]()
        if self._question.of is not None:
            more = account.times(quote.loss, delta=quote.charge_delta)
            advice = advise_account(account, self._question, quote.terms)
        refusal = None if free else would.refusal
        parts_refusal = None if free else self._refuse_parts(quote, would)
        if parts_refusal is not None:
            refusal = str(parts_refusal)
        errors, confidence = quote.expect_errors(), quote.terms.confidence
        fits = free or (would.fits and parts_refusal is None)
        shares, cost = (*quote.shares(), *advice), (quote.epsilon, quote.delta)
        remarks = tuple(rows_of_nobody(account.unit))
        # What is bought first is spent by then, too.
        left = replace(would.left, epsilon=max(0.0, would.left.epsilon - self._price_parts(quote)))
        return Preview(*cost, errors, confidence, fits, free, left, refusal, more, shares, remarks)

    def answer(self) -> Answer:
        """The answer, charged now; the one that is kept, if the same was asked before of the same version of
        the data."""
        stop = self._desk.enter()
        try:
            with by_signal(stop):
                reply = self._begin(stop)
                reply.pace.wait()
                return reply.give()
        finally:
            self._desk.leave(stop)

    def reply(self) -> Reply:
        """The same for whoever waits by other means than a thread: what was charged and run now, to be given
        when its time has come."""
        return self._begin(self._desk.enter())

    def kept(self) -> Answer | None:
        """The answer that this account has paid for before, given again; None if there is none. Nothing is
        ever charged or run."""
        quote, view = self._look()
        if not self._desk.account.free(view):
            return None
        return self._explain(quote, self._read(quote, view), again=True)

    def cancel(self) -> None:
        """Stop what this question has begun, from any thread."""
        for stop in tuple(self._stops):
            stop.request()

    def _is_stopped(self) -> bool:
        return any(stop.requested is not None for stop in tuple(self._stops))

    # -------------------------------------------------------------------------------------- before the charge

    def _look(self) -> tuple[Quote, LedgerView]:
        """The question as it would be charged, and what the ledger says of it now. Should the owner have
        raised the limit whose δ the query's is a share of, it is read once more."""
        desk = self._desk
        desk.check_home()
        split = desk.read(self._question.text)
        text_terms = state_terms(split, self._question)
        delta = text_terms.get("delta", self._question.delta)
        while True:
            at = query_delta(desk.limit_delta) if delta is None else delta
            if repr(at) not in self._quotes:
                quote = read_quote(
                    desk, self._question, split, at, text_terms, self._run_after, buys=self._buys
                )
                self._quotes[repr(at)] = quote
            quote, view = self._find(self._quotes[repr(at)])
            limit_delta = view.standings[desk.account.root].filter.limit.delta
            if delta is not None or limit_delta == desk.limit_delta:
                return quote, view
            desk.limit_delta = limit_delta

    def _find(self, quote: Quote) -> tuple[Quote, LedgerView]:
        """The question with what is kept for it, if it can be answered from that."""
        account = self._desk.account
        view = account.view(*quote.keys)
        if view.kept is None:
            return quote, view
        reading = quote.serve_from(KeptText(view.kept), self._question.text, self._run_after)
        if reading is not None:
            return reading, view
        if quote.after is None:
            return quote, account.view(quote.answer_key)
        return quote, replace(view, kept=None, readers={})

    # -------------------------------------------------------------------------------------------- the answer

    def _begin(self, stop: Stop) -> Reply:
        """Whatever is raised is given at the end of a step of time, as an answer is."""
        self._stops.append(stop)
        pace = Pace(self._desk.floor, stop)
        outcome: Callable[[], Answer]
        try:
            quote, view = self._look()
            stop.check()
            if view.kept is None and quote.missing:
                quote, view = self._complete_profile(quote, stop)
            paid_text = self._pay(quote, view, stop, pace)
            outcome = partial(self._give, quote, view, paid_text, pace.seconds, stop)
        except Exception as error:  # it is raised again, as it is, when its time has come
            outcome = partial(_raise, error)
        pace.end_work()
        return Reply(pace, outcome, partial(self._leave, stop))

    def _complete_profile(self, quote: Quote, stop: Stop) -> tuple[Quote, LedgerView]:
        """What the question needs of the profile, bought in charges of their own; then the question as it is
        charged. A question that would be refused buys nothing."""
        desk = self._desk
        if quote.terms.within is None:
            would = desk.account.preview(quote.loss, delta=quote.charge_delta)
            if not would.fits:  # refused as ever, and planned without what would have been bought
                self._buys = False
                self._quotes.clear()
                return self._look()
            if refusal := self._refuse_parts(quote, would):
                raise refusal
        assert desk.profile is not None
        for part in quote.missing:
            with stop.turn(desk.turn):
                desk.begin()
                desk.profile.buy(
                    part, desk.engine, lambda m: Stoppable(m, stop), desk.rng, desk.analyst, fair=(Stopped,)
                )
        self._quotes.clear()
        return self._look()

    def _price_parts(self, quote: Quote) -> float:
        """What a question takes of the data set's own account for the parts of the profile that it buys; 0
        for whoever asks on another account."""
        account, profile = self._desk.account, self._desk.profile
        if profile is None or account.name != account.root:
            return 0.0
        return float(sum(map(profile.price, quote.missing)))

    def _refuse_parts(self, quote: Quote, would: ChargePreview) -> BudgetExceeded | None:
        """Why the parts of the profile and the question do not fit together, if they do not; for whoever asks
        on the data set's own account, since others are not told what that has left."""
        account, parts_price, left = self._desk.account, self._price_parts(quote), would.left.epsilon
        if parts_price <= left or not would.fits:
            return None
        balance, limit = account.spent().epsilon, float(account.limit.epsilon)
        return BudgetExceeded(
            f"This query and the parts of the profile that it needs first (ε = {short_up(parts_price)}) "
            f'would bring the account "{account.name}" over its limit ε = {limit:g}. Nothing was run and '
            f"nothing was charged. Ask with ε ≤ {short_down(max(0.0, quote.epsilon + left - parts_price))}.",
            asked=quote.epsilon,
            spent=balance,
            total=balance + quote.epsilon + parts_price,
            limit=limit,
        )

    def _pay(self, quote: Quote, view: LedgerView, stop: Stop, pace: Pace) -> PaidText:
        """What was kept or is released now. Who has not paid for what is kept gets it as if it were new: with
        her own entry, after the same time."""
        if view.kept is None:
            release = self._charge(quote, stop)
            return PaidText.from_release(release, quote.terms.confidence, quote.epsilon, quote.delta)
        paid_text = self._read(quote, view)
        if not self._desk.account.free(view):
            pace.linger(paid_text.seconds)
        return paid_text

    def _charge(self, quote: Quote, stop: Stop) -> Release[ReleasedText]:
        desk = self._desk
        assert not quote.missing  # what was only assumed for its price is never run
        # Planned and priced before anything is written: a refusal leaves no trace.
        mechanism, delta = Stoppable(quote.mechanism, stop, quote.loss), quote.charge_delta
        words = _cut(self._question.text)
        with stop.turn(desk.turn):
            desk.begin()
            return desk.account.run(
                mechanism, desk.engine, rng=desk.rng, delta=delta, description=words, fair=(Stopped,)
            )

    def _read(self, quote: Quote, view: LedgerView) -> PaidText:
        assert view.kept is not None
        account, kept_text = self._desk.account, KeptText(view.kept)
        if not account.free(view) or (quote.after is not None and kept_text.has_run):
            _ = quote.plans  # whatever is refused is refused before the charge
        entry = account.read(view, description=_cut(self._question.text))
        if quote.after is None:
            return kept_text.read_answer(entry, quote.answer_key)
        return kept_text.read_blocks(entry, lambda: quote.plans[0])

    def _give(
        self, quote: Quote, view: LedgerView, paid_text: PaidText, seconds: float, stop: Stop
    ) -> Answer:
        """The release is kept when it is certain that it is given, and before anything is said over it:
        whatever fails then, what was paid for is there to be asked again. How long that takes depends on
        released numbers only, so it needs no steps of time."""
        stop.check()
        self._keep(quote, view, paid_text, seconds)
        answer = self._explain(quote, paid_text, again=self._desk.account.free(view))
        if quote.after is not None:
            stop.check()
        return answer

    def _keep(self, quote: Quote, view: LedgerView, paid_text: PaidText, seconds: float) -> None:
        account = self._desk.account
        try:
            if view.kept is None:
                key = quote.keys[0]
                if paid_text.own_answer is not None and paid_text.run is None:
                    key = quote.answer_key
                content = paid_text.to_text(quote.answer_key, seconds)
                account.keep(key, paid_text.release, content, delta=quote.charge_delta)
            elif not account.free(view) and paid_text.release.entry is not None:
                account.admit(view, paid_text.release.entry)
        except LedgerError:
            return  # the answer is paid for and stands; asked again, it only costs again

    def _explain(self, quote: Quote, paid_text: PaidText, *, again: bool) -> Answer:
        answer, nonnegative = paid_text.answer(quote.after, again=again), self._question.nonnegative
        if quote.after is None:
            [query] = quote.split.blocks
            return explain(answer, query, quote.terms, lambda: quote.plans[0], nonnegative=nonnegative)
        if nonnegative:
            return cut(answer, not_negative_over(quote.after))
        return answer

    def _leave(self, stop: Stop) -> None:
        self._desk.leave(stop)
        self._stops.remove(stop)


def _raise(error: Exception) -> NoReturn:
    raise error


def _cut(text: str) -> str:
    """As much of a query as the journal keeps, of characters that every database can hold."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    if len(clean) <= DESCRIBED:
        return clean
    return clean[: DESCRIBED - 1] + "…"
