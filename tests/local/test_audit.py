"""Every client is attacked as a black box, and its broken twin is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable.local import (
    Client,
    CountMeanSketch,
    Duchi,
    FastLocalHashing,
    FragmentPuzzle,
    GeneralisedResponse,
    HadamardResponse,
    HadamardSketch,
    Hybrid,
    LocalHashing,
    OptimisedUnary,
    Piecewise,
    PrefixTree,
    PrivUnit,
    Ranges,
    Rappor,
    Split,
    SubsetSelection,
    SurveyCoin,
    SymmetricUnary,
)
from deniable.local import bits as packed_bits
from deniable.local.arrays import Bytes, Floats, Words
from deniable.local.hashing import digests
from deniable.local.numeric.vectors import directions
from deniable.local.open_domains.words import spell
from deniable.local.protocol import unpack
from deniable.mechanism import Random
from tests.local.blackbox import Outcome, lower_bound, whole_payload


def bits_of_two(client: CountMeanSketch, first: str, second: str, start: int = 0) -> Outcome:
    """The bits of a sketch's row at the places of two items, under the function that the report names."""
    names = digests([first, second], client.key)

    def outcome(payloads: NDArray[np.uint8]) -> NDArray[np.int64]:
        rows = payloads[:, start : start + client.payload]
        function = unpack(rows[:, :2])
        told = [
            packed_bits.read(
                rows[:, 2:], client.family.hash_each(function, np.full(len(rows), name, np.uint64))
            )
            for name in names
        ]
        return told[0] * 2 + told[1]

    return outcome


def pieces_of_two(client: FragmentPuzzle, first: str, second: str) -> Outcome:
    """The bits of both sketches at the places of two words and of their fragments."""
    spelled, (fragments, whole) = spell([first, second], client.length), client.sketches

    def outcome(payloads: NDArray[np.uint8]) -> NDArray[np.int64]:
        position, told = payloads[:, 0].astype(np.int64), np.zeros(len(payloads), np.int64)
        for sketch, start in ((fragments, 1), (whole, 1 + fragments.payload)):
            rows = payloads[:, start : start + sketch.payload]
            for word in spelled:
                words = np.full(len(rows), word, np.uint64)
                items = client.piece(words, position) if sketch is fragments else words
                place = sketch.family.hash_each(unpack(rows[:, :2]), items)
                told = told * 2 + packed_bits.read(rows[:, 2:], place)
        return told

    return outcome


def nearness(client: PrivUnit, x: Floats) -> Outcome:
    """How far the reported direction lies along x, in 64 steps."""
    unit = np.append(x, 0.0)

    def outcome(payloads: NDArray[np.uint8]) -> NDArray[np.int64]:
        seeds = np.ascontiguousarray(payloads[:, :8]).view("<u8").reshape(-1).astype(np.uint64)
        return np.floor((1 + directions(seeds, unpack(payloads[:, 8:]), len(unit)) @ unit) * 31.9).astype(
            np.int64
        )

    return outcome


SKETCH = CountMeanSketch(1, hashes=8, width=16)
PUZZLE = FragmentPuzzle(1, 1, length=4, hashes=8, width=16)
VECTOR = np.array([1.0, 0.0])

