"""Liars among local reports: what they reach is what the theorem says, and what the defences do."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.attack import poison
from deniable.errors import InvalidParameter
from deniable.local.simulate import protocol
from deniable.randomness import SeededRandom


def test_two_percent_of_liars_make_one_item_larger_than_everything() -> None:
    """Generalised response over 100 answers at ε = 1: from .05 to about 1.2."""
    (each,) = poison.compare(100, 5000, liars=0.02, epsilon=1, protocols=("grr",), rng=SeededRandom(1))
    gain = (
        0.02
        * (1 - float(protocol("grr", 100, 1).q))
        / float(protocol("grr", 100, 1).p - protocol("grr", 100, 1).q)
    )
    assert each.lied - each.honest == pytest.approx(gain, abs=0.1)
    assert gain > 1.1
    assert each.consistent <= 1 < each.lied


@pytest.mark.parametrize("name", poison.PROTOCOLS)
def test_no_liar_goes_beyond_the_bound_and_no_protocol_below_the_least(name: str) -> None:
    (each,) = poison.compare(20, 4000, liars=0.05, epsilon=1, protocols=(name,), rng=SeededRandom(2))
    assert poison.least_reach(1, 0.05) <= each.most
    assert each.lied - each.honest <= each.most
    assert each.lied - each.honest > 0.4 * each.most


def test_the_bound_is_that_of_the_worst_single_report() -> None:
    """By all 2^4 reports of unary encoding, one changed at a time."""
    client = protocol("oue", 4, 1)
    rows = client.reports(np.arange(4000) % 4, rng=SeededRandom(3))
    distinct = np.unique(rows, axis=0)
    shares = [poison._shares(client, row[None])[2] for row in distinct]
    assert len(distinct) == 16
    assert max(shares) - min(shares) == pytest.approx(poison.reach(client, 1.0))


def test_randomized_response_over_two_answers_can_be_moved_least() -> None:
    assert poison.reach(protocol("grr", 2, 1.3), 0.1) == pytest.approx(poison.least_reach(1.3, 0.1))


def test_a_median_of_groups_helps_only_if_liars_come_together() -> None:
    (each,) = poison.compare(20, 20_000, liars=0.04, epsilon=1, protocols=("oue",), rng=SeededRandom(4))
    assert abs(each.median_together - each.honest) < 0.05 < each.median - each.honest


def test_every_lie_is_a_report_that_supports_its_item() -> None:
    client = protocol("olh", 30, 1)
    lies = poison.supporting(client, 7, 50, SeededRandom(5))
    server = client.server()
    assert server.add(lies) == 50
    assert server.estimate().frequencies[7] == pytest.approx(
        (1 - float(client.q)) / float(client.p - client.q)
    )


@pytest.mark.parametrize(
    "wrong", [{"items": 1}, {"users": 10}, {"liars": 0.0}, {"liars": 0.7}, {"protocols": ("cms",)}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        poison.compare(**{"users": 100, **wrong})  # type: ignore[arg-type]
