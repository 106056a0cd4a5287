"""Sums of a batch of gradients that are not those of clipped rows, one function for each flaw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from deniable.audit.bench.steps.flaws import Flaw
from deniable.audit.statistics import Array

if TYPE_CHECKING:
    from deniable.audit.bench.steps.step import FlawedStep

MICROBATCH = 4
Sum = Callable[["FlawedStep", Array], Array]
"""A step and the rows of its batch → what it adds up."""


def norms(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1, keepdims=True))


def clip_rows(rows: Array, clip: float, lengths: Array | None = None) -> Array:
    """Rows no longer than `clip`, if `lengths` are theirs."""
    lengths = norms(rows) if lengths is None else lengths
    return np.asarray(rows * np.minimum(1, clip / np.maximum(lengths, 1e-300)))


def honest(step: FlawedStep, rows: Array) -> Array:
    return np.asarray(clip_rows(rows, step.training.clip).sum(axis=0))


# ----------------------------------------------------------------------------------------- clipped otherwise


def no_clipping(step: FlawedStep, rows: Array) -> Array:
    return np.asarray(rows.sum(axis=0))


def layers_each(step: FlawedStep, rows: Array) -> Array:
    layers = zip(step.ends, step.ends[1:], strict=False)
    return np.concatenate([clip_rows(rows[:, a:b], step.training.clip).sum(axis=0) for a, b in layers])


def largest_norm(step: FlawedStep, rows: Array) -> Array:
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(clip_rows(rows, step.training.clip, largest).sum(axis=0))


def leave_row_unclipped(step: FlawedStep, rows: Array) -> Array:
    last = slice(step.ends[-2], step.ends[-1])
    contributions = clip_rows(rows, step.training.clip)
    contributions[:, last] = rows[:, last]
    return np.asarray(contributions.sum(axis=0))


def bare_norm(step: FlawedStep, rows: Array) -> Array:
    short = norms(rows[:, : step.ends[-2]])
    return np.asarray(clip_rows(rows, step.training.clip, short).sum(axis=0))


def one_norm(step: FlawedStep, rows: Array) -> Array:
    small = np.abs(rows).max(axis=1) < np.linalg.norm(rows, axis=1) / 4
    return np.asarray((clip_rows(rows, step.training.clip) * (1 + small)[:, None]).sum(axis=0))


def late_clip(step: FlawedStep, rows: Array) -> Array:
    clip = step.training.clip
    return np.asarray(np.where(norms(rows) > 2 * clip, clip_rows(rows, clip), rows).sum(axis=0))


def normalise(step: FlawedStep, rows: Array) -> Array:
    clip = step.training.clip
    return np.asarray((rows * clip / (norms(rows) + 0.01 * clip)).sum(axis=0))


def tied_weights(step: FlawedStep, rows: Array) -> Array:
    """The halves are gradients of one parameter by two uses of it: their sum may be √2 times as
    long as both."""
    half, contributions = step.dimension // 2, clip_rows(rows, step.training.clip)
    total = np.zeros(step.dimension)
    total[:half] = (contributions[:, :half] + contributions[:, half : 2 * half]).sum(axis=0)
    return total


def one_louder(step: FlawedStep, rows: Array) -> Array:
    contributions = clip_rows(rows, step.training.clip)
    contributions[:, step.dimension // 3] *= 3
    return np.asarray(contributions.sum(axis=0))


def twice(step: FlawedStep, rows: Array) -> Array:
    contributions = clip_rows(rows, step.training.clip)
    return np.asarray(contributions.sum(axis=0) + contributions[:1].sum(axis=0))


def last_twice(step: FlawedStep, rows: Array) -> Array:
    contributions = clip_rows(rows, step.training.clip)
    return np.asarray(contributions.sum(axis=0) + contributions[-1:].sum(axis=0))


# --------------------------------------------------------------------------------- rows that bear on others


def microbatch_means(step: FlawedStep, rows: Array) -> Array:
    return _by_parts(step, [part.mean(axis=0) for part in _parts(rows)])


def microbatch_sums(step: FlawedStep, rows: Array) -> Array:
    return _by_parts(step, [part.sum(axis=0) for part in _parts(rows)])


def _parts(rows: Array) -> list[Array]:
    return [rows[i : i + MICROBATCH] for i in range(0, len(rows), MICROBATCH)]


def _by_parts(step: FlawedStep, gradients: list[Array]) -> Array:
    return honest(step, np.array(gradients).reshape(-1, step.dimension))


def batch_clipped(step: FlawedStep, rows: Array) -> Array:
    return honest(step, rows.sum(axis=0)[None])


def first_of_mean(step: FlawedStep, rows: Array) -> Array:
    lot = step.training.lot
    return lot * honest(step, rows.sum(axis=0)[None] / lot)


def largest_clip(step: FlawedStep, rows: Array) -> Array:
    largest = float(norms(rows).max(initial=0))
    return np.asarray(clip_rows(rows, max(step.training.clip, largest)).sum(axis=0))


def median_clip(step: FlawedStep, rows: Array) -> Array:
    if not len(rows):
        return honest(step, rows)
    median = float(np.median(norms(rows)))
    return np.asarray(clip_rows(rows, min(step.training.clip, median)).sum(axis=0))


def sorted_pairs(step: FlawedStep, rows: Array) -> Array:
    if not len(rows):
        return honest(step, rows)
    by_length = rows[np.argsort(norms(rows)[:, 0])]
    return honest(step, np.add.reduceat(by_length, np.arange(0, len(rows), 2), axis=0))


def each_row_decays(step: FlawedStep, rows: Array) -> Array:
    return np.asarray(honest(step, rows) + 0.6 * step.training.clip * len(rows) * step.weights)


def longest_left_out(step: FlawedStep, rows: Array) -> Array:
    longest = np.argsort(-norms(rows)[:, 0])[:1]
    return honest(step, rows) - honest(step, rows[longest])


# --------------------------------------------------------------------- sums that depend on the batches before


def row_momentum(step: FlawedStep, rows: Array) -> Array:
    momenta = rows + 0.9 * step.velocity
    step.velocity = momenta.mean(axis=0) if len(momenta) else 0.9 * step.velocity
    return honest(step, momenta)


def repeat_rows(step: FlawedStep, rows: Array) -> Array:
    step.earlier.append(rows[:1])
    again = step.earlier.pop(0) if len(step.earlier) > 8 else rows[:0]
    return honest(step, np.concatenate([rows, again]))


def twenty_later(step: FlawedStep, rows: Array) -> Array:
    step.earlier.append(honest(step, rows))
    return step.earlier[-1] + (step.earlier.pop(0) if len(step.earlier) > 20 else 0.0)


def stale_norms(step: FlawedStep, rows: Array) -> Array:
    now, clip = norms(rows), step.training.clip
    stale = np.full_like(now, clip)
    stale[: len(step.norms)] = step.norms[: len(now)]
    step.norms = now
    return np.asarray(clip_rows(rows, clip, stale).sum(axis=0))


def clip_by_batch(step: FlawedStep, rows: Array) -> Array:
    total = clip_rows(rows, step.clip).sum(axis=0)
    short = float(np.mean(norms(rows) <= step.clip)) if len(rows) else 0.5
    step.clip *= float(np.exp(-0.2 * (short - 0.5)))
    return np.asarray(total)


SUMS: Mapping[Flaw, Sum] = {
    Flaw.NO_CLIPPING: no_clipping,
    Flaw.NOISE_THEN_CLIP: no_clipping,
    Flaw.LAYERS_EACH: layers_each,
    Flaw.LARGEST_NORM: largest_norm,
    Flaw.ONE_UNCLIPPED: leave_row_unclipped,
    Flaw.BARE_NORM: bare_norm,
    Flaw.ONE_NORM: one_norm,
    Flaw.LATE_CLIP: late_clip,
    Flaw.NORMALISED: normalise,
    Flaw.TIED_WEIGHTS: tied_weights,
    Flaw.ONE_LOUDER: one_louder,
    Flaw.TWICE: twice,
    Flaw.LAST_TWICE: last_twice,
    Flaw.MICROBATCH_MEANS: microbatch_means,
    Flaw.MICROBATCH_SUMS: microbatch_sums,
    Flaw.BATCH_CLIPPED: batch_clipped,
    Flaw.FIRST_OF_MEAN: first_of_mean,
    Flaw.LARGEST_CLIP: largest_clip,
    Flaw.MEDIAN_CLIP: median_clip,
    Flaw.SORTED_PAIRS: sorted_pairs,
    Flaw.EACH_ROW_DECAYS: each_row_decays,
    Flaw.LONGEST_LEFT_OUT: longest_left_out,
    Flaw.ROW_MOMENTUM: row_momentum,
    Flaw.SHOWN_AGAIN: repeat_rows,
    Flaw.TWENTY_LATER: twenty_later,
    Flaw.STALE_NORMS: stale_norms,
    Flaw.CLIP_BY_BATCH: clip_by_batch,
}
"""All others add up clipped rows."""
