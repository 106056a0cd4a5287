"""What the guesses of an attack on fresh samples prove."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from deniable.accounting.proportion import lower, upper
from deniable.audit.finding import NOTHING, Finding, Verdict, Witness, judge
from deniable.audit.levels import ACCUSED
from deniable.audit.rules.classify import OutputView
from deniable.audit.rules.support import EITHER, UNSEEN, Support
from deniable.audit.rules.tables import Array, Rows
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import TimeOver
from deniable.audit.runs.target import Called
from deniable.audit.sniper.attack import Attack, Guesses, Tally
from deniable.audit.sniper.campaign import Campaign
from deniable.audit.sniper.constants import judge_constants, telltale_attack
from deniable.audit.sniper.words import describe_event
from deniable.audit.statistics import detectable, from_guesses, from_pairs
from deniable.guarantee import Budget

CURVE = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
"""The δ's at which a finding's curve is certified."""
BY_COIN, COUPLED = "sniper", "sniper, coupled runs"
"""The method of a finding: which neighbour ran was a coin's choice, or both ran on the same random numbers; a
replay couples them too."""
ASSUMES_ROWS = (
    "that row for row a batch takes the same random numbers on both neighbours, and no row those of another."
)
ASSUMES_TIMES = (
    "that how long a run takes does not depend on its output: the time limit ended the audit before all the "
    "runs that were planned."
)
ASSUMES = (
    "that runs are independent of one another: ties and correlations in the order of the runs were looked "
    "for, and not found.",
)
CANNOT_SEE = (
    "pairs that were not tried.",
    "what the output does not show: run time, memory, the words of errors, state kept between runs.",
    "violations of a probability far below one in the number of samples.",
)


def certify(campaign: Campaign, attack: Attack, chunks: int | None = None) -> Finding:
    """Count guesses on fresh samples and say what they prove."""
    source = campaign.source
    most = chunks or max(1, (campaign.total - source.draw_count) // source.chunk)
    source.coupled = attack.is_coupled
    telltale = telltale_attack(campaign, attack)
    attacks = [each for each in (attack, _rare_attack(campaign, attack), telltale) if each is not None]
    tallies = [Tally(each) for each in attacks]
    chunks = _count_guesses(campaign, attack.pair, tallies, most)
    certifying = tallies[: len(tallies) - (telltale is not None)]
    findings = [_finding(campaign, tally, chunks) for tally in certifying]
    best = max(findings, key=lambda finding: (finding.verdict is Verdict.VIOLATION, finding.epsilon))
    if chunks < most:
        best = replace(best, assumes=(*best.assumes, ASSUMES_TIMES))
    return best if telltale is None else judge_constants(campaign, tallies[-1], best)


def _count_guesses(campaign: Campaign, pair: Pair, tallies: list[Tally], limit: int) -> int:
    """Add fresh chunks to all tallies; how many there were when the time was over, or all."""

    def count(first: Rows, second: Rows) -> list[tuple[Any, Guesses]]:
        return [tally.count(first, second) for tally in tallies]

    campaign.source.stage, chunks = "certifying", 0
    try:
        for parts in campaign.source.reduce(pair, limit, count):
            for tally, part in zip(tallies, parts, strict=True):
                tally.add(*part)
            chunks += 1
    except TimeOver:
        if not chunks:
            raise
    return chunks


def _rare_attack(campaign: Campaign, attack: Attack) -> Attack | None:
    """Outputs that only one neighbour was seen to give, on the same pair and
    samples, with an error of its own."""
    rare = campaign.rare.get(attack.pair.name)
    if rare is None or isinstance(attack.model, Support) or not campaign.looks_for_rare:
        return None
    rule = EITHER
    if attack.is_coupled:  # pairs of runs are counted for one set
        first, second = (
            sum(region.count for region in rare.regions if region.side == side) for side in (1, -1)
        )
        rule = Rule(EITHER.high, -math.inf) if first >= second else Rule(math.inf, EITHER.low)
    return replace(attack, view=OutputView.RAW, model=rare, rule=rule, cuts=())


def _bound(attack: Attack, guesses: Guesses, trials: int, alpha: float) -> float:
    if attack.is_coupled:
        return from_pairs(*guesses, alpha=alpha)
    return from_guesses(*guesses[:2], trials, delta=attack.delta, alpha=alpha, sides=attack.rule.sides)


def _finding(campaign: Campaign, tally: Tally, chunks: int) -> Finding:
    attack, counts, guesses, target = tally.attack, tally.counts, tally.guesses, campaign.source.target
    share = campaign.share
    if isinstance(attack.model, Support):
        share = UNSEEN
    alpha, accusing = share * campaign.alpha, share * campaign.levels.accusing
    trials, delta = int(counts.sum()), attack.delta
    claim_epsilon = campaign.claim_at(attack)
    right, wrong = guesses[0] + guesses[2], guesses[1] + guesses[2]
    epsilon, surely = (_bound(attack, guesses, trials, level) for level in (alpha, accusing))
    visible = detectable(
        trials, epsilon=claim_epsilon, delta=delta, alpha=campaign.accusing, coupled=attack.is_coupled
    )
    finding = Finding(
        verdict=judge(epsilon, surely, claim_epsilon, visible, right + wrong), target=target.name,
        claim=Budget(claim_epsilon, delta),
        reasons=_reasons(campaign, epsilon, surely, claim_epsilon, right + wrong),
        epsilon=epsilon, delta=delta, confidence=1 - campaign.alpha, detectable=visible,
        estimate=_estimate(right / trials - delta * attack.rule.sides / 2, wrong / trials),
        samples=campaign.source.draw_count, seconds=0.0,
        support_differs=wrong == 0 and epsilon > max(2.0, claim_epsilon),
        witness=_witness(campaign, tally, chunks, (right, wrong)), curve=certified_curve(counts, alpha),
        cannot_see=CANNOT_SEE, assumes=ASSUMES, method=BY_COIN,
    )  # fmt: skip
    if finding.verdict in (Verdict.VIOLATION, Verdict.LOOK_AGAIN):
        columns = list(target.columns) if isinstance(target, Called) else []
        event = describe_event(attack, campaign.choosing[attack.pair.name].start, columns)
        finding = replace(finding, event=event)
    if not attack.is_coupled:
        return finding
    assumes = (*ASSUMES, ASSUMES_ROWS) if target.batched else ASSUMES
    return replace(finding, method=COUPLED, assumes=assumes, options={"pairs": list(guesses)})


def _reasons(
    campaign: Campaign, epsilon: float, surely: float, claim_epsilon: float, guesses: int
) -> tuple[str, ...]:
    """What a verdict rests on, in sentences."""
    if surely > claim_epsilon:
        return (f"A sound target is accused with a probability of at most {min(ACCUSED, campaign.alpha):g}.",)
    if epsilon > claim_epsilon:
        return (
            f"The runs contradict the claim at the confidence {1 - campaign.alpha:.6g}, and an accusation "
            f"needs {1 - campaign.levels.accusing:.6g}. A sound target may look like this by chance.",
        )
    return () if guesses else (NOTHING,)


def _witness(campaign: Campaign, tally: Tally, chunks: int, guesses: tuple[int, int]) -> Witness:
    """All that a replay needs."""
    attack, source = tally.attack, campaign.source
    columns = tuple(source.target.columns) if isinstance(source.target, Called) else None
    return Witness(
        pair=attack.pair.name, first=attack.pair.first, second=attack.pair.second, view=attack.view.value,
        model=attack.model.to_dict(), high=attack.rule.high, low=attack.rule.low,
        trials=int(tally.counts.sum()), right=guesses[0], wrong=guesses[1], seed=source.seed,
        chunk=source.chunk, chunks=chunks, cuts=tuple(map(float, tally.cuts)),
        counts=tuple((int(first), int(second)) for first, second in tally.counts), columns=columns,
        hidden=attack.hidden,
    )  # fmt: skip


def _estimate(right: float, misses: float) -> float:
    if right <= 0:
        return 0.0
    return math.log(right / misses) if misses else math.inf


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


def _best(lower_rates: Array, upper_rates: Array) -> float:
    useful = lower_rates > 0
    return max(0.0, float(np.max(np.log(lower_rates[useful] / upper_rates[useful]), initial=0.0)))
