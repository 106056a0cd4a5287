"""Audits from scores alone: somebody ran the target many times on both neighbours and
kept one number of each run.

The file says nothing of how the numbers came about. What is certified holds for any target, if every score
comes from an independent run; with that, scores are a target whose outputs were drawn beforehand.
"""

from __future__ import annotations

import math
import time as clock
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from deniable.audit.finding import NOTHING, Finding, Witness, at_one_delta, judge
from deniable.audit.levels import Levels
from deniable.audit.rules.thresholds import candidates, choose
from deniable.audit.statistics import Array, detectable, from_guesses
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import Loss

LEARN = 0.3
"""The share of scores that chooses thresholds; the rest certifies."""
LEAST = 20
DEVIATIONS = 4.0
"""Coins are fewer than scores by so many deviations of theirs: then neither side runs
out but once in 15,000 audits."""
CUTS = 24
FILES = (".csv", ".parquet")
ASSUMES = ("that every score comes from a run of its own and that the runs are independent.",)
CANNOT_SEE = ("what the scores do not show.", "pairs of neighbours other than the one that was run.")


def scores(
    members: Any,
    nonmembers: Any,
    claim: Loss | Budget | float | tuple[float, float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "scores",
) -> Finding:
    """Audit from scores of runs with a record (`members`) and without it (`nonmembers`).

    A random part of each set chooses two thresholds, the others certify. These are dealt
    out by fair coins, as if the runs were only now made: then one bound covers guesses
    of both kinds (`statistics.from_guesses`). Should one set run out before the coins
    are thrown, nothing is certified; so the coins stay fair.
    """
    start = clock.monotonic()
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    claim = at_one_delta(claim)
    rng, alpha, delta = np.random.default_rng(seed), 1 - confidence, float(claim.delta)
    first, second = (rng.permutation(numbers(s)) for s in (members, nonmembers))
    if min(len(first), len(second)) < LEAST:
        raise InvalidParameter(
            f"Expected at least {LEAST} scores on each side, got {len(first)} and {len(second)}."
        )
    learn = [s[: int(LEARN * len(s))] for s in (first, second)]
    dealt = _dealt(first[len(learn[0]) :], second[len(learn[1]) :], rng)
    trials = len(dealt[0]) + len(dealt[1])
    choices = {
        s: choose(s * learn[0], s * learn[1], delta=delta, alpha=alpha, trials=max(trials, 1))
        for s in (1, -1)
    }
    sign = max(choices, key=lambda s: choices[s][1])
    rule, dealt = choices[sign][0], (sign * dealt[0], sign * dealt[1])
    right, wrong = rule.count(*dealt)
    levels = Levels.for_look(confidence)
    epsilon, surely = (
        from_guesses(right, wrong, trials, delta=delta, alpha=level, sides=rule.sides) if trials else 0.0
        for level in (levels.alpha, levels.accusing)
    )
    claim_epsilon, cuts = float(claim.epsilon), candidates(sign * np.concatenate(learn), CUTS)
    visible = detectable(trials, epsilon=claim_epsilon, delta=delta, alpha=levels.accusing)
    return Finding(
        verdict=judge(epsilon, surely, claim_epsilon, visible, right + wrong), target=name, claim=claim,
        epsilon=epsilon, delta=delta, confidence=confidence,
        estimate=_estimate(right, wrong, trials, delta * rule.sides / 2), detectable=visible,
        samples=len(first) + len(second), seconds=clock.monotonic() - start, method="scores",
        support_differs=wrong == 0 and epsilon > max(2.0, claim_epsilon),
        witness=make_witness(*dealt, cuts, (rule.high, rule.low), ("with", "without"), right, wrong, seed),
        reasons=() if right + wrong else (NOTHING,),
        assumes=ASSUMES, cannot_see=CANNOT_SEE,
        options={"seed": seed, "larger_is": "with" if sign == 1 else "without"},
    )  # fmt: skip


def read(path: Path) -> tuple[Array, Array]:
    """Scores with and without the record, from a CSV or parquet file with the columns `score` and `member` (0
    or 1), or `score` and `world` (any two labels; the one that sorts last is with)."""
    table = table_in(path)
    names = set(table.column_names)
    if "score" not in names or not {"member", "world"} & names:
        raise InvalidParameter(
            f"{path}: expected the columns score and member (0 or 1), or score and world (two labels), got "
            f"{', '.join(table.column_names)}."
        )
    values = numbers(table.column("score").to_pylist())
    inside = _member_rows(path, table.column("member" if "member" in names else "world").to_pylist())
    return values[inside], values[~inside]


def table_in(path: Path) -> pa.Table:
    """A parquet or CSV file; one that cannot be read is an error of the caller's, told in a sentence."""
    try:
        return pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        reason = (
            "No such file"
            if not path.exists()
            else f"this is no table in CSV or parquet: {str(error).splitlines()[0]}"
        )
        raise InvalidParameter(f"{path}: {reason.removesuffix('.')}.") from None


def _member_rows(path: Path, answers: list[Any]) -> Any:
    """Which rows are of runs with the record."""
    labels = sorted({str(label).strip() for label in answers if label is not None})
    if len(labels) != 2 or None in answers:
        raise InvalidParameter(
            f"{path}: expected two labels beside the scores, like 0 and 1, got {len(labels)}."
        )
    return np.array([str(label).strip() == labels[1] for label in answers], np.bool_)


def numbers(values: Any) -> Array:
    try:
        array = np.asarray(values, np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidParameter("Expected scores that are numbers.") from None
    if np.isnan(array).any():
        raise InvalidParameter("Expected scores that are numbers, got NaN or nothing among them.")
    return array


def _dealt(first: Array, second: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """As many scores of each side as fair coins ask for; none if a side has too few."""
    most = 2 * min(len(first), len(second))
    trials = max(0, math.floor(most - DEVIATIONS * math.sqrt(most)))
    heads = int(rng.binomial(trials, 0.5))
    enough = heads <= len(first) and trials - heads <= len(second)
    return (first[:heads], second[: trials - heads]) if enough else (first[:0], second[:0])


def _estimate(right: int, misses: int, trials: int, allowance: float) -> float:
    net = right - allowance * trials
    return 0.0 if net <= 0 else math.inf if misses == 0 else math.log(net / misses)


def make_witness(
    first: Array,
    second: Array,
    cuts: Array,
    edges: tuple[float, float],
    names: tuple[str, str],
    right: int,
    misses: int,
    seed: int,
) -> Witness:
    """Scores of both sides as counts between `cuts` and the (high, low) edges of the
    guesses, for pictures and for the record."""
    places = np.unique([*cuts, *(edge for edge in edges if math.isfinite(edge))])
    counts = [
        np.bincount(np.searchsorted(places, s, side="right"), minlength=len(places) + 1)
        for s in (first, second)
    ]
    return Witness(
        pair=" and ".join(names), first=names[0], second=names[1], view="scores", model={}, high=edges[0],
        low=edges[1], trials=len(first) + len(second), right=right, wrong=misses, seed=seed, chunk=0,
        chunks=0, cuts=tuple(map(float, places)),
        counts=tuple((int(a), int(b)) for a, b in zip(*counts, strict=True)),
    )  # fmt: skip
