"""A question as it was read: the blocks that it releases, what is said over them (which may be nothing), and
the keys under which its answer is kept. All of it follows from the text, its terms and the declared schema.
What it costs is planned when that is asked for: an answer that is kept needs no plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from deniable.accounting.filters import above
from deniable.accounting.filters.charges import Price
from deniable.curator.answers.kept import KeptText
from deniable.curator.desk import Desk
from deniable.curator.one_of_many import check_of, plan_one_of, share_of, total_of
from deniable.curator.profile import Profile
from deniable.curator.question import Question
from deniable.errors import InvalidQuery
from deniable.guarantee import query_delta
from deniable.loss import Loss, Number, exact
from deniable.numbers import short_up
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.closed.runs import RunClosed
from deniable.sql.after.release import Blocks, block_plan
from deniable.sql.after.split import SplitQuery, split_query
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.profile.knowledge import NOTHING, Knowledge, list_parts
from deniable.sql.profile.part import PartName
from deniable.sql.tree import Query
from deniable.units import Unit

COMPUTED = "computed from released numbers"
"""What a preview says of a number that follows a release."""

Planned = tuple[tuple[Plan, ...], Loss]


@dataclass(frozen=True)
class ProfileNeeds:
    """What the blocks of a text need of a profile. It is looked up when a plan is made, and not for an answer
    that is kept."""

    profile: Profile | None
    unit: Unit
    blocks: tuple[Query, ...]
    buys: bool

    @cached_property
    def parts(self) -> tuple[PartName, ...]:
        return tuple(dict.fromkeys(part for block in self.blocks for part in list_parts(block, self.unit)))

    @cached_property
    def missing(self) -> tuple[PartName, ...]:
        """The parts that are for sale, and not known."""
        if self.profile is None or not self.buys:
            return ()
        return tuple(self.profile.list_missing(self.parts))

    @cached_property
    def knowledge(self) -> Knowledge:
        """What is known, and what is missing as if it were."""
        if self.profile is None:
            return NOTHING
        return self.profile.know(self.parts).assume(self.missing)

    def plan(self, block: Query, terms: Terms) -> Plan:
        return plan(block, self.unit, terms, knowledge=self.knowledge)

    @property
    def unknown_price(self) -> InvalidQuery:
        """What is said of a ± that was asked for before the parts are bought."""
        return InvalidQuery(
            f"What ε this ± needs is known once the {' and the '.join(map(str, self.missing))} are bought, "
            "from the owner's allowance for the profile. Nothing was run and nothing was charged. Ask for "
            "the answer, which buys them first; or with epsilon=; or let the owner buy them: "
            "curator.profile()."
        )


@dataclass(frozen=True)
class Quote:
    """A question that can be priced, charged and answered. `after` is None where the release is the answer.
    `keys` are those under which the ledger may hold it; what is released now is kept under the first."""

    desk: Desk
    split: SplitQuery
    terms: Terms
    after: Afterwards | None
    keys: tuple[str, ...]
    make_plans: Callable[[], Planned]
    needs: ProfileNeeds

    @cached_property
    def _plans_and_loss(self) -> Planned:
        return self.make_plans()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the blocks, made from metadata alone: what is refused here is refused whatever the
        data."""
        return self._plans_and_loss[0]

    @property
    def loss(self) -> Loss:
        return self._plans_and_loss[1]

    @property
    def missing(self) -> tuple[PartName, ...]:
        """Parts of the profile that are bought before it is charged. Until then its plans assume them: what
        it costs is known, how far it is off is not."""
        return self.needs.missing

    @property
    def mechanism(self) -> Blocks:
        return Blocks(self.plans, self.after is not None, self.split.own)

    @cached_property
    def _price(self) -> Price:
        return self.desk.account.price(self.loss, self.terms.delta)

    @property
    def epsilon(self) -> float:
        return above(self._price.charge.epsilon)

    @property
    def delta(self) -> float:
        return above(self._price.charge.delta)

    @cached_property
    def charge_delta(self) -> Number | None:
        """The δ of the charge; None where it names none.

        Gaussian noise that was asked for by name is charged by its Rényi curve, where the account keeps one:
        many such queries cost much less than the sum of their ε's. Noise that was chosen for the analyst
        costs the ε she named."""
        if self.terms.noise == "gaussian" and self.desk.account.accountable(self.loss):
            return None
        return self._price.delta

    @property
    def answer_key(self) -> str:
        """The key of the answer itself, where nothing is said over the release."""
        return self.keys[-1]

    def expect_errors(self) -> dict[str, str]:
        """For each number of the answer how far it may be off."""
        if self.missing:
            names = [column.name for each in self.plans for column in each.expected()]
            return dict.fromkeys(
                names, f"known once the {' and the '.join(map(str, self.missing))} are bought"
            )
        errors = [_word_errors(each, self.terms.confidence) for each in self.plans]
        if self.after is None:
            return errors[0]
        direct = {name: errors[block].get(column) for name, (block, column) in self.after.direct.items()}
        return {name: direct.get(name) or COMPUTED for name in self.after.numbers}

    def shares(self) -> tuple[str, ...]:
        """What part of ε goes elsewhere than to the numbers, of each block once; what is bought before."""
        profile = self.desk.profile
        if profile is not None and self.missing:
            return tuple(
                f"Buys the {part} first: ε = {short_up(float(profile.price(part)))}, once, from the owner's "
                "allowance for the profile."
                for part in self.missing
            )
        return tuple(dict.fromkeys(line for each in self.plans for line in each.shares_told))

    def serve_from(self, kept: KeptText, text: str, run: RunClosed) -> Quote | None:
        """The question as it is answered from what the ledger holds for it: as it is, or, where another text
        has released the same block, as one that is said over that. None where it cannot be answered so, and
        costs again: another version may have planned the same text otherwise."""
        if self.after is None and kept.answer_to(self.answer_key) is not None:
            return self
        quote = self if self.after is not None else self._say_over_block(text, run)
        if quote is None or (kept.has_run and not kept.serves(quote.plans[0])):
            return None
        return quote

    def _say_over_block(self, text: str, run: RunClosed) -> Quote | None:
        """The same question as one over its own block; None where that cannot be said."""
        own, desk = self.split.own, self.desk
        try:
            apart = split_query(text, desk.schema, desk.account.unit, apart=True)
        except InvalidQuery:
            return None
        key = make_key(desk, "blocks", apart.forms, self.terms)
        if own is None or apart.after is None or key != self.keys[0]:
            return None
        after = check_after(apart, run)
        block = (block_plan(self.plans[0], own),)
        return replace(self, split=apart, after=after, keys=(key,), make_plans=lambda: (block, self.loss))


