"""A pair that is built for the lower bound alone and fails costs the lower bound, never the upper one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deniable import accounting
from deniable.accounting.numerical import leaves, samples, terms
from deniable.accounting.numerical.lattice.discretise import Cells
from deniable.accounting.numerical.pairs import best_run, bounded_range, finite, own
from deniable.accounting.refusals import collect_lowers
from deniable.errors import Unaccountable
from deniable.loss import (
    Allocated,
    BoundedRange,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    DrawnSample,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    NegativeBinomialRuns,
    Sampled,
    Scheme,
    Selected,
)

FIXED = Scheme.WITHOUT_REPLACEMENT
BUILDERS: list[tuple[Any, str, Loss]] = [
    (terms, "triangle", Sampled(0.01, GaussianNoise(1), FIXED, True) * 50),
    (samples, "triangle", DrawnSample(10, 100, GaussianNoise(2)) * 20),
    (samples, "GaussianMixture", DrawnSample(10, 100, GaussianNoise(2)) * 20),
    (samples, "_allocated", Allocated(10, GaussianNoise(1)) * 2),
    (finite, "choice", Composed((BoundedRange(0.1), BoundedRange(0.2))) * 10),
    (bounded_range, "below", BoundedRange(0.1) * 10),
    (best_run, "one_run", Selected(GaussianNoise(3), NegativeBinomialRuns(1, 0.5))),
    (best_run, "smallest", Selected(GaussianNoise(3), NegativeBinomialRuns(1, 0.5))),
    (own, "product", Sampled(0.1, Composed((GaussianNoise(1), LaplaceNoise(1)))) * 20),
    (leaves, "Laplace", DiscreteLaplaceNoise(5000, 4001) * 10),
    (leaves, "_one_coordinate", DiscreteGaussianNoise(40, 3, 5) * 10),
    (Cells, "lower", LaplaceNoise(2) * 30),
]


@pytest.fixture(autouse=True)
def _empty_caches() -> Iterator[None]:
    _clear_caches()
    yield
    _clear_caches()


def _clear_caches() -> None:
    for module in (terms, samples):
        for value in vars(module).values():
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()


@pytest.mark.parametrize(
    ("place", "name", "loss"), BUILDERS, ids=[f"{name} of {loss}"[:50] for _, name, loss in BUILDERS]
)
def test_a_lower_pair_that_cannot_be_built_never_costs_the_upper_side(
    place: Any, name: str, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = accounting.numerical.epsilon(loss, 1e-5)
    assert 0 < sound.lower <= sound.upper
    _clear_caches()
    builder, failures = getattr(place, name), []

    def fail(*args: Any, upper: bool = False, **options: Any) -> Any:
        if upper:
            return builder(*args, upper=True, **options)
        failures.append(name)
        raise ArithmeticError("masses")

    monkeypatch.setattr(place, name, fail)
    bound = accounting.numerical.epsilon(loss, 1e-5)
    assert failures
    assert bound.upper == pytest.approx(sound.upper, rel=2e-2)
    assert bound.lower <= sound.upper
    with_delta = accounting.numerical.delta(loss, sound.upper)
    assert 0 < with_delta.upper <= 1.1e-5


@pytest.mark.parametrize("problem", [OverflowError(), MemoryError(), Unaccountable("No pair.")], ids=repr)
def test_what_was_had_before_a_failure_stays(problem: Exception) -> None:
    def build() -> Iterator[int]:
        yield 1
        raise problem

    assert collect_lowers(build) == (1,)


@pytest.mark.parametrize("problem", [KeyError(), TypeError(), KeyboardInterrupt()], ids=repr)
def test_a_fault_of_the_program_is_not_taken_for_a_bound_that_cannot_be_had(problem: BaseException) -> None:
    def build() -> list[int]:
        raise problem

    with pytest.raises(type(problem)):
        collect_lowers(build)
