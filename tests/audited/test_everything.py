"""All that is shipped and touches private data is attacked by our own auditor, beside a
twin that it must find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable.audit import Finding, Verdict, audit
from deniable.audit.one_run import independent_mu
from deniable.audit.runs import restart
from deniable.learn.recipes.abadi import PcaNetwork
from deniable.learn.sgd.training.distributed import Distributed
from deniable.learn.sgd.training.steps import TrainingSteps
from deniable.learn.sgd.training.trainer import Trainer
from deniable.learn.sgd.training.walk import Walking
from deniable.loss import Composed
from deniable.randomness import SeededRandom
from tests.audited.catalogue import (
    AUDITED,
    CAUTIONED,
    CLIENTS_WITHOUT_TWIN,
    COMPOSED,
    ELSEWHERE,
    FULL,
    SLOW,
    Audited,
    Cautioned,
    Slow,
    Streamed,
    answers,
    bold,
    shipped,
)
from tests.local.blackbox import lower_bound

MECHANISMS = [one.mechanism for each in (AUDITED, SLOW, CAUTIONED) for one in each]
ATTACKED = {type(each.run if isinstance(each, Streamed) else each) for each in MECHANISMS}
SURE = 1 - 1e-6
"""For each of the honest ones, so that the suite as a whole does not cry wolf."""


@pytest.fixture(autouse=True)
def our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own classes keep no answers and are not started anew in other processes; here they stand behind
    functions, where an audit does not see whose they are. (tests/audit/runs starts targets anew.)"""
    monkeypatch.setattr(restart, "_is_ours", lambda _: True)


def attacked(one: Audited, of: object, confidence: float) -> Finding:
    return audit(
        one.target(of),
        one.pair,
        one.mechanism.loss,
        samples=one.samples,
        seed=0,
        confidence=confidence,
        name=one.name,
        workers=1,
    )


@pytest.mark.parametrize("one", AUDITED, ids=lambda one: one.name)
def test_what_we_ship_stays_within_its_claim(one: Audited) -> None:
    found = attacked(one, one.mechanism, SURE)
    assert found.verdict is not Verdict.VIOLATION, str(found)
    assert found.epsilon >= one.least, f"An audit that sees nothing proves nothing: {found}"


@pytest.mark.parametrize("one", AUDITED, ids=lambda one: one.name)
def test_the_same_audit_finds_a_twin_with_less_noise(one: Audited) -> None:
    found = attacked(replace(one, samples=max(500, one.samples // 2)), one.twin, 0.95)
    assert found.verdict is Verdict.VIOLATION, str(found)


@pytest.mark.parametrize("one", SLOW, ids=lambda one: one.name)
def test_slow_ones_stay_within_their_claim_and_their_twins_do_not(one: Slow) -> None:
    sure, rough = independent_mu(*one.scores(one.mechanism, SeededRandom(1)), alpha=1 - SURE)
    assert sure <= one.mu
    assert rough > 0.3 * one.mu, "An audit that sees nothing proves nothing."
    assert independent_mu(*one.scores(one.twin, SeededRandom(2)), alpha=0.05)[0] > one.mu


@pytest.mark.parametrize("one", CLIENTS_WITHOUT_TWIN, ids=lambda one: type(one[0]).__name__)
def test_clients_that_report_at_three_times_their_epsilon_are_found(one: tuple[Any, ...]) -> None:
    """Clients of which tests/local has no broken twin; that they keep their claim is tested there."""
    client, first, second, outcome, _ = one
    assert lower_bound(bold(client), first, second, outcome, reports=60_000) > float(client.epsilon)


@pytest.mark.parametrize("one", CAUTIONED, ids=lambda one: one.name)
def test_what_is_shipped_as_a_warning_breaks_what_one_might_believe(one: Cautioned) -> None:
    found = audit(
        one.target(), one.pair, one.believed, seed=0, samples=one.samples, confidence=0.999, workers=1
    )
    assert found.verdict is Verdict.VIOLATION, str(found)


def test_nothing_that_is_shipped_goes_without_an_audit() -> None:
    """A new class with a loss that answers about data is added to the catalogue, or this fails."""
    audited = ATTACKED | ELSEWHERE.keys() | COMPOSED.keys()
    missing = {f"{found.__module__}.{found.__qualname__}" for found in shipped() if found not in audited}
    assert missing == set(), "Attack these in tests/audited/catalogue.py."


def test_the_catalogue_names_only_what_is_there() -> None:
    known = set(shipped())
    assert known >= ATTACKED
    assert COMPOSED.keys() <= known
    assert all(set(parts) <= known for parts in COMPOSED.values())
    assert all(Path(file).exists() for file in ELSEWHERE.values())


def test_a_class_that_states_a_loss_and_answers_is_noticed() -> None:
    class Planted:
        loss = None

        def __call__(self, data: object) -> object:
            return data

    class Harmless:
        loss = None

    assert answers(Planted)
    assert not answers(Harmless)


def test_compositions_state_the_sum_of_what_they_run() -> None:
    made = PcaNetwork(n=600, lot=60, epochs=1, hidden=4)
    assert made.pca is not None
    assert made.loss == Composed((made.pca.loss, made.training.loss))
    assert (
        Distributed(FULL).loss
        == TrainingSteps(FULL, Trainer.with_copy).loss
        == Walking(FULL).loss
        == FULL.loss
    )
