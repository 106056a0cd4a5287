"""Which attack to certify: rounds of proposals, the better pairs with more samples, and a final on fresh
ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from deniable.audit.rules.classify import OutputView, ScoreModel, fit_all, views
from deniable.audit.rules.support import Support
from deniable.audit.rules.tables import Array, Rows, Tables
from deniable.audit.rules.thresholds import (
    DOUBT,
    HOPE,
    Counts,
    Rule,
    candidates,
    choose,
    choose_coupled,
    expect_bound,
)
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import TimeOver
from deniable.audit.sniper.attack import Attack, hide
from deniable.audit.sniper.campaign import Campaign

Sight = tuple[Pair, list[OutputView]]

LEARN = 0.3
"""The share of the exploring samples that classifiers learn from; the rest chooses thresholds and
classifiers."""
FEWEST = 40
"""Runs to learn and choose from, at least."""
CUTS = 24
MOST_ROWS, MOST_CELLS = 16_000_000, 50_000_000
"""More outputs, and more numbers, than these are not worth exploring: the time is better
spent on certifying samples."""
FEW_OUTPUTS = 32
"""Up to so many outputs among the first ones, one table is learnt, which costs next to nothing."""
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
FIRST_PHASE, FINAL_PHASE = 5000, 8000
"""Streams of random numbers of their own."""


def search(campaign: Campaign, pairs: list[Pair]) -> Attack:
    """Rounds that keep the better pairs, in the view that showed most; the last of
    them has every classifier."""
    total, source = campaign.total, campaign.source
    source.stage = "first runs"
    first = np.concatenate(
        source.draw(pairs[0], min(2000, max(min(FEWEST, total // 6), total // 40)), FIRST_PHASE)
    )
    budget = total - campaign.certifying
    if len(np.unique(first, axis=0)) > FEW_OUTPUTS:
        budget = min(budget, MOST_ROWS, MOST_CELLS // first.shape[1])
    sights: list[Sight] = [(pair, views(first)) for pair in pairs]
    rounds = [(keep, share) for keep, share in ROUNDS if len(sights) > keep]
    for stage, (keep, share) in enumerate(rounds, 1):
        proposals = _round(campaign, sights, int(share * budget), stage)
        best = {(attack.pair.name, attack.view): (attack.pair, [attack.view]) for attack in proposals}
        sights = list(best.values())[:keep]
    attacks = _round(campaign, sights, int(budget * (1 - sum(share for _, share in rounds))), 0)
    return _with_rarest(campaign, final(campaign, attacks), attacks)


def _with_rarest(campaign: Campaign, best: Attack, attacks: list[Attack]) -> Attack:
    """The best attack, or that on the pair where rare outputs promise a violation that it does not."""

    def promise(attack: Attack) -> float:
        rare, record = campaign.rare.get(attack.pair.name), campaign.choosing[attack.pair.name]
        if rare is None:
            return 0.0
        return rare.promise(
            len(record.first) + len(record.second), campaign.certifying, campaign.levels.accusing
        )

    other = max(attacks, key=promise)
    if best.margin <= 0 and promise(best) <= campaign.claim_at(best) < promise(other):
        return other
    return best


def _round(campaign: Campaign, sights: list[Sight], trials: int, stage: int) -> list[Attack]:
    """All attacks on each pair, the best first. Stage 0 is the last one."""
    attacks: list[Attack] = []
    for place, (pair, output_views) in enumerate(sights):
        campaign.source.stage = f'trying "{pair.name}"'
        samples, phase = max(FEWEST, trials // len(sights)), stage * 1000 + place
        attacks += _propose(campaign, pair, output_views, samples, phase, boosting=stage == 0)
    return sorted(attacks, key=lambda attack: -attack.margin)


def final(campaign: Campaign, attacks: list[Attack]) -> Attack:
    """The attack that promises most after fresh samples, the same for all on a pair,
    were added to those that chose it."""
    pairs = {attack.pair.name: attack.pair for attack in attacks}
    each = int(FINAL * campaign.total) // len(pairs)
    if len(attacks) == 1 or each < LEAST_FINAL:
        return attacks[0]
    ranking: list[tuple[float, Attack]] = []
    for place, (name, pair) in enumerate(pairs.items()):
        kinds = (
            [attack for attack in attacks if attack.pair.name == name and attack.is_coupled is kind]
            for kind in (True, False)
        )
        finalists = [attack for kind in kinds for attack in kind[:FINALISTS]]
        margins = _margins(campaign, pair, finalists, each, FINAL_PHASE + place)
        ranking += zip(margins, finalists, strict=True)
    return max(ranking, key=lambda place: place[0])[1]


def _margins(campaign: Campaign, pair: Pair, attacks: list[Attack], trials: int, phase: int) -> list[float]:
    """What each attack on this pair is expected to reach after fresh samples."""

    def count(first: Rows, second: Rows) -> Any:
        return np.array([attack.guesses(attack.score(first), attack.score(second)) for attack in attacks])

    total = sum(campaign.source.map_chunks(pair, trials, phase, count), np.zeros((len(attacks), 3), np.int64))
    choice = RuleChoice(campaign, pair)
    return [
        choice.margin(attack.add_samples(guesses, trials))
        for attack, guesses in zip(attacks, total, strict=True)
    ]


def _propose(
    campaign: Campaign,
    pair: Pair,
    output_views: list[OutputView],
    trials: int,
    phase: int,
    *,
    boosting: bool,
) -> list[Attack]:
    """Attacks on this pair: some samples to learn, the others to choose a rule and among classifiers."""
    source = campaign.source
    learn = source.draw(pair, int(LEARN * trials), 2 * phase)
    record = source.record(pair, trials - int(LEARN * trials), 2 * phase + 1)
    campaign.choosing[pair.name] = record
    if not all(map(len, (*learn, record.first, record.second))):
        raise TimeOver  # so few runs that no coin fell on one of the neighbours
    hidden = campaign.hide_constants(pair, record)
    learn = hide(learn[0], hidden), hide(learn[1], hidden)
    fresh = hide(record.first, hidden), hide(record.second, hidden)
    rare = Support.fit(*(np.concatenate(sides) for sides in zip(learn, fresh, strict=True)))
    if rare is not None:
        campaign.rare[pair.name] = rare
    choice, attacks = RuleChoice(campaign, pair), list[Attack]()
    with ThreadPoolExecutor(source.workers) as pool:
        for view in output_views:
            boosts = boosting and view is not OutputView.BITS
            models = list(fit_all(*map(view.see, learn), boosting=boosts))
            rows = tuple(map(view.see, fresh))
            attacks += chain.from_iterable(pool.map(partial(choice.best, view, rows), models))
    return [replace(attack, hidden=hidden) for attack in attacks]


@dataclass(frozen=True)
class RuleChoice:
    """The best rules on the scores of a model, on one pair."""

    campaign: Campaign
    pair: Pair

    def best(self, view: OutputView, rows: tuple[Rows, ...], model: ScoreModel) -> list[Attack]:
        """The best rule of each kind for these scores, over all δ, and how far it is
        expected to pass the claim."""
        scores = model.score(rows[0]), model.score(rows[1])
        cuts = tuple(map(float, candidates(np.concatenate(scores), CUTS)))
        best: dict[bool, Attack] = {}
        for limit in self.campaign.limits:
            for rule, is_coupled in self._rules(scores, limit.delta, is_calibrated=isinstance(model, Tables)):
                candidate = Attack(self.pair, view, model, rule, limit.delta, 0.0, cuts, is_coupled)
                candidate = candidate.add_samples(candidate.guesses(*scores), len(rows[0]) + len(rows[1]))
                candidate = replace(candidate, margin=self.margin(candidate))
                best[is_coupled] = max(
                    best.get(is_coupled, candidate), candidate, key=lambda attack: attack.margin
                )
        return list(best.values())

    def _rules(
        self, scores: tuple[Array, Array], delta: float, *, is_calibrated: bool
    ) -> Iterable[tuple[Rule, bool]]:
        """Rules for a fair coin and, where runs are coupled, for pairs: which shows more
        depends on how well the pairs agree."""
        trials, alpha = self.campaign.certifying, self.campaign.accusing
        if self.campaign.source.coupled:
            yield (
                choose_coupled(*scores, alpha=alpha, pairs=trials // 2, is_calibrated=is_calibrated)[0],
                True,
            )
        yield choose(*scores, delta=delta, alpha=alpha, trials=trials, is_calibrated=is_calibrated)[0], False

    def margin(self, attack: Attack) -> float:
        """By how much an attack can be expected to pass its claim, given what it guessed so far."""
        campaign = self.campaign
        right, wrong, both = map(float, attack.tally)
        forgiven = attack.delta * attack.rule.sides / 2
        share = math.sqrt(attack.sample_count / campaign.certifying)
        pairs = both if attack.is_coupled else None
        counts = Counts.from_rule(right + both, wrong + both, attack.sample_count, forgiven, pairs)
        luck = HOPE if FINAL * campaign.total >= LEAST_FINAL else DOUBT
        return _rank(expect_bound(counts, campaign.accusing, share, luck), campaign.claim_at(attack))


def _rank(value: float, claim_epsilon: float) -> float:
    """By how much a claim is expected to be passed; if it is not, how much of it is reached, less 1."""
    if value > claim_epsilon:
        return value - claim_epsilon
    return value / max(claim_epsilon, 0.05) - 1
