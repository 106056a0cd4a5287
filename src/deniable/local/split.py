"""Several questions: split the users, not ε. Each device answers one part, drawn at
random, with all of its ε.

Splitting ε among d attributes costs a factor of about d² in variance, splitting users
one of d (Wang et al. 2019, §4).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.estimate import Estimate
from deniable.local.protocol import Client
from deniable.loss import Number, exact
from deniable.mechanism import Random


@dataclass(frozen=True)
class Split(Client[tuple[Any, ...]]):
    """A value is a row with one entry for each part; one part, drawn without looking at
    the row, reports its entry.

    Guarantee: the largest ε of the parts, for the whole row: the report is that of one
               part, and which one is public.
    Wire:      1 byte for the part, then its payload, filled up with zeros to the longest.
    Error:     a part sees about n/d users; estimates are scaled to all users and their
               errors include this sampling.
    """

    parts: tuple[Client[Any], ...]
    code: ClassVar[int] = 12

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not 1 <= len(self.parts) <= 256 or not all(isinstance(part, Client) for part in self.parts):
            raise InvalidParameter("Expected 1 to 256 clients as parts. Nothing was drawn.")

    @property
    def epsilon(self) -> Number:  # type: ignore[override]
        return max((part.epsilon for part in self.parts), key=exact)

    @property
    def payload(self) -> int:
        return 1 + max(part.payload for part in self.parts)

    @property
    def cells(self) -> int:
        """Those of all parts, and the users of each."""
        return sum(part.cells for part in self.parts) + len(self.parts)

    def inputs(self, values: Any) -> NDArray[Any]:
        columns = (
            list(values.T)
            if isinstance(values, np.ndarray) and values.ndim == 2
            else list(zip(*values, strict=True))
        )
        if len(columns) != len(self.parts):
            raise InvalidParameter(f"Expected rows of {len(self.parts)} entries. Nothing was drawn.")
        return side_by_side([part.inputs(column) for part, column in zip(self.parts, columns, strict=True)])

    def encode(self, inputs: NDArray[Any], rng: Random) -> Bytes:
        choices = rng.uniform_integers(len(self.parts), len(inputs))
        rows = np.zeros((len(inputs), self.payload), np.uint8)
        rows[:, 0] = choices
        for i, part in enumerate(self.parts):
            mine = np.flatnonzero(choices == i)
            rows[mine, 1 : 1 + part.payload] = part.encode(inputs[f"f{i}"][mine], rng)
        return rows

    def valid(self, payloads: Bytes) -> Booleans:
        good = np.zeros(len(payloads), bool)
        for i, part in enumerate(self.parts):
            mine = np.flatnonzero(payloads[:, 0] == i)
            inside, spare = payloads[mine, 1 : 1 + part.payload], payloads[mine, 1 + part.payload :]
            good[mine] = part.valid(inside) & ~spare.any(axis=1)
        return good

    def tally(self, payloads: Bytes) -> Integers:
        sums = [
            part.tally(payloads[payloads[:, 0] == i, 1 : 1 + part.payload])
            for i, part in enumerate(self.parts)
        ]
        return np.concatenate([*sums, np.bincount(payloads[:, 0], minlength=len(self.parts))])

    def shares(self, counts: Integers) -> list[tuple[Client[Any], Integers, int]]:
        """Each part with its counters and its users."""
        ends = np.cumsum([part.cells for part in self.parts])
        users = counts[ends[-1] :]
        return [
            (part, counts[end - part.cells : end], int(n))
            for part, end, n in zip(self.parts, ends, users, strict=True)
        ]

    def estimate(self, counts: Integers, users: int, *question: Any) -> tuple[Any, ...]:
        """One estimate for each part; the question holds the items for each part, None
        where its domain is closed."""
        questions = question or (None,) * len(self.parts)
        if len(questions) != len(self.parts):
            raise InvalidParameter(f"Expected items (or None) for each of {len(self.parts)} parts.")
        estimates = []
        for (part, mine, n), items in zip(self.shares(counts), questions, strict=True):
            estimate = part.estimate(mine, n, *(() if items is None else (items,)))
            estimates.append(scale_estimate(estimate, users) if isinstance(estimate, Estimate) else estimate)
        return tuple(estimates)


def scale_estimate(estimate: Estimate, users: int) -> Estimate:
    """An estimate from a random sample of the users, for all of them: the error of
    sampling without replacement comes on top."""
    n = max(estimate.users, 1)
    share = np.clip(estimate.frequencies, 0, 1)
    sampling = users**2 * share * (1 - share) / n * max(0.0, 1 - n / max(users, 1))
    errors = np.sqrt((users / n * estimate.standard_errors) ** 2 + sampling)
    return dataclasses.replace(
        estimate, counts=estimate.counts * (users / n), standard_errors=errors, users=users
    )


def side_by_side(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays of equal length as the fields f0, f1, … of one."""
    fields = [(f"f{i}", column.dtype, column.shape[1:]) for i, column in enumerate(columns)]
    rows = np.empty(len(columns[0]), np.dtype(fields))
    for i, column in enumerate(columns):
        rows[f"f{i}"] = column
    return rows
