"""Whole SQL queries as targets: within their claim on neighbouring tables; less noise
and missing bounds are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest, ks_2samp

from deniable.audit import Endpoint, Finding, Verdict, audit, replay
from deniable.curator import Curator
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger.journal.entries import EntryKind
from deniable.randomness import SeededRandom
from deniable.sql.plan.keys import KeySelection
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import GroupingSet, Plan
from deniable.sql.plan.quantiles import Rank
from deniable.sql.write.contributions import ONE
from deniable.units import Unit

EPSILON, DELTA = 1, 0.01
PERSON = Unit.column("person", max_rows=2)
SURE = 1 - 1e-6


def people(*, guest: bool, rows: int = 30) -> pa.Table:
    """Sixty people with a row or two, and a guest with many rows of the largest value,
    every other one in a rare ward."""
    table = [(i, "a" if i % 2 else "b", i % 5) for i in range(60)] + [(i, "a", 3) for i in range(5)]
    table += [(98, "rare", 5)] * 2
    table += [(99, "rare" if k % 2 else "a", 10) for k in range(rows)] if guest else []
    person, ward, days = zip(*table, strict=True)
    return pa.table({"person": person, "ward": ward, "days": days})


PAIR = people(guest=True), people(guest=False)
WARDS: Mapping[str, list[str]] = {"ward": ["a", "b"]}


def curator(keys: Mapping[str, list[str]] = WARDS, **changes: Any) -> Curator:
    how: dict[str, Any] = {"unit": PERSON, "limit": Budget(3, 0.1), "bounds": {"days": (0, 10)}, "keys": keys}
    return Curator.open({"visits": PAIR[1]}, ledger="sqlite://", **(how | changes))


def endpoint(text: str, keys: Mapping[str, list[str]] = WARDS, pair: Any = PAIR, **terms: Any) -> Endpoint:
    with curator(keys) as opened:
        return Endpoint.of(opened, text, pair, **({"epsilon": EPSILON, "delta": DELTA} | terms))


GROUPS = "SELECT ward, COUNT(*) AS n, SUM(days) AS s FROM visits GROUP BY ward"
# text, public keys, the least that is certified of ε = 1, samples
QUERIES: dict[str, tuple[str, Mapping[str, list[str]], float, int]] = {
    "count": ("SELECT COUNT(*) AS n FROM visits", WARDS, 0.7, 20_000),
    "sum": ("SELECT SUM(days) AS s FROM visits", WARDS, 0.7, 20_000),
    "gaussian": ("SELECT SUM(days) AS s FROM visits", WARDS, 0.25, 20_000),
    "avg": ("SELECT AVG(days) AS d FROM visits", WARDS, 0.7, 20_000),
    "people": ("SELECT COUNT(DISTINCT person) AS n FROM visits", WARDS, 0.7, 20_000),
    "groups": (GROUPS, WARDS, 0.7, 20_000),
    "rollup": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)", WARDS, 0.6, 20_000),
    "median": ("SELECT MEDIAN(days) AS m FROM visits WHERE ward = 'rare'", WARDS, 0.03, 20_000),
    "private keys": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {}, 0.05, 80_000),
}


def built(name: str) -> tuple[Endpoint, float, int]:
    text, keys, least, samples = QUERIES[name]
    return endpoint(text, keys, noise="gaussian" if name == "gaussian" else "auto"), least, samples


def attacked(target: Endpoint, samples: int, confidence: float = SURE) -> Finding:
    return audit(
        target.measured, target.pair, target.claim, samples=samples, seed=0, workers=1, confidence=confidence
    )


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_stays_within_its_claim_and_much_of_it_is_seen(name: str) -> None:
    target, least, samples = built(name)
    found = attacked(target, samples)
    assert found.verdict is Verdict.CONSISTENT, str(found)
    assert least < found.epsilon <= EPSILON


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - {"people"}))
def test_without_contribution_bounds_the_same_audit_finds_the_violation(name: str) -> None:
    target, _, samples = built(name)
    assert attacked(target.unbounded(), samples // 4).verdict is Verdict.VIOLATION


def weaker(part: Noise | Rank) -> Noise | Rank:
    """A third of the noise."""
    return (
        replace(part, scale=part.scale / 3)
        if isinstance(part, Noise)
        else replace(part, epsilon=4 * part.epsilon)
    )


def easier(selection: KeySelection | None) -> KeySelection | None:
    return None if selection is None else replace(selection, delta=30 * selection.delta)


def with_plan(target: Endpoint, change: Callable[[Plan], Plan]) -> Endpoint:
    """The same endpoint with another plan behind the same claim."""
    made = replace(target)
    made.__dict__["plan"] = change(target.plan)
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_with_a_third_of_its_noise_is_found(name: str) -> None:
    target, _, samples = built(name)

    def thinner(plan: Plan) -> Plan:
        def thin(group: GroupingSet) -> GroupingSet:
            measures = tuple(replace(noisy, noise=weaker(noisy.noise)) for noisy in group.measures)
            return replace(group, measures=measures, selection=easier(group.selection))

        return replace(plan, sets=tuple(map(thin, plan.sets)))

    found = attacked(with_plan(target, thinner), samples, confidence=0.95)
    assert found.verdict is Verdict.VIOLATION, str(found)


# ------------------------------------------------------------------------------------------------ whole runs


def test_whole_runs_stay_within_the_claim_and_are_found_without_bounds() -> None:
    target = endpoint("SELECT COUNT(*) AS n FROM visits")
    found = audit(target, target.pair, target.claim, seed=0, samples=800, confidence=SURE)
    assert found.verdict is Verdict.CONSISTENT, str(found)
    wrong = target.unbounded()
    assert audit(wrong, wrong.pair, wrong.claim, seed=0, samples=200).verdict is Verdict.VIOLATION


def test_every_run_is_charged_to_an_account_of_its_own_that_it_fills() -> None:
    target, rng = endpoint(GROUPS), SeededRandom(1)
    for data in (target.first, target.second, target.first):
        target(data, rng=rng)
    accounts = target._ledger.accounts()
    assert [[entry.kind for entry in account.history()] for account in accounts] == [
        [EntryKind.CREATE, EntryKind.RUN]
    ] * 3
    assert all(account.spent().epsilon == pytest.approx(EPSILON) for account in accounts)
    assert all(account.limit.epsilon == pytest.approx(EPSILON) for account in accounts)


def test_the_fast_form_draws_what_whole_runs_release() -> None:
    """The released count, two ways: through the account as an answer, and as an integer on its grid."""
    target, rng = endpoint("SELECT COUNT(*) AS n FROM visits"), SeededRandom(2)
    whole = np.array([target(target.first, rng=rng)["n"][0].as_py() for _ in range(600)], float)
    measure = target.plan.sets[0].measures[0].noise
    assert isinstance(measure, Noise)
    [integers] = target.measured.draws.first.integers()
    exactly = integers.parts[0][()]
    drawn = target.measured.draw(target.first, 60_000, np.random.default_rng(3))[:, 0] * float(measure.scale)
    fast = np.round((drawn + exactly) / ONE)
    assert ks_2samp(np.round(whole), fast).pvalue > 1e-9
    assert ks_2samp(np.round(whole), np.round((drawn / 3 + exactly) / ONE)).pvalue < 1e-9


def test_private_keys_are_released_as_often_as_the_selection_says() -> None:
    """The same share of runs shows the rare ward in both forms, which is that of its
    number of people, and of no key unseen."""
    text, keys, _, _ = QUERIES["private keys"]
    target, rng = endpoint(text, keys), SeededRandom(5)
    selection = target.plan.sets[0].selection
    assert selection is not None
    drawn = target.measured.draw(target.first, 40_000, np.random.default_rng(1))
    places = {key: 2 * i for i, key in enumerate(target.measured.draws.keys(0))}
    shown = int(drawn[:, places[("rare",)]].sum())
    assert binomtest(shown, 40_000, float(selection.probability(2))).pvalue > 1e-9
    assert np.isnan(drawn[:, places[("rare",)] + 1]).sum() == 40_000 - shown
    whole = sum("rare" in target(target.first, rng=rng)["ward"].to_pylist() for _ in range(400))
    assert binomtest(whole, 400, float(selection.probability(2))).pvalue > 1e-9


def test_private_bounds_are_audited_as_whole_runs() -> None:
    with curator(unit=Unit.column("person"), bounds={}) as opened:
        target = Endpoint.of(opened, "SELECT SUM(days) AS s FROM visits", PAIR, epsilon=1, discover=True)
    with pytest.raises(InvalidParameter, match="audit the endpoint itself"):
        _ = target.measured
    assert audit(target, target.pair, target.claim, seed=0, samples=400).verdict is not Verdict.VIOLATION


def test_a_finding_on_an_endpoint_replays_from_its_json() -> None:
    target = endpoint(GROUPS)
    found = attacked(target, 4000)
    again = replay(Finding.from_json(found.to_json()), target.measured)
    assert again.witness is not None
    assert found.witness is not None
    assert (again.witness.right, again.witness.wrong) == (found.witness.right, found.witness.wrong)


def test_the_curator_that_is_asked_pays_nothing() -> None:
    with curator() as opened:
        target = Endpoint.of(opened, "SELECT COUNT(*) AS n FROM visits", PAIR, epsilon=1)
        target(target.first, rng=SeededRandom(1))
        assert opened.account.spent().epsilon == 0


# ------------------------------------------------------------------------------------------------ refusals


def test_tables_that_are_no_neighbours_are_refused() -> None:
    two = pa.concat_tables([PAIR[0], pa.table({"person": [100], "ward": ["a"], "days": [1]})])
    with pytest.raises(InvalidParameter, match='"two tables visits" is not a pair of neighbours'):
        endpoint("SELECT COUNT(*) AS n FROM visits", pair=(two, PAIR[1]))


def test_another_table_and_other_things_are_refused() -> None:
    target = endpoint("SELECT COUNT(*) AS n FROM visits")
    with pytest.raises(InvalidParameter, match="knows its own two tables only"):
        target(people(guest=True, rows=3), rng=SeededRandom(1))
    with pytest.raises(InvalidParameter, match="Expected an Arrow table or columns by name, got int"):
        endpoint("SELECT COUNT(*) AS n FROM visits", pair=(1, 2))


def test_which_of_several_private_tables_differs_must_be_said() -> None:
    with Curator.open(
        {"visits": PAIR[1], "more": PAIR[1]}, unit=PERSON, limit=Budget(3), ledger="sqlite://"
    ) as both:
        with pytest.raises(InvalidParameter, match="which of 2 private tables differs"):
            Endpoint.of(both, "SELECT COUNT(*) AS n FROM visits", PAIR, epsilon=1)
        named = Endpoint.of(
            both,
            "SELECT COUNT(*) AS n FROM visits",
            PAIR,
            epsilon=1,
            table="visits",
            public_tables={"more": PAIR[1]},
        )
    assert attacked(named, 4000).verdict is Verdict.CONSISTENT


def test_a_long_query_is_named_in_short() -> None:
    target = endpoint(
        "SELECT COUNT(*) AS n\n FROM visits WHERE days > 1 AND days > 2 AND days > 3 AND days < 9"
    )
    assert target.name.startswith("SELECT COUNT(*) AS n FROM visits WHERE")
    assert len(target.name) == 60
