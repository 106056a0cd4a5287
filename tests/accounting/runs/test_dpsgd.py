"""Training runs from their numbers: every way of making lots, for every relation, against what each must
be."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from deniable import accounting
from deniable.accounting import LotSampling, calibrate, calibrate_noise, dpsgd
from deniable.errors import InvalidParameter, Unaccountable
from deniable.guarantee import Budget
from deniable.loss import (
    POISSON,
    WITHOUT_REPLACEMENT,
    Allocated,
    CappedSample,
    DrawnSample,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Pure,
    Sampled,
    Silenced,
    mismatch,
)
from deniable.units import Unit

ROW, REPLACED, SILENT = Unit.row(), Unit.row(replace=True), Unit.row(zero_out=True)
RATE = Fraction(1, 100)


@pytest.mark.parametrize(
    ("sampling", "unit", "loss"),
    [
        ("poisson", ROW, GaussianNoise(2).sampled(RATE) * 300),
        ("poisson", REPLACED, Sampled(RATE, GaussianNoise(2), POISSON, replace=True) * 300),
        ("poisson", SILENT, Silenced(GaussianNoise(2).sampled(RATE) * 300)),
        (
            "without replacement",
            REPLACED,
            Sampled(RATE, GaussianNoise(1), WITHOUT_REPLACEMENT, replace=True) * 300,
        ),
        ("without replacement", ROW, Sampled(RATE, GaussianNoise(1), WITHOUT_REPLACEMENT) * 300),
        ("with replacement", REPLACED, DrawnSample(10, 1000, GaussianNoise(1)) * 300),
        ("allocation", ROW, Allocated(100, GaussianNoise(2)) * 3),
        ("allocation", SILENT, Silenced(Allocated(100, GaussianNoise(2)) * 3)),
        ("shuffled", REPLACED, GaussianNoise(1) * 3),
    ],
)
def test_each_way_of_making_lots_is_its_own_loss(sampling: str, unit: Unit, loss: Loss) -> None:
    run = dpsgd(2, 10, 1000, 300, sampling=sampling, unit=unit)
    assert run == loss
    assert mismatch(run, unit) is None
    assert accounting.epsilon(run, 1e-6).upper < 1000


@pytest.mark.parametrize(
    ("sampling", "unit"),
    [
        ("with replacement", ROW),
        ("shuffled", ROW),
        ("shuffled", SILENT),
        ("without replacement", SILENT),
        ("allocation", REPLACED),
    ],
)
def test_what_is_not_known_is_refused(sampling: str, unit: Unit) -> None:
    with pytest.raises(Unaccountable, match="No loss is known for a unit that is"):
        dpsgd(2, 10, 1000, 300, sampling=sampling, unit=unit)


def test_a_fixed_lot_is_never_cheaper_than_its_trap() -> None:
    """The noise over the clip is half of the noise over what exchanging a record moves."""
    honest = dpsgd(2, 10, 1000, 300, sampling=LotSampling.WITHOUT_REPLACEMENT, unit=REPLACED)
    trap = Sampled(RATE, GaussianNoise(2), WITHOUT_REPLACEMENT, replace=True) * 300
    assert accounting.epsilon(honest, 1e-6).lower > accounting.epsilon(trap, 1e-6).upper


def test_users_are_drawn_as_one_or_are_groups() -> None:
    user = Unit.column("user", max_rows=4)
    assert dpsgd(2, 10, 1000, 300, unit=user, by="unit") == dpsgd(2, 10, 1000, 300)
    assert dpsgd(2, 10, 1000, 300, unit=user, by="row") == Grouped(4, dpsgd(2, 10, 1000, 300))
    with pytest.raises(InvalidParameter, match='by="unit" or by="row"'):
        dpsgd(2, 10, 1000, 300, unit=user)
    with pytest.raises(InvalidParameter, match="max_rows"):
        dpsgd(2, 10, 1000, 300, unit=Unit.column("user"), by="row")


def test_a_cap_needs_poisson_lots() -> None:
    run = dpsgd(2, 10, 1000, 300, cap=30)
    assert run == CappedSample(RATE, 30, 1000, GaussianNoise(2)) * 300
    assert dpsgd(2, 10, 1000, 300, cap=30, unit=SILENT) == Silenced(run)
    with pytest.raises(InvalidParameter, match="Poisson lots only"):
        dpsgd(2, 10, 1000, 300, cap=30, sampling="allocation")
    with pytest.raises(Unaccountable):
        dpsgd(2, 10, 1000, 300, cap=30, unit=REPLACED)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dpsgd(2, 0, 1000, 300),
        lambda: dpsgd(2, 2000, 1000, 300),
        lambda: dpsgd(2, 10, 1000, 0),
        lambda: dpsgd(2, 10, 1000, 300, cap=0),
        lambda: dpsgd(2, 10, 1000, 301, sampling="allocation"),
        lambda: dpsgd(2, 10, 1000, 300, sampling="bag"),
        lambda: dpsgd(2, 10, 1000, 300, by="people"),
        lambda: dpsgd(2, 10.0, 1000, 300),  # type: ignore[arg-type]
    ],
)
def test_bad_numbers_are_refused(make: Callable[[], Loss]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        make()


def test_noise_is_calibrated_beside_what_was_spent() -> None:
    earlier = GaussianNoise(4).sampled(0.01) * 1000 + Pure(0.2)
    noise = calibrate_noise(3, 1e-5, rate=0.01, steps=1000, spent=earlier)
    alone = calibrate_noise(3, 1e-5, rate=0.01, steps=1000)
    together = earlier + GaussianNoise(noise).sampled(0.01) * 1000
    assert alone < noise
    assert 2.98 < accounting.epsilon(together, 1e-5).upper <= 3
    scale = calibrate(LaplaceNoise, Budget(1, 1e-6), spent=Pure(0.5))
    assert 1.9 < scale <= 2.01
    with pytest.raises(InvalidParameter, match="nothing more fits"):
        calibrate(LaplaceNoise, Budget(1, 1e-6), spent=Pure(2))
