"""Losses of other tools' runs: dp-accounting both ways, with its own ε as oracle; OpenDP
by the map of real measurements."""

from __future__ import annotations

import math
import pickle
from copy import deepcopy
from fractions import Fraction
from typing import Any

import opendp.prelude as op
import pytest
from dp_accounting import dp_event as ev
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import accounting
from deniable.accounting import dpsgd, from_event, from_opendp, to_event
from deniable.errors import Unaccountable
from deniable.loss import (
    POISSON,
    WITHOUT_REPLACEMENT,
    Allocated,
    Approximate,
    Composed,
    DiscreteLaplaceNoise,
    DrawnSample,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    MixedGaussianNoise,
    NegativeBinomialRuns,
    PoissonRuns,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Silenced,
    UniformlyCappedSample,
    Zcdp,
)
from deniable.units import Relation, Unit
from tests.contract.test_losses import EXAMPLES

PEERS = {
    Relation.ADDED: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACED: NeighboringRelation.REPLACE_ONE,
    Relation.SILENCED: NeighboringRelation.REPLACE_SPECIAL,
}
STEP = ev.PoissonSampledDpEvent(0.05, ev.GaussianDpEvent(1.5))
BOTH: list[tuple[Any, Relation]] = [
    (ev.SelfComposedDpEvent(STEP, 40), Relation.ADDED),
    (ev.SelfComposedDpEvent(STEP, 40), Relation.REPLACED),
    (ev.SelfComposedDpEvent(STEP, 40), Relation.SILENCED),
    (ev.ComposedDpEvent([ev.GaussianDpEvent(3.0), ev.LaplaceDpEvent(5.0)]), Relation.ADDED),
    (ev.SelfComposedDpEvent(ev.DiscreteLaplaceDpEvent(0.5, 2), 3), Relation.ADDED),
    (ev.RandomizedResponseDpEvent(0.4, 3), Relation.REPLACED),
    (ev.MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0], [0.9, 0.1]), Relation.ADDED),
    (
        ev.SelfComposedDpEvent(ev.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 30, 1.0), 5),
        Relation.SILENCED,
    ),
]


@pytest.mark.parametrize(("event", "relation"), BOTH, ids=[f"{type(e).__name__}-{r.name}" for e, r in BOTH])
def test_the_converted_loss_costs_what_dp_accounting_says(event: Any, relation: Relation) -> None:
    peer = pld_privacy_accountant.PLDAccountant(PEERS[relation], 1e-3).compose(event).get_epsilon(1e-5)
    loss = from_event(event, relation)
    bound = accounting.epsilon(loss, 1e-5)
    assert loss.relation in (relation, None)
    assert bound.lower <= peer * (1 + 1e-3) + 1e-9
    assert bound.upper == pytest.approx(peer, rel=2e-2)


def test_samples_of_fixed_size_are_for_replaced_records() -> None:
    event = ev.SampledWithoutReplacementDpEvent(1000, 10, ev.GaussianDpEvent(1.5))
    assert from_event(event, Relation.REPLACED) == Sampled(
        Fraction(1, 100), GaussianNoise(1.5), WITHOUT_REPLACEMENT, replace=True
    )
    drawn = ev.SampledWithReplacementDpEvent(1000, 10, ev.GaussianDpEvent(1.5))
    assert from_event(drawn, Relation.REPLACED) == DrawnSample(10, 1000, GaussianNoise(1.5))
    for relation in (Relation.ADDED, Relation.SILENCED):
        with pytest.raises(Unaccountable, match="no meaning for this relation"):
            from_event(event, relation)


def test_other_events_keep_their_numbers() -> None:
    assert from_event(ev.NoOpDpEvent()) == Composed(())
    assert from_event(ev.ZCDpEvent(0.5)) == Zcdp(0.5)
    best = ev.RepeatAndSelectDpEvent(ev.GaussianDpEvent(2.0), 10.0, math.inf)
    assert from_event(best) == Selected(GaussianNoise(2.0), PoissonRuns(10.0))
    geometric = ev.RepeatAndSelectDpEvent(ev.GaussianDpEvent(2.0), 10.0, 1)
    assert from_event(geometric) == Selected(GaussianNoise(2.0), NegativeBinomialRuns(1, Fraction(1, 10)))


