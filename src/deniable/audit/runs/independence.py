"""Whether runs are independent of one another: every certificate counts them as if they were.

If they are, and alike, any order of the outputs of one neighbour is as likely as the one that
was seen. So among n outputs, c(v) of which are v, two that lie a given lag apart are equal with
probability Σ c(v)(c(v) − 1)/(n(n − 1)): the outputs' own frequencies predict the ties. Noise
that is renewed every k calls, taken from a table in turn, or seeded by the clock gives more of
them at some lag. The number of ties at one lag has, over all orders, about the variance n(Σp² −
2Σp³ + (Σp²)²), at most that of a binomial, n(Σp² − (Σp²)²), as Σp³ ≥ (Σp²)²; so a binomial tail
is on the safe side. Noise that only drifts leaves ranks that are correlated at some lag.

An output that is always the same has no order to look at. An exact answer, a seed that is used again and an
answer that is remembered all look so. They are told apart by starting the target anew (`restart`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm, rankdata

from deniable.audit.rules.tables import Array, Rows

Codes = NDArray[np.int64]

SHARE = 0.1
"""The part of alpha that the question takes: so often is a target of independent runs said to repeat
itself."""
LOOKED_AT = 4096
"""Outputs of each neighbour, from the first one on."""
MOST_COLUMNS = 16
LEAST = 8
"""Fewer outputs have no order to speak of."""
NEARLY = 0.98
"""An output that makes up this share is as good as constant."""
EVEN = 0.5
"""Ranks are correlated only where no output makes up more than this share: else a few
rare ones would decide."""


@dataclass(frozen=True)
class Constant:
    """A coordinate that is nearly always `first` on the first neighbour, or `second` on
    the other; None: it changes there."""

    column: int
    first: float | None
    second: float | None


@dataclass(frozen=True)
class Record:
    """Outputs on both neighbours in the order of the runs; `places` say which runs they
    were, where these were mixed."""

    first: Rows
    second: Rows
    places: tuple[Codes, Codes] | None = None

    @property
    def start(self) -> Record:
        """The first ones."""
        places = self.places and (self.places[0][:LOOKED_AT], self.places[1][:LOOKED_AT])
        return Record(self.first[:LOOKED_AT], self.second[:LOOKED_AT], places)


def dependence(record: Record, alpha: float) -> str | None:
    """A sentence about what shows that runs are not independent, or None."""
    record = record.start
    places = record.places or (np.arange(len(record.first)), np.arange(len(record.second)))
    columns = list(_columns(record.first, record.second))
    tests = 4 * len(columns)  # two neighbours, ties and ranks
    for name, *sides in columns:
        for codes, at in zip(sides, places, strict=True):
            reason = _ties(codes, at, alpha / tests) or _ranks(codes, alpha / tests)
            if reason:
                return f"{name} {reason}"
    return None


def _columns(first: Rows, second: Rows) -> Iterator[tuple[str, Codes, Codes]]:
    """Each coordinate, and the whole output, as whole numbers in the order of their
    values; equal ones for equal outputs."""
    width = first.shape[1]
    for i in range(min(width, MOST_COLUMNS)):
        yield (
            f"coordinate {i + 1} of the output" if width > 1 else "the output",
            *_encode_pair(first[:, i], second[:, i]),
        )
    if width > 1:
        yield "the whole output", *_encode_pair(*(_join_columns(rows) for rows in (first, second)))


def _join_columns(rows: Rows) -> NDArray[np.void]:
    matrix = np.ascontiguousarray(rows + 0.0)  # −0 is 0
    return matrix.view(np.dtype((np.void, matrix.dtype.itemsize * matrix.shape[1]))).ravel()


def _encode_pair(first: NDArray[np.generic], second: NDArray[np.generic]) -> tuple[Codes, Codes]:
    _, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    return codes[: len(first)], codes[len(first) :]


def _levels(lags: Codes, alpha: float) -> Array:
    """How alpha is shared among lags: 6/π²·L⁻² of it for lag L, most for the next run."""
    return np.asarray(alpha * 6 / (math.pi * lags) ** 2)


def _ties(codes: Codes, places: Codes, alpha: float) -> str | None:
    """More equal outputs at some lag than their frequencies predict."""
    n = len(codes)
    counts = np.bincount(codes) if n else np.zeros(1, np.int64)
    if n < LEAST or counts.max() in (1, n):
        return None
    tie_rate = float(np.sum(counts * (counts - 1.0)) / (n * (n - 1.0)))
    runs = np.full(places[-1] + 1, -1)
    runs[places] = codes
    lags = np.arange(1, len(runs) // 2 + 1)
    ties, pairs = np.array([_equal(runs[lag:], runs[:-lag]) for lag in lags]).T
    chance = binom.sf(ties - 1, pairs, tie_rate)
    if not np.any(chance < _levels(lags, alpha)):
        return None
    lag = int(lags[np.argmin(chance / _levels(lags, 1.0))])
    return (
        f"is the same as {lag} run{'s' if lag > 1 else ''} before in {ties[lag - 1]:,} of {pairs[lag - 1]:,} "
        f"cases, where its own frequencies predict {tie_rate * pairs[lag - 1]:,.1f}"
    )


def _equal(first: Codes, second: Codes) -> tuple[int, int]:
    """How many of the pairs of outputs are equal, and how many there are."""
    pairs = (first >= 0) & (second >= 0)
    return int(np.count_nonzero(pairs & (first == second))), int(np.count_nonzero(pairs))


def _ranks(codes: Codes, alpha: float) -> str | None:
    """Ranks that are correlated at some lag."""
    n = len(codes)
    if n < 8 * LEAST or np.bincount(codes).max() > EVEN * n:
        return None
    ranks = rankdata(codes)
    ranks = (ranks - ranks.mean()) / ranks.std()
    # Wiener and Khinchin: all lags at once.
    power = np.abs(np.fft.rfft(ranks, 2 * n)) ** 2
    lags = np.arange(1, n // 2 + 1)
    sums = np.fft.irfft(power)[lags] + (n - lags) / (
        n - 1
    )  # a permutation has a mean of −1/(n − 1) for each product
    z = np.abs(sums) / np.sqrt(n - lags)
    if not np.any(2 * norm.sf(z) < _levels(lags, alpha)):
        return None
    lag = int(lags[np.argmin(norm.logsf(z) - np.log(_levels(lags, 1.0)))])
    return (
        f"is correlated with that of {lag} run{'s' if lag > 1 else ''} before "
        f"({sums[lag - 1] / (n - lag):+.2f})"
    )


# ------------------------------------------------------------------------------------------------ constants


def constants(first: Rows, second: Rows) -> list[Constant]:
    """Coordinates that hardly change and differ between the neighbours."""
    coordinates = []
    for i in range(first.shape[1] if len(first) and len(second) else 0):
        usual = [_commonest(rows[:, i]) for rows in (first, second)]
        if max(share for _, share in usual) >= NEARLY and not _are_equal(usual[0][0], usual[1][0]):
            coordinates.append(Constant(i, *(value if share >= NEARLY else None for value, share in usual)))
    return coordinates


def rest_changes(first: Rows, second: Rows, constants: Sequence[Constant]) -> bool:
    """Whether some other coordinate changes from run to run on both neighbours. Where nothing does, whole
    answers may be remembered."""
    others = set(range(first.shape[1])) - {constant.column for constant in constants}
    return any(max(_commonest(rows[:, i])[1] for rows in (first, second)) < NEARLY for i in others)


def _commonest(column: Array) -> tuple[float, float]:
    """The most frequent value and its share."""
    values, counts = np.unique(column, return_counts=True)
    best = int(np.argmax(counts))
    return float(values[best]), float(counts[best] / len(column))


def _are_equal(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


def recurs(constants: Sequence[Constant], first: Rows, second: Rows) -> bool:
    """Whether what hardly ever changed is there again in the outputs of a target that was started anew."""
    return all(
        value is None or any(_are_equal(float(number), value) for number in rows[:, constant.column])
        for constant in constants
        for rows, value in ((first, constant.first), (second, constant.second))
    )
