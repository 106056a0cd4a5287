"""`epsilon` and `delta` of any loss: the best valid method, and a lower bound from a
mechanism that attains it.

Every method is a function (loss, δ) → ε that is never below the truth and refuses, with
`Unaccountable`, what it has no theorem for. So the least of them is valid: the choice is
made from the loss alone, before any data is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from deniable.accounting import numerical, renyi
from deniable.accounting.methods import amplify, gaussian, moments, pure, shuffle, strong, zcdp
from deniable.accounting.methods.attained import reach
from deniable.accounting.methods.gaussian import squared_mu
from deniable.accounting.methods.pure import group_pair
from deniable.accounting.methods.relations import rewrite_silenced
from deniable.accounting.methods.sampling import refuse_shuffled
from deniable.accounting.methods.steps import any_pair
from deniable.accounting.numerical import classes
from deniable.accounting.numerical.lattice.search import delta_bounds
from deniable.accounting.numerical.terms import cases, flatten, lower_cases
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ceil_float, floor_float
from deniable.errors import DeniableError, InvalidParameter, Unaccountable
from deniable.guarantee import NONE_KNOWN, Bound
from deniable.loss import (
    Approximate,
    BoundedRange,
    Composed,
    Grouped,
    Loss,
    Repeated,
    Selected,
    Shuffled,
    exact,
)

Method = Callable[[Loss, float], float]


def _numerical(loss: Loss, delta: float) -> float:
    return numerical.epsilon(loss, delta).upper


METHODS: dict[str, Method] = {
    "basic": pure.epsilon,
    "advanced": strong.advanced,
    "optimal": strong.optimal,
    "amplified": amplify.epsilon,
    "shuffle": shuffle.epsilon,
    "zcdp": zcdp.epsilon,
    "moments": moments.epsilon,
    "renyi": renyi.epsilon,
    "numerical": _numerical,
}
"""Every method by name, in the order of the field's history."""


TIGHT = 2e-3
"""A relative gap below which only what is exact can better the numerical bracket."""
TIGHT_DELTA = 2e-2
MOST_LINKS = 40
"""Shares of δ that are tried for a group."""
SMALLEST = 1e-290
SHORT = 20_000
"""Outcomes of randomized response that are listed in no more time than a numerical composition takes."""


@guard
def epsilon(loss: Loss, delta: float, *, method: str | None = None) -> Bound:
    """The least ε such that every mechanism with this loss is (ε, δ)-DP, bracketed.

    `method` asks for one of `METHODS` alone, which then gives an upper bound only.
    """
    _check_delta(delta)
    loss = rewrite_silenced(loss)
    refuse_shuffled(loss)
    if method is not None:
        return Bound(0.0, _method(method)(loss, delta), method)
    if delta == 0:
        return _pure(loss)
    bound, refusal = _attempt(numerical.epsilon, loss, delta)
    upper, name = min(_uppers(loss, delta, bound))
    if bound is None:
        upper, name = min((upper, name), (_or_infinite(_chain, loss, delta), "group"))
    if math.isinf(upper) and refusal is not None:
        raise refusal
    if bound is None:
        return _bracket(_or_zero(numerical.lower, loss, delta), upper, name)
    return _bracket(bound.lower, upper, name)


@guard
def delta(loss: Loss, epsilon: float, *, method: str | None = None) -> Bound:
    """The least δ such that every mechanism with this loss is (ε, δ)-DP, bracketed."""
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidParameter(f"Expected epsilon={epsilon} in [0, ∞).")
    loss = rewrite_silenced(loss)
    refuse_shuffled(loss)
    if method is not None:
        return Bound(0.0, _invert(_method(method), loss, epsilon), method)
    bound, refusal = _attempt(numerical.delta, loss, epsilon)
    if bound is not None and bound.gap <= TIGHT_DELTA * bound.upper:
        optimum = math.inf
        if strong.outcomes(loss) <= SHORT:
            optimum = strong.optimal_delta(loss, epsilon)
        return _bracket(bound.lower, *min((bound.upper, bound.method), (optimum, "optimal")))
    upper, name = _least_delta(loss, epsilon)
    if bound is None:
        upper, name = min((upper, name), (_chain_delta(loss, epsilon), "group"))
    if bound is not None:
        return _bracket(bound.lower, *min((bound.upper, bound.method), (upper, name)))
    if upper >= 1 and refusal is not None:
        raise refusal
    return _bracket(_or_zero(_lower_delta, loss, epsilon), upper, name)


