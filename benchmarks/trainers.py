"""Sound trainers under the family of canaries: ours in every mode and those of Opacus, none to be accused.

    python benchmarks/trainers.py                  writes its table into docs/benchmarks.md
    python benchmarks/trainers.py "ours, LoRA" …   these alone, prints only

The trainers are those of tests/audit/trainers.py: real ones, whose rows are per-example gradients. Each is given about
10 CPU seconds, and a verdict at 99.9 %.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from _report import write_section
from deniable.audit.sgd import canaries

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.audit.trainers import CLAIM, DIMENSION, sound

SECONDS, CONFIDENCE, SEED = 5.0, 0.999, 1

INTRO = """\
## Sound trainers under canaries

Trainers that keep their claim, attacked by every design of `audit.sgd.canaries` (`benchmarks/trainers.py`): verdicts at
{confidence:.1%}, seed {seed}, rows of {dimension} numbers that are the gradients themselves, clip {clip:g}, lot {lot:g}, noise
multiplier {noise:.3f} (ε = 8 at δ = 1e-5 for {steps:,} steps at rate {rate:g}). Certified: the largest μ of a step that
any design certified, as a share of the claimed one; above 1 would be an accusation. In *lots with a cap* the noise is that for
two clips, with *correlated noise* that for the norm of a column.

| trainer | steps | certified | by | CPU s | verdict |
|---|--:|--:|---|--:|---|
"""


def line(name: str) -> str:
    step, begun = sound(CLAIM)[name](), time.process_time()
    finding = canaries(
        step, CLAIM, dimension=DIMENSION, each=40, seconds=SECONDS, confidence=CONFIDENCE, seed=SEED
    )
    spent, options = time.process_time() - begun, finding.options or {}
    share = options["mu"] * CLAIM.noise_multiplier
    return f"| {name} | {finding.samples:,} | {share:.3f} | {options['design']} | {spent:.0f} | {finding.verdict} |"


def main(names: list[str]) -> None:
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


if __name__ == "__main__":
    main(sys.argv[1:])
