"""Trainers under the family of canaries: sound ones, none to be accused, and steps with planted flaws, each to be found.

    python benchmarks/trainers.py                  writes both tables into docs/benchmarks.md
    python benchmarks/trainers.py "ours, LoRA" …   these alone, prints only
    python benchmarks/trainers.py --flaws          the planted flaws alone; writes their table

Sound trainers are those of tests/audit/trainers.py: real ones, whose rows are per-example gradients. Each is given about
20 CPU seconds, and a verdict at 99.9 %; flaws are those of `deniable.audit.bench.steps`, with as many.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from _report import write_section
from deniable.audit import Verdict
from deniable.audit.bench.steps import Flaw, FlawedStep
from deniable.audit.sgd import Training, canaries

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.audit.trainers import CLAIM, DIMENSION, sound

SECONDS, CONFIDENCE, SEED = 20.0, 0.999, 1

INTRO = """\
## Sound trainers under canaries

Trainers that keep their claim, attacked by every design of `audit.sgd.canaries` (`benchmarks/trainers.py`): verdicts at
{confidence:.1%}, seed {seed}, rows of {dimension} numbers that are the gradients themselves, clip {clip:g}, lot {lot:g}, noise
multiplier {noise:.3f} (ε = 8 at δ = 1e-5 for {steps:,} steps at rate {rate:g}). Certified: the largest μ of a step that
any design certified, as a share of the claimed one; above 1 would be an accusation. In *lots with a cap* the noise is that for
two clips, with *correlated noise* that for the norm of a column. *Underpowered*: less than half of the claimed ε was reached,
so little is said.

| trainer | steps | certified | by | CPU s | verdict |
|---|--:|--:|---|--:|---|
"""


LAYERS = (120, 12, 60, 8)
STEP = Training(CLAIM.noise_multiplier, CLAIM.clip, 50, CLAIM.rate, CLAIM.steps, CLAIM.delta)
FLAWS = """\
## Flawed steps under canaries

Steps of private training with one planted flaw each (`deniable.audit.bench.steps`, {layers} coordinates in {parts} layers, lots
of {lot:g}, the claim above), audited as a black box with `seconds={seconds:g}` (`benchmarks/trainers.py --flaws`):
verdicts at {confidence:.1%}, seed {seed}. Certified: the μ of a step as a share of the claimed one. {found} of {all} are found.

| flaw | found by | certified | CPU s | verdict |
|---|---|--:|--:|---|
"""


def print_flaws() -> None:
    flaws = [flaw for flaw in Flaw if not flaw.value.startswith("sound")]
    lines, found = [], 0
    for flaw in flaws:
        step, begun = FlawedStep(STEP, flaw, LAYERS), time.process_time()
        finding = canaries(
            step, STEP, dimension=step.dimension, seconds=SECONDS, confidence=CONFIDENCE, seed=SEED
        )
        found += finding.verdict is Verdict.VIOLATION
        spent, options = time.process_time() - begun, finding.options or {}
        share = options["mu"] * STEP.noise_multiplier
        lines.append(
            f"| {flaw.value} | {options['design']} | {share:.2f} | {spent:.0f} | {finding.verdict} |"
        )
        print(lines[-1], flush=True)
    head = FLAWS.format(
        layers=sum(LAYERS),
        parts=len(LAYERS),
        lot=STEP.lot,
        seconds=SECONDS,
        confidence=CONFIDENCE,
        seed=SEED,
        found=found,
        all=len(flaws),
    )
    write_section("flaws", head + "\n".join(lines))


def line(name: str) -> str:
    step, begun = sound(CLAIM)[name](), time.process_time()
    finding = canaries(
        step, CLAIM, dimension=DIMENSION, each=40, seconds=SECONDS, confidence=CONFIDENCE, seed=SEED
    )
    spent, options = time.process_time() - begun, finding.options or {}
    share = options["mu"] * CLAIM.noise_multiplier
    return f"| {name} | {finding.samples:,} | {share:.3f} | {options['design']} | {spent:.0f} | {finding.verdict} |"


def main(names: list[str]) -> None:
    if names == ["--flaws"]:
        print_flaws()
        return
    lines = []
    for name in names or sound(CLAIM):
        lines.append(line(name))
        print(lines[-1], flush=True)
    if not names:
        head = INTRO.format(
            confidence=CONFIDENCE, seed=SEED, dimension=DIMENSION, clip=CLAIM.clip, lot=CLAIM.lot,
            noise=CLAIM.noise_multiplier, steps=CLAIM.steps, rate=CLAIM.rate,
        )  # fmt: skip
        write_section("trainers", head + "\n".join(lines))
        print_flaws()


if __name__ == "__main__":
    main(sys.argv[1:])
