"""Black-box audit: learn to tell two neighbours apart, choose what to guess, then certify it on samples nobody has seen.

As in DP-Sniper (Bichsel et al. 2021), with four differences. The rule is chosen, on samples of its own, to maximise the bound
that will be certified, instead of a fixed tail of .01. It guesses in both directions and abstains in between. Which neighbour
runs is decided by a fair coin, so that one exact binomial bound suffices (`statistics.from_guesses`). Several views and
classifiers compete. Samples to learn, to choose and to certify are disjoint, so what was tried before costs no correction.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deniable import accounting
from deniable.audit.classify import Array, Model, Rows, Tables, View, fit_all, model_from_dict, views
from deniable.audit.finding import Finding, Verdict, Witness
from deniable.audit.pairs import Pair, default_pairs
from deniable.audit.rules import Rule, candidates, choose
from deniable.audit.source import Source
from deniable.audit.statistics import detectable, from_guesses, lower, upper
from deniable.audit.target import Called, as_target
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import Approximate, Loss, Pure
from deniable.units import Unit

Progress = Callable[[float, str], None]
Claim = Loss | Budget | float | tuple[float, float]

EXPLORE = 0.2
"""The share of all samples that is spent before the certifying ones."""
LEARN = 0.3
"""The share of these that classifiers learn from; the rest chooses thresholds and among classifiers."""
DELTAS = (0.0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.5)
"""Where the curve of a claimed loss is compared."""
CURVE = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
CUTS = 24
MOST_CELLS = 80_000_000
"""More numbers than these are not worth learning from: the time is better spent on certifying samples."""
MOST_SAMPLES = 42_000_000
LEAST_SAMPLES = 250
ASSUMES = ("that runs are independent of one another and that their order carries nothing.",)
CANNOT_SEE = (
    "pairs that were not tried.",
    "what the output does not show: run time, errors, memory, state kept between runs.",
    "violations of a probability far below one in the number of samples.",
)


def audit(
    target: Any,
    pair: Pair | tuple[Any, Any] | Sequence[Pair] | None = None,
    claim: Claim | None = None,
    *,
    time: float = 60.0,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    unit: Unit | None = None,
    name: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Try to refute a claimed guarantee from the outside.

    `target` is a `Mechanism`, a batch sampler or any callable on a data set; `pair` one pair of neighbours, several, or None
    to search; `claim` an ε, (ε, δ), a `Budget` or a `Loss`, by default the mechanism's own. With `unit`, pairs that are not
    neighbours are refused. About `time` seconds are spent, or `samples` runs. The finding reproduces from `seed`, for
    targets that take their randomness from outside.
    """
    started = clock.monotonic()
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    # A mechanism takes an answer of known sensitivity, not the data that its unit speaks of: only samplers check by themselves.
    own = getattr(target, "unit", None)
    pairs = _pairs(pair, unit or (own if pair is None or hasattr(target, "draw") else None))
    limits = _limits(claim if claim is not None else getattr(target, "loss", None))
    shaped = as_target(target, name)
    tell = progress or (lambda share, text: None)
    with Source(shaped, seed, workers) as source:
        total = samples or source.affordable(pairs[0], time, MOST_SAMPLES)
        if total < LEAST_SAMPLES:
            raise InvalidParameter(f"Expected samples={total} to be at least {LEAST_SAMPLES}. Nothing was certified.")
        source.chunk = min(source.chunk, max(20, total // 8))
        sniper = _Sniper(source, limits, 1 - confidence, total, tell)
        found = sniper.certify(sniper.search(pairs))
    return replace(found, seconds=clock.monotonic() - started)


def replay(finding: Finding, target: Any, *, seed: int | None = None, workers: int | None = None) -> Finding:
    """Run the decisive part of a finding again: the same pair, attack set and number of samples, nothing learnt or chosen.

    With the seed of the finding (the default) a target that takes its randomness from outside gives the same counts. With
    another one this is an independent confirmation.
    """
    witness, started = finding.witness, clock.monotonic()
    if witness is None:
        raise InvalidParameter(
            f'The finding on "{finding.target}" has no witness to replay (method: {finding.method}).'
        )
    shaped = as_target(target, finding.target)
    if isinstance(shaped, Called) and witness.columns is not None:
        shaped.columns[:] = witness.columns
    pair = Pair(_input(witness.first), _input(witness.second), witness.pair)
    rule = Rule(witness.high, witness.low)
    attack = Attack(pair, View(witness.view), model_from_dict(witness.model), rule, finding.delta, 0.0, witness.cuts)
    limit = Limit(finding.delta, float(finding.claim.epsilon))
    with Source(shaped, witness.seed if seed is None else seed, workers, chunk=witness.chunk) as source:
        sniper = _Sniper(source, [limit], 1 - finding.confidence, witness.trials, lambda share, text: None)
        again = sniper.certify(attack, chunks=witness.chunks)
    return replace(again, seconds=clock.monotonic() - started, options=finding.options)


# ------------------------------------------------------------------------------------------------ claims and pairs


@dataclass(frozen=True)
class Limit:
    """The claim at one δ: no more than this ε."""

    delta: float
    epsilon: float


def _limits(claim: Claim | None) -> list[Limit]:
    """The points at which a claim is compared. A loss claims its whole curve."""
    match claim:
        case None:
            raise InvalidParameter("Expected a claim to audit: an ε, (ε, δ), a Budget or a Loss.")
        case Pure(epsilon):
            return [Limit(0.0, float(epsilon))]
        case Approximate(epsilon, delta) | Budget(epsilon, delta):
            return [Limit(float(delta), float(epsilon))]
        case Loss():
            return list(_curve_of(claim))
        case tuple():
            return _limits(Budget(*map(float, claim)))
        case _:
            return _limits(Budget(float(claim)))


def _curve_of(loss: Loss) -> Iterable[Limit]:
    for delta in DELTAS:
        try:
            epsilon = accounting.epsilon(loss, delta).upper
        except Unaccountable:
            if delta == DELTAS[-1]:
                raise
            continue
        if math.isfinite(epsilon):
            yield Limit(delta, epsilon)


def _pairs(pair: Pair | tuple[Any, Any] | Sequence[Pair] | None, unit: Unit | None) -> list[Pair]:
    if pair is None:
        if unit is None:
            raise InvalidParameter("Expected a pair of neighbours, or a unit to search pairs for. Nothing was run.")
        return default_pairs(unit)
    if isinstance(pair, Pair):
        found = [pair]
    elif len(pair) == 2 and not all(isinstance(p, Pair) for p in pair):
        found = [Pair(pair[0], pair[1])]
    else:
        found = [p for p in pair if isinstance(p, Pair)]
    if not found:
        raise InvalidParameter("Expected at least one pair of neighbours. Nothing was run.")
    return [p.check(unit) if unit is not None else p for p in found]


def _input(value: Any) -> Any:
    """What JSON made of an input: a list of numbers was an array or a list of rows, and serves as either."""
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return np.array(value)
    return value


# ------------------------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Attack:
    """A proposal: what to guess from which output, for which pair, at which δ, and how far it is expected to get."""

    pair: Pair
    view: View
    model: Model
    rule: Rule
    delta: float
    margin: float
    cuts: tuple[float, ...]

    def score(self, rows: Rows) -> Array:
        return self.model.score(self.view.see(rows))


@dataclass(frozen=True)
class _Sniper:
    source: Source
    limits: list[Limit]
    alpha: float
    total: int
    tell: Progress

    def search(self, pairs: list[Pair]) -> Attack:
        """Two rounds that keep the better pairs, then every classifier on the one that is left."""
        width = self.source.draw(pairs[0], 40, 5000)[0].shape[1]
        budget = whole = min(int(EXPLORE * self.total), MOST_CELLS // width)
        keep = 2 if len(pairs) > 3 else 1
        for stage in (1, 2):
            if len(pairs) == 1:
                continue
            each, found = max(40, int(0.35 * whole) // len(pairs)), []
            for i, pair in enumerate(pairs):
                self.tell(0.1 * (stage + i / len(pairs)), f'trying "{pair.name}"')
                found.append(self.propose(pair, each, stage * 1000 + i, boosting=False))
                budget -= each
            pairs = [attack.pair for attack in sorted(found, key=lambda attack: -attack.margin)[:keep]]
            keep = 1
        self.tell(0.3, f'learning "{pairs[0].name}"')
        return self.propose(pairs[0], max(40, budget), 0, boosting=True)

    def propose(self, pair: Pair, trials: int, phase: int, *, boosting: bool) -> Attack:
        """The best attack on this pair: some samples to learn, the others to choose a rule and among classifiers."""
        learn = self.source.draw(pair, int(LEARN * trials), 2 * phase)
        fresh = self.source.draw(pair, trials - int(LEARN * trials), 2 * phase + 1)
        found: list[Attack] = []
        with ThreadPoolExecutor(self.source.workers) as pool:
            for view in views(np.concatenate([rows[:256] for rows in learn])):
                models = list(fit_all(*map(view.see, learn), boosting=boosting and view is not View.BITS))
                new = tuple(map(view.see, fresh))
                found += pool.map(partial(self._best_rule, pair, view, new), models)
        return max(found, key=lambda attack: attack.margin)

    def _best_rule(self, pair: Pair, view: View, rows: tuple[Rows, ...], model: Model) -> Attack:
        """The best rule for these scores, and how far it is expected to pass the claim."""
        scores = model.score(rows[0]), model.score(rows[1])
        trials, tried = int((1 - EXPLORE) * self.total), []
        exact = isinstance(model, Tables)
        for limit in self.limits:
            rule, value = choose(*scores, delta=limit.delta, alpha=self.alpha, trials=trials, calibrated=exact)
            tried.append((_rank(value, limit.epsilon), limit.delta, rule))
        margin, delta, rule = max(tried, key=lambda t: (t[0], -t[1]))
        cuts = candidates(np.concatenate(scores), CUTS)
        return Attack(pair, view, model, rule, delta, margin, tuple(map(float, cuts)))

    # -------------------------------------------------------------------------------------------- certificate

    def certify(self, attack: Attack, chunks: int | None = None) -> Finding:
        """Count guesses on fresh samples and say what they prove."""
        chunks = chunks or max(1, (self.total - self.source.drawn) // self.source.chunk)
        cuts = np.unique(np.array([*attack.cuts, attack.rule.high, attack.rule.low]))
        cuts = cuts[np.isfinite(cuts)]

        def count(first: Rows, second: Rows) -> tuple[Any, tuple[int, int]]:
            scores = attack.score(first), attack.score(second)
            bins = [np.bincount(np.searchsorted(cuts, s, side="right"), minlength=len(cuts) + 1) for s in scores]
            return np.stack(bins, axis=1), attack.rule.count(scores[0], scores[1])

        counts, right, wrong = np.zeros((len(cuts) + 1, 2), np.int64), 0, 0
        for done, (part, guesses) in enumerate(self.source.reduce(attack.pair, chunks, count)):
            counts += part
            right, wrong = right + guesses[0], wrong + guesses[1]
            self.tell(0.4 + 0.6 * (done + 1) / chunks, "certifying")
        return self._finding(attack, counts, tuple(map(float, cuts)), right, wrong, chunks)

    def _finding(
        self, attack: Attack, counts: Any, cuts: tuple[float, ...], right: int, wrong: int, chunks: int
    ) -> Finding:
        trials, delta = int(counts.sum()), attack.delta
        claimed = next(limit.epsilon for limit in self.limits if limit.delta == delta)
        sides = attack.rule.sides
        epsilon = from_guesses(right, wrong, trials, delta=delta, alpha=self.alpha, sides=sides)
        visible = detectable(trials, epsilon=claimed, delta=delta, alpha=self.alpha)
        columns = tuple(self.source.target.columns) if isinstance(self.source.target, Called) else None
        witness = Witness(
            pair=attack.pair.name, first=attack.pair.first, second=attack.pair.second, view=attack.view.value,
            model=attack.model.to_dict(), high=attack.rule.high, low=attack.rule.low, trials=trials, right=right,
            wrong=wrong, seed=self.source.seed, chunk=self.source.chunk, chunks=chunks, cuts=cuts,
            counts=tuple((int(a), int(b)) for a, b in counts), columns=columns,
        )  # fmt: skip
        return Finding(
            verdict=_verdict(epsilon, claimed, visible), target=self.source.target.name, claim=Budget(claimed, delta),
            epsilon=epsilon, delta=delta, confidence=1 - self.alpha, detectable=visible,
            estimate=_estimate(right / trials - delta * sides / 2, wrong / trials), samples=self.source.drawn,
            seconds=0.0, support_differs=wrong == 0 and epsilon > max(2.0, claimed), witness=witness,
            curve=certified_curve(counts, self.alpha), assumes=ASSUMES, cannot_see=CANNOT_SEE,
        )  # fmt: skip


def _rank(value: float, claimed: float) -> float:
    """By how much a claim is expected to be passed; if it is not, how much of it is reached, less 1."""
    return value - claimed if value > claimed else value / max(claimed, 0.05) - 1


def _verdict(epsilon: float, claimed: float, visible: float) -> Verdict:
    """Underpowered: even the easiest target with twice the claimed ε would not have been caught."""
    if epsilon > claimed:
        return Verdict.VIOLATION
    return Verdict.CONSISTENT if visible <= max(2 * claimed, claimed + 0.1) else Verdict.UNDERPOWERED


def _estimate(right: float, wrong: float) -> float:
    return math.inf if wrong == 0 < right else math.log(right / wrong) if right > 0 else 0.0


def certified_curve(counts: Any, alpha: float) -> tuple[tuple[float, float], ...]:
    """(δ, certified ε) for all δ at once: every cut, in both directions, with the union bound over all of them."""
    tests = max(1, 4 * (len(counts) - 1))
    totals = counts.sum(axis=0)
    above = np.cumsum(counts[::-1], axis=0)[::-1][1:]
    below = np.cumsum(counts, axis=0)[:-1]
    hits = np.concatenate([above[:, 0], below[:, 1]])
    alarms = np.concatenate([above[:, 1], below[:, 0]])
    sizes = np.repeat(totals, len(above)), np.repeat(totals[::-1], len(above))
    sure, most = lower(hits, sizes[0], alpha / tests), upper(alarms, sizes[1], alpha / tests)
    return tuple((delta, _best(sure - delta, most)) for delta in CURVE)


def _best(sure: Array, most: Array) -> float:
    useful = sure > 0
    return max(0.0, float(np.max(np.log(sure[useful] / most[useful]), initial=0.0)))
