"""Reconstruction: too many counts, answered too well, give away everybody's bit (Dinur, Nissim 2003).

>>> import numpy as np
>>> from deniable.attack.asking import exact, noisy
>>> bits = np.random.default_rng(1).integers(0, 2, 64)
>>> found = reconstruct(noisy(exact(bits), deviation=1.0), people=64, queries=256)
>>> bool((found.bits == bits).mean() > 0.9)
True
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from deniable.accounting import meaning
from deniable.attack import asking
from deniable.attack.asking import Ask, all_subsets, random_subsets
from deniable.attack.counts.solve import SolvingMethod, exhaustive, expected_share, solve
from deniable.attack.learnt import Bits, Learnt, percent, percent_up
from deniable.errors import InvalidParameter
from deniable.loss import Number
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian, Laplace, sensitivity

ATTACK = "reconstruct"


@dataclass(frozen=True)
class Reconstruction:
    """What was found: a bit for each person, how many questions were answered, and the
    CPU seconds of asking and solving."""

    bits: Bits
    question_count: int
    answer_count: int
    method: SolvingMethod
    seconds: float


def reconstruct(
    ask: Ask, people: int, queries: int, *, method: SolvingMethod = SolvingMethod.LEAST_SQUARES, seed: int = 0
) -> Reconstruction:
    """Ask for counts over `queries` random subsets of the `people`, and find the bits that fit the
    answers."""
    start = time.process_time()
    subsets = random_subsets(queries, people, seed)
    answers = ask(subsets)
    bits = solve(subsets, answers, method)
    return Reconstruction(bits, queries, len(answers), method, time.process_time() - start)


def secret(people: int, seed: int = 0) -> Bits:
    """A made-up secret bit for each person, by fair coins: guessing gets half of them."""
    return np.random.default_rng((seed, 1)).integers(0, 2, people, dtype=np.int8)


def score(
    result: Reconstruction,
    bits: Bits,
    release: str,
    *,
    ceiling: float | None = None,
    facts: dict[str, float] | None = None,
) -> Learnt:
    """How many bits are right, beside the half that guessing gets."""
    right = int((result.bits == bits).sum())
    share = right / len(bits)
    bound = (
        "" if ceiling is None else f" No attack on that account can expect more than {percent_up(ceiling)}."
    )
    reading = (
        f"{release}: {result.answer_count:,} of {result.question_count:,} random counts were answered, and "
        f"{percent(share)} of {len(bits):,} secret bits follow from them ({result.method}, "
        f"{result.seconds:.2f} s); guessing gets 50 %.{bound}"
    )
    numbers: dict[str, float] = {
        "asked": result.question_count,
        "answered": result.answer_count,
        "seconds": result.seconds,
    }
    return Learnt(ATTACK, release, right, len(bits), 0.5, reading, ceiling, numbers | (facts or {}))


# ------------------------------------------------------------------------------------------------ releases


def against_noise(
    people: int,
    queries: int,
    noise: float,
    *,
    method: SolvingMethod = SolvingMethod.LEAST_SQUARES,
    seed: int = 0,
) -> Learnt:
    """Answers with Gaussian noise of deviation `noise`·√n (0: none), and no limit on questions."""
    if not (noise >= 0 and math.isfinite(noise)):
        raise InvalidParameter(f"Expected noise={noise:g} in [0, ∞), in units of √people.")
    bits = secret(people, seed)
    ask = asking.exact(bits)
    deviation = noise * math.sqrt(people)
    reconstruction = reconstruct(
        asking.noisy(ask, deviation, seed), people, queries, method=method, seed=seed
    )
    facts = {"noise": noise, "deviation": deviation}
    if method is SolvingMethod.LEAST_SQUARES and queries > people / 2:
        facts["expected"] = expected_share(noise, queries / people)
    name = f"noise of {noise:g}·√n, no account" if noise else "exact counts"
    return score(reconstruction, bits, name, facts=facts)


def against_account(
    people: int,
    queries: int,
    epsilon: Number,
    delta: Number = 1e-6,
    *,
    batch: int | None = None,
    method: SolvingMethod = SolvingMethod.LEAST_SQUARES,
    seed: int = 0,
    rng: Random | None = None,
) -> Learnt:
    """The same questions through a ledger account of limit (ε, δ), until it refuses.

    By default all at once: Gaussian noise as small as the limit allows (Laplace noise where δ = 0). With
    `batch` the questions go in batches of that size, each with Laplace noise for a hundredth of ε, and are
    refused when the account is spent.
    """
    bits = secret(people, seed)
    name = f"account of ε = {float(epsilon):g}" + (", all at once" if batch is None else ", until refused")
    with asking.account(float(epsilon), float(delta)) as account:
        if batch is None:
            rho = account.remaining().rho
            ask = asking.ask_account(
                account, bits, lambda k: _batch_noise(k, float(epsilon), rho), batch=queries, rng=rng
            )
        else:
            ask = asking.ask_account(
                account, bits, lambda k: _laplace(k, float(epsilon) / 100), batch=batch, rng=rng
            )
        reconstruction = reconstruct(ask, people, queries, method=method, seed=seed)
        cost = account.spent().epsilon
    facts = {"epsilon": float(epsilon), "delta": float(delta), "spent": cost}
    return score(reconstruction, bits, name, ceiling=ceiling(epsilon, delta), facts=facts)


def ceiling(epsilon: Number, delta: Number = 0) -> float:
    """The largest expected share of fair, independent bits that any attack finds under
    (ε, δ): (1 + advantage)/2.

    Flipping one bit is one step between neighbours, so the two worlds of a bit are told apart with that
    probability at most, even by one who knows all others. Asking for every single bit with randomized
    response attains it at δ = 0.

    >>> f"{ceiling(1):.4f}"
    '0.7311'
    """
    return min(1.0, (1 + meaning.advantage(epsilon, delta)) / 2)


def _batch_noise(queries: int, epsilon: float, rho: float) -> Gaussian | Laplace:
    return _gaussian(queries, rho) if rho > 0 else _laplace(queries, epsilon)


def _gaussian(queries: int, rho: float) -> Gaussian:
    width = sensitivity.count(asking.PERSON, queries=queries).l2
    # ρ = Δ²/2σ²; a trifle more noise, so that rounding cannot bring it over the limit.
    sigma = float(width) / math.sqrt(2 * rho) * (1 + 1e-9)
    return Gaussian(sigma, width, dimension=queries if queries > 1 else None, unit=asking.PERSON)


def _laplace(queries: int, epsilon: float) -> Laplace:
    width = sensitivity.count(asking.PERSON, queries=queries).l1
    return Laplace.for_budget(epsilon, width, dimension=queries if queries > 1 else None, unit=asking.PERSON)


# ---------------------------------------------------------------------------------------- theorems as figures


@dataclass(frozen=True)
class Worst:
    """Every subset was answered within `error`; `wrong_bits` bits of what the exhaustive
    attack found are wrong, `bound` may be."""

    error: float
    wrong_bits: int
    bound: float
    curator: str


def exhaustive_errors(people: int, errors: tuple[float, ...], *, seed: int = 0) -> list[Worst]:
    """All 2ⁿ subsets, answered within E by random errors and by a curator who misleads,
    against the 4E of the theorem."""
    bits, subsets = secret(people, seed), all_subsets(people)
    truth = asking.counts(subsets, bits)
    results = []
    for error in errors:
        rng = np.random.default_rng((seed, 2))
        answers = {
            "random": truth + rng.uniform(-error, error, len(truth)),
            "misleading": _misleading(subsets, bits, error),
        }
        for name, replies in answers.items():
            wrong = int((exhaustive(subsets, replies) != bits).sum())
            results.append(Worst(error, wrong, 4 * error, name))
    return results


def _misleading(subsets: asking.Subsets, bits: Bits, error: float) -> asking.Answers:
    """Answers half-way between the truth and a table with 2E ones and 2E zeros flipped:
    none is off by more than E."""
    most = int(2 * error)
    ones, zeros = np.flatnonzero(bits == 1)[:most], np.flatnonzero(bits == 0)[:most]
    other = bits.copy()
    other[ones], other[zeros] = 0, 1
    return (asking.counts(subsets, bits) + asking.counts(subsets, other)) / 2


def sweep(people: int, ratio: float, noises: tuple[float, ...], *, seed: int = 0) -> list[Learnt]:
    """Success against noise of c·√n, for each c: the attack wins for small c, and no
    constant c makes it fail at once."""
    return [against_noise(people, int(ratio * people), noise, seed=seed) for noise in noises]
