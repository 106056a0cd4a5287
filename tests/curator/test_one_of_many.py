"""One of n queries like it: each gets the noise at which all n use up the total, and no more than n fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from deniable.accounting.methods.gaussian import analytic_sigma
from deniable.curator import Curator
from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.guarantee import Budget
from deniable.loss import DiscreteGaussianNoise
from deniable.randomness import SeededRandom
from deniable.units import Unit

COUNT = "SELECT COUNT(*) AS n FROM t WHERE x > {}"
Open = Callable[..., Curator]


@pytest.fixture
def opened() -> Iterator[Open]:
    curators: list[Curator] = []

    def open_(**changes: Any) -> Curator:
        how = {
            "name": "t",
            "unit": Unit.row(),
            "limit": Budget(1, 1e-6),
            "ledger": "sqlite://",
            "rng": SeededRandom(1),
        }
        curators.append(Curator.open(pa.table({"x": list(range(300))}), **(how | changes)))
        return curators[-1]

    yield open_
    for curator in curators:
        curator.close()


def test_a_hundred_counts_have_the_noise_of_the_tight_bound(opened: Open) -> None:
    """σ of one is at most 1.03 of √100 times that of one release of (1, 1e-6) (Balle, Wang 2018)."""
    curator = opened(purpose="counts")
    answer = curator.plan_for(100).sql(COUNT.format(0))
    assert isinstance(answer.loss, DiscreteGaussianNoise)
    optimum = 10 * analytic_sigma(1.0, 1e-6)
    assert optimum <= float(answer.loss.sigma) <= 1.01 * optimum


def test_a_preview_on_another_account_says_which_one_has_less_noise(opened: Open) -> None:
    """The part it names is that of the two previews' own ±."""
    counts = opened(purpose="counts").plan_for(100).preview(COUNT.format(0))
    mixed = opened().plan_for(100).preview(COUNT.format(0))
    [line] = mixed.shares
    assert counts.shares == ()
    assert 'An account that is opened for this, with purpose="counts", has 0.9' in line
    part = float(line.split("has ")[1].split(" of")[0])
    widths = [float(each.expected["n"].removeprefix("± ")) for each in (counts, mixed)]
    assert part == pytest.approx(widths[0] / widths[1], abs=0.02)
    assert opened().preview(COUNT.format(0), epsilon=0.1).shares == ()


@pytest.mark.parametrize("purpose", ["counts", None])
def test_as_many_fit_as_were_named_and_no_more(opened: Open, purpose: str | None) -> None:
    curator = opened(purpose=purpose)
    board = curator.plan_for(20)
    assert board.preview(COUNT.format(0)).more == 20
    for i in range(20):
        board.sql(COUNT.format(i))
    spent = curator.account.spent()
    assert 0.99 < spent.share <= 1
    assert "Queries like it that fit, this one included: 0." in str(board.preview(COUNT.format(21)))
    with pytest.raises(BudgetExceeded):
        board.sql(COUNT.format(21))


def test_it_is_smaller_than_what_dividing_gives(opened: Open) -> None:
    curator = opened(purpose="counts")
    shared = curator.sql(COUNT.format(0), of=100)
    divided = curator.sql(COUNT.format(1), epsilon=0.01)
    width, other = (a.high.column("n")[0].as_py() - a.low.column("n")[0].as_py() for a in (shared, divided))
    assert width < other / 3


def test_few_get_laplace_noise_where_that_is_smaller(opened: Open) -> None:
    curator = opened()
    answer = curator.sql(COUNT.format(0), of=2, epsilon=1)
    assert (answer.epsilon, answer.delta) == (0.5, 0)


def test_a_total_below_the_limit_is_kept(opened: Open) -> None:
    curator = opened(purpose="counts")
    for i in range(10):
        curator.sql(COUNT.format(i), of=10, epsilon=0.5)
    assert curator.account.spent().epsilon <= 0.5


def test_private_keys_and_results_are_shared_too(opened: Open) -> None:
    curator = opened()
    assert curator.sql("SELECT x, COUNT(*) AS n FROM t GROUP BY x", of=10).epsilon <= 0.1 + 1e-12
    ranked = "SELECT x > 9 AS large, COUNT(*) AS n, RANK() OVER (ORDER BY n) AS r FROM t GROUP BY 1"
    assert curator.preview(ranked, of=30).more == curator.preview(COUNT.format(0), of=30).more


@pytest.mark.parametrize("terms", [{"of": 1}, {"of": True}, {"of": 2.5}, {"of": 10, "within": 5}])
def test_what_means_nothing_is_refused(opened: Open, terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Expected of"):
        opened().sql(COUNT.format(0), **terms)
