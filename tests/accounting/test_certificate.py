"""A certificate checks, and a forged one does not."""

from dataclasses import replace

import pytest

from deniable.accounting import certify, verify
from deniable.errors import InvalidCertificate, UnitMismatch
from deniable.guarantee import Bound, Certificate
from deniable.loss import (
    Allocated,
    CappedSample,
    DrawnSample,
    FiniteOutcomes,
    GaussianNoise,
    Loss,
    Parallel,
    Pure,
    Silenced,
    UniformlyCappedSample,
)
from deniable.units import Unit

LOSS = GaussianNoise(4).sampled(0.01) * 1000
HONEST = certify(LOSS, Unit.column("patient_id", max_rows=4), 1e-5)


def test_an_honest_certificate_is_confirmed_after_json() -> None:
    found = verify(Certificate.from_json(HONEST.to_json()))
    assert found == HONEST.bound


@pytest.mark.parametrize("factor", [0.5, 0.999])
def test_a_claim_below_the_truth_is_found(factor: float) -> None:
    forged = replace(HONEST, bound=Bound(0, HONEST.bound.lower * factor, "numerical"))
    with pytest.raises(InvalidCertificate, match="reaches ε ≥"):
        verify(forged)


def test_a_claim_inside_the_bracket_is_not_confirmed() -> None:
    middle = (HONEST.bound.lower + HONEST.bound.upper) / 2
    with pytest.raises(InvalidCertificate, match="could not be confirmed"):
        verify(replace(HONEST, bound=Bound(0, middle, "numerical")))


def test_a_generous_claim_is_true() -> None:
    assert verify(replace(HONEST, bound=Bound(0, 100, "basic"))).upper < 100


def test_a_claim_to_reach_more_than_the_loss_allows_is_found() -> None:
    with pytest.raises(InvalidCertificate, match="never passes"):
        verify(replace(HONEST, bound=Bound(50, 100, "basic")))


def test_hidden_assumptions_are_found() -> None:
    assert any("secret coin" in line for line in HONEST.assumptions)
    assert any("at most 4 rows" in line for line in HONEST.assumptions)
    with pytest.raises(InvalidCertificate, match="hides an assumption"):
        verify(replace(HONEST, assumptions=HONEST.assumptions[:-1]))


def test_each_certificate_names_what_it_rests_on() -> None:
    assert (
        "All rows of one unit lie in one part."
        in certify(Parallel((Pure(1), Pure(1))), Unit.row(), 0).assumptions
    )


def test_a_loss_for_added_rows_certifies_nothing_about_replaced_ones() -> None:
    with pytest.raises(UnitMismatch, match="stated for a unit that is added or removed"):
        certify(LOSS, Unit.row(replace=True), 1e-5)
    with pytest.raises(InvalidCertificate, match="stated for a unit that is added or removed"):
        verify(replace(HONEST, unit=Unit.row(replace=True)))


def test_a_claim_that_a_cap_is_free_for_a_silent_unit_is_not_confirmed() -> None:
    """As it was certified while the cap was left out."""
    run, silent = Silenced(CappedSample(0.1, 1, 50, GaussianNoise(1)) * 100), Unit.row(zero_out=True)
    honest = certify(run, silent, 1e-5)
    assert verify(honest).upper > 17.17
    with pytest.raises(InvalidCertificate, match="could not be confirmed"):
        verify(replace(honest, bound=Bound(7.0447, 7.0498, "numerical")))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Allocated(10, GaussianNoise(1)), "own secret draw"),
        (CappedSample(0.1, 5, 100, GaussianNoise(1)), "secret coin"),
        (UniformlyCappedSample(0.1, 5, 100, GaussianNoise(1)), "drawn uniformly, in secret"),
        (FiniteOutcomes((0.6, 0.4), (0.4, 0.6)), "dominate"),
        (DrawnSample(2, 20, GaussianNoise(1)), "drawn in secret"),
    ],
)
def test_what_a_batch_takes_for_granted_is_said_and_asked_for(loss: Loss, words: str) -> None:
    unit = Unit.row(replace=True) if loss.replaces else Unit.row()
    claim = certify(loss, unit, 1e-6)
    assert any(words in sentence for sentence in claim.assumptions)
    silent = replace(claim, assumptions=tuple(s for s in claim.assumptions if words not in s))
    with pytest.raises(InvalidCertificate, match="hides an assumption"):
        verify(silent)
