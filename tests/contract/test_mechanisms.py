"""What every shipped mechanism must do, through one suite."""

import dataclasses
import inspect
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import mechanisms
from deniable.accounting import epsilon
from deniable.loss import Approximate, Loss
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
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.contract._audit import epsilon_at_least

EIGHT = tuple("abcdefgh")
ROUNDS = 2000


@dataclass(frozen=True)
class Asked:
    """A `SparseVector` that was asked all the data's answers in turn: the transcript of a conversation."""

    of: SparseVector

    @property
    def loss(self) -> Loss:
        return self.of.loss

    @property
    def unit(self) -> Unit:
        return self.of.unit

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: Any, *, rng: Any) -> tuple[bool, ...]:
        talk, answers = self.of.open(data, rng=rng), []
        for i in range(4):
            if sum(answers) < self.of.runs:
                answers.append(talk.ask(lambda rows, i=i: rows[i]))
        return tuple(answers)


@dataclass(frozen=True)
class Case:
    """A mechanism of ε about 2, a twin with half its noise, and neighbours on which the
    loss is nearly attained.

    (A quarter for `SparseVector` and `CoinBias`, whose worst events are too rare to be
    told in a few thousand runs.) `off` measures the error of an answer on `data` as
    `Mechanism.error` does; `label` makes an answer countable.
    """

    mechanism: Any
    twin: Any
    data: Any
    neighbour: Any
    off: Callable[[Any], float] | None = None
    label: Callable[[Any], Any] = lambda answer: answer
    delta: float = 0.0
    runs: int = ROUNDS

    @property
    def name(self) -> str:
        inner = self.mechanism.of if isinstance(self.mechanism, Asked) else self.mechanism
        return type(inner).__name__


def choice(kind: Any, runs: int = ROUNDS, **more: Any) -> Case:
    """One score falls and seven rise: the worst that one unit can do to eight scores."""
    return Case(
        kind(EIGHT, epsilon=2, **more), kind(EIGHT, epsilon=4, **more), [1] + [0] * 7, [0] + [1] * 7,
        off=lambda answer: 0.0 if answer == "a" else 1.0, runs=runs,
    )  # fmt: skip


DOMAINS = (("a", "b"), (0, 1))
GRID = Laplace(0.5, 0.5, 3, 0.25)
WHOLE, REAL = Gaussian.for_budget(2, 0.01), Gaussian.for_budget(2, 0.01, 0.3, real=True)
CASES = [
    Case(Laplace(0.5), Laplace(0.25), 0, 1, abs),
    # These reals differ by 0.5 in L1, two grid units; rounding makes it four, as `grid` proves and the loss
    # states.
    Case(replace(GRID, scale=0.5), replace(GRID, scale=0.25), [0.124] * 3, [0.125, 0.125, 0.622],
         lambda x: max(abs(x - 0.124)), lambda x: tuple(np.clip(4 * x, 0, [1, 1, 2]))),
    Case(WHOLE, replace(WHOLE, sigma=WHOLE.sigma / 2), 0, 1, abs, delta=0.01, runs=4000),
    Case(REAL, replace(REAL, sigma=REAL.sigma / 2), 0.0, 0.3, abs, lambda x: round(10 * x), 0.01, 3000),
    Case(TruncatedGeometric(0.5, 0, 10), TruncatedGeometric(0.25, 0, 10), 5, 6, lambda x: abs(x - 5)),
    Case(NoisyCounts(DOMAINS, 0.5), NoisyCounts(DOMAINS, 0.25), [], [("a", 1)],
         lambda x: np.abs(x[0]).max(), lambda x: x[0][0, 1]),
    choice(Exponential),
    choice(PermuteAndFlip),
    choice(NoisyMax),
    Case(TopK(EIGHT[:6], 2, 2), TopK(EIGHT[:6], 2, 4), [1, 1] + [0] * 4, [0, 0] + [1] * 4,
         label=lambda x: tuple(sorted(x)), runs=5000),
    Case(Quantile(0.5, 0, 100, 2), Quantile(0.5, 0, 100, 4), [95], [95, 100],
         lambda x: 0.0 if x == 95 else 0.5, lambda x: 95 < x < 100),
    Case(CoinBias(1, points=64), CoinBias(4, points=64), [], [1], label=lambda x: round(20 * x), runs=4000),
    Case(RandomizedResponse.for_budget(2), RandomizedResponse.for_budget(4), True, False),
    Case(RandomizedResponse.for_budget(2, EIGHT), RandomizedResponse.for_budget(4, EIGHT), "a", "b"),
    Case(Asked(SparseVector(0, 2)), Asked(SparseVector(0, 8)), [0, 0, 0, 0.5], [1, 1, 1, -0.5]),
    Case(cautionary.ReleaseEverything(0.1), cautionary.ReleaseEverything(0.3), [1], [], delta=0.1, label=str),
    Case(cautionary.NameAndShame(0.1), cautionary.NameAndShame(0.3), [1], [], delta=0.1, label=str),
]  # fmt: skip
HOPELESS = [cautionary.LaplaceAfterArgmax(EIGHT, 1), cautionary.PlainMedian()]
CLAIMED = [cautionary.RootlessGaussian(1, 0.1), cautionary.MisplacedGaussian(1, 0.1)]
ALL = [*(case.mechanism for case in CASES), *HOPELESS, *CLAIMED]
GARBAGE = [
    math.nan, math.inf, -math.inf, None, "text", b"bytes", [], (), {}, [math.nan], [math.inf, -math.inf], [None, "x", []],
    object(),
    np.array([]), np.array([math.nan, 1.0]), np.array(["x"], object), 10**400, [10**400], True, 1 + 2j, [[1, 2], [3]], {"a": 1},
]  # fmt: skip

named = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every = pytest.mark.parametrize("mechanism", ALL, ids=lambda m: type(m).__name__)


def same(a: Any, b: Any) -> bool:
    return pickle.dumps(a) == pickle.dumps(b)


def test_every_shipped_mechanism_is_here() -> None:
    shipped = {
        v
        for v in vars(mechanisms).values()
        if isinstance(v, type) and dataclasses.is_dataclass(v) and hasattr(v, "loss")
    }
    warned = {
        v
        for v in vars(cautionary).values()
        if isinstance(v, type) and v.__module__ == cautionary.__name__ and not inspect.isabstract(v)
    }
    here = {type(m.of if isinstance(m, Asked) else m) for m in ALL}
    assert here == shipped | warned


@every
def test_the_loss_is_known_before_data_and_is_stable_json(mechanism: Any) -> None:
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism.unit, Unit)
    text = mechanism.loss.to_json()
    assert Loss.from_json(text) == mechanism.loss
    assert Loss.from_json(text).to_json() == text
    assert mechanism.loss == pickle.loads(pickle.dumps(mechanism)).loss


@every
def test_it_is_an_immutable_value(mechanism: Any) -> None:
    again = replace(mechanism)
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.unit = Unit.row(replace=True)


@every
def test_it_has_a_docstring_in_our_shape(mechanism: Any) -> None:
    text = type(mechanism).__doc__ or ""
    if not isinstance(mechanism, Asked):
        assert all(f"{part}:" in text for part in ("Guarantee", "Assumes", "Error", "Reference"))
        assert ">>>" in text


def test_a_conversation_is_an_interactive() -> None:
    assert isinstance(SparseVector(0, 2), Interactive)


@named
def test_the_same_seed_gives_the_same_answers(case: Case) -> None:
    first, again, other = (
        [case.mechanism(case.data, rng=rng) for _ in range(40)] for rng in map(SeededRandom, (1, 1, 2))
    )
    assert same(first, again)
    assert not same(first, other)


@every
@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data)[:20])
def test_no_data_whatever_makes_it_fail(mechanism: Any, data: Any) -> None:
    mechanism(data, rng=SeededRandom(1))


@pytest.mark.parametrize("case", [case for case in CASES if case.off], ids=lambda case: case.name)
def test_the_error_stated_before_data_holds(case: Case) -> None:
    assert case.off is not None
    for confidence in (0.6, 0.95):
        within, rng, runs = case.mechanism.error(confidence).within, SeededRandom(3), 1000
        missed = sum(case.off(case.mechanism(case.data, rng=rng)) > within for _ in range(runs))
        assert stats.binomtest(missed, runs, 1 - confidence, alternative="greater").pvalue > 1e-9


@pytest.mark.parametrize("mechanism", [m for m in ALL if m.error(0.9)], ids=lambda m: type(m).__name__)
def test_more_confidence_means_more_error(mechanism: Any) -> None:
    errors = [mechanism.error(c).within for c in (0.5, 0.9, 0.99, 1 - 1e-9)]
    assert errors == sorted(errors)
    assert all(math.isfinite(e) and e >= 0 for e in errors)


@named
def test_no_violation_is_found_and_the_twin_with_half_the_noise_is(case: Case) -> None:
    claimed = epsilon(case.mechanism.loss, case.delta).upper

    def audited(mechanism: Any, seed: int) -> float:
        rng = SeededRandom(seed)
        return epsilon_at_least(
            lambda x: case.label(mechanism(x, rng=rng)),
            case.data,
            case.neighbour,
            runs=case.runs,
            delta=case.delta,
        )

    assert audited(case.mechanism, 4) <= claimed
    assert audited(case.twin, 5) > claimed


@pytest.mark.parametrize("m", HOPELESS, ids=lambda m: type(m).__name__)
def test_what_protects_nothing_is_found_at_once(m: Any) -> None:
    assert m.loss == Approximate(0, 1)
    data, neighbour = (
        ([3, 2] + [0] * 6, [3, 4] + [0] * 6) if hasattr(m, "candidates") else ([1, 2, 3], [1, 2, 3, 9, 9])
    )
    rng = SeededRandom(6)
    assert epsilon_at_least(lambda x: str(m(x, rng=rng)).split(",")[0], data, neighbour, runs=2000) > 4
