"""The search for a bracket: a side that stands for the lower bound alone and fails costs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from deniable.accounting.numerical.lattice.search import TermCase, delta_bounds, epsilon_bounds
from deniable.accounting.numerical.lattice.sweep import profile_bounds
from deniable.accounting.numerical.pairs.continuous import Laplace
from deniable.accounting.numerical.rounding import Array, Masses
from deniable.errors import Unaccountable

PROBLEMS = [
    ArithmeticError("masses"),
    MemoryError(),
    ValueError("shape"),
    IndexError(),
    Unaccountable("No pair."),
]


@dataclass(frozen=True)
class FailingPair(Laplace):
    """Laplace noise whose masses cannot be had."""

    problem: Exception = ArithmeticError()

    def cells(self, losses: Array) -> Masses:
        raise self.problem


def _cases(problem: Exception, *, upper: bool) -> list[TermCase]:
    sound, failing = ((Laplace(2.0), 10),), ((FailingPair(2.0, problem), 10),)
    above, below = (failing, sound) if upper else (sound, failing)
    return [TermCase(above, lower=False), TermCase(below, upper=False)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_a_lower_side_that_fails_never_costs_the_upper_one(problem: Exception) -> None:
    sound = [TermCase(((Laplace(2.0), 10),))]
    lower, upper = epsilon_bounds(_cases(problem, upper=False), 1e-5)
    assert lower == 0
    assert upper == pytest.approx(epsilon_bounds(sound, 1e-5)[1], rel=1e-2)
    lower, upper = delta_bounds(_cases(problem, upper=False), 1.0)
    assert lower == 0
    assert upper == pytest.approx(delta_bounds(sound, 1.0)[1], rel=5e-2)
    lowers, uppers = profile_bounds(_cases(problem, upper=False), np.array([0.5, 1.0]), 2)
    assert not lowers.any()
    assert uppers == pytest.approx(profile_bounds(sound, np.array([0.5, 1.0]), 2)[1], rel=5e-2)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_an_upper_side_that_fails_gives_no_number(problem: Exception) -> None:
    for bounds in (
        lambda: epsilon_bounds(_cases(problem, upper=True), 1e-5),
        lambda: delta_bounds(_cases(problem, upper=True), 1.0),
        lambda: profile_bounds(_cases(problem, upper=True), np.array([0.5, 1.0]), 2),
    ):
        with pytest.raises(type(problem)):
            bounds()
