"""Finite laws are drawn exactly: tables equal to fractions, ties settled, frequencies right and ×0.9
found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from deniable.errors import InvalidParameter
from deniable.local import bits
from deniable.local.law import OPEN, FiniteLaw, byte_of_coins, shift
from deniable.local.odds import truth
from deniable.randomness import Generator, SecureRandom
from tests import chance


class Scripted(Generator):
    """A generator that plays given bytes."""

    private = False

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    def raw(self, n: int) -> NDArray[np.uint8]:
        taken, self.data = self.data[:n], self.data[n:]
        assert len(taken) == n
        return np.frombuffer(taken, np.uint8).copy()


weights = st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any)


@given(weights)
def test_every_cell_of_the_guide_is_right_or_open(parts: list[int]) -> None:
    law = FiniteLaw(tuple(Fraction(p, sum(parts)) for p in parts))
    ends = np.cumsum([0, *parts])
    for cell in np.random.default_rng(0).integers(0, 1 << 16, 50):
        low, high = (Fraction(int(cell) + i, 1 << 16) * sum(parts) for i in (0, 1))
        inside = [i for i in range(len(parts)) if ends[i] <= low and high <= ends[i + 1]]
        assert law._guide[cell] == (inside[0] if inside else OPEN)


def test_a_tie_of_64_bits_is_settled_by_the_next_ones() -> None:
    law = FiniteLaw((Fraction(1, 3), Fraction(2, 3)))
    third = (1 << 64) // 3
    head, tail = (third >> 48).to_bytes(2, "little"), (third & (1 << 48) - 1) << 16
    for later, outcome in ((third - 1, 0), (third + 1, 1), (0, 0), ((1 << 64) - 1, 1)):
        source = Scripted(head + tail.to_bytes(8, "little") + later.to_bytes(8, "little"))
        assert law.draw(source, 1).tolist() == [outcome]
        assert source.data == b""


def test_a_threshold_on_the_grid_belongs_to_the_next_outcome() -> None:
    law = FiniteLaw((Fraction(1, 4), Fraction(3, 4)))
    assert law.draw(Scripted((1 << 14).to_bytes(2, "little")), 1).tolist() == [1]
    assert law.draw(Scripted(((1 << 14) - 1).to_bytes(2, "little")), 1).tolist() == [0]


def misfit(drawn: NDArray[np.uint8], law: FiniteLaw) -> float:
    """The p-value of a chi-square test, outcomes of expectation below 20 joined."""
    seen, expected = (
        np.bincount(drawn, minlength=len(law.weights)),
        np.array([float(w) for w in law.weights]) * len(drawn),
    )
    rare = expected < 20
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    score = ((seen - expected) ** 2 / expected)[expected > 1e-6].sum()
    return float(chi2.sf(score, max((expected > 1e-6).sum() - 1, 1)))


@pytest.mark.parametrize("law", [byte_of_coins(1 - truth(1)), shift(truth(1, 4), 4), shift(truth(3, 16), 16)])
def test_frequencies_are_right_and_nine_tenths_of_them_are_found_wrong(law: FiniteLaw) -> None:
    drawn = law.draw(SecureRandom(), 400_000)
    assert misfit(drawn, law) > 1e-9
    bent = FiniteLaw(
        (law.weights[0] * Fraction(9, 10), law.weights[1] + law.weights[0] / 10, *law.weights[2:])
    )
    assert misfit(drawn, bent) < 1e-9


def test_packed_coins_are_independent_and_leave_spare_bits_empty() -> None:
    rows = bits.coins(SecureRandom(), Fraction(1, 5), 40_000, 13)
    unpacked = np.unpackbits(rows, axis=1)
    assert not unpacked[:, 13:].any()
    ones = unpacked[:, :13].mean(axis=0)
    assert np.all(np.abs(ones - 0.2) < chance.reach(chance.EACH / 13) * np.sqrt(0.16 / 40_000))
    products = np.corrcoef(unpacked[:, :13].T)[np.triu_indices(13, 1)]
    assert np.all(np.abs(products) < chance.reach(chance.EACH / 78) / np.sqrt(40_000))


def test_weights_that_are_no_law_are_refused() -> None:
    for bad in [(), (Fraction(1, 2),), (Fraction(3, 2), Fraction(-1, 2)), (Fraction(1, 300),) * 300]:
        with pytest.raises(InvalidParameter, match="add up to 1"):
            FiniteLaw(bad)


def test_a_foreign_generator_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"generator of deniable\.randomness"):
        FiniteLaw((Fraction(1),)).draw(np.random.default_rng(0), 1)  # type: ignore[arg-type]
