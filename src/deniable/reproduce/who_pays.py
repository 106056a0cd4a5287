"""Who pays for privacy: recall of incomes above 50,000 by sex and race, against ε, at equal steps.

Noise and clipping cost everybody a little and some much: those who are few, and those whose gradients are
long because the model does not serve them yet (Bagdasaryan, Poursaeed, Shmatikov 2019; Tran, Dinh, Fioretto
2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from deniable.learn.by_group_public import GroupMeasures, by_group
from deniable.plots import groups as plots
from deniable.reproduce._groups import GroupSteps, People, people, scores
from deniable.reproduce.report import Progress, Report

SUMMARY = (
    "Who pays: recall of incomes above 50,000 by sex and race against ε, clipping and rows "
    "(Adult, census-kdd)"
)
EPSILONS = (8.0, 2.0, 0.5, 0.2, 0.1, 0.05)
SEEDS = 3
SHOWN = ("white men", "white women", "black men", "black women")
FEW = 4000
COLUMNS = ("data", "ε", "training", "right", "w men", "w women", "b men", "b women")
"""Narrow enough for a terminal: the share that is right, and recall of white and black men and women."""


@dataclass(frozen=True)
class Arm:
    """One way to train, on rows of one data set."""

    data: str
    words: str
    steps: GroupSteps
    rows: int | None = None


def arms(data: str, rows: int | None) -> list[Arm]:
    """Everything at equal steps: without clipping, with a clip and no noise, with a small clip, and the
    ε's."""
    return [
        Arm(data, "plain", GroupSteps(clip=None), rows),
        Arm(data, "clip 1, no noise", GroupSteps(), rows),
        Arm(data, "clip .1, no noise", GroupSteps(clip=0.1, learning_rate=20.0), rows),
        *(Arm(data, "clip 1", GroupSteps(epsilon), rows) for epsilon in EPSILONS),
    ]


MITIGATIONS = [
    Arm("adult", "clip 2: women", GroupSteps(0.5, favourite="white women", favour=2.0), FEW),
    Arm("adult", "4 × steps", GroupSteps(0.5, steps=1600, learning_rate=1.0), FEW),
    Arm("adult", "whole lots", GroupSteps(0.5, lot=FEW), FEW),
    Arm("adult", "8 × rows", GroupSteps(0.5), None),
]

READING = (
    "Recall of white (w) and black (b) people. "
    "{few:,} rows of Adult: from plain to ε = .2 at equal steps the recall of white women falls from "
    "{women[0]:.2f} to {women[1]:.2f}, that of white men from {men[0]:.2f} to {men[1]:.2f}, and accuracy "
    "from {all[0]:.3f} to {all[1]:.3f}: the mean hides who pays. With all {many:,} rows little of it is left "
    "at ε = .5. A clip of .1 without any noise costs white women as much: long gradients belong to those "
    "whom the model does not serve yet. Means of {seeds} runs; the test rows alone scatter by ±{scatter:.2f} "
    "for Black women, so small differences there are chance."
)


def run(folder: Path, progress: Progress) -> Report:
    todo = [*arms("adult", FEW), *MITIGATIONS, *arms("adult", None)[:6], *arms("census-kdd", 40_000)]
    cache: dict[tuple[str, int | None], tuple[People, People]] = {}
    rows, outcomes = [], {}
    for arm in progress(todo, "Training"):
        key = (arm.data, arm.rows)
        if key not in cache:
            cache = {key: people(*key)}  # one at a time: census-kdd is large
        outcomes[arm] = measure_arm(arm, *cache[key])
        rows.append(line(arm, len(cache[key][0]), outcomes[arm]))
    few = arms("adult", FEW)
    draw = partial(
        plots.recalls,
        {name: [mean(outcomes[arm], name) for arm in few] for name in SHOWN},
        [label(arm) for arm in few],
        accuracy=[accuracy(outcomes[arm]) for arm in few],
        title=f"Who pays: recall of incomes above 50,000, Adult, {FEW:,} training rows, equal steps",
        path=folder / "who-pays.png",
    )
    baseline, private = few[0], few[3 + EPSILONS.index(0.2)]
    scatter = next(each for each in outcomes[baseline][0] if each.group == "black women").recall
    reading = READING.format(
        few=FEW,
        many=32_561,
        women=[mean(outcomes[arm], "white women") for arm in (baseline, private)],
        men=[mean(outcomes[arm], "white men") for arm in (baseline, private)],
        all=[accuracy(outcomes[arm]) for arm in (baseline, private)],
        seeds=SEEDS,
        scatter=(scatter.high - scatter.low) / 2,
    )
    return Report("Who pays for privacy", COLUMNS, rows, draw, reading)


def measure_arm(arm: Arm, train: People, test: People) -> list[tuple[GroupMeasures, ...]]:
    """The measures of each run, on the test rows."""
    weights = [arm.steps.train(train, seed) for seed in range(SEEDS)]
    return [by_group(test.labels, scores(each, test.rows), test.groups) for each in weights]


def mean(runs: Sequence[tuple[GroupMeasures, ...]], group: str) -> float:
    """The recall of a group, over the runs."""
    return float(np.mean([each.recall.value for run in runs for each in run if each.group == group]))


def accuracy(runs: Sequence[tuple[GroupMeasures, ...]]) -> float:
    """The accuracy on all rows, over the runs."""
    return float(
        np.mean([sum(e.accuracy.value * e.rows for e in run) / sum(e.rows for e in run) for run in runs])
    )


def label(arm: Arm) -> str:
    if arm.steps.epsilon is None:
        return arm.words.removesuffix(", no noise")
    return f"ε = {arm.steps.epsilon:g}"


def line(arm: Arm, rows: int, runs: Sequence[tuple[GroupMeasures, ...]]) -> tuple[object, ...]:
    epsilon = "none"
    if arm.steps.epsilon is not None:
        epsilon = f"{arm.steps.epsilon:g}"
    words = arm.words.removesuffix(", no noise")
    figures = [accuracy(runs), *(mean(runs, name) for name in SHOWN)]
    return (
        f"{arm.data.removeprefix('census-')} {rows:,}",
        epsilon,
        words,
        *(round(each, 3) for each in figures),
    )