HONEST: list[tuple[Client[Any], Any, Any, Outcome, float]] = [
    (GeneralisedResponse(4, 1), 0, 1, whole_payload, 0.72),
    (SurveyCoin(), 0, 1, whole_payload, 0.79),
    (SymmetricUnary(4, 1), 0, 1, whole_payload, 0.68),
    (OptimisedUnary(4, 1), 0, 1, whole_payload, 0.68),
    (LocalHashing(4, 1), 0, 1, whole_payload, 0.68),
    (FastLocalHashing(1, functions=16), "a", "b", whole_payload, 0.68),
    (HadamardResponse(4, 1), 0, 1, whole_payload, 0.72),
    (SubsetSelection(6, 1), 0, 1, whole_payload, 0.68),
    (Rappor(width=8, cohorts=1, hashes=1), "a", "d", lambda p: p[:, 2].astype(np.int64), 0.32),
    (SKETCH, "a", "b", bits_of_two(SKETCH, "a", "b"), 0.6),
    (HadamardSketch(1, hashes=8, width=16), "a", "b", whole_payload, 0.68),
    (PUZZLE, "ab", "cd", pieces_of_two(PUZZLE, "ab", "cd"), 0.96),
    (Duchi(1), 1.0, -1.0, whole_payload, 0.76),
    (Piecewise(1), 1.0, -1.0, lambda p: unpack(p) // 16, 0.72),
    (Hybrid(1), 1.0, -1.0, lambda p: np.where(unpack(p) < 4096, unpack(p) // 16, unpack(p) - 3000), 0.72),
    (Ranges(4, 1, fanout=2), 0, 3, whole_payload, 0.68),
    (PrefixTree(8, 1, start=4, step=4, functions=8), 0, 255, whole_payload, 0.55),
    (Split((GeneralisedResponse(4, 1), Duchi(1))), (0, 1.0), (1, -1.0), whole_payload, 0.72),
    (PrivUnit(2, 1), VECTOR, -VECTOR, nearness(PrivUnit(2, 1), VECTOR), 0.56),
]


def named(client: Client[Any]) -> str:
    return type(client).__name__


@pytest.mark.parametrize(
    ("client", "first", "second", "outcome", "least"), HONEST, ids=[named(c[0]) for c in HONEST]
)
def test_no_client_spends_more_than_it_says_and_the_audit_has_teeth(
    client: Client[Any], first: Any, second: Any, outcome: Outcome, least: float
) -> None:
    found = lower_bound(
        client, first, second, outcome, reports=30_000 if isinstance(client, PrivUnit) else 200_000
    )
    assert least <= found <= float(client.epsilon)


@dataclass(frozen=True)
class ShortNoise(OptimisedUnary):
    """Other bits are 1 half as often as ε asks for."""

    @property
    def q(self) -> Fraction:
        return super().q / 2


@dataclass(frozen=True)
class BoldResponse(GeneralisedResponse):
    """The truth as if there were no other answers."""

    @property
    def p(self) -> Fraction:
        return Fraction(9, 10)


@dataclass(frozen=True)
class SymmetricAtFullEpsilon(SymmetricUnary):
    """Each of two bits spends all of ε instead of half."""

    @property
    def p(self) -> Fraction:
        return Fraction(731, 1000)


@dataclass(frozen=True)
class BoldHashing(LocalHashing):
    @property
    def p(self) -> Fraction:
        return Fraction(3, 4)


@dataclass(frozen=True)
class BoldFastHashing(FastLocalHashing):
    @property
    def p(self) -> Fraction:
        return Fraction(3, 4)


@dataclass(frozen=True)
class BoldHadamard(HadamardResponse):
    @property
    def p(self) -> Fraction:
        return Fraction(9, 10)


@dataclass(frozen=True)
class BoldSubset(SubsetSelection):
    """The true item is in nine sets of ten."""

    @property
    def p(self) -> Fraction:
        return Fraction(9, 10)


@dataclass(frozen=True)
class NeverFlipsSetBits(Rappor):
    """The bug of a library in the field: set bits stay set, so a 0 rules values out and ε = ∞."""

    def _permanent(self, names: Words, rng: Random) -> Bytes:
        rows = super()._permanent(names, rng)
        cohort = unpack(rows[:, :2])
        part = np.ascontiguousarray(rows[:, 2:])
        for i in range(self.hashes):
            packed_bits.write(part, self.places(cohort, names, i), np.ones(len(names), bool))
        rows[:, 2:] = part
        return rows

    def _instant(self, permanent: Bytes, rng: Random) -> Bytes:
        return permanent


@dataclass(frozen=True)
class SketchAtFullEpsilon(CountMeanSketch):
    @property
    def keep_chance(self) -> Fraction:
        return Fraction(731, 1000)


@dataclass(frozen=True)
class BoldSketch(HadamardSketch):
    @property
    def keep_chance(self) -> Fraction:
        return Fraction(9, 10)


@dataclass(frozen=True)
class NoResponse(Duchi):
    """Rounded at random, and that is all."""

    @property
    def p(self) -> Fraction:
        return Fraction(1)


@dataclass(frozen=True)
class BoldPiecewise(Piecewise):
    @property
    def p(self) -> Fraction:
        return Fraction(9, 10)


@dataclass(frozen=True)
class LoosePuzzle(FragmentPuzzle):
    """The position follows the word."""

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        rows = super().encode(inputs, rng)
        rows[:, 0] = (inputs >> np.uint64(10)) & np.uint64(1)
        return rows


@dataclass(frozen=True)
class TellingSplit(Split):
    """The part is not drawn but follows the value."""

    def encode(self, inputs: NDArray[Any], rng: Random) -> Bytes:
        rows = super().encode(inputs, rng)
        rows[:, 0] = np.where(rng.bernoulli(Fraction(9, 10), len(inputs)), inputs["f0"] & 1, rows[:, 0])
        return rows


@dataclass(frozen=True)
class BoldVector(PrivUnit):
    @property
    def p(self) -> Fraction:
        return Fraction(95, 100)


BOLD = SketchAtFullEpsilon(1, hashes=8, width=16)
LOOSE = LoosePuzzle(1, 1, length=4, hashes=8, width=16)

BROKEN: list[tuple[Client[Any], Any, Any, Outcome]] = [
    (BoldResponse(4, 1), 0, 1, whole_payload),
    (SymmetricAtFullEpsilon(4, 1), 0, 1, whole_payload),
    (ShortNoise(4, 1), 0, 1, whole_payload),
    (BoldHashing(4, 1), 0, 1, whole_payload),
    (BoldFastHashing(1, functions=16), "a", "b", whole_payload),
    (BoldHadamard(4, 1), 0, 1, whole_payload),
    (BoldSubset(6, 1), 0, 1, whole_payload),
    (NeverFlipsSetBits(width=8, cohorts=1, hashes=1), "a", "d", lambda p: p[:, 2].astype(np.int64)),
    (BOLD, "a", "b", bits_of_two(BOLD, "a", "b")),
    (BoldSketch(1, hashes=8, width=16), "a", "b", whole_payload),
    (LOOSE, "ab", "ba", lambda p: p[:, 0].astype(np.int64)),
    (NoResponse(1), 1.0, -1.0, whole_payload),
    (BoldPiecewise(1), 1.0, -1.0, lambda p: unpack(p) // 16),
    (TellingSplit((GeneralisedResponse(4, 1), Duchi(1))), (0, 1.0), (1, 1.0), whole_payload),
    (BoldVector(2, 1), VECTOR, -VECTOR, nearness(PrivUnit(2, 1), VECTOR)),
]


@pytest.mark.parametrize(("client", "first", "second", "outcome"), BROKEN, ids=[named(c[0]) for c in BROKEN])
def test_a_broken_twin_is_found(client: Client[Any], first: Any, second: Any, outcome: Outcome) -> None:
    found = lower_bound(
        client, first, second, outcome, reports=30_000 if isinstance(client, PrivUnit) else 200_000
    )
    assert found > float(client.epsilon)


def test_values_that_do_not_differ_are_not_told_apart() -> None:
    make: list[Callable[[], Client[Any]]] = [lambda: LocalHashing(4, 1), lambda: OptimisedUnary(4, 1)]
    for client in make:
        assert lower_bound(client(), 2, 2) < 0.1
