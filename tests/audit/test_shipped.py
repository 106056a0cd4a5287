"""Everything the project ships is attacked by its own auditor, beside a twin with less
noise that must be caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deniable import mechanisms
from deniable.audit import Asking, Verdict, audit
from deniable.local import (
    Duchi,
    GeneralisedResponse,
    HadamardResponse,
    OptimisedUnary,
    SubsetSelection,
    SymmetricUnary,
)
from deniable.mechanism import Interactive, Mechanism
from deniable.mechanisms import (
    CoinBias,
    Exponential,
    Gaussian,
    Laplace,
    NoisyCounts,
    NoisyMax,
    PermuteAndFlip,
    Quantile,
    RandomizedResponse,
    SparseVector,
    TopK,
    TruncatedGeometric,
    cautionary,
)
from deniable.units import Unit

SIX = tuple("abcdef")
RISE, FALL = [1] + [0] * 5, [0] + [1] * 5
GAUSSIAN = Gaussian.for_budget(1, 0.01)
QUESTIONS: tuple[Callable[[Any], Any], ...] = tuple((lambda rows, i=i: rows[i]) for i in range(2))


@dataclass(frozen=True)
class Shipped:
    """A mechanism, the same with less noise but the first one's claim, and a pair of
    neighbours that shows the difference."""

    mechanism: Any
    twin: Any
    pair: tuple[Any, Any]
    samples: int = 3000
    questions: tuple[Callable[[Any], Any], ...] = ()

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    def target(self, of: Any) -> Any:
        return Asking(of, self.questions) if self.questions else of


SHIPPED = [
    Shipped(Laplace(1), Laplace(0.25), (0, 1)),
    Shipped(Laplace(1, 2, 2), Laplace(0.25, 2, 2), ([0, 0], [1, 1])),
    Shipped(GAUSSIAN, replace(GAUSSIAN, sigma=GAUSSIAN.sigma / 3), (0, 1)),
    Shipped(TruncatedGeometric(1, 0, 10), TruncatedGeometric(0.25, 0, 10), (5, 6)),
    Shipped(NoisyCounts((("a", "b"), (0, 1)), 1), NoisyCounts((("a", "b"), (0, 1)), 0.25), ([], [("a", 1)])),
    Shipped(Exponential(SIX, epsilon=1), Exponential(SIX, epsilon=4), (RISE, FALL)),
    Shipped(PermuteAndFlip(SIX, epsilon=1), PermuteAndFlip(SIX, epsilon=4), (RISE, FALL)),
    Shipped(NoisyMax(SIX, epsilon=1), NoisyMax(SIX, epsilon=4), (RISE, FALL)),
    Shipped(TopK(SIX, 2, 1), TopK(SIX, 2, 5), (RISE, FALL)),
    Shipped(Quantile(0.5, 0, 100, 1), Quantile(0.5, 0, 100, 4), ([95], [95, 100])),
    Shipped(CoinBias(0.5, points=64), CoinBias(6, points=64), ([], [1])),
    Shipped(RandomizedResponse.for_budget(1), RandomizedResponse.for_budget(3), (True, False)),
    Shipped(SparseVector(0, 1), SparseVector(0, 8), ([0, 0.5], [1, -0.5]), questions=QUESTIONS),
]


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda s: s.name)
def test_what_we_ship_survives_our_own_audit(shipped: Shipped) -> None:
    """Confidence 1 − 10⁻⁶ for each, so that the suite as a whole does not cry wolf."""
    found = audit(
        shipped.target(shipped.mechanism),
        shipped.pair,
        shipped.mechanism.loss,
        samples=shipped.samples,
        seed=0,
        confidence=1 - 1e-6,
    )
    assert found.verdict is not Verdict.VIOLATION, str(found)
    assert found.detectable < math.inf


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda s: s.name)
def test_a_twin_with_less_noise_is_caught(shipped: Shipped) -> None:
    found = audit(
        shipped.target(shipped.twin), shipped.pair, shipped.mechanism.loss, seed=0, samples=shipped.samples
    )
    assert found.verdict is Verdict.VIOLATION, str(found)


def test_no_public_mechanism_is_left_out() -> None:
    values = [getattr(mechanisms, name) for name in mechanisms.__all__]
    public = {
        v.__name__
        for v in values
        if isinstance(v, type) and (hasattr(v, "loss") and (callable(v) or hasattr(v, "open")))
    }
    public -= {"Share", "Unit"}
    assert public == {shipped.name for shipped in SHIPPED}
    assert all(isinstance(s.mechanism, Mechanism | Interactive) for s in SHIPPED)


LOCAL = [
    (GeneralisedResponse, (4,), (0, 1)),
    (SymmetricUnary, (8,), (0, 1)),
    (OptimisedUnary, (8,), (0, 1)),
    (HadamardResponse, (8,), (0, 1)),
    (SubsetSelection, (8,), (0, 1)),
    (Duchi, (), (-1.0, 1.0)),
]


@pytest.mark.parametrize(("client", "shape", "pair"), LOCAL, ids=lambda c: getattr(c, "__name__", ""))
def test_local_reports_survive_and_their_twins_are_caught(
    client: Any, shape: tuple[Any, ...], pair: tuple[Any, Any]
) -> None:
    """In batches, on the bits of a report; clients whose reports name a hash function
    are attacked in tests/local."""
    honest, twin = client(*shape, epsilon=1), client(*shape, epsilon=3)
    found = audit(honest, pair, seed=0, samples=30_000, confidence=1 - 1e-6)
    assert found.verdict is Verdict.CONSISTENT, str(found)
    assert found.epsilon > 0.5
    assert audit(twin, pair, honest.loss, seed=0, samples=30_000).verdict is Verdict.VIOLATION


def test_cautionary_mechanisms_that_release_a_record_are_caught() -> None:
    """The plain median of an odd number is a data point: its support tells which."""
    found = audit(
        cautionary.PlainMedian(), ([1, 2, 3], [1, 9, 3]), 1.0, unit=Unit.row(replace=True), samples=2000
    )
    assert found.verdict is Verdict.VIOLATION
    assert found.support_differs
