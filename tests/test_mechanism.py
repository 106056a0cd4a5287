from dataclasses import dataclass
from typing import Any

import pytest

from deniable.errors import UnitMismatch
from deniable.loss import Composed, Loss, Pure
from deniable.mechanism import Error, Interactive, Mechanism, Random, Sequentially
from deniable.units import Unit


@dataclass(frozen=True)
class Nothing:
    """Ignores the data: any loss is true of it."""

    unit: Unit = Unit.row()

    @property
    def loss(self) -> Loss:
        return Pure(1)

    def error(self, confidence: float = 0.95) -> Error | None:
        return None

    def __call__(self, data: Any, *, rng: Random) -> int:
        return 0


def test_a_frozen_dataclass_with_loss_unit_error_is_a_mechanism() -> None:
    assert isinstance(Nothing(), Mechanism)
    assert not isinstance(Nothing(), Interactive)
    assert not isinstance(object(), Mechanism)


def test_a_sequence_of_mechanisms_is_a_mechanism_whose_losses_compose() -> None:
    both = Sequentially([Nothing(), Nothing()])
    assert isinstance(both, Mechanism)
    assert both.loss == Composed((Pure(1), Pure(1)))
    assert both(None, rng=None) == (0, 0)  # type: ignore[arg-type]


def test_units_never_mix_in_a_sequence() -> None:
    with pytest.raises(UnitMismatch, match="got 2"):
        Sequentially([Nothing(), Nothing(Unit.row(replace=True))])


def test_an_error_reads_as_a_sentence() -> None:
    assert str(Error(23.03, 0.99999, measure="largest")) == "± 23.03 (largest) with probability 0.99999"
