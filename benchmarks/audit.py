"""How far the auditor gets: the mechanisms of DP-Sniper against its published figures, planted bugs, nulls, and DP-SGD.

Published figures: reference results of Bichsel et al. 2021 (eth-sri/dp-sniper, eval_sp2021), the better of their logistic and
neural classifier: the estimated ε and, behind it, the lower bound at confidence 90 %. They used 10.7 million samples to search
and 200 million to certify, and minutes to half an hour on many cores. Here: 42 million in all, the same confidence, one seed,
CPU time. With names as arguments only these cases run, and nothing is written.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from _report import write_section
from deniable.accounting import calibrate_noise
from deniable.audit import Finding, audit
from deniable.audit.bench import CASES, NULLS, Case
from deniable.audit.bench.sgd import Bug, TinySgd
from deniable.audit.rules import choose
from deniable.audit.sgd import Training, canaries
from deniable.audit.statistics import from_guesses

SAMPLES = 42_000_000
FEWER = 8_000_000
PUBLISHED = {
    "Laplace": (0.0999, 0.0976), "TruncatedGeometric": (0.1178, 0.1156), "NoisyHist1": (0.1000, 0.0978),
    "NoisyHist2": (4.603, 4.602), "NoisyMax1": (0.0948, 0.0925), "NoisyMax2": (0.1002, 0.0979),
    "NoisyMax3": (0.2510, 0.2488), "NoisyMax4": (0.3556, 0.3534), "SVT1": (0.0881, 0.0858), "SVT2": (0.0882, 0.0859),
    "SVT3": (0.1844, 0.1822), "SVT4": (0.1718, 0.1696), "SVT5": (1.7628, 1.7612), "SVT6": (0.2742, 0.2720),
    "Rappor": (0.3030, 0.3008), "OneTimeRappor": (0.6019, 0.5999), "LaplaceParallel": (0.0372, 0.0350),
    "PrefixSum": (0.5795, 0.5774), "NumericalSVT": (0.0368, 0.0345), "FloatLaplace": (0.2542, 0.2521),
}  # fmt: skip
"""(estimate, certified at 90 %)."""


def attack(case: Case) -> str:
    """One row of the table."""
    started = time.process_time()
    samples = SAMPLES if case.name in PUBLISHED or case.name == "ClassicalGaussian" else FEWER
    found = audit(case, case.pairs(), samples=samples, confidence=0.9, workers=2)
    spent = time.process_time() - started
    estimate, certified = PUBLISHED.get(case.name, (None, None))
    theirs = "–" if estimate is None else f"{estimate:.4g} ({certified:.4g})"
    ratio = "–" if not certified else f"{found.epsilon / certified:.2f}"
    claim = float(found.claim.epsilon)
    accused = sure(found) > claim
    verdict = f"{'violation' if accused else 'consistent'}{', support differs' if found.support_differs else ''}"
    right = "" if case.broken == accused else " **wrong**"
    return (
        f"| {case.name} | {claim:.4g} | {case.true_epsilon:.4g} | {found.epsilon:.4f} | {theirs} | {ratio} | "
        f"{found.samples / 1e6:.0f} M | {spent:.0f} | {verdict}{right} |"
    )


def sure(found: Finding) -> float:
    """What the same counts certify at 99.9 %: thirty verdicts at 90 % would accuse the innocent."""
    witness = found.witness
    if witness is None:
        return 0.0
    sides = int(witness.high < math.inf) + int(witness.low > -math.inf)
    counts = witness.right, witness.wrong, witness.trials
    return from_guesses(*counts, delta=found.delta, alpha=0.001, sides=sides)


def false_alarms(runs: int = 1000, alpha: float = 0.05) -> list[str]:
    """The statistics on mechanisms that ignore their input: choose a rule on some scores, certify it on fresh ones."""
    rows = []
    for case in NULLS:
        alarms = 0
        for seed in range(runs):
            rng = np.random.default_rng([seed, 9])
            scores = case.draw(0, 8000, rng).sum(axis=1)
            rule, _ = choose(scores[:2000], scores[2000:4000], delta=0.0, alpha=alpha, trials=4000)
            heads = int(rng.binomial(4000, 0.5))
            right, wrong = rule.count(scores[4000 : 4000 + heads], scores[4000 + heads :])
            alarms += from_guesses(right, wrong, 4000, delta=0.0, alpha=alpha) > 0
        rows.append(f"| {case.name} | {runs} | {alarms} | {alpha:.0%} |")
    return rows


def training() -> list[str]:
    """White-box canary audits of a small model."""
    rows = []
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        noise = calibrate_noise(epsilon, 1e-5, rate=0.05, steps=2000)
        for bug in Bug if epsilon == 4 else (Bug.NONE,):
            claim = Training(noise, 1.0, 50, 0.05, 2000, 1e-5)
            model, started = TinySgd(claim, bug), time.process_time()
            found = canaries(
                model.step, claim, dimension=model.dimension, background=model.gradients, update=model.update, each=400
            )
            spent = time.process_time() - started
            share = f"{found.epsilon / epsilon:.0%}" if bug is Bug.NONE else "–"
            rows.append(f"| {bug} | {epsilon:g} | {found.epsilon:.3f} | {share} | {spent:.1f} | {found.verdict} |")
    return rows


def report(attacks: list[str], alarms: list[str], trained: list[str]) -> str:
    return "\n".join(
        [
            "## Audit",
            "",
            "Certified lower bounds at confidence 90 % (DP-Sniper's), against the published figures of DP-Sniper: estimate "
            "(certified), at 210.7 million samples. Ratio: certified here ÷ certified there. Verdicts at 99.9 %. CPU seconds "
            "on a shared machine, two workers; wall time on an idle one was not measured.",
            "",
            "Pairs are those that each case's derivation names, one to three of them (PrefixSum: all ten patterns; DP-Sniper "
            "searched all patterns). One seed; rules for choosing were tuned on this bench, so a new seed scatters around "
            "these figures (SVT1 and SVT2 by about .004). Bounds at 90 % may pass a truth that is attained exactly in one of "
            "ten cases.",
            "",
            "| case | claimed ε | true ε | certified | DP-Sniper | ratio | samples | CPU s | verdict |",
            "|---|--:|--:|--:|--:|--:|--:|--:|---|",
            *attacks,
            "",
            "Mechanisms that ignore their input; an alarm is a certified ε > 0:",
            "",
            "| null | runs | alarms | allowed |",
            "|---|--:|--:|--:|",
            *alarms,
            "",
            "White-box canary audits of a small model (δ = 1e-5, rate .05, 2000 steps, confidence 95 %, Gaussian f-DP family):",
            "",
            "| bug | claimed ε | certified | share | CPU s | verdict |",
            "|---|--:|--:|--:|--:|---|",
            *trained,
        ]
    )


def main(names: list[str]) -> None:
    rows = []
    for case in CASES:
        if not names or case.name in names:
            rows.append(attack(case))
            print(rows[-1], flush=True)
    if names:
        return
    alarms, trained = false_alarms(), training()
    print(*alarms, *trained, sep="\n")
    write_section("audit", report(rows, alarms, trained))


if __name__ == "__main__":
    main(sys.argv[1:])
