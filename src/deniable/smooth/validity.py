"""Does a certifier keep its confidence? Asked from the outside, where the truth is known.

Before a wall, the half-space x₀ ≤ c, noise with a symmetric first coordinate smooths to the half-space
itself: the smoothed answer at x changes at the distance c − x₀ and not before, in every ℓp norm, so a radius
beyond it is wrong. A certifier that errs in more than a share alpha of independent runs is broken, and the
binomial tail says how surely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from deniable.accounting.radius import radius
from deniable.accounting.radius.input_noise import InputNoise
from deniable.smooth.decision import OPEN, Integers, StoppingRule
from deniable.smooth.smoothed import Certified

SURE = 1e-9
"""A certifier is called broken if an honest one would look as bad with a probability below this."""


@dataclass(frozen=True)
class Validity:
    """How often a certifier was wrong in `runs` independent runs, against the share alpha that it claims."""

    runs: int
    wrong: int
    alpha: float

    @property
    def p_value(self) -> float:
        """The chance of so many errors or more, if the claim were true."""
        if self.wrong:
            return float(betainc(self.wrong, self.runs - self.wrong + 1, self.alpha))
        return 1.0

    @property
    def broken(self) -> bool:
        return self.p_value < SURE

    def __str__(self) -> str:
        verdict = "broken" if self.broken else "within its claim"
        return (
            f"{self.wrong:,} of {self.runs:,} certificates were wrong, α = {self.alpha:g} (p = "
            f"{self.p_value:.2g}): {verdict}"
        )


def wall(edge: float) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """The classifier that answers 1 beyond `edge` in the first coordinate, else 0."""
    return lambda batch: (batch.reshape(len(batch), -1)[:, 0] > edge).astype(np.int64)


def check_certifier(
    certify: Callable[[NDArray[Any]], Certified], x: NDArray[Any], edge: float, alpha: float, runs: int = 2000
) -> Validity:
    """Run `certify` on `x`, which lies before the wall at `edge`, and count radii that reach through it."""
    distance = edge - float(x.ravel()[0])
    answers = [certify(x) for _ in range(runs)]
    wrong = sum(
        answer.label is not None and (answer.label != 0 or answer.radius > distance) for answer in answers
    )
    return Validity(runs, wrong, alpha)


def check_rule(
    rule: StoppingRule,
    probabilities: NDArray[np.float64],
    true_radius: float,
    rng: np.random.Generator,
    *,
    runs: int = 100_000,
    certify: Callable[[Integers, Integers, Integers], NDArray[np.float64]] | None = None,
    denials: bool = False,
) -> Validity:
    """Draw counts of all looks for classes of these probabilities, decide as `rule`
    does, and count wrong certificates.

    Wrong is a radius beyond `true_radius` for the likeliest class and any answer for another class; with
    `denials` it is a NO to a radius that holds, which is a claim of its own. `certified(choosing, counts,
    labels)` stands in for the rule's own radii: a planted bug.
    """
    choosing = rng.multinomial(rule.plan.choosing, probabilities, size=runs)
    labels = choosing.argmax(axis=1)
    truth = np.where(probabilities[labels] == probabilities.max(), true_radius, 0.0)
    counts = np.zeros_like(choosing)
    going, wrong = np.ones(runs, bool), np.zeros(runs, bool)
    for draws in np.diff([0, *rule.looks.sizes]):
        counts = counts + rng.multinomial(int(draws), probabilities, size=runs)
        reach = rule.certify(counts, labels)
        if certify is not None:
            reach = certify(choosing, counts, labels)
        verdict = rule.holds(counts, labels)
        false_denials = (verdict < OPEN) & (truth >= (rule.plan.radius or np.inf))
        ends = (verdict != OPEN) | (counts.sum(axis=1) == rule.looks.sample_size)
        false_claims = (reach > truth) | (rule.leads(counts, labels) & (truth == 0))
        if denials:
            false_claims = false_denials
        wrong |= going & ends & false_claims
        going &= ~ends
    return Validity(runs, int(wrong.sum()), rule.plan.alpha)


def true_radius(noise: InputNoise, probabilities: NDArray[np.float64]) -> float:
    """The tight radius of a classifier with these probabilities, rounded up."""
    second, first = np.sort(probabilities)[-2:]
    return radius(noise.loss_at, float(first), float(second)).upper
