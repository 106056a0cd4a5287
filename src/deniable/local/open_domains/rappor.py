"""RAPPOR (Erlingsson, Pihur, Korolova 2014): a Bloom filter in cohorts, a permanent and
an instantaneous response.

    value ─hash→ bits B ─turned over with probability f/2→ B' (kept for ever) ─1 with probability q or p→
    report S

B' is drawn once for a value and kept; each report draws S afresh from B'. Decoding is in `rappor_decoding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local import bits
from deniable.local.arrays import Booleans, Bytes, Integers, Words
from deniable.local.hashing import digests, family
from deniable.local.odds import check_whole, log_ratio
from deniable.local.open_domains.fast_hashing import question_items
from deniable.local.open_domains.rappor_decoding import Decoded, decode
from deniable.local.protocol import HEADER, Client, pack, unpack
from deniable.loss import Loss, Number, Pure, exact
from deniable.mechanism import Random


@dataclass(frozen=True)
class Rappor(Client[Decoded]):
    """Bloom filters of `width` bits and `hashes` functions, which differ between
    `cohorts` chosen at random by the devices.

    Guarantee: two values differ in at most 2·hashes bits of B, half of them 1 in one and half in the other,
               so one report:    ε = hashes·ln(q*(1 − p*)/(p*(1 − q*))), with q* = P(S = 1 | B = 1) = q − (q −
               p)f/2 and p* = P(S = 1 | B = 0) = p + (q − p)f/2; all of a memo: ε = 2·hashes·ln((1 −
               f/2)/(f/2)), however often one value is reported.
    Assumes:   one value behind a memo. A device whose value changes needs a memo for
               each period: see `ReportingDevice`.
    Wire:      2 bytes for the cohort, width/8 for the filter; 20 in all for width 128.
    """

    f: Number = 0.5
    p: Number = 0.5
    q: Number = 0.75
    width: int = 128
    hashes: int = 2
    cohorts: int = 64
    key: bytes = b"deniable"
    code: ClassVar[int] = 11

    def __post_init__(self) -> None:
        check_whole("width", self.width, 8, 1 << 16)
        check_whole("hashes", self.hashes, 1, 16)
        check_whole("cohorts", self.cohorts, 1, 1 << 16)
        if self.width & (self.width - 1):
            raise InvalidParameter(f"Expected width={self.width} to be a power of two. Nothing was drawn.")
        if not 0 < exact(self.f) < 1:
            raise InvalidParameter(
                f"Expected f={self.f!r} in (0, 1): without it no permanent bit is noisy. Nothing was drawn."
            )
        if not 0 <= exact(self.p) < exact(self.q) <= 1:
            raise InvalidParameter(
                f"Expected p={self.p!r} and q={self.q!r} with 0 ≤ p < q ≤ 1. Nothing was drawn."
            )

    # ---------------------------------------------------------------------------------------------- loss

    @property
    def flip_chance(self) -> Fraction:
        """f/2, the chance that a permanent bit is turned over."""
        return exact(self.f) / 2

    @property
    def q_star(self) -> Fraction:
        return exact(self.q) - (exact(self.q) - exact(self.p)) * self.flip_chance

    @property
    def p_star(self) -> Fraction:
        return exact(self.p) + (exact(self.q) - exact(self.p)) * self.flip_chance

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """ε of one report."""
        q, p = self.q_star, self.p_star
        return log_ratio(q * (1 - p) / (p * (1 - q)), self.hashes)

    @property
    def memo_epsilon(self) -> float:
        """ε of all reports of one memo."""
        return log_ratio((1 - self.flip_chance) / self.flip_chance, 2 * self.hashes)

    @property
    def memo_loss(self) -> Loss:
        return Pure(self.memo_epsilon)

    # ---------------------------------------------------------------------------------------------- client

    @property
    def payload(self) -> int:
        return 2 + self.width // 8

    @property
    def cells(self) -> int:
        return self.cohorts * (self.width + 1)

    def inputs(self, values: Any) -> Words:
        return digests(values, self.key)

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        return self._instant(self._permanent(inputs, rng), rng)

    def memoise(self, value: Any, *, rng: Random) -> bytes:
        """The cohort and the permanent bits B' of a value: what the device keeps, and never sends."""
        return self.header + bytes(self._permanent(self.inputs([value]), rng)[0])

    def replay(self, memo: bytes, *, rng: Random) -> bytes:
        super().replay(memo, rng=rng)
        rows = np.frombuffer(memo, np.uint8)[None, HEADER:]
        return self.header + bytes(self._instant(rows, rng)[0])

    def _permanent(self, names: Words, rng: Random) -> Bytes:
        cohort = rng.uniform_integers(self.cohorts, len(names))
        rows = bits.coins(rng, self.flip_chance, len(names), self.width)
        places = np.stack([self.places(cohort, names, i) for i in range(self.hashes)], axis=1)
        for i in range(self.hashes):
            # Two functions may share a place; it is one bit and is turned over once.
            again = (places[:, :i] == places[:, i : i + 1]).any(axis=1)
            fresh = np.flatnonzero(~again)
            part = rows[fresh]
            bits.flip(part, places[fresh, i])
            rows[fresh] = part
        return np.hstack([pack(cohort, 2), rows])

    def _instant(self, permanent: Bytes, rng: Random) -> Bytes:
        set_, unset = (bits.coins(rng, exact(c), len(permanent), self.width) for c in (self.q, self.p))
        memo = permanent[:, 2:]
        return np.hstack([permanent[:, :2], (memo & set_) | (~memo & unset)])

    def places(self, cohort: Integers, names: Words, i: int) -> Integers:
        """The bit that function i of each one's cohort sets for it."""
        return family(self.key, self.cohorts * self.hashes, self.width).hash_each(
            cohort * self.hashes + i, names
        )

    # ---------------------------------------------------------------------------------------------- server

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads[:, :2]) < self.cohorts

    def tally(self, payloads: Bytes) -> Integers:
        """The ones of each bit in each cohort, and the reports of each cohort."""
        return bits.grouped_sums(unpack(payloads[:, :2]), self.cohorts, payloads[:, 2:], self.width)

    def estimate(self, counts: Integers, users: int, *question: Any) -> Decoded:
        candidates = question_items(question)
        ones = counts[: self.cohorts * self.width].reshape(self.cohorts, self.width)
        sizes = counts[self.cohorts * self.width :]
        design = self._design(candidates)
        return decode(ones, sizes, design, tuple(candidates), float(self.p_star), float(self.q_star))

    def _design(self, candidates: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
        """1 where a candidate's filter has a bit: a row for each bit of each cohort, a
        column for each candidate."""
        names = digests(candidates, self.key)
        design = np.zeros((self.cohorts, self.width, len(names)))
        columns = np.arange(len(names))
        for cohort in range(self.cohorts):
            for i in range(self.hashes):
                design[cohort, self.places(np.full(len(names), cohort), names, i), columns] = 1
        return design.reshape(self.cohorts * self.width, len(names))
