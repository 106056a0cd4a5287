"""Unknown words by the sequence fragment puzzle (Apple 2017, §3.3): fragments that carry
a hash of their word find each other.

Each user draws a position and reports, through one Count Mean Sketch, the two letters there together with an
8-bit hash of the whole word, and through another the word itself. The server asks the first sketch about all
fragments, joins those with one hash to words, and asks the second sketch about these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any, ClassVar

import numpy as np
from scipy import special

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Integers, Words
from deniable.local.hashing import family
from deniable.local.odds import check_whole
from deniable.local.open_domains import words
from deniable.local.open_domains.rappor_decoding import Decoded
from deniable.local.open_domains.sketch import CountMeanSketch
from deniable.local.protocol import Client
from deniable.loss import Number, exact
from deniable.mechanism import Random

PAIR = 2 * words.LETTER
MOST = 4096
"""Words joined for one hash at most."""


@dataclass(frozen=True)
class FragmentPuzzle(Client[Decoded]):
    """Words of `length` letters (longer ones are cut), of which `fragment_epsilon` tells
    a piece and `word_epsilon` the whole.

    Guarantee: ε = fragment_epsilon + word_epsilon, the two reports of one device; the
               position is drawn without looking.
    Wire:      1 byte for the position, then the two sketches' payloads; 263 in all for width 1024.
    """

    fragment_epsilon: Number
    word_epsilon: Number
    length: int = 8
    hashes: int = 64
    width: int = 1024
    key: bytes = b"deniable"
    code: ClassVar[int] = 19

    def __post_init__(self) -> None:
        check_whole("length", self.length, 2, words.LONGEST)
        if self.length % 2:
            raise InvalidParameter(f"Expected length={self.length} to be even. Nothing was drawn.")
        self.sketches  # noqa: B018 (checks their parameters)

    @property
    def epsilon(self) -> Number:  # type: ignore[override]
        return exact(self.fragment_epsilon) + exact(self.word_epsilon)

    @cached_property
    def sketches(self) -> tuple[CountMeanSketch, CountMeanSketch]:
        return (
            CountMeanSketch(self.fragment_epsilon, self.hashes, self.width, self.key + b"/fragment"),
            CountMeanSketch(self.word_epsilon, self.hashes, self.width, self.key + b"/word"),
        )

    @property
    def positions(self) -> int:
        return self.length // 2

    @property
    def payload(self) -> int:
        return 1 + sum(sketch.payload for sketch in self.sketches)

    @property
    def cells(self) -> int:
        return sum(sketch.cells for sketch in self.sketches)

    def inputs(self, values: Any) -> Words:
        return words.spell(values, self.length)

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        fragments, word_sketch = self.sketches
        position = rng.uniform_integers(self.positions, len(inputs))
        piece = fragments.encode(self.piece(inputs, position), rng)
        return np.hstack([position.astype(np.uint8)[:, None], piece, word_sketch.encode(inputs, rng)])

    def piece(self, words: Words, position: Integers) -> Words:
        """Position, hash and two letters as one item of the first sketch."""
        shift = (PAIR * (self.positions - 1 - position)).astype(np.uint64)
        letters = words >> shift & np.uint64((1 << PAIR) - 1)
        place = position.astype(np.uint64) << np.uint64(32)
        return np.asarray(place | self._hash(words) << np.uint64(16) | letters)

    def _hash(self, words: Words) -> Words:
        first = np.zeros(len(words), np.int64)
        return family(self.key + b"/puzzle", 1, 256).hash_each(first, words).astype(np.uint64)

    def valid(self, payloads: Bytes) -> Booleans:
        (fragments, word_sketch), middle = self.sketches, 1 + self.sketches[0].payload
        return np.asarray(
            (payloads[:, 0] < self.positions)
            & fragments.valid(payloads[:, 1:middle])
            & word_sketch.valid(payloads[:, middle:])
        )

    def tally(self, payloads: Bytes) -> Integers:
        (fragments, word_sketch), middle = self.sketches, 1 + self.sketches[0].payload
        return np.concatenate(
            [fragments.tally(payloads[:, 1:middle]), word_sketch.tally(payloads[:, middle:])]
        )

    def estimate(self, counts: Integers, users: int, *question: Any) -> Decoded:
        """The words that were found; the optional question is how many fragments of a position to keep
        (32)."""
        keep = int(question[0]) if question else 32
        first, second = np.split(counts, [self.sketches[0].cells])
        fragments = [self._fragments(first, users, position, keep) for position in range(self.positions)]
        candidates = self._join_fragments(fragments)
        estimate = self.sketches[1].estimate(second, users, candidates)
        p_values = special.ndtr(-estimate.counts / estimate.standard_errors)
        spellings = tuple(words.read(candidates, self.length))
        return Decoded(spellings, estimate.counts, estimate.standard_errors, p_values, users)

    def _fragments(self, counts: Integers, users: int, position: int, keep: int) -> dict[int, list[int]]:
        """The frequent pairs of letters at a position, by the hash of their word."""
        codes = np.arange(len(words.LETTERS), dtype=np.uint64)
        letters = (codes[:, None] << np.uint64(words.LETTER) | codes).ravel()
        hashes = np.arange(256, dtype=np.uint64)
        items = (hashes[:, None] << np.uint64(16) | letters).ravel()
        estimate = self.sketches[0].estimate(counts, users, items | np.uint64(position) << np.uint64(32))
        groups: dict[int, list[int]] = {}
        for item in items[estimate.significant()[:keep]]:
            groups.setdefault(int(item) >> 16, []).append(int(item) & 0xFFFF)
        return groups

    def _join_fragments(self, fragments: list[dict[int, list[int]]]) -> Words:
        """Words made of one fragment from each position, all with one hash, that indeed have this hash."""
        candidates = []
        for value in set.intersection(*(set(position) for position in fragments)):
            for parts in islice(product(*(position[value] for position in fragments)), MOST):
                word = sum(part << PAIR * i for i, part in enumerate(reversed(parts)))
                if int(self._hash(np.array([word], np.uint64))[0]) == value:
                    candidates.append(word)
        return np.array(sorted(candidates), np.uint64)
