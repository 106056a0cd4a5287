"""One of n queries like it: the noise at which n of them use up a total, charged as the noise that it is.

Gaussian noise of ρ₁ … ρₙ composes to Σρ, and under the Gaussian rule to Σμ² = Σ2ρ (docs/theory/filters.md,
Theorem 6), so each of n gets a part of n of what the total admits: its error grows with √n, not with n. Where
that noise does not serve (private keys, private bounds, quantiles) or Laplace noise at ε/n is smaller, each
gets ε/n and δ/n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from deniable.accounting import epsilon as epsilon_of
from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.curator.question import Question
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Account
from deniable.loss import Composed, Loss, Number, Zcdp, exact
from deniable.numbers import plain
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import Query

MakePlan = Callable[[Query, Terms], Plan]
_TRIES = 8
_LESS = 0.02
"""So much less noise on another account is worth a line."""
_SPARED = 1 - Fraction(1, 10**7)
"""Of what a total admits: charges are rounded up."""


def share_of(limits: Filter, total: Budget | None) -> tuple[Filter, Fraction]:
    """The rules that a total is kept by, and the ρ of Gaussian noise that they admit in all."""
    rules = limits
    if total is not None:
        rules = Filter.gaussians(total) if limits.gaussian is not None else Filter.renyi(total)
    return rules, _admit_rho(rules)


def _admit_rho(rules: Filter) -> Fraction:
    mu = exact(rules.left(Charge(renyi=(0,) * len(rules.orders))).mu)
    return mu * mu / 2


def noise_by_counts(limits: Filter, total: Budget) -> float:
    """The noise of each of many on an account for counts, as a part of that on this one, for the same
    total."""
    if limits.gaussian is not None:
        return 1.0
    return math.sqrt(share_of(limits, total)[1] / _admit_rho(Filter.gaussians(total)))


def plan_one_of(
    queries: tuple[Query, ...], make_plan: MakePlan, terms: Terms, many: int, rules: Filter, rho: Fraction
) -> tuple[tuple[Plan, ...], Loss, Terms]:
    """The plans of a text that is one of `many` under `rules`, their loss, and the terms they were made
    for."""
    basic = terms.shared(many)
    plain_plans = tuple(make_plan(query, basic.shared(len(queries))) for query in queries)
    best = _by_noise(queries, make_plan, terms, many, rules, rho)
    if best is None or _width(plain_plans) <= _width(best[0]):
        return plain_plans, _compose([each.loss for each in plain_plans]), basic
    return best


def _by_noise(
    queries: tuple[Query, ...], make_plan: MakePlan, terms: Terms, many: int, rules: Filter, rho: Fraction
) -> tuple[tuple[Plan, ...], Loss, Terms] | None:
    """Gaussian plans whose charge, `many` times, the rules admit; None where noise alone is not the loss."""
    part = rho * _SPARED / (many * len(queries))
    for _ in range(_TRIES):
        try:
            own = _terms(terms, part)
            plans = tuple(make_plan(query, own) for query in queries)
        except DeniableError:
            return None
        losses = [loss for each in plans for loss in _noise_losses(each)]
        if not losses or any(each.settles or any(s.selection for s in each.sets) for each in plans):
            return None
        loss = _compose(losses)
        if rules.admits(rules.charge(loss) * many):
            return plans, loss, own
        part *= Fraction(999, 1000)
    return None


def _terms(terms: Terms, rho: Fraction) -> Terms:
    """Those whose Gaussian noise has this ρ: the planner takes an ε at a δ."""
    delta = exact(terms.delta)
    top = epsilon_of(Zcdp(plain(rho)), float(delta)).upper
    return replace(terms, epsilon=top, noise="gaussian", within=None)


def _noise_losses(planned: Plan) -> list[Loss]:
    noises = [noisy.noise for each in planned.sets for noisy in each.measures]
    if any(not isinstance(noise, Noise) for noise in noises):
        return []
    return [noise.loss for noise in noises]


def _width(plans: tuple[Plan, ...]) -> float:
    """How far the numbers of all plans may be off, together."""
    bounds = [column.within for each in plans for column in each.expected()]
    return sum(float("inf") if within is None else within for within in bounds)


def _compose(losses: list[Loss]) -> Loss:
    if len(losses) == 1:
        return losses[0]
    return Composed(tuple(losses))


def total_of(limit: Budget, epsilon: Number | None, delta: Number | None) -> Budget | None:
    """What all of them may cost; None where that is the whole limit."""
    if epsilon is None and delta is None:
        return None
    if epsilon is None:
        epsilon = limit.epsilon
    if delta is None:
        delta = limit.delta
    return Budget(epsilon, delta)


def advise_account(account: Account, question: Question, terms: Terms) -> list[str]:
    """For whoever asks many: that an account for them has less noise, if this is none."""
    if terms.noise != "gaussian":
        return []
    total = total_of(account.limit, question.epsilon, question.delta) or account.limit
    part = noise_by_counts(account.standing().filter, total)
    if part > 1 - _LESS:
        return []
    return [
        f'An account that is opened for this, with purpose="counts", has {part:.2f} of this noise: '
        "this one keeps a part of its δ for charges of other kinds."
    ]


def check_of(of: object, within: object) -> int:
    if isinstance(of, bool) or not isinstance(of, int) or not 2 <= of <= 10**6:
        raise InvalidParameter(
            f"Expected of={of!r} to be a whole number from 2 to 1,000,000: how many queries like it."
        )
    if within is not None:
        raise InvalidParameter(
            "Expected of= or within=, not both: of= shares a total, within= asks for an accuracy."
        )
    return of