@guard
def compare(loss: Loss, delta: float) -> dict[str, Bound | str]:
    """Every method side by side: its bound, or the sentence with which it refuses."""
    _check_delta(delta)
    loss = rewrite_silenced(loss)
    table: dict[str, Bound | str] = {}
    for name, method in METHODS.items():
        try:
            if name == "numerical":
                table[name] = numerical.epsilon(loss, delta)
            else:
                table[name] = Bound(0.0, method(loss, delta), name)
        except Unaccountable as refusal:
            table[name] = str(refusal)
    return table


# ------------------------------------------------------------------------------------------------ upper


def _pure(loss: Loss) -> Bound:
    """δ = 0: basic composition above, and below what a theorem says is reached."""
    upper = _or_infinite(pure.epsilon, loss, 0.0)
    if math.isinf(upper):
        return Bound(0.0, upper, "basic")
    lower = min(floor_float(reach(loss)) * (1 - 1e-12), upper)
    return Bound(lower, upper, "basic", "basic" if lower > 0 else NONE_KNOWN)


def _has_stated_parts(loss: Loss) -> bool:
    """Whether a part is known by its ε and δ alone, or is a choice that may be steered by what came before:
    the cells of the numerical accountant are wider than what other methods know of it."""
    return any(isinstance(part, Approximate | BoundedRange | Selected) for part in loss.walk())


def _uppers(loss: Loss, delta: float, bound: Bound | None) -> Iterator[tuple[float, str]]:
    """Upper bounds, quick ones first, of which the least is never above any named method.

    Left out is only what cannot be the least: `amplified` is `optimal` on a sample, `advanced` has larger
    terms than it, `moments` fewer orders and a larger conversion than `renyi`; and, beside a tight numerical
    bracket, what knows less of the loss.
    """
    if bound is not None:
        yield bound.upper, bound.method
    yield _or_infinite(pure.epsilon, loss, delta), "basic"
    if bound is not None and bound.gap <= TIGHT * bound.upper and not _has_stated_parts(loss):
        if strong.outcomes(loss) <= SHORT:
            yield _or_infinite(strong.optimal, loss, delta), "optimal"
        return
    yield from _unpaired_bounds(loss, delta, bound.upper if bound else math.inf)
    if bound is None:
        yield _or_infinite(_split, loss, delta), "split"


def _unpaired_bounds(loss: Loss, delta: float, bound: float) -> Iterator[tuple[float, str]]:
    """The methods that need no dominating pair; of many unlike parts those that a first
    look does not rule out.

    More noise reveals less, by every method. So what a method says of fewer, more noisy parts is at most what
    it would say of the loss itself: where that is no less than the ε `bound` already, it cannot be the least.
    """
    if isinstance(loss, Shuffled):  # the others know the report before it was mixed
        yield _or_infinite(shuffle.epsilon, loss, delta), "shuffle"
        return
    if squared_mu(loss) is not None:
        yield _or_infinite(gaussian.epsilon, loss, delta), "optimal"
    yield _or_infinite(zcdp.epsilon, loss, delta), "zcdp"
    slow: list[tuple[str, Method]] = [("renyi", renyi.epsilon)]
    if any_pair(loss):
        slow.append(("optimal", strong.optimal))
    quieter = None
    if math.isfinite(bound):
        quieter = _less_revealing(loss)
    for name, method in slow:
        if quieter is None or _or_infinite(method, quieter, delta) < bound:
            yield _or_infinite(method, loss, delta), name


def _less_revealing(loss: Loss) -> Loss | None:
    if len(loss.children) <= classes.MANY:
        return None
    steps = classes.less_revealing(flatten(loss))
    if steps is None:
        return None
    return Composed(tuple(part * times for part, times in steps.items()))


def _least_delta(loss: Loss, epsilon: float) -> tuple[float, str]:
    """The least δ at which some method says at most ε, and that method's name; 1 if none does."""
    if isinstance(loss, Shuffled):
        return shuffle.delta(loss, epsilon), "shuffle"
    winner = ["basic"]

    def least(tree: Loss, delta: float) -> float:
        for upper, name in _uppers(tree, delta, None):
            if upper <= epsilon:
                winner[0] = name
                return upper
        return math.inf

    return _invert(least, loss, epsilon), winner[0]


def _lower_delta(loss: Loss, epsilon: float) -> float:
    return delta_bounds(lower_cases(loss), epsilon)[0]


def _attempt(
    method: Callable[[Loss, float], Bound], loss: Loss, target: float
) -> tuple[Bound | None, Unaccountable | None]:
    try:
        return method(loss, target), None
    except Unaccountable as refusal:
        return None, refusal


