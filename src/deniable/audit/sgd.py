"""Audits of private training: canary gradients inside a step, one whole run, and final models.

    canaries      white box, any step function; the whole run's ε follows from the step within the Gaussian f-DP family
    one_run       m canaries, one run (Steinke et al. 2023); distribution-free, or within the Gaussian family
    FinalModel    black box: many models, with and without one record; distribution-free; goes to `audit`

Each finding says what its design assumes and what it cannot see. None of them sees the accountant: a run whose noise and clipping
are right and whose ε was computed wrongly must be caught by accounting, not by an audit.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deniable import accounting
from deniable.audit.finding import Finding, Verdict
from deniable.audit.rules import candidates
from deniable.audit.statistics import Array, from_rates, gaussian_from_rates, one_run_gaussian
from deniable.audit.statistics import one_run as one_run_epsilon
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import GaussianNoise, Loss

Step = Callable[[Array, np.random.Generator], Array]
"""(gradients of the examples in the batch, one per row and not yet clipped; rng) → what the step releases, one vector."""
Family = Literal["distribution-free", "gaussian"]

OPPOSED = 8
"""Opposed rounds for each scattered one: they are cheap and show one canary each."""
LOUD = 10.0
"""Canaries are this many times longer than the clip, so that a step that forgets to clip gives itself away."""


@dataclass(frozen=True)
class Training:
    """What a run of DP-SGD claims: `steps` steps, each (Σ clipped gradients + noise)/`lot` on a Poisson sample of `rate`."""

    noise_multiplier: float
    clip: float
    lot: float
    rate: float
    steps: int
    delta: float

    @property
    def loss(self) -> Loss:
        return self._with(self.noise_multiplier)

    @property
    def epsilon(self) -> float:
        """The ε that is claimed for the run."""
        return accounting.epsilon(self.loss, self.delta).upper

    def at_least(self, mu: float) -> float:
        """The ε that a run has for sure if its steps are μ-Gaussian before sampling: 0 for μ = 0."""
        if math.isinf(mu):
            return math.inf
        return accounting.epsilon(self._with(1 / mu), self.delta).lower if mu > 1e-3 else 0.0

    def _with(self, noise_multiplier: float) -> Loss:
        step = GaussianNoise(noise_multiplier)
        return (step if self.rate == 1 else step.sampled(self.rate)) * self.steps


# ------------------------------------------------------------------------------------------------ canary gradients


CANARY_ASSUMES = (
    "that every step adds independent Gaussian noise of one size to a sum over a Poisson sample of the stated rate (the f-DP "
    "family): a step's μ is certified, the run's ε follows from it by accounting.",
    "that noise is independent between coordinates and between steps.",
)
CANARY_CANNOT_SEE = (
    "the sampler: a batch that is not a Poisson sample looks the same from inside a step.",
    "the accountant, and steps that behave otherwise than the one given.",
)


def canaries(
    step: Step,
    training: Training,
    *,
    dimension: int,
    background: Callable[[], Array] | None = None,
    update: Callable[[Array], None] | None = None,
    rounds: int = 1000,
    each: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "training step",
) -> Finding:
    """Insert gradients of our own into a step and look for them in what it releases.

    Two designs share the error evenly. *Scattered*: `each` canaries on coordinates of their own, every one in by a fair coin,
    beside the gradients of `background` (of the model that is being trained, kept up to date by `update`). *Opposed*: one
    canary against a whole lot of gradients that point the other way; a normaliser that depends on the batch moves all of them.
    Each design chooses its threshold on one half of its observations and certifies μ on the other.
    """
    started = clock.monotonic()
    if each > dimension:
        raise InvalidParameter(f"Expected each={each} canaries to fit into dimension={dimension} coordinates.")
    rng, alpha = np.random.default_rng(seed), 1 - confidence
    seen = [
        _scattered(step, training, dimension, background, update, rounds, each, rng),
        _opposed(step, training, dimension, OPPOSED * rounds, rng),
    ]
    mus = [_certified_mu(scores, inside, alpha / 2) for scores, inside in seen]
    best = int(np.argmax([mu for mu, _ in mus]))
    mu, rough = mus[best]
    epsilon, claimed = training.at_least(mu), training.epsilon
    return Finding(
        verdict=_verdict(epsilon, claimed), target=name, claim=Budget(claimed, training.delta), epsilon=epsilon,
        delta=training.delta, confidence=confidence, estimate=training.at_least(rough), samples=(1 + OPPOSED) * rounds,
        detectable=training.at_least(_visible_mu(training, rounds * each / 2, alpha / 2)),
        seconds=clock.monotonic() - started, assumes=CANARY_ASSUMES, cannot_see=CANARY_CANNOT_SEE, method="canary gradients",
        options={"mu": mu, "claimed_mu": 1 / training.noise_multiplier, "design": ("scattered", "opposed")[best]},
    )  # fmt: skip


def _scattered(
    step: Step, training: Training, dimension: int, background: Callable[[], Array] | None,
    update: Callable[[Array], None] | None, rounds: int, each: int, rng: np.random.Generator,
) -> tuple[Array, NDArray[np.bool_]]:  # fmt: skip
    scores, insides = [], []
    for _ in range(rounds):
        around = background() if background is not None else np.empty((0, dimension))
        places = rng.choice(dimension, each, replace=False)
        inside = rng.random(each) < 0.5
        loud = np.zeros((int(inside.sum()), dimension))
        loud[np.arange(len(loud)), places[inside]] = LOUD * training.clip
        released = np.asarray(step(np.concatenate([around, loud]), rng), np.float64)
        known = _clipped_sum(around, training.clip)
        scores.append((released[places] * training.lot - known[places]) / training.clip)
        insides.append(inside)
        if update is not None:
            update(released)
    return np.concatenate(scores), np.concatenate(insides)


def _opposed(
    step: Step, training: Training, dimension: int, rounds: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    direction = np.zeros(dimension)
    direction[0] = LOUD * training.clip
    crowd = np.tile(-direction, (max(1, round(training.lot)), 1))
    inside = rng.random(rounds) < 0.5
    scores = np.empty(rounds)
    for i in range(rounds):
        batch = np.concatenate([crowd, direction[None]]) if inside[i] else crowd
        scores[i] = float(np.asarray(step(batch, rng))[0]) * training.lot / training.clip + len(crowd)
    return scores, inside


def _clipped_sum(gradients: Array, clip: float) -> Array:
    """Σ of gradients, each scaled to a norm of at most `clip`: what the claim says the step adds up."""
    if not len(gradients):
        return np.zeros(gradients.shape[1])
    norms = np.linalg.norm(gradients, axis=1)
    return np.asarray(np.minimum(1, clip / np.maximum(norms, 1e-300)) @ gradients)


def _certified_mu(scores: Array, inside: NDArray[np.bool_], alpha: float) -> tuple[float, float]:
    """A certified μ, and a rough one: threshold and sign from the first half, exact bounds on both rates from the second."""
    half = len(scores) // 2
    rules = [(sign, float(t)) for sign in (1, -1) for t in candidates(sign * scores[:half], 80)]
    sign, threshold = max(rules, key=lambda rule: _mu_at(rule[1], rule[0] * scores[:half], inside[:half], 0.01))
    fresh = sign * scores[half:], inside[half:]
    return _mu_at(threshold, *fresh, alpha), _mu_at(threshold, *fresh, 0.999)


def _mu_at(threshold: float, scores: Array, inside: NDArray[np.bool_], alpha: float) -> float:
    """μ from both error rates of "in if the score is at least the threshold"."""
    hits, alarms = int(np.sum(scores[inside] >= threshold)), int(np.sum(scores[~inside] >= threshold))
    return gaussian_from_rates(hits, int(inside.sum()), alarms, int((~inside).sum()), alpha=alpha)


def _visible_mu(training: Training, observations: float, alpha: float) -> float:
    """The μ whose certified value would just pass the claimed one: the claimed one plus both sides' sampling error."""
    mu, n = 1 / training.noise_multiplier, max(2, int(observations / 2))
    wide = mu
    for _ in range(60):
        hits = round(n * (1 - _tail(wide / 2)))
        if gaussian_from_rates(hits, n, n - hits, n, alpha=alpha) > mu:
            return wide
        wide *= 1.01
    return math.inf


