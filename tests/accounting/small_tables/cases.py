"""Every leaf under every sample under every combinator, for every relation: which losses are compared, in a fixed order.

A tree that a node refuses to be (`InvalidLoss`) is no case. The parameters of a case are drawn from its number alone.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

from deniable.errors import InvalidLoss
from deniable.loss import (
    POISSON,
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    BoundedRange,
    CappedSample,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    NegativeBinomialRuns,
    Parallel,
    PoissonRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Shuffled,
    Silenced,
    UniformlyCappedSample,
    Zcdp,
)
from deniable.units import Relation
from tests.accounting.small_tables.tables import Case, every_way, group_size

Draw = random.Random
LINES = (GaussianNoise, LaplaceNoise, MixedGaussianNoise, Zcdp, DiscreteGaussianNoise, IntegerGaussianSum)
"""Noise of which one step is looked at."""
MOST_OUTCOMES = 200
"""Answers of one run that are listed."""
PARTED = ("parallel", "parallel, replaced", "equal parts, replaced", "parallel twice")
"""Combinators that give each unit a part beside its value: fewer units then make as many tables."""
RARELY = 0.1
"""How often a chain of two replaced units is asked for, which accounting takes seconds for."""

# ------------------------------------------------------------------------------------------------ leaves


def _epsilon(draw: Draw) -> float:
    """ln of a simple fraction, rounded up: the mechanism that is listed has just this ratio, or hardly less."""
    return math.nextafter(math.log(draw.choice((1.1, 1.25, 1.5, 2, 3, 4, 6))), math.inf)


def _outcomes(draw: Draw, symmetric: bool) -> FiniteOutcomes:
    tenth, third, half = Fraction(1, 10), Fraction(1, 3), Fraction(1, 2)
    present = draw.choice([(6 * tenth, 3 * tenth, tenth), (2 * third, third), (half, half, 0)])
    if symmetric:
        return FiniteOutcomes(present, present[::-1])
    return FiniteOutcomes(
        present, (Fraction(1, 5), *(Fraction(4, 5 * (len(present) - 1)),) * (len(present) - 1))
    )


LEAVES: dict[str, Callable[[Draw, Relation], Loss]] = {
    "response": lambda draw, _: ResponseNoise(
        draw.choice([Fraction(k, 20) for k in (11, 12, 14, 15, 16, 18, 19)]), draw.choice((2, 3))
    ),
    "outcomes": lambda draw, relation: _outcomes(draw, relation is Relation.REPLACED or draw.random() < 0.5),
    "pure": lambda draw, _: Pure(_epsilon(draw)),
    "integer laplace": lambda draw, _: DiscreteLaplaceNoise(1 / _epsilon(draw), draw.choice((1, 2))),
    "choice": lambda draw, _: BoundedRange(_epsilon(draw)),
    "approximate": lambda draw, _: Approximate(
        _epsilon(draw), draw.choice((Fraction(1, 50), Fraction(1, 5)))
    ),
    "zcdp": lambda draw, _: Zcdp(draw.choice((0.005, 0.02, 0.125, 0.3, 0.5, 2))),
    "gaussian": lambda draw, _: GaussianNoise(draw.choice((0.5, 0.75, 1, 1.5, 2.5, 4))),
    "laplace": lambda draw, _: LaplaceNoise(draw.choice((0.5, 0.75, 1, 2, 3, 5))),
    "integer gaussian": lambda draw, _: DiscreteGaussianNoise(
        draw.choice((1, 1.5, 2)), draw.choice((1, 2)), draw.choice((1, None))
    ),
    "mixed": lambda draw, _: MixedGaussianNoise(
        draw.choice((0.75, 1, 2)), (0, 1, 2), draw.choice(((0.5, 0.25, 0.25), (0.1, 0.8, 0.1)))
    ),
    "integer sum": lambda draw, relation: IntegerGaussianSum(
        draw.choice((1, 2)), Fraction(5, 2), 2, 1, relation is Relation.REPLACED
    ),
}

# ------------------------------------------------------------------------------------------------ samples


def _rate(draw: Draw) -> Fraction:
    return draw.choice([Fraction(k, 60) for k in (1, 6, 15, 20, 30, 40, 54, 60)])


Making = Callable[[Draw, Loss, int], Loss]
"""A node over a loss, for tables of so many records."""
SAMPLES: dict[str, tuple[Relation | None, Relation | None, Making]] = {
    # The relation that the sample states, None for any; what its content is stated for, None for the same.
    "all": (None, None, lambda draw, of, rows: of),
    "coins": (Relation.ADDED, Relation.ADDED, lambda draw, of, rows: Sampled(_rate(draw), of)),
    "coins, replaced": (
        Relation.REPLACED,
        Relation.ADDED,
        lambda draw, of, rows: Sampled(_rate(draw), of, POISSON, True),
    ),
    "fixed size": (
        Relation.ADDED,
        Relation.REPLACED,
        lambda draw, of, rows: Sampled(Fraction(draw.randint(1, rows), rows), of, WITHOUT_REPLACEMENT),
    ),
    "fixed size, replaced": (
        Relation.REPLACED,
        Relation.REPLACED,
        lambda draw, of, rows: Sampled(Fraction(draw.randint(1, rows), rows), of, WITHOUT_REPLACEMENT, True),
    ),
    "capped": (
        Relation.ADDED,
        Relation.ADDED,
        lambda draw, of, rows: CappedSample(_rate(draw), draw.choice((1, 1, 2, 3)), rows, of),
    ),
    "capped uniformly": (
        Relation.ADDED,
        Relation.ADDED,
        lambda draw, of, rows: UniformlyCappedSample(_rate(draw), draw.choice((1, 1, 2, 3)), rows, of),
    ),
    "allocated": (Relation.ADDED, Relation.ADDED, lambda draw, of, rows: Allocated(draw.choice((2, 3)), of)),
    "drawn": (
        Relation.REPLACED,
        Relation.REPLACED,
        lambda draw, of, rows: DrawnSample(draw.choice((1, 2, 3)), rows, of),
    ),
    "shuffled": (Relation.REPLACED, Relation.REPLACED, lambda draw, of, rows: Shuffled(rows, of)),
    "shuffled batches": (Relation.ADDED, None, lambda draw, of, rows: Sampled(Fraction(1, 2), of, SHUFFLED)),
    "shuffled batches, replaced": (
        Relation.REPLACED,
        None,
        lambda draw, of, rows: Sampled(Fraction(1, 2), of, SHUFFLED, True),
    ),
}

CONTENTS: dict[str, Callable[[Loss, Loss], Loss]] = {
    "once": lambda leaf, other: leaf,
    "twice": lambda leaf, other: Repeated(2, leaf),
    "two": lambda leaf, other: Composed((leaf, other)),
    "group": lambda leaf, other: leaf.grouped(2),
}

# ------------------------------------------------------------------------------------------------ combinators

RUNS = (NegativeBinomialRuns(1, Fraction(1, 4)), NegativeBinomialRuns(0, Fraction(1, 3)), PoissonRuns(2))
COMBINATORS: dict[str, Callable[[Draw, Loss, Loss], Loss]] = {
    "alone": lambda draw, loss, other: loss,
    "repeated": lambda draw, loss, other: Repeated(draw.choice((2, 3)), loss),
    "composed": lambda draw, loss, other: Composed((loss, other)),
    "grouped": lambda draw, loss, other: loss.grouped(2),
    "repeated in a group": lambda draw, loss, other: Repeated(2, loss).grouped(2),
    "parallel": lambda draw, loss, other: Parallel((loss, other)),
    "parallel, replaced": lambda draw, loss, other: Parallel((loss, other), True),
    "equal parts, replaced": lambda draw, loss, other: Parallel((loss, loss), True),
    "parallel twice": lambda draw, loss, other: Repeated(2, Parallel((loss, other), draw.random() < 0.5)),
    "best": lambda draw, loss, other: Selected(loss, draw.choice(RUNS)),
    "coins": lambda draw, loss, other: Sampled(_rate(draw), loss),
}
Plan = tuple[str, str, str, str, bool]


LATER = ("capped uniformly",)
"""Samples that came later stand at the end, so that the numbers of all other plans stay."""


@cache
def plans() -> list[Plan]:
    """All of them, in a fixed order that mixes them."""
    first = [sample for sample in SAMPLES if sample not in LATER]
    return [plan for samples in (first, *((sample,) for sample in LATER)) for plan in _mixed(samples)]


def _mixed(samples: Sequence[str]) -> list[Plan]:
    every = list(itertools.product(LEAVES, samples, CONTENTS, COMBINATORS, (False, True)))
    Draw(0).shuffle(every)
    return every


def build(plan: Plan, number: int) -> Case | None:
    """The case of a plan, or None where a node refuses it or where it would take more than one step of noise on a line."""
    leaf, sample, content, combinator, is_silenced = plan
    draw = Draw(number)
    stated, inside, make = SAMPLES[sample]
    relation = stated or draw.choice((Relation.ADDED, Relation.REPLACED))
    rows = draw.choice((2, 3) if combinator in PARTED else (2, 3, 4))
    first = LEAVES[leaf](draw, inside or relation)
    second = LEAVES[draw.choice(("response", "outcomes", "pure", "integer laplace"))](
        draw, inside or relation
    )
    try:
        loss = make(draw, CONTENTS[content](first, second), rows)
        other = make(draw, second, rows) if draw.random() < 0.5 else second
        is_inside = is_silenced and draw.random() < 0.5
        if is_inside:
            loss, other = Silenced(loss), Silenced(other)
        loss = COMBINATORS[combinator](draw, loss, other)
        if is_silenced and not is_inside:
            loss = Silenced(loss)
    except InvalidLoss:
        return None
    if sample == "coins, replaced" and "group" in combinator and draw.random() > RARELY:
        return None
    relation = loss.relation or relation
    if (
        steps(loss) > (1 if isinstance(first, LINES) else 3)
        or group_size(loss) > rows
        or _outcomes_of(loss) > MOST_OUTCOMES
    ):
        return None
    return Case(loss, relation, rows, every_way(loss))


def steps(loss: Loss) -> int:
    """How many answers are seen of one leaf."""
    match loss:
        case Repeated(times, of) | Allocated(times, of):
            return times * steps(of)
        case Composed(parts) | Parallel(parts):
            return max((steps(part) for part in parts), default=0)
        case _:
            return max((steps(child) for child in loss.children), default=1)


def _outcomes_of(loss: Loss) -> int:
    """How many answers a run can give, of which all are listed."""
    match loss:
        case Repeated(times, of) | Allocated(times, of):
            return _outcomes_of(of) ** times
        case Composed(parts) | Parallel(parts):
            return math.prod(map(_outcomes_of, parts))
        case DiscreteLaplaceNoise(_, sensitivity):
            return 8 * sensitivity + 1
        case ResponseNoise(_, options):
            return options
        case DiscreteGaussianNoise() | IntegerGaussianSum():
            return 60
        case Pure() | GaussianNoise() | LaplaceNoise() | MixedGaussianNoise() | Zcdp():
            return 9
        case Shuffled(reports, of):
            return math.comb(_outcomes_of(of) + reports - 1, reports)
        case _:
            return max((_outcomes_of(child) for child in loss.children), default=4)


def numbered(index: int, turn: int) -> int:
    """The number of a case: of which plan it is, and in which turn, each with other parameters."""
    return turn * len(plans()) + index


def case_of(number: int) -> Case | None:
    return build(plan_of(number), number)


def plan_of(number: int) -> Plan:
    return plans()[number % len(plans())]
