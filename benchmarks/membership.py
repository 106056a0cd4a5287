"""Membership inference beside ART's, on the outputs of the same models.

    python benchmarks/membership.py            writes its table into docs/benchmarks.md
    python benchmarks/membership.py --ours     without ART, prints only

Models are networks of one hidden layer, each trained on a random half of the rows; the first of them are attacked, and
all others are what the attacks learn from. ART runs as a child process in .venv-bench (or the interpreter that
DENIABLE_BENCH_PYTHON names). Privacy Meter 1.0.1, the version that is published as a package, needs TensorFlow without
asking for it and has no LiRA and no RMIA; RMIA is its authors' later attack, and is among ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from _report import write_section
from deniable.attack import examples
from deniable.attack.members.coins import coins, unwatched
from deniable.attack.members.curve import Curve
from deniable.attack.members.evidence import Evidence
from deniable.attack.members.scores import ATTACKS
from deniable.attack.members.shadow import PlainRecipe

ROOT = Path(__file__).resolve().parent.parent
OURS = "--ours" in sys.argv
MODELS, TARGETS = 32, 2
DATA = {"location30": 2500, "census-kdd": 3000}
KINDS = {"rf": "a forest", "gb": "boosted trees", "nn": "a network"}

Scores = dict[str, tuple[NDArray[np.float64], float]]
"""By attack: scores (targets, rows), and CPU seconds."""


def ours(logits: NDArray[np.float32], members: NDArray[np.bool_], labels: NDArray[np.int64]) -> Scores:
    scores: Scores = {}
    for name, attack in ATTACKS.items():
        begun = time.process_time()
        rows = []
        for target in range(TARGETS):
            others = np.arange(MODELS) != target
            rows.append(
                attack(Evidence(logits[target][None], logits[others][:, None], members[others], labels))
            )
        scores[name] = np.array(rows), time.process_time() - begun
    return scores


def by_art(logits: NDArray[np.float32], members: NDArray[np.bool_], labels: NDArray[np.int64]) -> Scores:
    python = os.environ.get("DENIABLE_BENCH_PYTHON", str(ROOT / ".venv-bench" / "bin" / "python"))
    if not Path(python).exists():
        raise SystemExit(f"{python} is not there: make bench installs the peers (or run with --ours).")
    shifted = np.exp(logits - logits.max(axis=2, keepdims=True))
    probabilities = shifted / shifted.sum(axis=2, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "outputs.npz"), Path(folder, "scores.npz")
        np.savez(source, probabilities=probabilities, members=members, labels=labels, targets=TARGETS)
        script = [python, str(ROOT / "benchmarks" / "peers" / "art_membership.py"), str(source), str(out)]
        begun = os.times().children_user
        subprocess.run(script, check=True, capture_output=True)
        seconds, scores = os.times().children_user - begun, np.load(out)
        return {f"ART 1.20, {KINDS[kind]}": (scores[kind], seconds / len(KINDS)) for kind in KINDS}


def lines_of(name: str, rows: int) -> list[str]:
    x, labels = examples.rows(name, rows)
    members = coins(MODELS, len(labels), 0)
    logits = PlainRecipe().train(x, labels, members, int(labels.max()) + 1, 0, unwatched).logits(x)
    scores = ours(logits, members, labels) | ({} if OURS else by_art(logits, members, labels))
    truth, lines = members[:TARGETS].ravel(), []
    for attack, (values, seconds) in scores.items():
        curve = Curve.of(values.ravel(), truth)
        lines.append(
            f"| {name} | {attack} | {100 * curve.at(0.001):.2f} % | {100 * curve.at(0.01):.2f} % | "
            f"{curve.area:.3f} | {seconds:.2f} |"
        )
    return lines


SETTING = (
    f"{MODELS} networks of one hidden layer, {TARGETS} of them attacked (`benchmarks/membership.py`): the members named "
    "where .1 % and 1 % of the others are accused, area under the curve, CPU seconds of the attack alone. ART learns a "
    "classifier of outputs from 8,000 outputs of the other models. Privacy Meter's published package needs TensorFlow "
    "without asking for it and has neither LiRA nor RMIA; RMIA is its authors' later attack."
)


def main() -> None:
    lines = [
        "## Membership inference",
        "",
        SETTING,
        "",
        "| data | attack | members at .1 % | at 1 % | area | CPU s |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, rows in DATA.items():
        lines += lines_of(name, rows)
    text = "\n".join(lines)
    print(text)
    if not OURS:
        write_section("membership", text)


if __name__ == "__main__":
    main()
