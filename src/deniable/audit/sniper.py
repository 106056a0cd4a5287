"""Black-box audit: learn to tell two neighbours apart, choose what to guess, then
certify it on samples nobody has seen.

As in DP-Sniper (Bichsel et al. 2021), with five differences. The rule is chosen, on samples of its own, to
maximise the bound that will be certified, instead of a fixed tail of .01. It guesses in both directions and
abstains in between. Which neighbour runs is decided by a fair coin, so that one exact binomial bound suffices
(`statistics.from_guesses`); or, for targets that take their random numbers from outside, both run on the same
ones, which leaves far less to chance (`statistics.from_coupled`). Several views and classifiers compete, in
rounds that keep the better pairs and give them more samples; the best few attacks meet once more on fresh
ones, and the one wins whose certified bound can be expected to be largest (`rules.expected`). Samples to
learn, to choose and to certify are disjoint, so what was tried before costs no correction.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from scipy.stats import binom

from deniable import accounting
from deniable.accounting.proportion import lower, upper
from deniable.audit.classify import OutputView, ScoreModel, fit_all, model_from_dict, views
from deniable.audit.finding import NOTHING, Finding, Verdict, Witness, judged
from deniable.audit.independence import LOOKED_AT, SHARE, Record, constants, dependence
from deniable.audit.pairs import Pair, default_pairs
from deniable.audit.restart import repeats, started_anew
from deniable.audit.source import Source
from deniable.audit.statistics import detectable, from_coupled, from_guesses
from deniable.audit.support import EITHER, UNSEEN, Support
from deniable.audit.tables import Array, Rows, Tables
from deniable.audit.target import Called, as_target
from deniable.audit.thresholds import DOUBT, HOPE, Counts, Rule, candidates, choose, choose_coupled, expected
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import Approximate, Loss, Pure
from deniable.units import Unit

Progress = Callable[[float, str], None]
Sight = tuple[Pair, list[OutputView]]
Claim = Loss | Budget | float | tuple[float, float]

EXPLORE = 0.2
"""The share of all samples that is spent before the certifying ones."""
EXPLORE_MORE, MANY = 0.4, 1_000_000
"""The same for coupled runs and for many samples: certificates are narrow then, and
finding the best event matters more."""
LEARN = 0.3
"""The share of these that classifiers learn from; the rest chooses thresholds and among classifiers."""
DELTAS = (0.0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.5)
"""Where the curve of a claimed loss is compared."""
CURVE = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
CUTS = 24
MOST_ROWS, MOST_CELLS = 16_000_000, 50_000_000
"""More outputs, and more numbers, than these are not worth exploring: the time is better
spent on certifying samples."""
FEW_OUTPUTS = 32
"""Up to so many outputs among the first ones, one table is learnt, which costs next to nothing."""
FORGIVEN = 0.01
"""A δ from which on outputs that only one neighbour gives are not looked for by themselves."""
ANEW = 20_000
"""Runs, but a quarter of all at most, in which a target that was started anew must show a violation too."""
MOST_SAMPLES = 84_000_000
LEAST_SAMPLES = 250
ROUNDS = ((3, 0.25),)
"""How many views of pairs a ranking round keeps, and the share of the exploring samples
that it spends; the last has the rest."""
FINALISTS = 2
"""Attacks of each kind, coupled and by a coin, on each pair that meet once more: what
was best by luck is not again."""
FINAL = 0.1
"""The share of all samples that this takes."""
LEAST_FINAL = 20_000
"""With fewer they would tell nothing, and certificates need them more."""
FINAL_PHASE, REPLAY_PHASE = 8000, 9000
COUPLED = "sniper, coupled runs"
"""The method of a finding whose runs were coupled; a replay couples them too."""
ASSUMES_ROWS = (
    "that row for row a batch takes the same random numbers on both neighbours, and no row those of another."
)
ASSUMES = (
    "that runs are independent of one another: ties and correlations in the order of the runs were looked "
    "for, and not found.",
)
MAY_BE_REUSED = (
    "Noise may be used again: one answer is then all that a claim speaks about, and more runs say nothing "
    "about it."
)
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
    coupled: bool | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Try to refute a claimed guarantee from the outside.

    `target` is a `Mechanism`, a batch sampler or any callable on a data set; `pair` one pair of
    neighbours, several, or None to search; `claim` an ε, (ε, δ), a `Budget` or a `Loss`, by
    default the mechanism's own. With `unit`, pairs that are not neighbours are refused. About
    `time` seconds are spent, or `samples` runs. The finding reproduces from `seed`, for targets
    that take their randomness from outside. `coupled` runs both neighbours on the same random
    numbers (only for claims without δ): by default where that needs no assumption (a callable that
    takes `seed`) or the target's attribute `coupled` says that a batch serves each row alike.
    """
    start = clock.monotonic()
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    # A mechanism takes an answer of known sensitivity, not the data that its unit speaks of: only samplers
    # check by themselves.
    own = getattr(target, "unit", None)
    pairs = _pairs(pair, unit or (own if pair is None or hasattr(target, "draw") else None))
    limits = _limits(claim if claim is not None else getattr(target, "loss", None))
    subject = as_target(target, name)
    tell = progress or (lambda share, text: None)
    couple = _couples(target, subject) if coupled is None else coupled
    with Source(
        subject, seed, workers, coupled=couple and not any(limit.delta for limit in limits)
    ) as source:
        total = samples or source.affordable(pairs[0], time, MOST_SAMPLES)
        if total < LEAST_SAMPLES:
            raise InvalidParameter(
                f"Expected samples={total} to be at least {LEAST_SAMPLES}. Nothing was certified."
            )
        source.chunk = min(source.chunk, max(20, total // 8))
        sniper = _Sniper(source, limits, 1 - confidence, total, tell)
        attack = sniper.search(pairs)
        finding = sniper.refused(attack) or sniper.confirmed(attack, sniper.certify(attack))
    return replace(finding, seconds=clock.monotonic() - start)


def replay(finding: Finding, target: Any, *, seed: int | None = None, workers: int | None = None) -> Finding:
    """Run the decisive part of a finding again: the same pair, attack set and number of
    samples, nothing learnt or chosen.

    With the seed of the finding (the default) a target that takes its randomness from outside gives the same
    counts. With another one this is an independent confirmation.
    """
    witness, start = finding.witness, clock.monotonic()
    if witness is None or not witness.model:
        raise InvalidParameter(
            f'The finding on "{finding.target}" has no attack to run again (method: {finding.method}). One '
            "from scores is computed again from the same scores."
        )
    subject = as_target(target, finding.target)
    if isinstance(subject, Called) and witness.columns is not None:
        subject.columns[:] = witness.columns
    pair = Pair(_input(witness.first), _input(witness.second), witness.pair)
    rule = Rule(witness.high, witness.low)
    is_coupled = finding.method == COUPLED
    model = model_from_dict(witness.model)
    attack = Attack(pair, OutputView(witness.view), model, rule, finding.delta, 0.0, witness.cuts, is_coupled)
    limit = ClaimLimit(finding.delta, float(finding.claim.epsilon))
    replay_seed = witness.seed if seed is None else seed
    with Source(subject, replay_seed, workers, chunk=witness.chunk, coupled=is_coupled) as source:
        sniper = _Sniper(source, [limit], 1 - finding.confidence, witness.trials, lambda share, text: None)
        sniper.choosing[pair.name] = source.record(
            pair, min(2 * LOOKED_AT, max(40, witness.trials // 4)), REPLAY_PHASE
        )
        again = sniper.refused(attack) or sniper.confirmed(
            attack, sniper.certify(attack, chunks=witness.chunks)
        )
    return replace(again, seconds=clock.monotonic() - start, options=finding.options)


# ------------------------------------------------------------------------------------------- claims and pairs


@dataclass(frozen=True)
class ClaimLimit:
    """The claim at one δ: no more than this ε."""

    delta: float
    epsilon: float


def _limits(claim: Claim | None) -> list[ClaimLimit]:
    """The points at which a claim is compared. A loss claims its whole curve."""
    match claim:
        case None:
            raise InvalidParameter("Expected a claim to audit: an ε, (ε, δ), a Budget or a Loss.")
        case Pure(epsilon):
            return [ClaimLimit(0.0, float(epsilon))]
        case Approximate(epsilon, delta) | Budget(epsilon, delta):
            return [ClaimLimit(float(delta), float(epsilon))]
        case Loss():
            return list(_curve_of(claim))
        case tuple():
            return _limits(Budget(*map(float, claim)))
        case _:
            return _limits(Budget(float(claim)))


def _curve_of(loss: Loss) -> Iterable[ClaimLimit]:
    for delta in DELTAS:
        try:
            epsilon = accounting.epsilon(loss, delta).upper
        except Unaccountable:
            if delta == DELTAS[-1]:
                raise
            continue
        if math.isfinite(epsilon):
            yield ClaimLimit(delta, epsilon)


def _pairs(pair: Pair | tuple[Any, Any] | Sequence[Pair] | None, unit: Unit | None) -> list[Pair]:
    if pair is None:
        if unit is None:
            raise InvalidParameter(
                "Expected a pair of neighbours, or a unit to search pairs for. Nothing was run."
            )
        return default_pairs(unit)
    if isinstance(pair, Pair):
        pairs = [pair]
    elif len(pair) == 2 and not all(isinstance(p, Pair) for p in pair):
        pairs = [Pair(pair[0], pair[1])]
    else:
        pairs = [p for p in pair if isinstance(p, Pair)]
    if not pairs:
        raise InvalidParameter("Expected at least one pair of neighbours. Nothing was run.")
    return [p.check(unit) if unit is not None else p for p in pairs]


def _couples(target: Any, shaped: Any) -> bool:
    """Whether both neighbours can be run on the same random numbers: each call has a
    seed, or the target says so."""
    return bool(getattr(target, "coupled", False)) or (isinstance(shaped, Called) and shaped.seeded)


def _input(value: Any) -> Any:
    """What JSON made of an input: a list of numbers was an array or a list of rows, and serves as either."""
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return np.array(value)
    return value


# ------------------------------------------------------------------------------------------------ the search


@dataclass(frozen=True)
class Attack:
    """A proposal: what to guess from which output, for which pair, at which δ, and how
    far it is expected to get."""

    pair: Pair
    view: OutputView
    model: ScoreModel
    rule: Rule
    delta: float
    margin: float
    cuts: tuple[float, ...]
    coupled: bool = False
    guessed: tuple[int, int, int] = (0, 0, 0)
    """What it guessed of the `seen` samples so far."""
    seen: int = 0

    def score(self, rows: Rows) -> Array:
        return self.model.score(self.view.see(rows))

    def after(self, guesses: Iterable[int], trials: int) -> Attack:
        """The same after more samples."""
        right, wrong, both = (int(new) + old for new, old in zip(guesses, self.guessed, strict=True))
        return replace(self, guessed=(right, wrong, both), seen=self.seen + trials)

    def guesses(self, first: Array, second: Array) -> tuple[int, int, int]:
        """Right and wrong guesses from scores; of coupled runs the pairs that met the
        rule on one side only, and on both."""
        return self.rule.count_pairs(first, second) if self.coupled else (*self.rule.count(first, second), 0)


class Tally:
    """What one attack guessed, and how its scores fall between cuts."""

    def __init__(self, attack: Attack) -> None:
        cuts = np.unique(np.array([*attack.cuts, attack.rule.high, attack.rule.low]))
        self.attack, self.cuts = attack, cuts[np.isfinite(cuts)]
        self.counts = np.zeros((len(self.cuts) + 1, 2), np.int64)
        self.guesses = (0, 0, 0)

    def count(self, first: Rows, second: Rows) -> tuple[Any, tuple[int, int, int]]:
        scores = self.attack.score(first), self.attack.score(second)
        bins = [
            np.bincount(np.searchsorted(self.cuts, s, side="right"), minlength=len(self.counts))
            for s in scores
        ]
        return np.stack(bins, axis=1), self.attack.guesses(*scores)

    def add(self, counts: Any, guesses: tuple[int, int, int]) -> None:
        self.counts += counts
        self.guesses = (
            self.guesses[0] + guesses[0],
            self.guesses[1] + guesses[1],
            self.guesses[2] + guesses[2],
        )


@dataclass(frozen=True)
class _Sniper:
    source: Source
    limits: list[ClaimLimit]
    alpha: float
    total: int
    tell: Progress
    choosing: dict[str, Record] = field(default_factory=dict)
    """The outputs that chose a rule on each pair."""

    rare: dict[str, Support] = field(default_factory=dict)
    """What was seen on one neighbour alone, by pair."""

    @property
    def certain(self) -> float:
        """What is left of alpha for the certificate."""
        return (1 - SHARE - UNSEEN * self.looks_for_rare) * self.alpha

    @property
    def looks_for_rare(self) -> bool:
        """A δ forgives what is rare: then there is no error to be kept for it."""
        return min(limit.delta for limit in self.limits) < FORGIVEN

    @property
    def certifying(self) -> int:
        """How many samples are kept for the certificate, at least."""
        much = self.source.coupled or self.total >= MANY
        return int((1 - (EXPLORE_MORE if much else EXPLORE)) * self.total)

    def search(self, pairs: list[Pair]) -> Attack:
        """Rounds that keep the better pairs, in the view that showed most; the last of
        them has every classifier."""
        first = self.source.draw(pairs[0], min(2000, max(40, self.total // 40)), 5000)[0]
        budget = self.total - self.certifying
        if len(np.unique(first, axis=0)) > FEW_OUTPUTS:
            budget = min(budget, MOST_ROWS, MOST_CELLS // first.shape[1])
        sights: list[Sight] = [(pair, views(first)) for pair in pairs]
        rounds = [(keep, share) for keep, share in ROUNDS if len(sights) > keep]
        for stage, (keep, share) in enumerate(rounds, 1):
            proposals = self._round(sights, int(share * budget), stage)
            best = {(attack.pair.name, attack.view): (attack.pair, [attack.view]) for attack in proposals}
            sights = list(best.values())[:keep]
        attacks = self._round(sights, int(budget * (1 - sum(share for _, share in rounds))), 0)
        return self._with_rarest(self._final(attacks), attacks)

    def _with_rarest(self, best: Attack, attacks: list[Attack]) -> Attack:
        """The best attack, or that on the pair where rare outputs promise a violation that it does not."""

        def promise(attack: Attack) -> float:
            rare, record = self.rare.get(attack.pair.name), self.choosing[attack.pair.name]
            draws = len(record.first) + len(record.second)
            return rare.promise(draws, self.certifying, self.alpha) if rare is not None else 0.0

        other = max(attacks, key=promise)
        better = best.margin <= 0 and promise(best) <= self._claimed(best) < promise(other)
        return other if better else best

    def _round(self, sights: list[Sight], trials: int, stage: int) -> list[Attack]:
        """All attacks on each pair, the best first. Stage 0 is the last one."""
        attacks: list[Attack] = []
        for i, (pair, output_views) in enumerate(sights):
            self.tell(0.1 * (stage or 3) + 0.1 * i / len(sights), f'trying "{pair.name}"')
            attacks += self.propose(
                pair, output_views, max(40, trials // len(sights)), stage * 1000 + i, boosting=stage == 0
            )
        return sorted(attacks, key=lambda attack: -attack.margin)

    def _final(self, attacks: list[Attack]) -> Attack:
        """The attack that promises most after fresh samples, the same for all on a pair,
        were added to those that chose it."""
        pairs = {attack.pair.name: attack.pair for attack in attacks}
        each = int(FINAL * self.total) // len(pairs)
        if len(attacks) == 1 or each < LEAST_FINAL:
            return attacks[0]
        ranking: list[tuple[float, Attack]] = []
        for i, (name, pair) in enumerate(pairs.items()):
            kinds = (
                [a for a in attacks if a.pair.name == name and a.coupled is kind] for kind in (True, False)
            )
            here = [attack for kind in kinds for attack in kind[:FINALISTS]]
            ranking += zip(self._shown(pair, here, each, FINAL_PHASE + i), here, strict=True)
        return max(ranking, key=lambda one: one[0])[1]

    def _shown(self, pair: Pair, attacks: list[Attack], trials: int, phase: int) -> list[float]:
        """What each attack on this pair is now expected to reach."""

        def count(first: Rows, second: Rows) -> Any:
            return np.array([attack.guesses(attack.score(first), attack.score(second)) for attack in attacks])

        total = sum(self.source.over(pair, trials, phase, count), np.zeros((len(attacks), 3), np.int64))
        return [self._margin(attack.after(t, trials)) for attack, t in zip(attacks, total, strict=True)]

    def _claimed(self, attack: Attack) -> float:
        return next(limit.epsilon for limit in self.limits if limit.delta == attack.delta)

    @staticmethod
    def _bound(attack: Attack, guesses: tuple[int, int, int], trials: int, alpha: float) -> float:
        if attack.coupled:
            return from_coupled(*guesses, alpha=alpha)
        return from_guesses(*guesses[:2], trials, delta=attack.delta, alpha=alpha, sides=attack.rule.sides)

    def propose(
        self, pair: Pair, seen: list[OutputView], trials: int, phase: int, *, boosting: bool
    ) -> list[Attack]:
        """Attacks on this pair: some samples to learn, the others to choose a rule and among classifiers."""
        learn = self.source.draw(pair, int(LEARN * trials), 2 * phase)
        record = self.source.record(pair, trials - int(LEARN * trials), 2 * phase + 1)
        self.choosing[pair.name], fresh = record, (record.first, record.second)
        rare = Support.fit(*(np.concatenate(sides) for sides in zip(learn, fresh, strict=True)))
        if rare is not None:
            self.rare[pair.name] = rare
        attacks: list[Attack] = []
        with ThreadPoolExecutor(self.source.workers) as pool:
            for view in seen:
                models = list(
                    fit_all(*map(view.see, learn), boosting=boosting and view is not OutputView.BITS)
                )
                new = tuple(map(view.see, fresh))
                attacks += chain.from_iterable(pool.map(partial(self._best_rules, pair, view, new), models))
        return attacks

    def _best_rules(
        self, pair: Pair, view: OutputView, rows: tuple[Rows, ...], model: ScoreModel
    ) -> list[Attack]:
        """The best rule of each kind for these scores, over all δ, and how far it is
        expected to pass the claim."""
        scores = model.score(rows[0]), model.score(rows[1])
        cuts = tuple(map(float, candidates(np.concatenate(scores), CUTS)))
        best: dict[bool, Attack] = {}
        for limit in self.limits:
            for rule, is_coupled in self._rules(scores, limit.delta, calibrated=isinstance(model, Tables)):
                candidate = Attack(pair, view, model, rule, limit.delta, 0.0, cuts, is_coupled)
                candidate = candidate.after(candidate.guesses(*scores), len(rows[0]) + len(rows[1]))
                candidate = replace(candidate, margin=self._margin(candidate))
                best[is_coupled] = max(
                    best.get(is_coupled, candidate), candidate, key=lambda attack: attack.margin
                )
        return list(best.values())

    def _rules(
        self, scores: tuple[Array, Array], delta: float, *, calibrated: bool
    ) -> Iterable[tuple[Rule, bool]]:
        """Rules for a fair coin and, where runs are coupled, for pairs: which shows more
        depends on how well the pairs agree."""
        trials = self.certifying
        if self.source.coupled:
            yield (
                choose_coupled(*scores, alpha=self.certain, pairs=trials // 2, calibrated=calibrated)[0],
                True,
            )
        yield choose(*scores, delta=delta, alpha=self.certain, trials=trials, calibrated=calibrated)[0], False

    def _margin(self, attack: Attack) -> float:
        """By how much an attack can be expected to pass its claim, given what it guessed so far."""
        right, wrong, both = map(float, attack.guessed)
        forgiven, share = attack.delta * attack.rule.sides / 2, math.sqrt(attack.seen / self.certifying)
        counts = Counts.of(
            right + both, wrong + both, attack.seen, forgiven, both if attack.coupled else None
        )
        luck = HOPE if FINAL * self.total >= LEAST_FINAL else DOUBT
        return _rank(expected(counts, self.certain, share, luck), self._claimed(attack))

    # ------------------------------------------------------------------------------------------- independence

    def refused(self, attack: Attack) -> Finding | None:
        """A finding that certifies nothing, if the choosing samples show that runs are not independent."""
        record = self.choosing[attack.pair.name]
        self.tell(0.4, "looking for what repeats")
        dependent = dependence(record, SHARE * self.alpha / 2)
        reason = f"Runs are not independent: {dependent}." if dependent else None
        if reason is None:
            again = repeats(self.source.target, attack.pair, constants(record.first, record.second))
            reason = f"It gives one answer again and again. {again}" if again else None
        return self._repeating(attack, reason) if reason else None

    def confirmed(self, attack: Attack, found: Finding) -> Finding:
        """The finding, unless it is a violation which the target does not show when it is started anew."""
        witness = found.witness
        if found.verdict is not Verdict.VIOLATION or witness is None:
            return found
        self.tell(1.0, "once more in a process of its own")
        anew = started_anew(self.source.target, attack.pair, min(ANEW, self.total // 4), self.source.seed)
        if anew is None:
            return found
        witness_attack = replace(
            attack,
            view=OutputView(witness.view),
            model=model_from_dict(witness.model),
            rule=Rule(witness.high, witness.low),
        )
        right, wrong = witness_attack.rule.count(witness_attack.score(anew[0]), witness_attack.score(anew[1]))
        trials, here = len(anew[0]) + len(anew[1]), witness.right + witness.wrong
        rarer = binom.cdf(right, trials, witness.right / witness.trials)
        poorer = binom.cdf(right, right + wrong, witness.right / max(here, 1))
        if min(rarer, poorer) >= SHARE * self.alpha / 4:
            return found
        reason = (
            f"Started anew in a process of its own it gives itself away less: {right:,} right and {wrong:,} "
            f"wrong guesses in {trials:,} runs, against {witness.right:,} and {witness.wrong:,} in "
            f"{witness.trials:,}."
        )
        return self._repeating(attack, reason)

    def _repeating(self, attack: Attack, reason: str) -> Finding:
        claim = Budget(self._claimed(attack), attack.delta)
        return Finding(
            verdict=Verdict.REPEATS, target=self.source.target.name, claim=claim, epsilon=0.0,
            delta=attack.delta, confidence=1 - self.alpha, estimate=0.0, detectable=math.inf,
            samples=self.source.drawn, seconds=0.0, cannot_see=CANNOT_SEE, reasons=(reason, MAY_BE_REUSED),
        )  # fmt: skip

    # -------------------------------------------------------------------------------------------- certificate

    def certify(self, attack: Attack, chunks: int | None = None) -> Finding:
        """Count guesses on fresh samples and say what they prove."""
        chunks = chunks or max(1, (self.total - self.source.drawn) // self.source.chunk)
        self.source.coupled = attack.coupled
        tallies = [Tally(one) for one in (attack, self._rare_attack(attack)) if one is not None]

        def count(first: Rows, second: Rows) -> list[tuple[Any, Any]]:
            return [tally.count(first, second) for tally in tallies]

        for done, parts in enumerate(self.source.reduce(attack.pair, chunks, count)):
            for tally, part in zip(tallies, parts, strict=True):
                tally.add(*part)
            self.tell(0.4 + 0.6 * (done + 1) / chunks, "certifying")
        findings = [self._finding(tally, chunks) for tally in tallies]
        return max(findings, key=lambda one: one.epsilon)

    def _rare_attack(self, attack: Attack) -> Attack | None:
        """Outputs that only one neighbour was seen to give, on the same pair and
        samples, with an error of its own."""
        rare = self.rare.get(attack.pair.name)
        if rare is None or isinstance(attack.model, Support) or not self.looks_for_rare:
            return None
        rule = EITHER
        if attack.coupled:  # pairs of runs are counted for one set
            sides = [sum(r.seen for r in rare.regions if r.side == side) for side in (1, -1)]
            rule = Rule(EITHER.high, -math.inf) if sides[0] >= sides[1] else Rule(math.inf, EITHER.low)
        return replace(attack, view=OutputView.RAW, model=rare, rule=rule, cuts=())

    def _finding(self, tally: Tally, chunks: int) -> Finding:
        attack, counts, guesses = tally.attack, tally.counts, tally.guesses
        alpha = UNSEEN * self.alpha if isinstance(attack.model, Support) else self.certain
        trials, delta, is_coupled = int(counts.sum()), attack.delta, attack.coupled
        claim_epsilon = self._claimed(attack)
        sides, both = attack.rule.sides, guesses[2]
        right, wrong = guesses[0] + both, guesses[1] + both
        epsilon = self._bound(attack, guesses, trials, alpha)
        visible = detectable(
            trials, epsilon=claim_epsilon, delta=delta, alpha=self.certain, coupled=is_coupled
        )
        columns = tuple(self.source.target.columns) if isinstance(self.source.target, Called) else None
        witness = Witness(
            pair=attack.pair.name, first=attack.pair.first, second=attack.pair.second, view=attack.view.value,
            model=attack.model.to_dict(), high=attack.rule.high, low=attack.rule.low, trials=trials,
            right=right, wrong=wrong, seed=self.source.seed, chunk=self.source.chunk, chunks=chunks,
            cuts=tuple(map(float, tally.cuts)), counts=tuple((int(a), int(b)) for a, b in counts),
            columns=columns,
        )  # fmt: skip
        return Finding(
            verdict=judged(epsilon, claim_epsilon, visible, right + wrong), target=self.source.target.name,
            claim=Budget(claim_epsilon, delta), reasons=() if right + wrong else (NOTHING,),
            epsilon=epsilon, delta=delta, confidence=1 - self.alpha, detectable=visible,
            estimate=_estimate(right / trials - delta * sides / 2, wrong / trials), samples=self.source.drawn,
            seconds=0.0, support_differs=wrong == 0 and epsilon > max(2.0, claim_epsilon), witness=witness,
            curve=certified_curve(counts, alpha), cannot_see=CANNOT_SEE,
            assumes=(*ASSUMES, ASSUMES_ROWS) if is_coupled and self.source.target.batched else ASSUMES,
            method=COUPLED if is_coupled else "sniper",
            options={"pairs": list(guesses)} if is_coupled else None,
        )  # fmt: skip


def _rank(value: float, claimed: float) -> float:
    """By how much a claim is expected to be passed; if it is not, how much of it is reached, less 1."""
    return value - claimed if value > claimed else value / max(claimed, 0.05) - 1


def _estimate(right: float, wrong: float) -> float:
    return math.inf if wrong == 0 < right else math.log(right / wrong) if right > 0 else 0.0


def certified_curve(counts: Any, alpha: float) -> tuple[tuple[float, float], ...]:
    """(δ, certified ε) for all δ at once: every cut, in both directions, with the union
    bound over all of them."""
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
