"""Labels are sold until the account is empty, at the data-independent price, and never for less."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from deniable.accounting import epsilon
from deniable.errors import AccountFrozen, BudgetExceeded, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.learn.pate import ConfidentGNMax, Ensemble, GNMax, NoisyVote, cautionary, teach
from deniable.ledger import Account, Ledger
from deniable.loss import Composed, DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.contract._audit import epsilon_at_least
from tests.learn.pate.worlds import Spy, blobs, given

P = 1e-9
WIDE = Budget(1000, 1e-5)
CONFIDENT = ConfidentGNMax(classes=3, sigma=2, answers=5, threshold=60, sigma_check=3, questions=20)
CLEAR = given([[90, 5, 5], [5, 90, 5], [5, 5, 90], [34, 33, 33]])


def account(limit: Budget = WIDE) -> Account:
    return Ledger.open("sqlite://", analyst="student").create("labels", Unit.row(), limit=limit)


# ------------------------------------------------------------------------------------------------ price


@pytest.mark.parametrize(("answers", "quoted"), [(100, 1.356), (200, 1.993)])
def test_labels_cost_what_the_papers_noise_costs(answers: int, quoted: float) -> None:
    """The figures quoted are for continuous noise; the integer noise's own bracket holds
    them, and its upper end is charged."""
    bound = epsilon(GNMax(classes=10, sigma=40, answers=answers).loss, 1e-5)
    continuous = epsilon(GaussianNoise(40 / math.sqrt(2)) * answers, 1e-5)
    assert quoted == pytest.approx(continuous.upper, abs=6e-4)
    assert bound.lower <= continuous.upper <= bound.upper
    assert continuous.upper <= bound.upper < continuous.upper + 1e-3


@pytest.mark.parametrize("sigma", [1, 2.5])
def test_the_stated_loss_is_the_exact_profile_of_a_moved_vote(sigma: float) -> None:
    """Two counts move by one each: δ(ε) summed over both noises by hand, and compared from one side."""
    n = range(-60, 61)
    with mp.workdps(30):
        weights = [mp.e ** (-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in n]
        p = np.array([w / sum(weights) for w in weights], dtype=float)
    here, there = np.outer(p[1:-1], p[1:-1]), np.outer(p[:-2], p[2:])
    for e in (0.1, 0.5, 1.5):
        delta = float(np.maximum(here - math.exp(e) * there, 0).sum())
        bound = epsilon(GNMax(classes=5, sigma=sigma, answers=1).loss, delta)
        assert bound.upper >= e * (1 - 1e-9)
        assert bound.upper <= e * 1.02 + 0.02


def test_noise_for_a_budget_is_the_least_that_fits() -> None:
    for made in (
        GNMax.for_budget(2, 1e-5, classes=10, answers=100),
        NoisyVote.for_budget(2, 0, classes=10, answers=10),
    ):
        noise = "sigma" if isinstance(made, GNMax) else "scale"
        delta = 1e-5 if isinstance(made, GNMax) else 0
        assert epsilon(made.loss, delta).upper <= 2
        assert epsilon(replace(made, **{noise: 0.995 * float(getattr(made, noise))}).loss, delta).upper > 2


def test_an_aggregator_fills_a_budget_to_the_last_label() -> None:
    full = GNMax(classes=10, sigma=40, answers=1).filling(Budget(2, 1e-5))
    assert epsilon(full.loss, 1e-5).upper <= 2 < epsilon(full.loss_of(full.answers + 1), 1e-5).upper
    assert NoisyVote(classes=10, scale=20, answers=1).filling(Budget(1)).answers == 10


def test_a_laplace_label_costs_two_over_its_scale() -> None:
    vote = NoisyVote(classes=10, scale=20, answers=7)
    assert vote.loss == DiscreteLaplaceNoise(20, 1) * 14
    assert epsilon(vote.loss, 0).upper == pytest.approx(0.7)


def test_a_confident_label_pays_for_its_question_too() -> None:
    assert CONFIDENT.loss == DiscreteGaussianNoise(3, 1, 1) * 20 + DiscreteGaussianNoise(2, 1, 1) * 10


# ------------------------------------------------------------------------------------------------ conversation


def test_labels_are_bought_until_the_account_is_empty() -> None:
    limit = Budget(2, 1e-5)
    book = account(limit)
    most = next(
        k for k in range(1, 500) if not book.preview(GNMax(classes=3, sigma=10, answers=k).loss).fits
    ) - 1  # fmt: skip
    with book.open(GNMax(classes=3, sigma=10, answers=most), CLEAR) as session:
        assert [session.ask(0).value[0] for _ in range(most)] == [0] * most
        with pytest.raises(InvalidQuery, match="has 0 labels left, and 1 were asked for"):
            session.ask(0)
    with pytest.raises(BudgetExceeded):
        book.open(GNMax(classes=3, sigma=10, answers=1), CLEAR)
    assert book.status == "open"


@pytest.mark.parametrize(
    "kind", [GNMax(classes=3, sigma=4, answers=10), NoisyVote(classes=3, scale=4, answers=10)]
)
def test_closing_gives_back_the_labels_that_were_not_sold(kind: Any) -> None:
    one, other = account(), account()
    with one.open(kind, CLEAR) as session:
        session.ask([0, 1])
        session.ask(2)
    with other.open(replace(kind, answers=3), CLEAR) as session:
        session.ask([0, 1, 2])
    assert one.spent() == other.spent()
    assert one.spent().epsilon > 0


def test_a_session_without_a_question_costs_nothing() -> None:
    talk = GNMax(classes=3, sigma=4, answers=10).open(CLEAR, rng=SeededRandom(1))
    assert talk.used == Composed(())


def test_a_batch_beyond_the_limit_sells_nothing() -> None:
    talk = GNMax(classes=3, sigma=4, answers=3).open(CLEAR, rng=SeededRandom(1))
    talk.ask([0, 1])
    with pytest.raises(InvalidQuery, match="has 1 labels left, and 2 were asked for"):
        talk.ask([0, 1])
    assert talk.used == DiscreteGaussianNoise(4, 1, 1) * 4


def test_a_confident_conversation_counts_questions_and_labels_apart() -> None:
    talk = CONFIDENT.open(CLEAR, rng=SeededRandom(2))
    assert talk.ask([0, 3, 1, 3, 3]) == [0, None, 1, None, None]
    assert talk.used == DiscreteGaussianNoise(3, 1, 1) * 5 + DiscreteGaussianNoise(2, 1, 1) * 4


def test_after_the_last_label_nothing_is_checked_or_charged() -> None:
    talk = CONFIDENT.open(CLEAR, rng=SeededRandom(2))
    assert talk.ask([0, 1, 2, 0, 1, 2, 0]) == [0, 1, 2, 0, 1, None, None]
    assert talk.used == CONFIDENT.loss_of(5, 5)
    with pytest.raises(InvalidQuery, match="0 labels left"):
        talk.ask(0)


def test_questions_run_out_too() -> None:
    talk = replace(CONFIDENT, questions=6).open(CLEAR, rng=SeededRandom(2))
    talk.ask([3] * 6)
    with pytest.raises(InvalidQuery, match="0 questions left, and 1 were asked for"):
        talk.ask(3)


# ------------------------------------------------------------------------------------------------ noise


def chances(counts: list[int], sigma: float) -> np.ndarray[Any, Any]:
    """The exact law of the winner: each class by its noise, ties shared, by summing over all values."""
    n = np.arange(-60, 61)  # ten deviations
    p = np.exp(-(n**2) / (2 * sigma**2))
    p /= p.sum()
    grid = np.meshgrid(*[n + c for c in counts], indexing="ij")
    joint = np.einsum("i,j,k->ijk", p, p, p)
    top = np.maximum.reduce(grid)
    ties = sum((g == top).astype(float) for g in grid)
    return np.array([(joint * (g == top) / ties).sum() for g in grid])


@pytest.mark.parametrize(("factor", "agrees"), [(1, True), (0.7, False), (1.3, False)])
def test_the_winner_has_the_law_of_the_noise_that_was_stated(factor: float, agrees: bool) -> None:
    counts, sigma, runs = [10, 6, 3], 6.0, 5_000
    talk = GNMax(classes=3, sigma=sigma * factor, answers=runs).open(given([counts]), rng=SeededRandom(3))
    seen = np.bincount(talk.ask(np.zeros(runs, int)), minlength=3)
    assert (stats.chisquare(seen, runs * chances(counts, sigma)).pvalue > P) == agrees


def test_the_check_has_the_noise_that_was_stated() -> None:
    kind = replace(CONFIDENT, questions=4000, answers=4000, threshold=93)
    said = kind.open(CLEAR, rng=SeededRandom(4)).ask(np.zeros(4000, int))
    p = stats.norm.sf(2.5 / 3)
    assert stats.binomtest(sum(label is not None for label in said), 4000, p).pvalue > P
    assert (
        stats.binomtest(sum(label is not None for label in said), 4000, stats.norm.sf(2.5 / 2.1)).pvalue < P
    )


AUDITED = [
    (GNMax(classes=3, sigma=Fraction(3, 2), answers=1), GNMax(classes=3, sigma=Fraction(1, 3), answers=1)),
    (NoisyVote(classes=3, scale=2, answers=1), NoisyVote(classes=3, scale=Fraction(1, 2), answers=1)),
    (
        ConfidentGNMax(classes=3, sigma=2, answers=1, threshold=3, sigma_check=1, questions=1),
        ConfidentGNMax(
            classes=3, sigma=Fraction(1, 4), answers=1, threshold=3, sigma_check=Fraction(1, 4), questions=1
        ),
    ),
]


@pytest.mark.parametrize(("kind", "twin"), AUDITED, ids=lambda kind: type(kind).__name__)
def test_an_audit_finds_less_noise_and_not_the_honest_one(kind: Any, twin: Any) -> None:
    first, second, rng, delta = given([[3, 2, 0]]), given([[2, 3, 0]]), SeededRandom(5), 0.01

    def run(of: Any) -> Any:
        return lambda ensemble: of.open(ensemble, rng=rng).ask(0)[0]

    claim = epsilon(kind.loss, delta).upper
    assert epsilon_at_least(run(kind), first, second, runs=1000, delta=delta) <= claim
    assert epsilon_at_least(run(twin), first, second, runs=1000, delta=delta) > claim


def test_equal_counts_are_no_ones_favourite() -> None:
    said = GNMax(classes=3, sigma=Fraction(1, 10), answers=3000).open(given([[5, 5, 5]]), rng=SeededRandom(6))
    seen = Counter(said.ask(np.zeros(3000, int)))
    assert stats.chisquare([seen[c] for c in range(3)]).pvalue > P


# ------------------------------------------------------------------------------------------------ the wrong way


def test_noise_after_the_vote_tells_neighbours_apart_and_says_so() -> None:
    wrong = cautionary.NoiseAfterVote(classes=3, scale=1000)
    labels = [
        {wrong.open(given([counts]), rng=SeededRandom(7)).ask(0)[0][0] for _ in range(50)}
        for counts in ([3, 2, 0], [2, 3, 0])
    ]
    assert labels == [{0}, {1}]  # one vote, and every label is another: no noise on the count hides it
    assert epsilon(wrong.loss, 0.5).upper == math.inf
    with pytest.raises(BudgetExceeded):
        account().open(wrong, CLEAR)


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2, 3]],
        replace(CLEAR, unit=Unit.client()),
        replace(CLEAR, classes=4),
        replace(CLEAR, private=False),
    ],
    ids=["no ensemble", "another unit", "other classes", "from a seed"],
)
def test_teachers_that_are_not_what_was_paid_for_freeze_the_account(data: Any) -> None:
    book = account()
    with pytest.raises(AccountFrozen, match="Nothing was released"):
        book.open(GNMax(classes=3, sigma=4, answers=1), data)
    assert book.status == "frozen"


def test_data_may_be_a_function_that_teaches_after_the_charge() -> None:
    x, y = blobs(50)

    def train() -> Ensemble:
        return teach(Spy(), x, y, teachers=5, classes=3)

    book = account()
    with book.open(GNMax(classes=3, sigma=4, answers=1), train) as session:
        assert session.ask(0).value[0] in (0, 1, 2)


def test_a_wrong_question_costs_nothing_and_freezes_nothing() -> None:
    book = account()
    session = book.open(GNMax(classes=3, sigma=4, answers=1), CLEAR)
    with pytest.raises(InvalidQuery, match="number of a question"):
        session.ask(99)
    session.close()
    assert book.status == "open"
    assert book.spent().epsilon == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: GNMax(classes=1, sigma=1, answers=1), "Expected classes=1 to be at least 2"),
        (lambda: GNMax(classes=2, sigma=0, answers=1), "Expected sigma=0 in"),
        (lambda: GNMax(classes=2, sigma=1, answers=0), "Expected answers=0"),
        (lambda: NoisyVote(classes=2, scale=-1, answers=1), "Expected scale=-1 in"),
        (lambda: replace(CONFIDENT, questions=4), "Expected questions=4 to be at least 5"),
        (lambda: replace(CONFIDENT, sigma_check=0), "Expected sigma_check=0"),
        (lambda: GNMax(classes=10, sigma=0.1, answers=1).filling(Budget(1, 1e-5)), "Not even one label"),
        (lambda: GNMax.for_budget(0, 1e-5, classes=10, answers=3), "Expected epsilon=0"),
    ],
)
def test_wrong_parameters_are_refused_before_data_is_seen(make: Any, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        make()
