"""Differencing and averaging: one person's bit from questions about many.

A set with the person and the same set without: the answers differ by their bit. What a curator adds on top is
averaged away, by asking again where the noise is new each time, and with other companions where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deniable.attack import asking
from deniable.attack.asking import Ask, Subsets
from deniable.attack.counts import baselines
from deniable.attack.counts.reconstruct import ceiling, secret
from deniable.attack.learnt import Bits, Learnt, percent, percent_up
from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.mechanisms import Laplace

DIFFERENCE, AVERAGE = "difference", "average"
Estimate = Callable[[Ask, int, int, int, int], tuple[float, int]]
"""(ask, people, person, pairs of questions, seed) → the estimated bit and the number of
pairs that were answered."""


def average(ask: Ask, people: int, person: int, pairs: int, seed: int = 0) -> tuple[float, int]:
    """Everybody, and everybody but the person, asked again and again: the mean
    difference, and how many pairs were answered."""
    others = np.ones((2 * pairs, people), np.uint8)
    others[1::2, person] = 0
    return _mean_difference(ask, others)


def difference(ask: Ask, people: int, person: int, pairs: int, seed: int = 0) -> tuple[float, int]:
    """Random companions with the person and without, new ones for each pair: answers
    that stick to their question differ."""
    rng = np.random.default_rng((seed, person))
    companions = rng.integers(0, 2, (pairs, people), dtype=np.uint8)
    questions = np.repeat(companions, 2, axis=0)
    questions[0::2, person], questions[1::2, person] = 1, 0
    return _mean_difference(ask, questions)


def _mean_difference(ask: Ask, subsets: Subsets) -> tuple[float, int]:
    answers = ask(subsets)
    pairs = len(answers) // 2
    if not pairs:
        return 0.5, 0
    return float((answers[0 : 2 * pairs : 2] - answers[1 : 2 * pairs : 2]).mean()), pairs


def attack(
    estimate: Estimate,
    ask: Ask,
    bits: Bits,
    targets: int,
    pairs: int,
    *,
    release: str,
    bound: float | None = None,
    seed: int = 0,
) -> Learnt:
    """Attack the first `targets` people, each with so many pairs of questions."""
    if not 1 <= targets <= len(bits):
        raise InvalidParameter(f"Expected targets={targets} from 1 to the {len(bits)} people.")
    estimates = [estimate(ask, len(bits), person, pairs, seed) for person in range(targets)]
    right = sum((value > 0.5) == bool(bit) for (value, _), bit in zip(estimates, bits, strict=False))
    mean_pairs = sum(pairs for _, pairs in estimates) / targets
    name = AVERAGE if estimate is average else DIFFERENCE
    promise = "" if bound is None else f" No attack on that account can expect more than {percent_up(bound)}."
    reading = (
        f"{release}: from {_pairs(mean_pairs)} of counts about many people, {percent(right / targets)} of "
        f"{targets} people's own bits were learnt; guessing gets 50 %.{promise}"
    )
    return Learnt(
        name,
        release,
        right,
        targets,
        0.5,
        reading,
        bound,
        {"pairs_asked": pairs, "pairs_answered": mean_pairs},
    )


def _pairs(number: float) -> str:
    return "one pair" if number == 1 else f"{number:,.4g} pairs"


def compare(
    people: int = 500,
    targets: int = 100,
    *,
    noise: float = 5.0,
    pairs: int = 400,
    epsilon: float = 1.0,
    seed: int = 0,
    rng: Random | None = None,
) -> list[Learnt]:
    """The attacks against exact answers, a rule on the size of sets, rounding, noise and
    sticky noise, and an account."""
    if not (noise > 0 and math.isfinite(noise)) or pairs < 1:
        raise InvalidParameter(f"Expected noise={noise:g} above 0 and pairs={pairs} of at least 1.")
    bits = secret(people, seed)
    truth = asking.exact(bits)
    large = baselines.only_large(truth, people // 4)
    rounding = baselines.to_multiples(truth, 5)
    stuck = baselines.sticky(truth, noise, "salt")
    fresh = asking.noisy(truth, noise, seed)
    plans: list[tuple[str, Estimate, Ask, int]] = [
        ("exact counts", difference, truth, 1),
        (f"only sets of {people // 4} or more", difference, large, 1),
        ("rounded to fives, asked once", difference, rounding, 1),
        ("rounded to fives, many companions", difference, rounding, pairs),
        (f"noise of {noise:g}, asked once", average, fresh, 1),
        (f"noise of {noise:g}, asked again", average, fresh, pairs),
        (f"sticky noise of {noise:g}, asked again", average, stuck, pairs),
        (f"sticky noise of {noise:g}, many companions", difference, stuck, pairs),
    ]
    results = [attack(how, ask, bits, targets, k, release=name, seed=seed) for name, how, ask, k in plans]
    return [*results, against_account(bits, targets, epsilon, pairs=pairs, seed=seed, rng=rng)]


def against_account(
    bits: Bits, targets: int, epsilon: float, *, pairs: int, seed: int = 0, rng: Random | None = None
) -> Learnt:
    """The same through a ledger account of ε, a quarter of it for each question, until it refuses.

    Each target is attacked with an account of its own, so this is more than one analyst would ever be given.
    """
    share = Laplace.for_budget(epsilon / 4, unit=asking.PERSON)

    def run_once(ask: Ask, people: int, person: int, questions: int, seed: int) -> tuple[float, int]:
        with asking.account(epsilon) as account:
            return difference(
                asking.ask_account(account, bits, lambda _: share, rng=rng), people, person, questions, seed
            )

    name = f"account of ε = {epsilon:g}"
    return attack(
        run_once, asking.exact(bits), bits, targets, pairs, release=name, bound=ceiling(epsilon), seed=seed
    )