def _tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def _verdict(epsilon: float, claimed: float) -> Verdict:
    if epsilon > claimed:
        return Verdict.VIOLATION
    return Verdict.CONSISTENT if epsilon > claimed / 2 else Verdict.UNDERPOWERED


# ------------------------------------------------------------------------------------------------ one run


ONE_RUN_CANNOT_SEE = (
    "losses that show on few canaries only: the bound speaks about the best guesses among all of them.",
    "an ε far above ln of the number of canaries.",
)


def one_run(
    scores: Sequence[float] | Array,
    included: Sequence[bool] | NDArray[np.bool_],
    claim: Budget,
    *,
    family: Family = "distribution-free",
    guesses: Sequence[int] | None = None,
    confidence: float = 0.95,
    name: str = "one training run",
) -> Finding:
    """Bound ε from a single run in which each canary was included by its own fair coin.

    `scores` are functions of what the run released alone, larger where a canary seems to be in. The g/2 largest are guessed to
    be in and the g/2 smallest out, for each g of `guesses` (by default a tenth, a quarter, half and all); the error is shared
    among them. "distribution-free" (Steinke, Nasr, Jagielski 2023) assumes the coins and nothing else; "gaussian" (Mahloujifar,
    Melis, Chaudhuri 2024) that the run's trade-off curve is a Gaussian one.
    """
    started = clock.monotonic()
    values, inside = np.asarray(scores, np.float64), np.asarray(included, np.bool_)
    if values.shape != inside.shape or values.ndim != 1 or len(values) < 10:
        raise InvalidParameter(f"Expected at least 10 scores with a coin each, got {values.shape} and {inside.shape}.")
    m, delta = len(values), float(claim.delta)
    tried = sorted(set(guesses or (m // 10, m // 4, m // 2, m)) - {0, 1})
    alpha = (1 - confidence) / len(tried)
    order = np.argsort(values, kind="stable")
    found = [_bound_guesses(inside[order], g, m, delta, alpha, family) for g in tried]
    epsilon, estimate = max(found)
    claimed = float(claim.epsilon)
    assumes = ["that each canary was included by its own fair coin, and scored from the release alone."]
    if family == "gaussian":
        assumes.append("that the run's trade-off curve is that of a Gaussian mechanism (the f-DP family).")
    return Finding(
        verdict=_verdict(epsilon, claimed), target=name, claim=claim, epsilon=epsilon, delta=delta, confidence=confidence,
        estimate=estimate, detectable=_best_one_run(m, delta, alpha, claimed), samples=1,
        seconds=clock.monotonic() - started, assumes=tuple(assumes), cannot_see=ONE_RUN_CANNOT_SEE,
        method=f"one run, {family}", options={"canaries": m, "guesses": tried},
    )  # fmt: skip


def _bound_guesses(
    ordered: NDArray[np.bool_], guesses: int, m: int, delta: float, alpha: float, family: Family
) -> tuple[float, float]:
    """(certified, plain) ε for so many guesses on canaries sorted by score."""
    low = guesses // 2
    high = guesses - low
    right = int(np.sum(~ordered[:low])) + int(np.sum(ordered[m - high :]))
    plain = math.log((right + 0.5) / (guesses - right + 0.5))
    if family == "distribution-free":
        return one_run_epsilon(m, guesses, right, delta=delta, alpha=alpha), plain
    mu = one_run_gaussian(m, guesses, right, alpha=alpha)
    return (accounting.epsilon(GaussianNoise(1 / mu), delta).lower if mu > 1e-3 else 0.0), plain


def _best_one_run(m: int, delta: float, alpha: float, claimed: float) -> float:
    """With every guess right, the largest ε that m canaries certify; ∞ if even that does not pass the claim."""
    best = one_run_epsilon(m, m, m, delta=delta, alpha=alpha)
    return best if best > claimed else math.inf


# ------------------------------------------------------------------------------------------------ final models


@dataclass(frozen=True)
class FinalModel:
    """A training function as a target for `audit`: train on one data set, release one number about the final model.

    `train(data, seed)` gives a model and `score(model)` looks at it, say by the loss on the record that differs. The audit that
    follows is distribution-free and black-box; it needs hundreds of models and certifies less than the white-box designs.
    """

    train: Callable[[Any, int], Any]
    score: Callable[[Any], float]

    def __call__(self, data: Any, *, seed: int) -> float:
        return float(self.score(self.train(data, seed)))


def scores(
    members: Array,
    others: Array,
    claim: Budget,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "scores",
) -> Finding:
    """Audit from scores that somebody else has collected: one set with the record, one without, both from fresh runs.

    A random half of each chooses the threshold and its direction, the other half certifies (`from_rates`).
    """
    started = clock.monotonic()
    rng, alpha, delta = np.random.default_rng(seed), 1 - confidence, float(claim.delta)
    first, second = (rng.permutation(np.asarray(s, np.float64)) for s in (members, others))
    if min(len(first), len(second)) < 20:
        raise InvalidParameter(f"Expected at least 20 scores on each side, got {len(first)} and {len(second)}.")
    halves = [(s[: len(s) // 2], s[len(s) // 2 :]) for s in (first, second)]
    cuts = candidates(np.concatenate([h[0] for h in halves]), 80)
    rules = [(float(cut), below, swapped) for cut in cuts for below in (False, True) for swapped in (False, True)]
    best = max(rules, key=lambda rule: _rate_bound(rule, halves[0][0], halves[1][0], delta, 0.2))
    epsilon = _rate_bound(best, halves[0][1], halves[1][1], delta, alpha)
    plain = _rate_bound(best, halves[0][1], halves[1][1], delta, 0.9999)
    perfect = from_rates(len(halves[0][1]), len(halves[0][1]), 0, len(halves[1][1]), delta=delta, alpha=alpha)
    claimed = float(claim.epsilon)
    verdict = _verdict(epsilon, claimed) if perfect > claimed else Verdict.UNDERPOWERED
    return Finding(
        verdict=Verdict.CONSISTENT if verdict is not Verdict.VIOLATION and perfect > 2 * claimed else verdict,
        target=name, claim=claim, epsilon=epsilon, delta=delta, confidence=confidence, estimate=plain,
        detectable=perfect if perfect > claimed else math.inf, samples=len(first) + len(second),
        seconds=clock.monotonic() - started, method="scores",
        assumes=("that every score comes from a run of its own and that the runs are independent.",),
        cannot_see=("what the scores do not show.",),
    )  # fmt: skip


def _rate_bound(rule: tuple[float, bool, bool], first: Array, second: Array, delta: float, alpha: float) -> float:
    """ε from one event: scores at least the cut, or below it; likelier for the first set, or for the second."""
    cut, below, swapped = rule
    ours, theirs = (second, first) if swapped else (first, second)
    hits, alarms = (int(np.sum((s < cut) if below else (s >= cut))) for s in (ours, theirs))
    return from_rates(hits, len(ours), alarms, len(theirs), delta=delta, alpha=alpha)
