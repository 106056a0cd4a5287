"""What accounting states of a loss beside the exact δ of the worst small table."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

from deniable import accounting
from deniable.errors import Unaccountable
from deniable.guarantee import Bound
from deniable.loss import (
    POISSON,
    CappedSample,
    Composed,
    FiniteOutcomes,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Silenced,
    UniformlyCappedSample,
)
from deniable.units import Relation
from tests.accounting.small_tables.laws import NotStated
from tests.accounting.small_tables.tables import Case, worst

RATIOS = (1.0, 1.05, 1.2, 1.5, 2.0, 3.0, 4.5, 8.0)
WIDER = Fraction(1, 10**14)
"""e^ε in doubles is right to far less."""
ATTAINED = (
    ResponseNoise,
    FiniteOutcomes,
    Pure,
    GaussianNoise,
    LaplaceNoise,
    Repeated,
    Composed,
    Silenced,
    CappedSample,
    UniformlyCappedSample,
)
"""Nodes whose lower side is the δ of a table that is listed."""


@dataclass(frozen=True)
class Comparison:
    """δ of the worst table, exact, beside what is stated; `why` is empty where the statement holds."""

    case: Case
    epsilon: float
    truth: float
    lower: float
    upper: float
    why: str = ""

    def __str__(self) -> str:
        return (
            f"{self.why}: {self.case.loss} [{self.case.loss.to_json()}], unit {self.case.relation.value}, "
            f"{self.case.rows} records, ε = {self.epsilon:.6g}: a table reaches δ = {self.truth:.9g}, "
            f"stated [{self.lower:.9g}, {self.upper:.9g}]"
        )


def compare(case: Case, number: int) -> Comparison | None:
    """At a δ and, where δ comes from a pair, at an ε, both drawn by the number of the case; None where accounting refuses, or
    where the docstrings of the nodes state nothing.

    Elsewhere δ is found by trying which ε the same methods state, so that it would be the same comparison once more.
    """
    draw = random.Random(-number)
    delta, epsilon = draw.choice((1e-3, 0.02, 0.1, 0.3)), math.log(draw.choice(RATIOS))
    try:
        bound = accounting.epsilon(case.loss, delta)
        if math.isinf(bound.upper):
            return None
        comparison = _at_epsilon(case, bound.upper, Bound(0.0, delta, bound.method))
        if comparison.why or bound.method != "numerical":
            return comparison
        return _at_epsilon(case, epsilon, accounting.delta(case.loss, epsilon))
    except (Unaccountable, NotStated):
        return None


def _at_epsilon(case: Case, epsilon: float, stated: Bound) -> Comparison:
    """The worst table at ε beside the δ that is stated there."""
    x, tables = Fraction(math.exp(epsilon)), worst(case, math.exp(epsilon))
    truth = max(pair.delta(case, x * (1 + WIDER)) for pair in tables)
    why = ""
    if truth > Fraction(stated.upper):
        why = "Below the truth"
    elif (
        is_attained(case)
        and stated.lower
        > float(max(pair.delta(case, x * (1 - WIDER)) for pair in tables)) * (1 + 1e-6) + 1e-12
    ):
        why = "A lower side that nothing reaches"
    return Comparison(case, epsilon, float(truth), stated.lower, stated.upper, why)


def is_attained(case: Case) -> bool:
    """Whether one table of those listed moves all noises of the loss as far as they may go: not so where −1 becomes +1, and
    a parity stays as it was."""
    return case.relation is not Relation.REPLACED and all(
        isinstance(node, ATTAINED) or (isinstance(node, Sampled) and node.scheme is POISSON)
        for node in case.loss.walk()
    )