def _word_errors(mechanism: Plan, confidence: float) -> dict[str, str]:
    columns = mechanism.expected(confidence)
    return {column.name: str(column).removeprefix(f"{column.name}: ") for column in columns}


def check_after(split: SplitQuery, run: RunClosed) -> Afterwards | None:
    """What is said over the blocks, tried on tables without rows: before anything is charged."""
    if split.after is None:
        return None
    after = Afterwards(split.blocks, split.after, run)
    _ = after.schema
    return after


def read_quote(
    desk: Desk,
    question: Question,
    split: SplitQuery,
    delta: Number,
    text_terms: dict[str, Any],
    run: RunClosed,
    *,
    buys: bool = True,
) -> Quote:
    """The question at a δ; `text_terms` are the terms that its text says. With `buys` it may buy parts of the
    profile before it is charged."""
    # What is declared is not bought: a promise about rows serves as it always did.
    blocks = split.blocks if question.most_rows is None else ()
    needs = ProfileNeeds(desk.profile, desk.account.unit, blocks, buys)
    if question.of is not None:
        return _share_quote(desk, question, split, text_terms, run, needs)
    terms = question.plan_terms(text_terms | {"delta": delta})
    after = check_after(split, run)
    share = terms.shared(len(split.blocks))

    def make_plans() -> Planned:
        if terms.within is not None and needs.missing:
            raise needs.unknown_price
        plans = tuple(needs.plan(block, share) for block in split.blocks)
        return plans, Blocks(plans).loss

    return Quote(desk, split, terms, after, make_keys(desk, split, terms), make_plans, needs)


def _share_quote(
    desk: Desk,
    question: Question,
    split: SplitQuery,
    text_terms: dict[str, Any],
    run: RunClosed,
    needs: ProfileNeeds,
) -> Quote:
    """As one of many: the ε and δ that are named are those of all of them, else they share the limit. Which
    noise serves best is seen from plans, and a part of the key, so that these are planned at once."""
    account, keywords = desk.account, question.terms | text_terms
    many = check_of(question.of, keywords["within"])
    total = total_of(account.limit, keywords["epsilon"], question.delta)
    budget = account.limit if total is None else total
    share_terms = text_terms | {"epsilon": budget.epsilon, "delta": query_delta(budget.delta)}
    terms = question.plan_terms(share_terms)
    rules, rho = share_of(account.standing().filter, total)
    plans, loss, own_terms = plan_one_of(split.blocks, needs.plan, terms, many, rules, rho)
    keys = make_keys(desk, split, own_terms)
    return Quote(desk, split, own_terms, check_after(split, run), keys, lambda: (plans, loss), needs)


def state_terms(split: SplitQuery, question: Question) -> dict[str, Any]:
    """The terms that the text itself states. Where the same was said beside it, it must be the same."""
    for name, value in split.stated.items():
        other = getattr(question, name)
        if other is not None and exact(other) != value:
            raise InvalidQuery(
                f"The text says {name} = {float(value):g}, and beside it {name}={float(other):g} is "
                "said. No data was read and nothing was charged. Say it once."
            )
    if "epsilon" in split.stated and question.within is not None:
        raise InvalidQuery(
            "The text says its ε, and beside it within= is said. No data was read and nothing was "
            "charged. Say one of them."
        )
    return {name: _shorten_number(value) for name, value in split.stated.items()}


def _shorten_number(value: Fraction | int) -> Number:
    """A number as it would be typed beside the text, so that both are one question."""
    if isinstance(value, Fraction) and exact(float(value)) == value:
        return float(value)
    return value


# ------------------------------------------------------------------------------------------------------- keys


def make_keys(desk: Desk, split: SplitQuery, terms: Terms) -> tuple[str, ...]:
    """What makes two questions the same: never the data itself, only where it lies and what its owner says
    its version is. What is said over released blocks is no part of it: that is computed anew. A text that is
    one block by itself is looked for among released blocks first, then as an answer of its own."""
    if split.after is not None:
        return (make_key(desk, "blocks", split.forms, terms),)
    answer = make_key(desk, "answer", split.forms, terms)
    if split.own is None:
        return (answer,)
    return make_key(desk, "blocks", (split.own.form,), terms), answer


def make_key(desk: Desk, kind: str, forms: tuple[str, ...], terms: Terms) -> str:
    account = desk.account
    words = (account.root, repr(desk.places), *forms, desk.declared, account.unit.to_json(), str(terms))
    text = "\0".join((f"deniable {kind} 1", *words))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
