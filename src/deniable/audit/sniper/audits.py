"""`audit`, and `replay` of what it found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from deniable.audit.finding import Finding, Verdict, Witness
from deniable.audit.levels import Levels, draw_seed, look_share
from deniable.audit.rules.classify import OutputView, model_from_dict
from deniable.audit.rules.thresholds import Rule
from deniable.audit.runs.independence import LOOKED_AT
from deniable.audit.runs.looks import Look, LookBook, LookTerms
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.source import Source, TimeOver
from deniable.audit.runs.target import Called, as_target, run_singly
from deniable.audit.sniper.attack import Attack
from deniable.audit.sniper.campaign import Campaign, Progress
from deniable.audit.sniper.certificate import CANNOT_SEE, COUPLED, certify
from deniable.audit.sniper.claims import Claim, ClaimLimit, limits_of, pairs_of
from deniable.audit.sniper.repetition import confirm_violation, refuse_dependent
from deniable.audit.sniper.search import search
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.units import Unit

MOST_SAMPLES = 84_000_000
LEAST_SAMPLES = 100
TIME_OVER = "The time was over after {:,} runs, before any could certify. Give it more time (--time)."
LEAST_NEW = 100
"""Runs that no earlier look has shown, without which there is nothing to look at."""
REPLAY_PHASE = 9000
"""A stream of random numbers of its own."""
LOOK, CONFIRMATIONS = "look", "confirmations"
"""Options of a finding: which look at kept runs it was, and how many fresh samples were to confirm it."""


def audit(
    target: Any,
    pair: Pair | tuple[Any, Any] | Sequence[Pair] | None = None,
    claim: Claim | None = None,
    *,
    time: float = 60.0,
    samples: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    unit: Unit | None = None,
    name: str | None = None,
    workers: int | None = None,
    coupled: bool | None = None,
    limit: float | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = monotonic,
) -> Finding:
    """Try to refute a claimed guarantee from the outside.

    `target` is a `Mechanism`, a batch sampler or any callable on a data set; `pair` one pair of
    neighbours, several, or None to search; `claim` an ε, (ε, δ), a `Budget` or a `Loss`, by
    default the mechanism's own. With `unit`, pairs that are not neighbours are refused. About `time`
    seconds are spent, or `samples` runs; no run begins after `limit` seconds. The seed is random unless it
    is given. It stands in the finding, which reproduces from it for targets that take their randomness from
    outside. `coupled` runs both neighbours on the same random numbers (only for claims without δ): by
    default where that needs no assumption (a callable that takes `seed`) or the target's attribute
    `coupled` says that a batch serves each row alike.
    """
    start = clock()
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    pairs = _pairs_for(target, pair, unit)
    limits = limits_of(claim if claim is not None else getattr(target, "loss", None))
    book = target if isinstance(target, LookBook) else None
    seed = _seed_of(book) if seed is None else seed
    subject = as_target(target, name)
    subject = run_singly(subject, [data for each in pairs for data in (each.first, each.second)], seed)
    couples = _couples(target, subject, limits, coupled)
    with Source(subject, seed, workers, coupled=couples, clock=clock) as source:
        source.deadline = start + _seconds_for(samples, time, limit)
        total = _check_samples(samples) or source.affordable(pairs[0], time, MOST_SAMPLES)
        plan = AuditPlan(source, limits, confidence, total, progress or _silent)
        finding = plan.run(book, pairs) if total >= LEAST_SAMPLES else plan.give_up(too_slow(total, time))
    options = {**(finding.options or {}), "seed": seed}
    return replace(finding, seconds=clock() - start, options=options)


def _pairs_for(
    target: Any, pair: Pair | tuple[Any, Any] | Sequence[Pair] | None, unit: Unit | None
) -> list[Pair]:
    """The neighbours. A mechanism takes an answer of known sensitivity, not the data that its unit speaks of:
    only samplers check by themselves."""
    if unit is None and (pair is None or hasattr(target, "draw")):
        unit = getattr(target, "unit", None)
    return pairs_of(pair, unit)


def _seconds_for(samples: int | None, time: float, limit: float | None) -> float:
    """After how many seconds no run begins: never, where a number of runs was asked for and no limit."""
    if limit is not None:
        return limit
    return time if samples is None else math.inf


def _check_samples(samples: int | None) -> int | None:
    if samples is not None and samples < LEAST_SAMPLES:
        raise InvalidParameter(
            f"Expected samples={samples} to be at least {LEAST_SAMPLES}. Nothing was certified."
        )
    return samples


def _seed_of(book: LookBook | None) -> int:
    """That of the runs that are kept, or a random one."""
    if book is not None and book.seed is not None:
        return book.seed
    return draw_seed()


def too_little(name: str, limit: ClaimLimit, confidence: float, reason: str) -> Finding:
    """The finding of an audit that certifies nothing, since there are too few runs to certify by."""
    return Finding(
        verdict=Verdict.UNDERPOWERED, target=name, claim=Budget(limit.epsilon, limit.delta), epsilon=0.0,
        delta=limit.delta, confidence=confidence, estimate=0.0, detectable=math.inf, samples=0, seconds=0.0,
        cannot_see=CANNOT_SEE, reasons=(reason,),
    )  # fmt: skip


def too_slow(fitting: int, seconds: float) -> str:
    """Why so few runs are no audit, and what to do."""
    more_seconds = math.ceil(1.2 * seconds * LEAST_SAMPLES / max(fitting, 1))
    return (
        f"Only {fitting} run{'s' * (fitting != 1)} fit into {seconds:g} s, and an audit needs at least "
        f"{LEAST_SAMPLES}. Give it more time, like --time {more_seconds}."
    )


@dataclass(frozen=True)
class AuditPlan:
    """What one audit does once the number of its runs is known."""

    source: Source
    limits: list[ClaimLimit]
    confidence: float
    total: int
    tell: Progress

    def run(self, book: LookBook | None, pairs: list[Pair]) -> Finding:
        """Search, and certify by the runs that are left, as far as the time goes."""
        self.source.watch = self._watch
        try:
            if book is not None:
                return self.look(book, pairs)
            return self._run(pairs, Levels.for_look(self.confidence), 0, lambda: None)
        except TimeOver:
            return self.give_up(TIME_OVER.format(self.source.draw_count))

    def give_up(self, reason: str) -> Finding:
        return too_little(self.source.target.name, self.limits[0], self.confidence, reason)

    def _watch(self, runs: int, stage: str) -> None:
        self.tell(min(1.0, runs / self.total), f"{stage}, {runs:,} of {self.total:,} runs")

    def look(self, book: LookBook, pairs: list[Pair]) -> Finding:
        """The same on runs that are kept: a look of its own, which the book counts."""
        limit = self.limits[0]
        terms = LookTerms(self.source.seed, self.total, self.confidence, limit.epsilon, limit.delta)
        look = book.open_look(terms)
        if self.total - look.shown_runs < LEAST_NEW:
            return self._without_new_runs(look)
        levels = Levels.for_look(self.confidence, look.share)
        finding = self._run(pairs, levels, look.shown_runs, book.skip_shown)
        book.close_look(look, terms, finding.verdict)
        options = {**(finding.options or {}), LOOK: look.number}
        return replace(finding, reasons=(*finding.reasons, look.sentence), options=options)

    def _run(
        self, pairs: list[Pair], levels: Levels, shown_runs: int, before_certifying: Callable[[], None]
    ) -> Finding:
        self.source.chunk = min(self.source.chunk, max(20, (self.total - shown_runs) // 8))
        campaign = Campaign(self.source, self.limits, levels, self.total, self.tell, shown_runs=shown_runs)
        attack = search(campaign, pairs)
        before_certifying()
        return _find(campaign, attack)

    def _without_new_runs(self, look: Look) -> Finding:
        reason = (
            f"The file holds {look.shown_runs:,} runs that earlier looks have shown, and {self.total:,} were "
            "asked for: too few are new, and no run certifies twice. Nothing was run. Ask for more, like "
            f"--samples {2 * look.shown_runs}."
        )
        return self.give_up(reason)


def replay(
    finding: Finding,
    target: Any,
    *,
    seed: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Finding:
    """Run the decisive part of a finding again: the same pair, attack set and number of
    samples, nothing learnt or chosen.

    With the seed of the finding (the default) a target that takes its randomness from outside gives the same
    counts. With another one this is a second, fresh sample. Where the finding says "look again" it confirms
    a violation at a level of its own (`levels`). What it gives counts how often that was tried: confirm that
    one next, and not the first finding again.
    """
    witness, start = finding.witness, monotonic()
    if witness is None or not witness.model:
        raise InvalidParameter(
            f'The finding on "{finding.target}" has no attack to run again (method: {finding.method}). One '
            "from scores is computed again from the same scores."
        )
    subject = as_target(target, finding.target)
    if isinstance(subject, Called) and witness.columns is not None:
        subject.columns[:] = witness.columns
    is_coupled = finding.method == COUPLED
    attack = _attack_of(witness, finding.delta, is_coupled)
    limit = ClaimLimit(finding.delta, float(finding.claim.epsilon))
    replay_seed = witness.seed if seed is None else seed
    options = {**(finding.options or {}), "seed": replay_seed}
    is_fresh = replay_seed != witness.seed
    if is_fresh and finding.verdict is Verdict.LOOK_AGAIN:
        options[CONFIRMATIONS] = int(options.get(CONFIRMATIONS, 0)) + 1
    levels = _replay_levels(finding, options, is_fresh)
    with Source(subject, replay_seed, workers, chunk=witness.chunk, coupled=is_coupled) as source:
        campaign = Campaign(source, [limit], levels, witness.trials, progress or _silent)
        looked_at = min(2 * LOOKED_AT, max(40, witness.trials // 4))
        campaign.choosing[attack.pair.name] = source.record(attack.pair, looked_at, REPLAY_PHASE)
        again = _find(campaign, attack, chunks=witness.chunks)
    return replace(again, seconds=monotonic() - start, options={**options, **(again.options or {})})


def _replay_levels(finding: Finding, options: Mapping[str, Any], is_fresh: bool) -> Levels:
    """Those of a second sample, where the finding is to be confirmed or was; else those it had itself."""
    if CONFIRMATIONS in options and (finding.verdict is Verdict.LOOK_AGAIN or not is_fresh):
        return Levels.second(finding.confidence, options[CONFIRMATIONS])
    share = 1.0
    if LOOK in options and not is_fresh:
        share = look_share(options[LOOK])
    return Levels.for_look(finding.confidence, share)


def _find(campaign: Campaign, attack: Attack, chunks: int | None = None) -> Finding:
    return refuse_dependent(campaign, attack) or confirm_violation(
        campaign, attack, certify(campaign, attack, chunks)
    )


def _attack_of(witness: Witness, delta: float, is_coupled: bool) -> Attack:
    pair = Pair(_input(witness.first), _input(witness.second), witness.pair)
    model, rule = model_from_dict(witness.model), Rule(witness.high, witness.low)
    return Attack(
        pair,
        OutputView(witness.view),
        model,
        rule,
        delta,
        0.0,
        witness.cuts,
        is_coupled,
        hidden=witness.hidden,
    )


def _couples(target: Any, subject: Any, limits: list[ClaimLimit], wish: bool | None) -> bool:
    """Whether both neighbours are run on the same random numbers: as asked, or where each call has a seed or
    the target says so. Claims with a δ are not tested so."""
    if any(limit.delta for limit in limits):
        return False
    if wish is not None:
        return wish
    return bool(getattr(target, "coupled", False)) or (isinstance(subject, Called) and subject.has_seeds)


def _input(value: Any) -> Any:
    """What JSON made of an input: a list of numbers was an array or a list of rows, and serves as either."""
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return np.array(value)
    return value


def _silent(share: float, text: str) -> None:
    """Progress that nobody watches."""
