"""When nothing is certified: runs that are not independent, and answers that a new start does not give."""

from __future__ import annotations

import math
from dataclasses import replace

from scipy.stats import binom

from deniable.audit.finding import Finding, Verdict, Witness
from deniable.audit.rules.classify import OutputView, model_from_dict
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.independence import SHARE, constants, dependence
from deniable.audit.runs.restart import repeats, started_anew
from deniable.audit.sniper.attack import Attack
from deniable.audit.sniper.campaign import Campaign
from deniable.audit.sniper.certificate import CANNOT_SEE
from deniable.guarantee import Budget

ANEW = 20_000
"""Runs, but a quarter of all at most, in which a target that was started anew must show a violation too."""
MAY_BE_REUSED = (
    "Noise may be used again: one answer is then all that a claim speaks about, and more runs say nothing "
    "about it."
)


def refuse_dependent(campaign: Campaign, attack: Attack) -> Finding | None:
    """A finding that certifies nothing, if the choosing samples show that runs are not independent."""
    record = campaign.choosing[attack.pair.name]
    if dependent := dependence(record, SHARE * campaign.alpha / 2):
        return _repeating(campaign, attack, f"Runs are not independent: {dependent}.")
    if attack.hidden:
        return None  # what may be remembered is not looked at; `certificate.judge_constants` speaks of it
    again = repeats(campaign.source.target, attack.pair, constants(record.first, record.second))
    if again:
        return _repeating(campaign, attack, f"It gives one answer again and again. {again}")
    return None


def confirm_violation(campaign: Campaign, attack: Attack, finding: Finding) -> Finding:
    """The finding, unless it is a violation which the target does not show when it is started anew."""
    witness, source = finding.witness, campaign.source
    if finding.verdict is not Verdict.VIOLATION or witness is None:
        return finding
    campaign.tell(1.0, "once more in a process of its own")
    anew = started_anew(source.target, attack.pair, min(ANEW, campaign.total // 4), source.seed)
    if anew is None:
        return finding
    same = _certified_attack(attack, witness)
    right, wrong = same.rule.count(same.score(anew[0]), same.score(anew[1]))
    trials, guesses = len(anew[0]) + len(anew[1]), witness.right + witness.wrong
    rarer = binom.cdf(right, trials, witness.right / witness.trials)
    poorer = binom.cdf(right, right + wrong, witness.right / max(guesses, 1))
    if min(rarer, poorer) >= SHARE * campaign.alpha / 4:
        return finding
    reason = (
        f"Started anew in a process of its own it gives itself away less: {right:,} right and {wrong:,} "
        f"wrong guesses in {trials:,} runs, against {witness.right:,} and {witness.wrong:,} in "
        f"{witness.trials:,}."
    )
    return _repeating(campaign, attack, reason)


def _certified_attack(attack: Attack, witness: Witness) -> Attack:
    """The attack that the witness of a finding names."""
    view, model = OutputView(witness.view), model_from_dict(witness.model)
    return replace(attack, view=view, model=model, rule=Rule(witness.high, witness.low))


def _repeating(campaign: Campaign, attack: Attack, reason: str) -> Finding:
    claim = Budget(campaign.claim_at(attack), attack.delta)
    return Finding(
        verdict=Verdict.REPEATS, target=campaign.source.target.name, claim=claim, epsilon=0.0,
        delta=attack.delta, confidence=1 - campaign.alpha, estimate=0.0, detectable=math.inf,
        samples=campaign.source.draw_count, seconds=0.0, cannot_see=CANNOT_SEE,
        reasons=(reason, MAY_BE_REUSED),
    )  # fmt: skip
