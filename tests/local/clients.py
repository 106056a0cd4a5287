"""One of every client, with values to report."""

from __future__ import annotations

from typing import Any

import numpy as np

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

WORDS = ["red", "green", "blue", "grey"]
NUMBERS = [0, 1, 2, 3]

EVERY: list[tuple[Client[Any], Any, tuple[Any, ...]]] = [
    (GeneralisedResponse(1000, 1), NUMBERS, ()),
    (SurveyCoin(), [0, 1, 1, 0], ()),
    (SymmetricUnary(13, 1), NUMBERS, ()),
    (OptimisedUnary(1024, 1), NUMBERS, ()),
    (LocalHashing(1000, 1), NUMBERS, ()),
    (FastLocalHashing(2, functions=64), WORDS, (WORDS,)),
    (HadamardResponse(1000, 1), NUMBERS, ()),
    (SubsetSelection(21, 1), NUMBERS, ()),
    (Rappor(cohorts=4), WORDS, (WORDS,)),
    (CountMeanSketch(1, hashes=8, width=64), WORDS, (WORDS,)),
    (HadamardSketch(1, hashes=8, width=64), WORDS, (WORDS,)),
    (FragmentPuzzle(2, 2, hashes=8, width=64), WORDS, ()),
    (Duchi(1), [0.5, -0.5, 0.0, 1.0], ()),
    (Piecewise(1), [0.5, -0.5, 0.0, 1.0], ()),
    (Hybrid(1), [0.5, -0.5, 0.0, 1.0], ()),
    (PrivUnit(3, 1), [np.array([0.5, 0.5, 0.0])] * 4, ()),
    (Ranges(100, 1), NUMBERS, ()),
    (PrefixTree(16, 1, start=8, step=4, functions=64), NUMBERS, ()),
    (Split((GeneralisedResponse(4, 1), Duchi(1))), [(0, 0.5), (1, 0.25), (2, 0.0), (3, 1.0)], ()),
]
IDS = [type(client).__name__ for client, _, _ in EVERY]
