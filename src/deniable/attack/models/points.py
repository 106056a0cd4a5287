"""Models that *are* training points: support vectors and medians.

A kernel machine is published as the rows it kept; a median is one person's value. No
query and no cleverness is needed: look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, Whole, percent
from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.mechanisms import Laplace, Quantile
from deniable.units import Unit

ATTACK = "training points"


@dataclass(frozen=True)
class SupportVectors:
    """A kernel classifier: the sign of Σ weight·exp(−gamma·‖x − vector‖²). The vectors
    are rows of the training data."""

    vectors: Floats
    weights: Floats
    gamma: float

    def decide(self, rows: Floats) -> Whole:
        """−1 or 1 for each row."""
        return np.where(_kernel(rows, self.vectors, self.gamma) @ self.weights >= 0, 1, -1)


def support_vectors(
    rows: Floats, labels: Whole, *, cost: float = 1.0, gamma: float = 1.0, rounds: int = 200
) -> SupportVectors:
    """Train on labels −1 and 1 by coordinate ascent on the dual (without a bias): Hsieh
    et al. 2008, Algorithm 1."""
    if set(np.unique(labels).tolist()) - {-1, 1}:
        raise InvalidParameter("Expected labels of −1 and 1.")
    matrix = _kernel(rows, rows, gamma) * np.outer(labels, labels)
    alpha = np.zeros(len(rows))
    for _ in range(rounds):
        before = alpha.copy()
        for i in range(len(rows)):
            alpha[i] = min(max(alpha[i] + (1 - matrix[i] @ alpha) / matrix[i, i], 0.0), cost)
        if np.abs(alpha - before).max() < 1e-6:
            break
    mask = alpha > 1e-8
    return SupportVectors(rows[mask], (alpha * labels)[mask], gamma)


def _kernel(a: Floats, b: Floats, gamma: float) -> Floats:
    squares = (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)[None, :]
    return np.asarray(np.exp(-gamma * np.maximum(squares, 0)))


def standing_in(output: Floats, rows: Floats) -> Whole:
    """The rows that stand in the release, value for value."""
    keys = {row.tobytes() for row in np.ascontiguousarray(output, np.float64)}
    return np.array(
        [i for i, row in enumerate(np.ascontiguousarray(rows, np.float64)) if row.tobytes() in keys],
        np.int64,
    )


def attack(output: Floats, rows: Floats, *, release: str, chance: float = 0.0) -> Learnt:
    """How many training rows can be read off the release."""
    right = len(standing_in(output, rows))
    reading = (
        f"{release}: {right} of {len(rows)} training rows ({percent(right / len(rows))}) stand in it, value "
        f"for value{f'; by chance {percent(chance)} would' if chance else ''}."
    )
    return Learnt(ATTACK, release, right, len(rows), chance, reading)


def medians(values: Whole, groups: asking.Subsets) -> Whole:
    """The lower median of each group: always the value of one of its members."""
    return np.array([np.sort(values[g.astype(bool)])[(int(g.sum()) - 1) // 2] for g in groups], np.int64)


def compare_vectors(
    size: int = 300, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """Two classes of patients in the unit square: support vectors, and noisy class means by an account."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random(size) < 0.5, -1, 1)
    rows = np.clip(random.normal(0.5 + 0.12 * labels[:, None], 0.15, (size, 2)), 0, 1)
    machine = support_vectors(rows, labels, gamma=10.0)
    centres = class_means(rows, labels, epsilon, rng)
    return [
        attack(machine.vectors, rows, release="support vectors"),
        attack(centres, rows, release=f"class means from an account of ε = {epsilon:g}"),
    ]


def class_means(rows: Floats, labels: Whole, epsilon: float, rng: Random | None = None) -> Floats:
    """The mean of each class from noisy counts and sums of values in [0, 1]: a row moves
    one count and one sum per column."""
    unit, columns = Unit.row(), rows.shape[1]
    mechanism = Laplace.for_budget(epsilon, 1 + columns, dimension=2 * (1 + columns), real=True, unit=unit)
    values = np.clip(rows, 0, 1)
    sums = [np.r_[(labels == c).sum(), values[labels == c].sum(axis=0)] for c in (-1, 1)]
    with asking.account(epsilon, unit=unit) as account:
        totals = np.asarray(account.run(mechanism, lambda: np.concatenate(sums), rng=rng).value).reshape(
            2, -1
        )
    return np.asarray(totals[:, 1:] / np.maximum(totals[:, :1], 1.0), np.float64)


def compare_medians(
    size: int = 200, questions: int = 100, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """Medians of random tenths of a company's pay, to the unit: exact, and by an account until it refuses."""
    random = np.random.default_rng(seed)
    top = 200_000
    pay = np.minimum(np.rint(random.lognormal(np.log(45_000), 0.5, size)), top).astype(np.int64)
    groups = (random.random((questions, size)) < 0.1).astype(np.uint8)
    groups[:, 0] |= groups.sum(axis=1) == 0
    mechanism = Quantile(0.5, 0, top, epsilon / 10)
    with asking.account(epsilon, unit=Unit.row()) as account:
        ask = asking.ask_each(
            lambda g: float(account.run(mechanism, lambda: pay[g.astype(bool)], rng=rng).value)
        )
        answers = ask(groups)
    exact = medians(pay, groups).astype(np.float64)
    rows = pay.astype(np.float64)[:, None]
    return [
        attack(exact[:, None], rows, release=f"{questions} exact medians"),
        attack(
            answers[:, None],
            rows,
            release=f"{len(answers)} medians from an account of ε = {epsilon:g}",
            chance=len(answers) / (top + 1),
        ),
    ]
