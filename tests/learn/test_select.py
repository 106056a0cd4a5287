"""Private selection: the number of runs has its law, the best is shown, and the loss is that of the
search."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter, UnitMismatch
from deniable.guarantee import Budget
from deniable.learn.select import Selection, draw_runs
from deniable.ledger import Ledger
from deniable.loss import GaussianNoise, Loss, NegativeBinomialRuns, PoissonRuns, Pure, Selected
from deniable.mechanisms import Laplace, RandomizedResponse
from deniable.randomness import SeededRandom
from deniable.units import Unit

P = 1e-9
DRAWS = 1_500
SEARCH = NegativeBinomialRuns(eta=1, gamma=0.2)


def negative_binomial(eta: float, gamma: float, top: int) -> np.ndarray[Any, Any]:
    weights = [(1 - gamma) ** k * math.prod((l + eta) / (l + 1) for l in range(1, k)) for k in range(1, 400)]
    law = np.array([0.0, *weights]) / sum(weights)
    return np.array([*law[:top], law[top:].sum()])


@dataclass(frozen=True)
class Count:
    """Says how many runs there were before it; the data are a list that each run makes longer."""

    loss: Loss = Pure(0)
    unit: Unit = field(default_factory=Unit.row)

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: list[int], *, rng: Any) -> int:
        data.append(len(data))
        return data[-1]


def first_or_last(choose: Selection[int], rng: SeededRandom) -> str:
    runs: list[int] = []
    chosen = choose(runs, rng=rng)
    assert chosen is not None
    return (
        "first"
        if 2 * chosen.value < len(runs) - 1
        else "last"
        if 2 * chosen.value > len(runs) - 1
        else "middle"
    )


LAWS = [
    (NegativeBinomialRuns(1, 0.3), negative_binomial(1, 0.3, 12)),
    (NegativeBinomialRuns(0, 0.2), negative_binomial(0, 0.2, 8)),
    (NegativeBinomialRuns(Fraction(1, 2), 0.2), negative_binomial(0.5, 0.2, 12)),
    (NegativeBinomialRuns(-0.5, 0.2), negative_binomial(-0.5, 0.2, 6)),
    (PoissonRuns(2.3), np.array([*stats.poisson.pmf(range(8), 2.3), stats.poisson.sf(7, 2.3)])),
    (PoissonRuns(0.4), np.array([*stats.poisson.pmf(range(4), 0.4), stats.poisson.sf(3, 0.4)])),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("runs", "law"), LAWS, ids=lambda x: str(x) if not isinstance(x, np.ndarray) else "")
def test_the_number_of_runs_has_the_law_it_states(runs: Any, law: np.ndarray[Any, Any]) -> None:
    rng, top = SeededRandom(3), len(law) - 1
    seen = np.bincount([min(top, draw_runs(runs, rng)) for _ in range(DRAWS)], minlength=len(law))
    possible = law > 0
    assert not seen[~possible].any()
    assert stats.chisquare(seen[possible], DRAWS * law[possible]).pvalue > P


@pytest.mark.parametrize(("runs", "law"), LAWS[:1] + LAWS[4:5], ids=["geometric", "poisson"])
def test_another_law_would_be_noticed(runs: Any, law: np.ndarray[Any, Any]) -> None:
    other = NegativeBinomialRuns(1, 0.2) if isinstance(runs, NegativeBinomialRuns) else PoissonRuns(2.8)
    rng, top, possible = SeededRandom(3), len(law) - 1, law > 0
    seen = np.bincount([min(top, draw_runs(other, rng)) for _ in range(DRAWS)], minlength=len(law))
    assert stats.chisquare(seen[possible], DRAWS * law[possible]).pvalue < P


def test_the_best_of_all_runs_is_shown() -> None:
    """The best of K runs with P(one run < j) = u has P(best < j) = E[u^K] = γu/(1 − (1 − γ)u)."""
    answers = RandomizedResponse(Fraction(1, 4), tuple(range(5)))
    choose, rng = Selection((answers,), score=float, runs=SEARCH), SeededRandom(5)
    found = Counter(chosen.value for _ in range(800) if (chosen := choose(4, rng=rng)) is not None)
    below = [0.2 * u / (1 - 0.8 * u) for u in (0, 3 / 16, 6 / 16, 9 / 16, 12 / 16, 1)]
    assert stats.chisquare([found[j] for j in range(5)], 800 * np.diff(below)).pvalue > P


def test_equal_scores_are_ordered_at_random() -> None:
    choose, rng = (
        Selection((Count(),), score=lambda _: 1.0, runs=NegativeBinomialRuns(1, 0.05)),
        SeededRandom(6),
    )
    found = Counter(first_or_last(choose, rng) for _ in range(600))
    assert stats.binomtest(found["first"], found["first"] + found["last"]).pvalue > P


def test_each_candidate_has_its_chance_and_is_named() -> None:
    choose, rng = (
        Selection((Laplace(2), Laplace(2), Laplace(2)), score=lambda _: 0.0, runs=SEARCH),
        SeededRandom(7),
    )
    found = Counter(chosen.candidate for _ in range(1000) if (chosen := choose(0, rng=rng)) is not None)
    assert stats.chisquare([found[i] for i in range(3)]).pvalue > P


def test_a_failing_or_missing_score_is_the_worst() -> None:
    def score(answer: int) -> float:
        if answer < 0:
            raise ValueError(answer)
        return math.nan if answer > 5 else answer

    choose, rng = Selection((Laplace(3),), score=score, runs=NegativeBinomialRuns(1, 0.05)), SeededRandom(8)
    chosen = [choose(0, rng=rng) for _ in range(50)]
    assert all(
        one is not None and one.value <= 5 for one in chosen if one is not None and one.score > -math.inf
    )
    assert sum(one is not None and one.score == 5 for one in chosen) > 5


def test_there_may_be_no_run_at_all() -> None:
    choose, rng = Selection((Laplace(1),), score=float, runs=PoissonRuns(0.1)), SeededRandom(9)
    none = sum(choose(0, rng=rng) is None for _ in range(1000))
    assert stats.binomtest(none, 1000, math.exp(-0.1)).pvalue > P


def test_the_search_is_charged_and_not_one_run() -> None:
    account = Ledger.open("sqlite://", analyst="ada").create("tuning", Unit.row(), limit=Budget(10))
    release = account.run(Selection((Laplace(10), Laplace(10)), score=float, runs=SEARCH), 100)
    assert release.loss == Selected(Laplace(10).loss, SEARCH)
    grown, gamma = math.exp(0.1), float(SEARCH.gamma)
    searched = 0.1 + 2 * math.log(
        (grown + gamma) / (1 + gamma * grown)
    )  # docs/theory/methods.md; at most (2 + η)·ε
    assert account.spent().epsilon == pytest.approx(searched)
    assert epsilon(release.loss, 0).upper >= 2 * epsilon(Laplace(10).loss, 0).upper


def test_an_audit_of_the_best_of_many_stays_below_the_loss() -> None:
    """Randomized response of ε = 1 searched with geometric runs: the true ratio of
    P(best = yes) lies under (2 + η)ε = 3."""
    response = RandomizedResponse.for_budget(1)
    choose, rng = Selection((response,), score=float, runs=NegativeBinomialRuns(1, 0.1)), SeededRandom(10)
    no = [
        sum(choose(truth, rng=rng).value is False for _ in range(400))  # type: ignore[union-attr]
        for truth in (True, False)
    ]
    q = 1 / (1 + math.e)
    exact = [0.1 * u / (1 - 0.9 * u) for u in (q, 1 - q)]
    assert all(stats.binomtest(count, 400, p).pvalue > P for count, p in zip(no, exact, strict=True))
    assert (
        1 < math.log(exact[1] / exact[0]) <= epsilon(Selected(Pure(1), NegativeBinomialRuns(1, 0.1)), 0).upper
    )


@pytest.mark.parametrize("runs", [runs for runs, _ in LAWS[:4]])
@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_the_loss_is_never_below_the_exact_profile_of_the_best_of_many(runs: Any, sigma: float) -> None:
    """The largest of K Gaussian answers has the density g′(F)·f, g the generating
    function of K: integrated, for both sides."""
    chance = negative_binomial(float(runs.eta), float(runs.gamma), 300)[1:]
    at = np.linspace(-10 * sigma, 10 * sigma + 1, 50_001)
    here, there = (
        np.polynomial.polynomial.polyval(
            stats.norm.cdf(at, mean, sigma), chance * np.arange(1, len(chance) + 1)
        )
        * stats.norm.pdf(at, mean, sigma)
        for mean in (0.0, 1.0)
    )
    bound = epsilon(Selected(GaussianNoise(sigma), runs), 1e-5).upper
    missed = max(
        float(np.maximum(p - math.exp(bound) * q, 0).sum()) for p, q in ((here, there), (there, here))
    )
    seen = max(
        float(np.maximum(p - math.exp(epsilon(GaussianNoise(sigma), 1e-5).upper) * q, 0).sum())
        for p, q in ((here, there), (there, here))
    )
    assert missed * (at[1] - at[0]) <= 1e-5
    assert seen * (at[1] - at[0]) > 1e-5  # the price of one run would be too low


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"candidates": ()}, InvalidParameter, "list with something in it"),
        ({"candidates": (Laplace(1), Laplace(2))}, InvalidParameter, "candidates of one loss"),
        (
            {"candidates": (Laplace(1), Laplace(1, unit=Unit.client()))},
            UnitMismatch,
            "candidates of one unit, got 2",
        ),
        ({"runs": 20}, InvalidParameter, "a number drawn at random"),
        ({"runs": NegativeBinomialRuns(2, 0.1)}, InvalidParameter, "Expected eta=2 in"),
        ({"score": 3}, InvalidParameter, "function of a candidate's output"),
    ],
)
def test_what_has_no_stated_cost_is_refused(wrong: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Selection(**({"candidates": (Laplace(1),), "score": float, "runs": SEARCH} | wrong))
