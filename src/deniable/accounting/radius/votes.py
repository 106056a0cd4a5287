"""From counts of votes to bounds on probabilities: one look or several, the class chosen
on a sample of its own.

A class A is chosen on one sample; a second, independent one bounds p_a from below and p_b, the probability of
the likeliest other class, from above. Let B be that class: it is fixed, though unknown. Of all other classes
the one with the most votes has at least as many as B, and the bound grows with the count, so the bound of the
largest count holds for B at the level of a single class: no union over classes is needed. (A runner-up chosen
on the *choosing* sample need not be B: bounding it is wrong in up to half of the runs.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable.accounting import proportion
from deniable.errors import InvalidParameter

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

DEFAULT_ALPHA = 0.001


@dataclass(frozen=True)
class Looks:
    """Sizes of a growing sample at which its counts are looked at, with `alpha` shared
    evenly among the looks.

    Union bound: the bounds of all looks hold together but for a chance of alpha, so one
    may stop at any of them.

    >>> round(Looks((500, 1000, 2000), 0.003).share, 9)
    0.001
    """

    sizes: tuple[int, ...]
    alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.sizes)
        if not sizes or sizes[0] < 1 or any(b <= a for a, b in pairwise(sizes)):
            raise InvalidParameter(
                f"Expected growing sizes of a sample, of at least 1, got sizes={self.sizes}."
            )
        if not 0 < self.alpha < 1:
            raise InvalidParameter(f"Expected alpha={self.alpha} in (0, 1).")
        object.__setattr__(self, "sizes", sizes)

    @property
    def share(self) -> float:
        """α of one look, rounded down."""
        return self.alpha / len(self.sizes) * (1 - 2.0**-52)

    @property
    def sample_size(self) -> int:
        """The size of the whole sample."""
        return self.sizes[-1]


def bounds(
    counts: ArrayLike, label: ArrayLike, alpha: float, *, runner_up: bool = True
) -> tuple[Array, Array]:
    """p_a and p_b for every row of counts of the *bounding* sample, together but for a chance of alpha.

    α/2 for each side. Two classes, or `runner_up=False`, put all of α on p_a and take
    p_b = 1 − p_a (Cohen et al. 2019).

    >>> p_a, p_b = bounds([[900, 80, 20]], [0], 0.001)
    >>> bool(0.86 < p_a[0] < 0.9 and 0.08 < p_b[0] < 1 - p_a[0])
    True
    """
    votes, labels = _votes(counts, label)
    trials = votes.sum(axis=1)
    own = np.take_along_axis(votes, labels[:, None], axis=1)[:, 0]
    if votes.shape[1] == 2 or not runner_up:
        p_a = proportion.lower(own, trials, alpha)
        return p_a, np.nextafter(1 - p_a, 2)
    p_a = proportion.lower(own, trials, alpha / 2)
    p_b = proportion.upper(_runner_up(votes, labels), trials, alpha / 2)
    return p_a, np.minimum(p_b, np.nextafter(1 - p_a, 2))


def hopes(
    counts: ArrayLike, label: ArrayLike, alpha: float, *, runner_up: bool = True
) -> tuple[Array, Array]:
    """The other side: p_a is at most the first and some other class has at least the
    second, but for a chance of alpha."""
    votes, labels = _votes(counts, label)
    trials = votes.sum(axis=1)
    own = np.take_along_axis(votes, labels[:, None], axis=1)[:, 0]
    if votes.shape[1] == 2 or not runner_up:
        p_a = proportion.upper(own, trials, alpha)
        return p_a, np.maximum(1 - p_a, 0.0)
    p_a = proportion.upper(own, trials, alpha / 2)
    # Here the class is chosen by its count, so every class shares the level.
    p_b = proportion.lower(_runner_up(votes, labels), trials, alpha / (2 * (votes.shape[1] - 1)))
    return p_a, p_b


def winner(counts: ArrayLike, alpha: float) -> Integers:
    """The class with the most votes where it leads beyond chance, else −1 (abstain); the
    sample chooses and tests.

    If the top class of the counts is not the likeliest one, the test of the two leaders at α/2 is passed with
    probability at most α (Hung, Fithian 2019). Ties are never passed.
    """
    votes = np.atleast_2d(np.asarray(counts, np.int64))
    order = np.sort(votes, axis=1)
    first, second = order[:, -1], order[:, -2]
    sure = proportion.lower(first, np.maximum(first + second, 1), alpha / 2) > 0.5
    return np.asarray(np.where(sure, votes.argmax(axis=1), -1), np.int64)


def _votes(counts: ArrayLike, label: ArrayLike) -> tuple[Integers, Integers]:
    votes, labels = np.atleast_2d(np.asarray(counts, np.int64)), np.atleast_1d(np.asarray(label, np.int64))
    if votes.ndim != 2 or votes.shape[1] < 2 or len(labels) != len(votes) or (votes < 0).any():
        raise InvalidParameter(
            "Expected counts of at least two classes, one row for each label, none below 0."
        )
    if not ((labels >= 0) & (labels < votes.shape[1])).all():
        raise InvalidParameter(f"Expected every label among the {votes.shape[1]} classes.")
    return votes, labels


def _runner_up(votes: Integers, labels: Integers) -> Integers:
    others = votes.copy()
    np.put_along_axis(others, labels[:, None], -1, axis=1)
    return np.asarray(others.max(axis=1))