@pytest.mark.parametrize(
    "event",
    [
        ev.NonPrivateDpEvent(),
        ev.UnsupportedDpEvent(),
        ev.ZCDpEvent(0.5, 0.1),
        ev.GaussianDpEvent(0.0),
        ev.RandomizedResponseDpEvent(0.4, 3),
        ev.RepeatAndSelectDpEvent(ev.GaussianDpEvent(2.0), 10.0, 0.5),
        ev.SingleEpochTreeAggregationDpEvent(1.0, [4]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_what_has_no_loss_is_refused(event: Any) -> None:
    with pytest.raises(Unaccountable, match="Nothing was converted"):
        from_event(event)


def test_plain_noise_means_two_things_for_a_replaced_record_and_is_refused() -> None:
    with pytest.raises(Unaccountable, match="more than one"):
        from_event(ev.GaussianDpEvent(2.0), Relation.REPLACED)


LOSSES: list[Loss] = [
    GaussianNoise(4.0).sampled(0.01) * 100,
    GaussianNoise(2.0) + LaplaceNoise(3.0),
    DiscreteLaplaceNoise(2, 3) * 5,
    Zcdp(0.25),
    Zcdp(0.3),
    GaussianNoise(1.3).sampled(0.1) + LaplaceNoise(1.1),
    MixedGaussianNoise(1.5, (0.0, 1.0), (0.9, 0.1)),
    Composed(()),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_losses_survive_the_way_there_and_back(loss: Loss) -> None:
    assert from_event(to_event(loss)) == loss


TENTH, THIRD, HUGE, TINY = Fraction(1, 10), Fraction(1, 3), 10**400, Fraction(1, 10**400)
NUMBERS = st.sampled_from([0.1, 0.3, 4, 4.0, TENTH, THIRD, Fraction(10, 3), Fraction(7, 10**17), HUGE, TINY])
RATES = st.sampled_from([0.1, 1, 1.0, TENTH, THIRD, Fraction(1, 10**17), 1 - Fraction(1, 10**30), TINY])
MIXED = st.builds(
    lambda sigma, a, b, rate: MixedGaussianNoise(sigma, (a, b, 0), (rate, 0, 1 - Fraction(rate))),
    *(NUMBERS, NUMBERS, NUMBERS, RATES),
)
LEAVES = st.one_of(
    *(st.builds(node, NUMBERS) for node in (GaussianNoise, LaplaceNoise, Zcdp)),
    *(st.builds(DiscreteLaplaceNoise, NUMBERS, st.integers(1, 5)), MIXED),
)
WITH_EVENT = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Sampled, RATES, inner),
        st.builds(Repeated, st.integers(1, 9), inner),
        st.lists(inner, max_size=3).map(lambda parts: Composed(tuple(parts))),
    ),
    max_leaves=4,
)


@settings(max_examples=200)
@given(WITH_EVENT, st.booleans())
def test_every_loss_that_has_an_event_is_read_back_digit_for_digit(loss: Loss, silent: bool) -> None:
    if silent:
        loss = Silenced(loss)
    relation = loss.relation or Relation.ADDED
    event = to_event(loss)
    for copy in (event, deepcopy(event), pickle.loads(pickle.dumps(event))):
        again = from_event(copy, relation)
        assert again == loss
        assert again.to_json() == loss.to_json()


HAVE_EVENT = (
    Zcdp,
    LaplaceNoise,
    GaussianNoise,
    DiscreteLaplaceNoise,
    MixedGaussianNoise,
)


def has_event(loss: Loss) -> bool:
    match loss:
        case Repeated() | Composed() | Silenced():
            return all(map(has_event, loss.children))
        case Sampled(_, of, scheme):
            return scheme is POISSON and has_event(of)
        case _:
            return isinstance(loss, HAVE_EVENT)


@pytest.mark.parametrize("node", [node for node in EXAMPLES if isinstance(node, Loss)], ids=str)
def test_a_node_has_an_event_that_is_read_back_or_is_refused(node: Loss) -> None:
    if has_event(node):
        assert from_event(to_event(node), node.relation or Relation.ADDED) == node
    else:
        with pytest.raises(Unaccountable, match="has no event for"):
            to_event(node)


def test_the_doubles_of_an_event_never_state_less_than_the_loss() -> None:
    """What remains of an event in a file: its doubles, without the numbers that they came from."""
    two_thirds = Fraction(2, 3)
    assert Fraction(to_event(GaussianNoise(THIRD)).noise_multiplier) < THIRD
    assert Fraction(to_event(LaplaceNoise(THIRD)).noise_multiplier) < THIRD
    assert Fraction(to_event(Zcdp(two_thirds)).rho) > two_thirds
    assert Fraction(to_event(DiscreteLaplaceNoise(3)).noise_parameter) > THIRD
    sample = to_event(GaussianNoise(2).sampled(two_thirds))
    assert Fraction(sample.sampling_probability) > two_thirds
    bare = ev.PoissonSampledDpEvent(float(sample.sampling_probability), ev.GaussianDpEvent(2.0))
    assert from_event(bare) == GaussianNoise(2).sampled(float(sample.sampling_probability))
    mixed = to_event(MixedGaussianNoise(THIRD, (two_thirds, 0), (two_thirds, THIRD)))
    assert Fraction(mixed.standard_deviation) < THIRD
    assert Fraction(mixed.sensitivities[0]) > two_thirds
    assert Fraction(mixed.sampling_probs[0]) > two_thirds


def test_events_of_silenced_units_and_of_other_nodes() -> None:
    loss = Silenced(GaussianNoise(4.0).sampled(0.01) * 100)
    assert from_event(to_event(loss), Relation.SILENCED) == loss
    for other in (Allocated(10, GaussianNoise(1)), Approximate(1, 1e-6), Pure(1), ResponseNoise(0.75)):
        with pytest.raises(Unaccountable, match="has no event for"):
            to_event(other)
    assert isinstance(from_event(ev.SelfComposedDpEvent(ev.LaplaceDpEvent(2.0), 3)), Repeated)


def test_a_lot_that_is_cut_is_no_event() -> None:
    """dp-accounting cuts uniformly, of a number of records that is known: its event would state too little."""
    runs = [
        dpsgd(1, 8, 64, 100, cap=10),
        dpsgd(1, 8, 64, 100, cap=1, unit=Unit.row(zero_out=True)),
        UniformlyCappedSample(1, 10, 100, GaussianNoise(1)) * 10,  # at δ = 1e-5 12.98 there, 17.85 at least
    ]
    for run in runs:
        with pytest.raises(Unaccountable, match=r"has no event for (Uniformly)?CappedSample.*known exactly"):
            to_event(run)


# ------------------------------------------------------------------------------------------------ OpenDP


def measurement(metric: Any, noise: Any) -> Any:
    op.enable_features("contrib")
    return (op.vector_domain(op.atom_domain(bounds=(0, 10))), metric) >> op.t.then_sum() >> noise


def test_the_map_of_a_measurement_is_read_at_the_distance_of_neighbours() -> None:
    laplace = measurement(op.symmetric_distance(), op.m.then_laplace(scale=20.0))
    assert from_opendp(laplace, Unit.row()) == Pure(0.5)
    assert from_opendp(laplace, Unit.row(replace=True)) == Pure(1.0)
    assert from_opendp(laplace, Unit.column("user", max_rows=3)) == Pure(1.5)
    gaussian = measurement(op.symmetric_distance(), op.m.then_gaussian(scale=20.0))
    assert from_opendp(gaussian, Unit.row()) == Zcdp(0.125)
    fixed = op.c.make_fix_delta(op.c.make_zCDP_to_approxDP(gaussian), 1e-6)
    loss = from_opendp(fixed, Unit.row())
    assert isinstance(loss, Approximate)
    assert loss.delta == 1e-6
    assert loss.epsilon >= accounting.epsilon(GaussianNoise(2), 1e-6).lower


def test_a_measurement_that_says_nothing_about_units_is_refused() -> None:
    op.enable_features("contrib")
    number = op.m.make_laplace(op.atom_domain(T=int), op.absolute_distance(T=int), scale=1.0)
    with pytest.raises(Unaccountable, match="says nothing about"):
        from_opendp(number, Unit.row())
    laplace = measurement(op.symmetric_distance(), op.m.then_laplace(scale=20.0))
    with pytest.raises(Unaccountable, match="says nothing about"):
        from_opendp(laplace, Unit.row(zero_out=True))
    with pytest.raises(Unaccountable, match="max_rows"):
        from_opendp(laplace, Unit.column("user"))
