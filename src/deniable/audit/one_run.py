"""Audits from a single run: many canaries, each in the data by its own fair coin, scored
from what the run released.

How many canaries are guessed decides how much is certified: too many and the doubtful
ones dilute the sure ones, too few and chance weighs too much. Trying several numbers
costs confidence. Here the number is planned from the claim and the number of canaries,
before any score is looked at, so the whole of alpha is left for one test.

    distribution-free  the coins, and nothing else             Steinke et al. 2023; Mahloujifar et al. 2024
    gaussian           the trade-off curve is a Gaussian one   Mahloujifar, Melis, Chaudhuri 2024
    independent        also, canaries do not touch each other  Dong, Roth, Su 2022; Nasr et al. 2023

The first two hold for every dependence between canaries, and pay for it: a private run
may be unlucky for all of them at once.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from deniable import accounting
from deniable.accounting.proportion import lower
from deniable.audit.finding import Finding, Verdict, Witness, at_one_delta
from deniable.audit.levels import CONFIRMED, Levels
from deniable.audit.rules.thresholds import candidates
from deniable.audit.scores import make_witness, numbers
from deniable.audit.statistics import Array, one_run_gaussian, one_run_p_value, one_run_refutes
from deniable.audit.statistics import one_run as one_run_epsilon
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA, Budget
from deniable.loss import GaussianNoise, Loss

Family = Literal["distribution-free", "gaussian", "independent"]
Booleans = NDArray[np.bool_]

SHARES = np.geomspace(0.002, 1, 40)
"""Shares of the canaries that a plan considers guessing."""
SPENT = (1.0, 1.5)
"""What the runs that a plan has in mind spend, in units of the claim."""
USUAL_DELTA = DEFAULT_DELTA
"""A claim without δ is planned for as if it were made at this one."""
LEARN = 0.2
"""The share of independent canaries that chooses a threshold."""
LEAST = 10
PRECISION = 1e-4
UNFAIR = 1e-6
"""Fair coins fall as one-sidedly as this so seldom that other ones are taken to have been thrown."""
CUTS = 40
LARGEST = 700.0
"""ε beyond which e^ε is no double."""
RUNS = "runs"
"""The option of a finding that counts the runs in a row which refute its claim."""

COINS = "that each canary was included by its own fair coin, and scored from the release alone."
CURVE = "that the run's trade-off curve is that of a Gaussian mechanism (the f-DP family)."
APART = "that the scores of different canaries are independent of one another."
ASSUMES = {"distribution-free": (COINS,), "gaussian": (COINS, CURVE), "independent": (COINS, CURVE, APART)}
CANNOT_SEE = (
    "losses that show on few canaries only: the bound speaks about the best guesses among all of them.",
    "an ε far above ln of the number of canaries.",
)


def one_run(
    scores: Sequence[float] | Array,
    included: Sequence[bool] | Booleans,
    claim: Loss | Budget | float | tuple[float, float],
    *,
    family: Family = "distribution-free",
    guesses: Sequence[int] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "one training run",
    confirms: Finding | None = None,
) -> Finding:
    """Bound ε from a single run in which each canary was included by its own fair coin.

    `scores` are functions of what the run released alone, larger where a canary seems to be in. The g/2
    largest are guessed to be in and the g/2 smallest out; g is planned from `claim` (`plan_guesses`), or each
    of `guesses` is tried and the error shared. Canaries are shuffled by `seed` first, so that equal scores
    tell nothing by the order in which they were given. Where an earlier run says "look again", train again
    with new coins and noise and give its finding as `confirms` (see `judge_run`).
    """
    start = clock.monotonic()
    values, inside = check_scores(scores, included, confidence, seed)
    claim, m, levels = at_one_delta(claim), len(values), Levels.for_look(confidence)
    delta, runs = float(claim.delta), count_runs(confirms, claim, confidence)
    if family not in ASSUMES:
        raise InvalidParameter(f"Expected family={family!r} to be one of {', '.join(ASSUMES)}.")
    if family != "distribution-free" and not delta:
        raise InvalidParameter(
            "No Gaussian run keeps an ε at δ = 0. State the δ of the claim, or use "
            'family="distribution-free".'
        )
    guess_counts = (
        [plan_guesses(m, claim)] if guesses is None else sorted({min(int(g), m) for g in guesses if g > 1})
    )
    if not guess_counts:
        raise InvalidParameter(f"Expected guesses={guesses} of at least 2 each.")
    if family == "independent":
        epsilon, estimate = (_epsilon_of(mu, delta) for mu in independent_mu(values, inside, levels.alpha))
        surely = _epsilon_of(independent_mu(values, inside, levels.accusing)[0], delta)
        witness = independent_witness(values, inside, seed)
    else:
        ranking = inside[np.argsort(values, kind="stable")]
        tries = len(guess_counts)
        bounds = {g: _bound_guesses(ranking, g, delta, levels.alpha / tries, family) for g in guess_counts}
        best = max(bounds, key=lambda g: bounds[g])
        (epsilon, estimate), witness = bounds[best], ranked_witness(values, inside, best, seed)
        surely = max(
            _bound_guesses(ranking, g, delta, levels.accusing / tries, family)[0] for g in guess_counts
        )
    claim_epsilon = float(claim.epsilon)
    visible = detectable(m, max(guess_counts), claim, alpha=levels.alpha / len(guess_counts), family=family)
    verdict = judge_run(epsilon, surely, claim_epsilon, alpha=levels.alpha, runs=runs)
    return Finding(
        verdict=verdict, target=name, claim=claim, epsilon=epsilon, delta=delta,
        confidence=confidence, estimate=estimate, detectable=visible, samples=1,
        seconds=clock.monotonic() - start, assumes=ASSUMES[family], cannot_see=CANNOT_SEE, witness=witness,
        method=f"one run, {family}",
        options={"canaries": m, "guesses": guess_counts, "family": family, "seed": seed, RUNS: runs},
        reasons=say_next(verdict, levels.alpha, runs),
    )  # fmt: skip


def judge_run(
    epsilon: float, surely: float, claim_epsilon: float, *, alpha: float = 1.0, runs: int = 1
) -> Verdict:
    """The verdict on one run, with `epsilon` at the confidence asked for and `surely` at the level of an
    accusation.

    Where canaries may depend on one another a run may be lucky for all of them at once, so one run hardly
    ever accuses by itself. `runs` in a row, each with coins and noise of its own, refute a claim that holds
    with probability at most alphaʳᵘⁿˢ. Once that is at most `CONFIRMED` they accuse too.
    Underpowered: less than half the claim was reached, so these canaries would not have shown twice as much.
    """
    if surely > claim_epsilon or (epsilon > claim_epsilon and alpha**runs <= CONFIRMED):
        return Verdict.VIOLATION
    if epsilon > claim_epsilon:
        return Verdict.LOOK_AGAIN
    return Verdict.CONSISTENT if epsilon > claim_epsilon / 2 else Verdict.UNDERPOWERED


def count_runs(confirms: Finding | None, claim: Budget, confidence: float) -> int:
    """How many runs in a row refute the claim if this one does: it and those that it confirms."""
    if confirms is None:
        return 1
    earlier = confirms.options or {}
    if confirms.verdict is not Verdict.LOOK_AGAIN or RUNS not in earlier:
        raise InvalidParameter(
            'confirms= takes the newest finding of one run that says "look again". This one says '
            f'"{confirms.verdict}". Nothing was certified.'
        )
    if (confirms.claim, confirms.confidence) != (claim, confidence):
        raise InvalidParameter(
            f"confirms= takes a finding on the same claim at the same confidence, not on {confirms.claim} at "
            f"{confirms.confidence:g}. Nothing was certified."
        )
    return int(earlier[RUNS]) + 1


def say_next(verdict: Verdict, alpha: float, runs: int) -> tuple[str, ...]:
    """What to do where one run is not enough for an accusation."""
    if verdict is not Verdict.LOOK_AGAIN:
        return ()
    run_count = math.ceil(math.log(CONFIRMED) / math.log(alpha))
    return (
        f"{runs} of {run_count} runs in a row refute the claim at the confidence {1 - alpha:.4g}. Train "
        "again with new coins, and give this finding as confirms= (--confirms).",
    )


def check_scores(scores: Any, flips: Any, confidence: float, seed: int = 0) -> tuple[Array, Booleans]:
    """Scores and coins, shuffled alike. Coins that cannot have been fair are refused:
    all guesses lean on them."""
    values, coins = numbers(scores), np.asarray(flips)
    if values.shape != coins.shape or len(values) < LEAST:
        raise InvalidParameter(
            f"Expected at least {LEAST} scores with a coin each, got {len(values)} scores and {coins.size} "
            "coins."
        )
    if not np.isin(coins, (0, 1)).all():
        raise InvalidParameter("Expected each canary's coin to be True or False (in or not).")
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    inside, m = coins.astype(np.bool_), len(coins)
    within = int(inside.sum())
    if 2 * binom.cdf(min(within, m - within), m, 0.5) < UNFAIR:
        raise InvalidParameter(
            f"Expected each canary to be in by its own fair coin, but {within:,} of {m:,} are in. Nothing "
            "was certified; give the canaries that were left out as well."
        )
    order = np.random.default_rng(seed).permutation(m)
    return values[order], inside[order]


# ------------------------------------------------------------------------------------------- how many guesses


@lru_cache(maxsize=64)
def plan_guesses(canaries: int, claim: Budget) -> int:
    """How many of the canaries to guess: the larger of what is best for a run that just keeps the claim and
    for one that spends half as much again, which too few guesses could not show however right they are.

    The model is a Gaussian run; it decides how much is certified, never whether that is
    true, as nothing here depends on scores or coins.

    >>> plan_guesses(1000, Budget(8, 1e-5)), plan_guesses(20_000, Budget(8, 1e-5))
    (279, 2149)
    """
    return max(_best_number(canaries, times * float(claim.epsilon), float(claim.delta)) for times in SPENT)


def _best_number(canaries: int, epsilon: float, delta: float) -> int:
    """Where the bound is expected to be largest for a Gaussian run of this ε."""
    mu = _mu_of(max(epsilon, 0.05), delta or USUAL_DELTA)

    def expected_bound(guesses: int) -> float:
        right = math.floor(guesses * accuracy(mu, guesses / canaries))
        return one_run_epsilon(canaries, guesses, right, delta=delta, alpha=0.05)

    sizes = sorted({max(2, round(float(share) * canaries)) for share in SHARES})
    return max(sizes, key=lambda g: (expected_bound(g), g))


def accuracy(mu: float, share: float) -> float:
    """How often the surest `share` of guesses is right where scores are N(0, 1) for
    those out and N(μ, 1) for those in."""
    if share >= 1:
        return float(ndtr(mu / 2))
    low, high = 0.0, 40.0 + mu
    for _ in range(80):
        middle = (low + high) / 2
        mass = ndtr(mu / 2 - middle) + ndtr(-mu / 2 - middle)
        low, high = (middle, high) if mass > share else (low, middle)
    sure, doubtful = ndtr(mu / 2 - low), ndtr(-mu / 2 - low)
    return float(sure / (sure + doubtful))


def _mu_of_share(right: float, share: float) -> float:
    """The μ whose surest `share` of guesses is `right` so often."""
    low, high = 0.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle, share) < right else (low, middle)
    return low


def _mu_of(epsilon: float, delta: float) -> float:
    """About the μ of a Gaussian mechanism that is (ε, δ)-DP: for plans only."""
    low, high = 0.0, 60.0
    for _ in range(40):
        middle = (low + high) / 2
        cost = accounting.epsilon(GaussianNoise(1 / middle), delta).upper
        low, high = (middle, high) if cost < epsilon else (low, middle)
    return low


# ----------------------------------------------------------------------------------------- what guesses prove


def _bound_guesses(
    ranking: Booleans, guesses: int, delta: float, alpha: float, family: Family
) -> tuple[float, float]:
    """(certified, plain) ε for so many guesses on canaries sorted by score."""
    m, right = len(ranking), right_guesses(ranking, guesses)
    estimate = math.log((right + 0.5) / (guesses - right + 0.5))
    if family == "gaussian":
        estimate = _epsilon_of(_mu_of_share(right / guesses, guesses / m), delta)
    return certify_run(m, guesses, right, delta, alpha, family), estimate


def right_guesses(ranking: Booleans, guesses: int) -> int:
    """How many of the surest guesses are right, on coins sorted by score: half of them "out", half "in"."""
    low = guesses // 2
    return int(np.sum(~ranking[:low])) + int(np.sum(ranking[len(ranking) - (guesses - low) :]))


def certify_run(canaries: int, guesses: int, right: int, delta: float, alpha: float, family: Family) -> float:
    """The least ε that one run allows after `right` of `guesses`.

    Distribution-free: the better of two proofs. Both bound P(right ≥ v) for the same count, so for each ε let
    v* be the least count that either of them refutes: whoever refutes it shows P(right ≥ v*) ≤ alpha, and
    nothing is refuted below v*. So the better of the two is valid without sharing alpha.
    """
    if family == "distribution-free":
        free = one_run_epsilon(canaries, guesses, right, delta=delta, alpha=alpha)
        return max(free, by_recursion(canaries, guesses, right, delta, alpha))
    return _epsilon_of(one_run_gaussian(canaries, guesses, right, alpha=alpha), delta)


def refutes(canaries: int, guesses: int, right: int, curve: Callable[[float], float], alpha: float) -> bool:
    """Whether P(`right` or more of `guesses`) ≥ alpha contradicts a trade-off curve f.

    `curve`(r) is the least mass of wrong guesses that f allows beside a mass r of right ones, f̄⁻¹(r).
    Mahloujifar, Melis, Chaudhuri 2024, Theorem 3.2 and Algorithm 3, two options for each canary: `r` and `h`
    bound right and wrong mass per canary over runs with at least i right ones; if even i = 0 needs more mass
    than there is, f is refuted.
    """
    r, h = alpha * right / canaries, alpha * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        level = max(h, curve(r))
        if level == h:
            break
        r, h = min(r + i / (guesses - i) * (level - h), 1.0), level
    return r + h > guesses / canaries


def by_recursion(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """The largest ε, down to PRECISION, such that `refutes` holds for the curve of (ε, δ)-privacy."""

    def is_refuted(epsilon: float) -> bool:
        return refutes(canaries, guesses, right, _wrong_mass(epsilon, delta), alpha)

    if not is_refuted(0.0):
        return 0.0
    below, above = 0.0, 1.0
    while above < 64 and is_refuted(above):
        below, above = above, 2 * above
    while above - below > PRECISION:
        middle = (below + above) / 2
        below, above = (middle, above) if is_refuted(middle) else (below, middle)
    return below


def _wrong_mass(epsilon: float, delta: float) -> Callable[[float], float]:
    """f̄⁻¹ of (ε, δ)-privacy: r ≤ e^ε·h + δ and 1 − h ≤ e^ε·(1 − r) + δ."""
    grow = math.exp(min(epsilon, LARGEST))
    return lambda r: max((r - delta) / grow, 1 - delta - grow * (1 - r), 0.0)


# ------------------------------------------------------------------------------------------------ power


def detectable(
    canaries: int, guesses: int, claim: Budget, *, alpha: float, family: Family, power: float = 0.95
) -> float:
    """The smallest true ε that would have been told from the claim with probability
    `power`, by independent Gaussian canaries.

    First the least number of right guesses that refutes the claim, then the least μ that gives so many.
    """
    delta = float(claim.delta) or USUAL_DELTA
    mu = _mu_of(float(claim.epsilon), delta)
    trials = canaries - max(1, int(LEARN * canaries)) if family == "independent" else guesses
    least_right = _least(trials, lambda right: _is_refuted(canaries, trials, right, claim, mu, alpha, family))
    if least_right is None:
        return math.inf

    def is_detected(candidate: float) -> bool:
        share = accuracy(candidate, 1.0 if family == "independent" else guesses / canaries)
        return bool(binom.ppf(1 - power, trials, share) >= least_right)

    low, high = mu, 40.0
    if not is_detected(high):
        return math.inf
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return accounting.epsilon(GaussianNoise(1 / high), delta).upper


def _is_refuted(
    canaries: int, guesses: int, right: int, claim: Budget, mu: float, alpha: float, family: Family
) -> bool:
    """Whether so many right guesses contradict the claim itself."""
    epsilon, delta = float(claim.epsilon), float(claim.delta)
    if family == "independent":
        return mu_from_guesses(right, guesses, alpha) > mu
    if family == "gaussian":
        return one_run_refutes(canaries, guesses, right, mu=mu, alpha=alpha)
    free = one_run_p_value(canaries, guesses, right, epsilon=epsilon, delta=delta) <= alpha
    return free or refutes(canaries, guesses, right, _wrong_mass(epsilon, delta), alpha)


def _least(limit: int, holds: Callable[[int], bool]) -> int | None:
    """The least whole number up to `limit` for which something holds that holds for all
    larger ones; None if there is none."""
    if not holds(limit):
        return None
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


# --------------------------------------------------------------------------------------- independent canaries


def independent_mu(scores: Array, flips: Booleans, alpha: float) -> tuple[float, float]:
    """A certified μ, and a rough one: threshold and sign from the first fifth, then an
    exact bound on the share of right guesses.

    For each canary the scores with and without it are the outputs of a μ-Gaussian private mechanism on
    neighbours, whatever the others do. So a guess about a fair coin is right with probability (1 − FPR +
    TPR)/2 ≤ max over x of (1 − Φ(x) + Φ(x + μ))/2 = Φ(μ/2), as TPR ≤ Φ(Φ⁻¹(FPR) + μ) (Dong, Roth, Su 2022).
    If canaries are independent, so many right guesses are no likelier than from a binomial of that share,
    even if some canaries are seen worse than others; one bound at alpha is narrower by two fifths than a
    bound on each rate at alpha/2.
    """
    rule, rest, coins = learnt_rule(scores, flips)
    right, trials = _right(rule, rest, coins), len(rest)
    return mu_from_guesses(right, trials, alpha), mu_from_guesses(right, trials, 0.5)


def learnt_rule(scores: Array, coins: Booleans) -> tuple[tuple[int, float], Array, Booleans]:
    """(sign, threshold) from the first fifth: in, where sign·score ≥ threshold; and the
    scores and coins that are left.

    The rule of the largest TPR − FPR there: what coins of few canaries happened to
    favour is not learnt with it.
    """
    start = max(1, int(LEARN * len(scores)))
    rules = [(sign, float(t)) for sign in (1, -1) for t in candidates(sign * scores[:start], 80)]
    best = max(rules, key=lambda rule: _advantage(rule, scores[:start], coins[:start]))
    return best, scores[start:], coins[start:]


def mu_from_guesses(right: int, trials: int, alpha: float) -> float:
    """The least μ that μ-GDP allows after `right` of `trials` independent guesses about
    fair coins, but for a chance of alpha."""
    share = float(lower(right, trials, alpha))
    return 2 * float(ndtri(share)) if share > 0.5 else 0.0


def _advantage(rule: tuple[int, float], scores: Array, coins: Booleans) -> float:
    """TPR − FPR."""
    guesses = rule[0] * scores >= rule[1]
    within = max(1, int(coins.sum())), max(1, int((~coins).sum()))
    return float(
        np.count_nonzero(guesses & coins) / within[0] - np.count_nonzero(guesses & ~coins) / within[1]
    )


def _right(rule: tuple[int, float], scores: Array, coins: Booleans) -> int:
    sign, threshold = rule
    return int(np.sum((sign * scores >= threshold) == coins))


def _epsilon_of(mu: float, delta: float) -> float:
    """The ε at δ that a μ-Gaussian mechanism has for sure."""
    if math.isinf(mu):
        return math.inf
    return accounting.epsilon(GaussianNoise(1 / mu), delta).lower if mu > 1e-3 else 0.0


# ---------------------------------------------------------------------------------------------- what was seen


def ranked_witness(values: Array, coins: Booleans, guesses: int, seed: int) -> Witness:
    """The scores in and out, and the edges of the surest guesses."""
    ranking, low = np.sort(values), guesses // 2
    right = right_guesses(coins[np.argsort(values, kind="stable")], guesses)
    edges = float(ranking[len(values) - (guesses - low)]), float(ranking[min(low, len(values) - 1)])
    return make_witness(
        values[coins], values[~coins], _cuts(values), edges, ("in", "out"), right, guesses - right, seed
    )


def independent_witness(values: Array, flips: Booleans, seed: int) -> Witness:
    """The same for one threshold, on the canaries that certify; scores that fall for
    members are turned round."""
    (sign, threshold), rest, coins = learnt_rule(values, flips)
    right, scores = _right((sign, threshold), rest, coins), sign * rest
    edges = threshold, threshold
    return make_witness(
        scores[coins], scores[~coins], _cuts(scores), edges, ("in", "out"), right, len(rest) - right, seed
    )


def _cuts(values: Array) -> Array:
    """Even steps over nearly all scores, as a picture wants them."""
    finite_values = values[np.isfinite(values)]
    if not len(finite_values):
        return np.zeros(1)
    low, high = np.quantile(finite_values, [0.005, 0.995])
    return np.linspace(float(low), float(high), CUTS)
