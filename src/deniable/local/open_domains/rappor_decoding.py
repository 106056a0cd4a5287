"""Who was reported: least squares to size the candidates, a test to keep them; LASSO
first where there are too many.

Reference: Erlingsson, Pihur, Korolova 2014, §4. With c_ij ones at bit i of cohort j of
           size N_j, t_ij = (c_ij − p*N_j)/(q* − p*)
is unbiased for the number of users of cohort j whose filter has bit i. Scaled by users/N_j it is regressed on
the candidates' filters and a constant, which takes up the values that are in no dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from deniable.local.arrays import Floats, Integers
from deniable.local.estimate import quantile

STEPS = 400
ROOM = 4
"""Bits of all cohorts per candidate from which on no candidate needs to be left out beforehand."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Estimated users per candidate, most frequent first among the `found`.

    `p_values` are one-sided. `found` holds the candidates whose p-value stays below
    alpha over the number of candidates.
    """

    candidates: tuple[Any, ...]
    counts: Floats
    standard_errors: Floats
    p_values: Floats
    users: int

    def found(self, alpha: float = 0.05) -> list[tuple[Any, float, float]]:
        """(candidate, estimated users, standard error) of the significant ones."""
        keep = np.flatnonzero(self.p_values <= alpha / max(len(self.candidates), 1))
        order = keep[np.argsort(-self.counts[keep], kind="stable")]
        return [(self.candidates[i], float(self.counts[i]), float(self.standard_errors[i])) for i in order]

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        half = quantile(confidence) * self.standard_errors
        return self.counts - half, self.counts + half


def decode(
    bit_counts: Integers, sizes: Integers, design: Floats, candidates: tuple[Any, ...], p: float, q: float
) -> Decoded:
    """Estimate every candidate.

    With few candidates all are fitted at once: estimates are unbiased and intervals hold
    for each. With many, non-negative LASSO chooses first, as in the paper; those it
    leaves out are 0 with p-value 1, and intervals hold given the choice.
    """
    users, count = int(sizes.sum()), len(candidates)
    counts, errors, p_values = np.zeros(count), np.full(count, np.inf), np.ones(count)
    cohorts = sizes > 0
    if users and count:
        scale = users / np.maximum(sizes, 1)
        target = ((bit_counts - p * sizes[:, None]) / (q - p) * scale[:, None])[cohorts].ravel()
        rows = design.reshape(len(sizes), -1, count)[cohorts].reshape(len(target), count)
        # A report bit has variance at most 1/4; the larger of the two Bernoulli variances is a bound for all.
        noise = np.repeat(
            (max(p * (1 - p), q * (1 - q)) * sizes * scale**2 / (q - p) ** 2)[cohorts], bit_counts.shape[1]
        )
        columns = (
            np.arange(count) if ROOM * count <= len(target) else _lasso(rows, target, float(noise.mean()))
        )
        counts[columns], errors[columns] = _least_squares(rows[:, columns], target, noise)
        p_values[columns] = special.ndtr(-counts[columns] / errors[columns])
    return Decoded(candidates, counts, errors, p_values, users)


def _lasso(rows: Floats, target: Floats, noise: float) -> Integers:
    """The columns with a positive weight in min ½‖Xb + c − t‖² + λ Σ b, b ≥ 0, by
    accelerated proximal gradient (FISTA).

    λ = the deviation of X'(noise): a candidate who is not there is kept about one time in six, one who is
    there is not lost. Centring the columns is the same as fitting the constant c.
    """
    deviations, t = rows - rows.mean(axis=0), target - target.mean()
    gram, pull = deviations.T @ deviations, deviations.T @ t
    penalty = np.sqrt(noise * np.diag(gram))
    step = 1 / max(float(np.linalg.norm(gram, 2)), 1e-12)
    b = ahead = np.zeros(len(pull))
    speed = 1.0
    for _ in range(STEPS):
        new = np.maximum(ahead - step * (gram @ ahead - pull + penalty), 0)
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = new + (speed - 1) / faster * (new - b)
        b, speed = new, faster
    return np.flatnonzero(b > 0)


def _least_squares(rows: Floats, target: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Coefficients and their standard errors, the larger of what the noise and what the residuals say."""
    x = np.hstack([rows, np.ones((len(target), 1))])
    inverse = np.linalg.pinv(x.T @ x)
    b = inverse @ (x.T @ target)
    noise_variance = np.einsum("ij,i,ij->j", x @ inverse, noise, x @ inverse)
    freedom = max(len(target) - x.shape[1], 1)
    residual_variance = np.diag(inverse) * float(((target - x @ b) ** 2).sum()) / freedom
    return b[:-1], np.sqrt(np.maximum(noise_variance, residual_variance))[:-1]
