"""Audits of private training: canary gradients inside a step, one whole run, and final models.

    canaries    white box, any step function; the whole run's ε follows from the step within the Gaussian
                f-DP family
    whole_run   canaries in one run of DP-SGD, within the f-DP family of that run; `audit.one_run` assumes
                less, or other things
    FinalModel  black box: many models, with and without one record; distribution-free; goes to `audit`

Each finding says what its design assumes and what it cannot see. None of them sees the
accountant: a run whose noise and clipping are right and whose ε was computed wrongly
must be caught by accounting, not by an audit.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from deniable import accounting
from deniable.audit.finding import Finding
from deniable.audit.levels import Levels
from deniable.audit.one_run import (
    CANNOT_SEE,
    COINS,
    LEARN,
    LEAST,
    RUNS,
    check_scores,
    count_runs,
    detectable,
    independent_mu,
    independent_witness,
    judge_run,
    mu_from_guesses,
    plan_guesses,
    ranked_witness,
    refutes,
    right_guesses,
    say_next,
)
from deniable.audit.statistics import Array
from deniable.audit.training.bets import mu_from_bets
from deniable.audit.training.designs import (
    Bench,
    Step,
    Window,
    dense,
    divide_crowd,
    momentum,
    oppose_crowd,
    pursue_direction,
    quietest,
    single_canary,
    watch_windows,
)
from deniable.audit.training.fields import AFTER, BEFORE, lengths, scatter_canaries, wake
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import GaussianNoise, Loss

DESIGNS = {
    "scattered": 0.3,
    "lengths": 0.1,
    "opposed": 0.075,
    "divided": 0.075,
    "dense": 0.075,
    "quietest": 0.075,
    "singled": 0.075,
    "pursued": 0.075,
    "wake": 0.075,
    "momentum": 0.075,
}
"""The designs in their order, and the part of alpha that each may spend."""
BETS = 0.2
"""The part of that which goes to scores that are rare and tell much (`bets`); the rest to a guess about every
coin."""
STEPS = {
    "scattered": 1, "lengths": 1, "opposed": 8, "divided": 12, "dense": 16,
    "quietest": 8, "singled": 8, "pursued": 16, "wake": 40, "momentum": 60,
}  # fmt: skip
"""About how many steps each takes for one round: windows show one canary each."""
LEAST_STEPS = 200
LEAST_WAKES, MOST_WAKES, MOST_IN_WAKE = 10, 600, 100
"""Wakes, and canaries in one of them: sixty numbers of each are kept."""
FEWEST, MOST = 200, 12_000
"""Rounds, where their number is left to the time that one step takes."""


@dataclass(frozen=True)
class Training:
    """What a run of DP-SGD claims: `steps` steps, each (Σ clipped gradients +
    noise)/`lot` on a Poisson sample of `rate`."""

    noise_multiplier: float
    clip: float
    lot: float
    rate: float
    steps: int
    delta: float

    def __post_init__(self) -> None:
        positive = {
            "noise_multiplier": self.noise_multiplier,
            "clip": self.clip,
            "lot": self.lot,
            "steps": self.steps,
        }
        for name, value in positive.items():
            if not (value > 0 and math.isfinite(value)):
                raise InvalidParameter(f"Expected {name}={value} in (0, ∞).")
        if not (0 < self.rate <= 1 and 0 < self.delta < 1):
            raise InvalidParameter(f"Expected rate={self.rate} in (0, 1] and delta={self.delta} in (0, 1).")

    @property
    def loss(self) -> Loss:
        return self.with_noise(self.noise_multiplier)

    @property
    def epsilon(self) -> float:
        """The ε that is claimed for the run."""
        return accounting.epsilon(self.loss, self.delta).upper

    def at_least(self, mu: float) -> float:
        """The ε that a run has for sure if its steps are μ-Gaussian before sampling: 0 for μ = 0."""
        if math.isinf(mu):
            return math.inf
        return accounting.epsilon(self.with_noise(1 / mu), self.delta).lower if mu > 1e-3 else 0.0

    def with_noise(self, noise_multiplier: float) -> Loss:
        """The loss if the steps had noise of `noise_multiplier`."""
        step = GaussianNoise(noise_multiplier)
        return (step if self.rate == 1 else step.sampled(self.rate)) * self.steps


# ------------------------------------------------------------------------------------------- canary gradients


CANARY_ASSUMES = (
    "that every step adds independent Gaussian noise of one size to a sum over a Poisson sample of the "
    "stated rate (the f-DP family): a step's μ is certified, the run's ε follows from it by accounting.",
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
    rounds: int | None = None,
    each: int | None = None,
    seconds: float = 50.0,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "training step",
) -> Finding:
    """Insert gradients of our own into a step and look for them in what it releases.

    The designs of `training.designs` come one after another, each with its share of the error, until one
    shows more than is claimed: *scattered* first, `each` canaries in every round (200, or as many as fit)
    beside the gradients of `background` (of the model that is being trained, kept up to date by `update`);
    then one canary at a time, or sixty steps around many. Each learns where to look and certifies μ on
    observations of its own (`one_run.independent_mu`, `bets.mu_from_bets`). Without `rounds` there are as
    many as `seconds` of CPU time allow; with them, designs behind the first have fewer windows where steps
    are slow.
    """
    start = clock.monotonic()
    each = min(200, dimension) if each is None else each
    if not 1 <= each <= dimension:
        raise InvalidParameter(
            f"Expected each={each} canaries to fit into dimension={dimension} coordinates, and at least one."
        )
    if rounds is not None and rounds < LEAST:
        raise InvalidParameter(f"Expected rounds={rounds} of at least {LEAST}.")
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    bench = Bench(step, training, dimension, np.random.default_rng(seed))
    cost = _cost(bench)
    rounds = _affordable(seconds, cost) if rounds is None else rounds
    levels, claim_epsilon = Levels.for_look(confidence), training.epsilon
    best: _Seen | None = None
    steps, surely = 0, 0.0
    for sight in _sights(bench, background, update, rounds, each, seconds / cost):
        steps += sight.steps
        sight.certify(levels, 1 / training.noise_multiplier)
        if best is None or sight.mu > best.mu:
            best = sight
        surely = max(surely, training.at_least(sight.sure_mu))
        if surely > claim_epsilon:
            break
    assert best is not None
    epsilon = training.at_least(best.mu)
    visible_mu = _visible_mu(training, (1 - LEARN) * rounds * each, DESIGNS["scattered"] * levels.accusing)
    return Finding(
        verdict=judge_run(epsilon, surely, claim_epsilon), target=name,
        claim=Budget(claim_epsilon, training.delta), epsilon=epsilon, delta=training.delta,
        confidence=confidence, estimate=training.at_least(best.rough_mu), samples=steps,
        detectable=training.at_least(visible_mu),
        seconds=clock.monotonic() - start, assumes=CANARY_ASSUMES, cannot_see=CANARY_CANNOT_SEE,
        method="canary gradients",
        witness=independent_witness(best.scores, best.coins, seed),
        options={"mu": best.mu, "claimed_mu": 1 / training.noise_multiplier, "design": best.design},
    )  # fmt: skip


@dataclass
class _Seen:
    """What one design saw: scores and coins from so many steps, and the μ they certify at the confidence
    asked for (`mu`) and at the level of an accusation (`sure_mu`)."""

    design: str
    steps: int
    scores: Array
    coins: NDArray[np.bool_]
    mu: float = 0.0
    sure_mu: float = 0.0
    rough_mu: float = 0.0

    def certify(self, levels: Levels, claim_epsilon: float) -> None:
        self.mu, self.sure_mu = (
            self._bound(level, claim_epsilon) for level in (levels.alpha, levels.accusing)
        )
        self.rough_mu = independent_mu(self.scores, self.coins, levels.alpha)[1]

    def _bound(self, alpha: float, claim_epsilon: float) -> float:
        share = DESIGNS[self.design] * alpha
        guess_mu, _ = independent_mu(self.scores, self.coins, (1 - BETS) * share)
        return max(guess_mu, mu_from_bets(self.scores, self.coins, BETS * share, claim_epsilon))


def _affordable(seconds: float, cost: float) -> int:
    """So many rounds that all designs take about `seconds`."""
    return min(MOST, max(FEWEST, int(seconds / (cost * sum(STEPS.values())))))


def _cost(bench: Bench) -> float:
    """CPU seconds of a step: half of the designs' steps have a whole lot, the others a few rows.

    The first of each is not counted: it loads and compiles what the others find ready.
    """
    crowds = bench.quiet(bench.lot), bench.quiet(1)
    for crowd in crowds:
        bench.release(crowd)
    begun = clock.process_time()
    for _ in range(LEAST):
        for crowd in crowds:
            bench.release(crowd)
    return max((clock.process_time() - begun) / LEAST / 2, 1e-6)


def _sights(
    bench: Bench,
    background: Callable[[], Array] | None,
    update: Callable[[Array], None] | None,
    rounds: int,
    count: int,
    affordable_steps: float,
) -> Iterator[_Seen]:
    """The designs one after another, each run when it is asked for."""
    scores, inside, place = scatter_canaries(bench, background, update, rounds, count)
    yield _Seen("scattered", rounds, scores, inside)
    scale = min(1.0, (affordable_steps - rounds) / (rounds * (sum(STEPS.values()) - 1)))
    for design in list(DESIGNS)[1:]:
        steps = max(LEAST_STEPS, int(scale * STEPS[design] * rounds))
        match design:
            case "lengths":
                sight = lengths(bench, steps, count)
            case "wake":
                windows = min(MOST_WAKES, max(LEAST_WAKES, steps // (BEFORE + 1 + AFTER)))
                steps, sight = windows * (BEFORE + 1 + AFTER), wake(bench, windows, min(count, MOST_IN_WAKE))
            case _:
                sight = _windows(design, bench, steps, place)
        yield _Seen(design, steps, *sight)


def _windows(design: str, bench: Bench, steps: int, place: int) -> tuple[Array, NDArray[np.bool_]]:
    """Scores and coins of one canary at a time, from about so many steps."""
    window: Window
    match design:
        case "opposed":
            steps -= (runs := steps // 4)
            window = oppose_crowd(bench, runs)
        case "divided":
            steps -= (runs := steps // 2)
            window = divide_crowd(bench, runs)
        case "dense":
            window = dense(bench)
        case "momentum":
            window = momentum(bench)
        case "singled":
            window = single_canary(bench, place)
        case "pursued":
            steps -= (runs := max(6, steps // 5))
            window = pursue_direction(bench, runs)
        case _:
            steps //= 2
            window = quietest(bench, steps)
    return watch_windows(bench, window, steps // window.steps)


def _visible_mu(training: Training, observations: float, alpha: float) -> float:
    """The μ whose certified value would just pass the claimed one, if as many guesses
    were right as are expected."""
    mu, n = 1 / training.noise_multiplier, max(2, int(observations))
    wide = mu
    for _ in range(1000):
        if mu_from_guesses(math.floor(n * float(ndtr(wide / 2))), n, alpha) > mu:
            return wide
        wide *= 1.01
    return math.inf


# ---------------------------------------------------------------------------------------------- one whole run


WHOLE_RUN_ASSUMES = (
    COINS,
    "that the run is the one stated but for the size of its noise: so many Gaussian steps on Poisson samples "
    "of the stated rate.",
)
FINEST, COARSEST = 1 / 64, 64.0
"""Noise, in units of the claimed one, between which the refuted one is sought."""


def whole_run(
    scores: Any,
    included: Any,
    training: Training,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "one training run",
    confirms: Finding | None = None,
) -> Finding:
    """Bound ε from canaries that were in, or not, for one whole run of `training`, each by its own fair coin.

    As `one_run.one_run`, with the trade-off curve of the run itself in place of a Gaussian
    one: a noise is refuted if so many right guesses have a chance below alpha under the
    curve of such a run, and then so is more noise, whose curve lies above. The least noise
    that is refuted gives the ε. Curves come from `accounting.tradeoff`, on the side that
    allows the attacker more; between its points he is granted the better one.
    """
    start = clock.monotonic()
    values, inside = check_scores(scores, included, confidence, seed)
    m, claim_epsilon, levels = len(values), training.epsilon, Levels.for_look(confidence)
    claim = Budget(claim_epsilon, training.delta)
    runs = count_runs(confirms, claim, confidence)
    guesses = plan_guesses(m, claim)
    right = right_guesses(inside[np.argsort(values, kind="stable")], guesses)

    def bound(alpha: float) -> float:
        def is_refuted(share: float) -> bool:
            noise = share * training.noise_multiplier
            return refutes(m, guesses, right, _wrong_mass(training, noise), alpha)

        share = _least_refuted(is_refuted)
        return training.at_least(1 / (share * training.noise_multiplier)) if share < math.inf else 0.0

    epsilon, surely = bound(levels.alpha), bound(levels.accusing)
    verdict = judge_run(epsilon, surely, claim_epsilon, alpha=levels.alpha, runs=runs)
    return Finding(
        verdict=verdict, target=name, claim=claim, epsilon=epsilon, delta=training.delta,
        confidence=confidence, estimate=math.log((right + 0.5) / (guesses - right + 0.5)), samples=1,
        detectable=detectable(m, guesses, claim, alpha=levels.alpha, family="gaussian"),
        seconds=clock.monotonic() - start, assumes=WHOLE_RUN_ASSUMES, cannot_see=CANNOT_SEE,
        method="one run, its own family",
        witness=ranked_witness(values, inside, guesses, seed),
        options={"canaries": m, "guesses": [guesses], "seed": seed, RUNS: runs},
        reasons=say_next(verdict, levels.alpha, runs),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _wrong_mass(training: Training, noise: float) -> Callable[[float], float]:
    """The least mass of wrong guesses beside a mass of right ones, under the curve of
    the run with this noise."""
    curve = accounting.tradeoff(
        training.with_noise(noise), np.concatenate([[0.0], np.geomspace(1e-8, 1, 1500)])
    )
    power = np.maximum.accumulate(curve.power)

    def least(right: float) -> float:
        place = int(np.searchsorted(power, right, side="left"))
        return float(curve.alpha[max(0, place - 1)])

    return least


def _least_refuted(is_refuted: Callable[[float], bool]) -> float:
    """The least noise, within a hundredth, that is refuted; ∞ if none is."""
    if not is_refuted(COARSEST):
        return math.inf
    low, high = FINEST, COARSEST
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high


# ----------------------------------------------------------------------------------------------- final models


@dataclass(frozen=True)
class FinalModel:
    """A training function as a target for `audit`: train on one data set, release one
    number about the final model.

    `train(data, seed)` gives a model and `score(model)` looks at it, say by the loss on the record that
    differs. The audit that follows is distribution-free and black-box; it needs hundreds of models and
    certifies less than the white-box designs.
    """

    train: Callable[[Any, int], Any]
    score: Callable[[Any], float]

    def __call__(self, data: Any, *, seed: int) -> float:
        return float(self.score(self.train(data, seed)))
