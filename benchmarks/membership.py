"""Membership inference beside ART's, on the outputs of the same models.

    python benchmarks/membership.py            writes its table into docs/benchmarks.md
    python benchmarks/membership.py --ours     without ART, prints only
    python benchmarks/membership.py --means    LiRA with one deviation for all rows, with each row's own, and shrunk; prints only

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from _report import write_section
from deniable.attack import examples
from deniable.attack.members.coins import coins, iterate_silently
from deniable.attack.members.curve import Curve
from deniable.attack.members.deviations import Side
from deniable.attack.members.evidence import Evidence
from deniable.attack.members.scores import ATTACKS
from deniable.attack.members.shadow import PlainRecipe

ROOT = Path(__file__).resolve().parent.parent
OURS, MEANS = "--ours" in sys.argv, "--means" in sys.argv
MODELS, TARGETS = 32, 2
DATA = {"location30": 2500, "census-kdd": 3000}
SETTINGS = (("census-kdd", 3000, 32), ("census-kdd", 5000, 64), ("adult", 5000, 32), ("location30", 2500, 32))
SIX = 6
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
        subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
        seconds, scores = os.times().children_user - begun, np.load(out)
        return {f"ART 1.20, {KINDS[kind]}": (scores[kind], seconds / len(KINDS)) for kind in KINDS}


def one_for_all(seen: Evidence) -> NDArray[np.float64]:
    """A mean per row, and one deviation."""
    return _normal(seen, lambda side: np.sqrt(side.squares.sum() / side.freedom.sum()))


def each_its_own(seen: Evidence) -> NDArray[np.float64]:
    """A mean and a deviation per row, as they are: LiRA as it is often written."""
    return _normal(seen, lambda side: np.sqrt(side.variance(1.0)))


def _normal(seen: Evidence, deviation: Callable[[Side], Any]) -> NDArray[np.float64]:
    phi, shadows = seen.target_scaled()[0], seen.shadows_scaled()[:, 0]
    sides = Side.from_signals(shadows, seen.members), Side.from_signals(shadows, ~seen.members)
    inside, outside = (norm.logpdf(phi, side.mean, deviation(side)) for side in sides)
    return np.asarray(inside - outside)


def print_means() -> None:
    """Members named at .1 % and 1 % false alarms, six models attacked."""
    attacks = {"one for all": one_for_all, "each its own": each_its_own, "shrunk": ATTACKS["lira"]}
    print("| data, rows, models |", " | ".join(attacks), "|")
    for name, rows, models in SETTINGS:
        x, labels = examples.rows(name, rows)
        members = coins(models, len(labels), 0)
        logits = PlainRecipe().train(x, labels, members, int(labels.max()) + 1, 0, iterate_silently).logits(x)
        cells = []
        for attack in attacks.values():
            scores = []
            for target in range(SIX):
                others = np.arange(models) != target
                seen = Evidence(logits[target][None], logits[others][:, None], members[others], labels)
                scores.append(attack(seen))
            curve = Curve.from_scores(np.concatenate(scores), members[:SIX].ravel())
            cells.append(f"{100 * curve.power_at(0.001):.2f} / {100 * curve.power_at(0.01):.2f}")
        print(f"| {name}, {rows:,}, {models} |", " | ".join(cells), "|", flush=True)


def lines_of(name: str, rows: int) -> list[str]:
    x, labels = examples.rows(name, rows)
    members = coins(MODELS, len(labels), 0)
    logits = PlainRecipe().train(x, labels, members, int(labels.max()) + 1, 0, iterate_silently).logits(x)
    scores = ours(logits, members, labels) | ({} if OURS else by_art(logits, members, labels))
    truth, lines = members[:TARGETS].ravel(), []
    for attack, (values, seconds) in scores.items():
        curve = Curve.from_scores(values.ravel(), truth)
        lines.append(
            f"| {name} | {attack} | {100 * curve.power_at(0.001):.2f} % | {100 * curve.power_at(0.01):.2f} % | "
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
    if MEANS:
        print_means()
        return
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