def _split(loss: Loss, delta: float) -> float:
    """Parts without a dominating pair become Approximate(ε, δ') at an even share of half
    of δ; the rest is composed with them.

    Valid since (ε, δ')-DP of a part is all that the composition of Approximate uses
    (Kairouz, Oh, Viswanath 2015).
    """
    parts = list(_flatten(loss))
    hard = []
    if len(parts) > 1:
        hard = [part for part in parts if not _has_pair(part)]
    if not hard:
        raise Unaccountable(f"No part of {loss} can be split off.")
    share = delta / (2 * len(hard))
    pieces = [Approximate(epsilon(part, share).upper, share) if part in hard else part for part in parts]
    return numerical.epsilon(Composed(tuple(pieces)), delta).upper


def _chain(loss: Loss, delta: float) -> float:
    """A group, by all that is known of one unit: a chain of neighbours (Vadhan 2017, Lemma 2.2), each of
    which sees the whole run at a share of δ. Every share within δ is valid; the largest is looked for."""
    size, single = _one_of_group(loss)
    target = exact(delta)
    share, before = delta / size, None
    for _ in range(MOST_LINKS):
        pair = exact(epsilon(single, share).upper), exact(share)
        upper, total = group_pair(size, pair)
        if total <= target:
            return ceil_float(upper)
        excess = math.log(total / target)
        slope = 1.0
        if before is not None:
            # How much a smaller share helps: less than itself, since ε grows meanwhile.
            slope = min(1.0, max(0.05, (before[1] - excess) / math.log(before[0] / share)))
        before = share, excess
        share *= math.exp(-(excess + 1e-3) / slope)
        if share < SMALLEST:
            break
    raise Unaccountable(f"No chain of neighbours bounds {loss} at δ = {delta:g}.")


def _chain_delta(loss: Loss, epsilon: float) -> float:
    """The same for δ at an ε: each neighbour has its part of ε. 1 where there is no group."""
    try:
        size, single = _one_of_group(loss)
        each = exact(epsilon) / size
        return ceil_float(group_pair(size, (each, exact(delta(single, floor_float(each)).upper)))[1])
    except Unaccountable:
        return 1.0


def _one_of_group(loss: Loss) -> tuple[int, Loss]:
    """The size of the group that a loss is stated for, and the same loss for one unit. Parts of a composition
    are about the same group, so theirs must be of one size."""
    match loss:
        case Grouped(size, of):
            return size, of
        case Repeated(times, of):
            size, single = _one_of_group(of)
            return size, Repeated(times, single)
        case Composed(parts):
            pairs = [_one_of_group(part) for part in parts]
            if len({size for size, _ in pairs}) == 1:
                return pairs[0][0], Composed(tuple(single for _, single in pairs))
    raise Unaccountable(f"{loss} is not stated for one group.")


def _has_pair(loss: Loss) -> bool:
    try:
        return bool(cases(loss))
    except Unaccountable:
        return False


def _flatten(loss: Loss) -> Iterator[Loss]:
    """The parts of a composition, `Repeated` of a composition taken apart."""
    match loss:
        case Composed(parts):
            for part in parts:
                yield from _flatten(part)
        case Repeated(times, Composed(parts)):
            for part in parts:
                yield from _flatten(Repeated(times, part))
        case _:
            yield loss


def _invert(method: Method, loss: Loss, epsilon: float) -> float:
    """The least δ, to three digits, at which `method` says at most ε; 1 if there is none above 1e-100."""
    low, high = math.log(1e-100), 0.0
    if method(loss, 1e-100) <= epsilon:
        return 1e-100
    while high - low > 1e-3:
        middle = (low + high) / 2
        if method(loss, math.exp(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return min(1.0, math.exp(high))


# ------------------------------------------------------------------------------------------------ small parts


def _bracket(lower: float, upper: float, method: str) -> Bound:
    """Two certified sides that meet: the lower one must not pass the upper by more than their own
    rounding."""
    if lower > upper * (1 + 1e-9) + 1e-12:
        raise ArithmeticError(f"The lower bound {lower} passes the upper bound {upper} of {method}.")
    lower = min(lower, upper)
    return Bound(lower, upper, method, "numerical" if lower > 0 else NONE_KNOWN)


def _or_infinite(method: Method, loss: Loss, delta: float) -> float:
    try:
        return method(loss, delta)
    except DeniableError:
        return math.inf


def _or_zero(method: Method, loss: Loss, target: float) -> float:
    try:
        return guard(method)(loss, target)
    except DeniableError:
        return 0.0


def _method(name: str) -> Method:
    if name not in METHODS:
        raise InvalidParameter(f"Expected method={name!r} to be one of {', '.join(METHODS)}.")
    return METHODS[name]


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise InvalidParameter(f"Expected delta={delta} in [0, 1).")
