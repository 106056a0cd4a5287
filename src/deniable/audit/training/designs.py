"""A family of canaries for a step of private training, each made to show another kind of mistake.

    opposed   one, first and loudest, against a lot or two    microbatches, normalisers, clipped batches, caps
    divided   one against a crowd of short and long rows      a clip, groups or an order that follow the batch
    dense     one on all coordinates, last in a batch of two  clipping per layer, in other norms, by the last
    momentum  the same, ten steps around it watched           memory before noise, noise or rows used again
    quietest  one where the noise is least                    noise repeated between coordinates, or missing
    singled   one alone where most was told before            a part not clipped, steps skipped when empty
    pursued   one where a lot is answered loudest             terms per row, parts clipped apart, tied weights

Those with many canaries in a step are in `fields`.

Under the claim each of them is one row of a batch, and what is released in a whole window of steps, of which
one has it, is μ-Gaussian private (composition with steps that do not depend on it, Dong, Roth, Su 2022): so a
guess about its coin is right with probability at most Φ(μ/2), given all that happened before, and any score
is allowed. Where to look is learnt in two parts: some windows give directions, others weigh them against one
another. The rest is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, isqrt, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.audit.statistics import Array

if TYPE_CHECKING:
    from deniable.audit.sgd import Training

Booleans = NDArray[np.bool_]
Step = Callable[[Array, np.random.Generator], Array]
"""(gradients of the examples in the batch, one per row and not yet clipped; rng) → what
the step releases, one vector."""

LOUD = 10.0
"""Canaries are this many times longer than the clip, so that a step that forgets to clip gives itself
away."""
LOUDER = 1000.0
"""The same times longer than those around them, so that one of them outweighs all others
that it is averaged with."""
LOUDEST = 1e8
"""Beyond what half precision holds: a norm that is no number may clip nothing."""
HARDLY, WASHED, CLEARLY = 1.1, 100, 1.5
"""A canary hardly longer than those around it; quiet steps before it, after which a step has forgotten those
that were; and how much more it has to show than a loud one."""
QUIET = 1e-6
"""The length of the rows that only make up a batch, in units of the clip."""
PUSHES = 6
MOST_DIVIDED = 32
"""Rows of a crowd of which so many are short, so many long: each number is tried."""
DIRECTIONS, WEIGHTS = 0.3, 0.2
"""The shares of windows that learn directions, and their weights."""
PLAIN = 4.0
"""Deviations from which a coordinate counts as moved by the canary."""
SURE = 3.0
"""Deviations that are taken off a coordinate's movement before it is called the largest."""
PRIOR = 10.0
BLOCKS = 32
STEPS_PER_COORDINATE = 3
"""As many at least for a map from rows to answers."""
MOST_COORDINATES = 1000
"""Of a covariance."""
RIDGE = 1e-3


@dataclass(frozen=True)
class Bench:
    """A step, what it claims, and the random numbers that everything takes."""

    step: Step
    training: Training
    dimension: int
    rng: np.random.Generator

    def release(self, batch: Array) -> Array:
        """What one step releases, in units of the clip: the claim says a sum plus noise
        of the noise multiplier."""
        output = np.asarray(self.step(batch, self.rng), np.float64).ravel()
        return output * (self.training.lot / self.training.clip)

    def quiet(self, rows: int) -> Array:
        return np.full((rows, self.dimension), QUIET * self.training.clip / np.sqrt(self.dimension))

    def nobody(self) -> Array:
        """A batch without rows; one quiet row, where the step cannot take it. For a data set of one person
        such batches are the usual ones."""
        empty = np.empty((0, self.dimension))
        try:
            self.release(empty)
        except Exception:  # of the step: what it raises is its own affair
            return self.quiet(1)
        return empty

    @property
    def lot(self) -> int:
        return max(1, round(self.training.lot))

    def dense(self) -> Array:
        """A unit vector on all coordinates, with signs by fair coins."""
        return np.asarray(self.rng.choice([-1.0, 1.0], self.dimension) / np.sqrt(self.dimension))


@dataclass(frozen=True)
class Window:
    """One canary's batch with and without it, and how many steps without it are watched before and after."""

    canary: Array
    crowd: Array
    lead: int = 0
    tail: int = 0
    last: bool = False
    """Whether the canary is the last row of its batch, or the first."""

    def batches(self, coins: bool) -> Iterator[Array]:
        for _ in range(self.lead):
            yield self.crowd
        yield self.with_canary() if coins else self.crowd
        for _ in range(self.tail):
            yield self.crowd

    def with_canary(self) -> Array:
        rows = (self.crowd, self.canary[None]) if self.last else (self.canary[None], self.crowd)
        return np.concatenate(rows)

    @property
    def steps(self) -> int:
        return self.lead + 1 + self.tail


# ------------------------------------------------------------------------------------------------ designs


def oppose_crowd(bench: Bench, runs: int) -> Window:
    """One canary against gradients that point the other way: whatever is common to the batch turns round.

    They are a lot, or two: a step that takes only so many rows lets go of one of them for the canary. Or the
    canary is hardly longer than they: a step that remembers its longest row is deaf after a loud one. Which
    shows most is chosen in about `runs` steps.
    """
    direction = bench.dense()
    row = bench.training.clip * direction
    lot, two_lots = _prime(bench.lot), _prime(2 * bench.lot)
    for _ in range(WASHED):
        bench.release(bench.quiet(1))
    soft = Window(HARDLY * row, np.tile(-row, (two_lots, 1)))
    soft_shift = _shifts(bench, [soft], direction, runs // 3)[0]
    loud = [Window(LOUDER * LOUD * row, np.tile(-LOUD * row, (size, 1))) for size in (lot, two_lots)]
    loud_shifts = _shifts(bench, loud, direction, runs - runs // 3)
    if soft_shift > CLEARLY * loud_shifts.max():
        return soft
    return loud[int(loud_shifts.argmax())]


def _prime(limit: int) -> int:
    """The largest prime up to `limit`: a crowd of so many fills no microbatches, so one row more begins
    none."""
    return next((n for n in range(limit, 2, -1) if all(n % k for k in range(2, isqrt(n) + 1))), limit)


def divide_crowd(bench: Bench, runs: int) -> Window:
    """One canary against a crowd, part of it short and part of it long, that points the other way: where a
    step follows an order or a quantile of its rows, one row more turns all of the long ones.

    How many are short is chosen in about `runs` steps, by how far canaries in several steps on end move them.
    Crowds are odd and even: one row more joins a group of two or begins one, and a median lies on a row or
    between two.
    """
    direction = bench.dense()
    canary = LOUDER * bench.training.clip * direction
    windows = []
    for rows in (most := max(2, min(bench.lot, MOST_DIVIDED, runs // 24)), most + 1):
        for short in range(rows + 1):
            grades = np.where(np.arange(rows) < short, QUIET, LOUD)
            crowd = -grades[:, None] * bench.training.clip * direction
            windows.append(Window(canary, crowd, lead=1, tail=1))
    return _loudest_window(bench, windows, direction, runs)


def _loudest_window(bench: Bench, windows: list[Window], direction: Array, runs: int) -> Window:
    """The window whose canary moves releases farthest along the direction; in stages, each of which leaves
    the better quarter."""
    stages = ceil(log(len(windows), 4))
    for _ in range(stages):
        shifts = _shifts(bench, windows, direction, runs // stages)
        order = np.argsort(-shifts, kind="stable")[: len(windows) // 4 or 1]
        windows = [windows[at] for at in order]
    return windows[0]


def _shifts(bench: Bench, windows: list[Window], direction: Array, runs: int) -> Array:
    """How far each canary moves releases along the direction. It comes in several steps on end: what a step
    remembers adds up."""
    cases = np.array([(at, inside) for at in range(len(windows)) for inside in (0, 1)])
    sums = np.zeros((len(windows), 2))
    repeats = max(1, runs // (PUSHES * len(cases)))
    for _ in range(repeats):
        # In random order: what is left of the case before is no habit.
        for at, inside in bench.rng.permutation(cases):
            batch = windows[at].with_canary() if inside else windows[at].crowd
            answers = [bench.release(batch) @ direction for _ in range(PUSHES)]
            sums[at, inside] += np.mean(answers[PUSHES // 2 :]) / repeats
    return np.nan_to_num(np.abs(sums[:, 1] - sums[:, 0]), nan=np.inf)


def dense(bench: Bench) -> Window:
    """The steps beside it are watched: one row of two moves whatever a step learns from its batch for the
    next."""
    canary = LOUDER * bench.training.clip * bench.dense()
    return Window(canary, bench.quiet(1), lead=1, tail=1, last=True)


def momentum(bench: Bench) -> Window:
    """Steps around it are watched; the crowd is a whole lot, so that what a step remembers moves all of
    it."""
    return Window(LOUD * bench.training.clip * bench.dense(), bench.quiet(bench.lot), lead=1, tail=9)


def single_canary(bench: Bench, place: int) -> Window:
    direction = np.zeros(bench.dimension)
    direction[place] = 1.0
    return Window(LOUDEST * bench.training.clip * direction, bench.nobody())


def pursue_direction(bench: Bench, runs: int) -> Window:
    """A canary along what a lot of rows gives beyond their clipped sum, along all that it gives, or along
    what a map from rows to answers stretches most: of these, the direction in which a lot is answered
    loudest.

    Many rows show in `runs` steps what one would show in thousands of times as many; only the canary
    must be one row. Layers that are clipped apart answer a dense row by a longer one, which leans towards the
    small layers; a row that leans so already is answered longest.
    """
    runs //= 2
    row = LOUD * bench.training.clip * bench.dense()[None]
    batches = [np.tile(row, (bench.lot, 1)), bench.quiet(bench.lot), bench.quiet(1)]
    loud, quiet, single = (_mean_release(bench, batch, runs // 6) for batch in batches)
    honest = clipped_sum(batches[0], bench.training.clip) / bench.training.clip
    changes = quiet - single, loud - single - honest, loud - single
    lengths = [float(np.linalg.norm(change)) for change in changes]
    units = [change / length for change, length in zip(changes, lengths, strict=True) if length > 0]

    direction = _stretched_direction(bench, single, runs)
    if direction is not None:
        units.append(direction)

    def answer_length(unit: Array) -> float:
        """How long the answer is; what noise adds to that is alike for all."""
        batch = np.tile(LOUD * bench.training.clip * unit, (bench.lot, 1))
        return float(np.linalg.norm(_mean_release(bench, batch, runs // 6) - single))

    direction = max(units, key=answer_length) if units else bench.dense()
    return Window(LOUD * bench.training.clip * direction, bench.quiet(1))


def _stretched_direction(bench: Bench, baseline: Array, runs: int) -> Array | None:
    """The direction that a linear map from rows to answers would stretch most, by least squares from as many
    steps as `runs` allow, each with a lot of one random row; None, where they are too few for the dimension.

    A step whose parameters share memory adds two parts of a row that it measured apart.
    """
    if runs < STEPS_PER_COORDINATE * bench.dimension:
        return None
    rows = np.array([bench.dense() for _ in range(runs)])
    loud = LOUD * bench.training.clip
    answers = np.array([bench.release(np.tile(loud * row, (bench.lot, 1))) - baseline for row in rows])
    linear = np.linalg.lstsq(rows, np.nan_to_num(answers, posinf=0, neginf=0), rcond=None)[0]
    return np.asarray(np.linalg.svd(linear, full_matrices=False)[0][:, 0])


def _mean_release(bench: Bench, batch: Array, runs: int) -> Array:
    return np.asarray(
        np.mean([np.nan_to_num(bench.release(batch)) for _ in range(max(1, runs))], axis=0), np.float64
    )


def quietest(bench: Bench, runs: int) -> Window:
    """A canary in the direction of least variance in `runs` steps without one."""
    places = np.arange(bench.dimension)
    if bench.dimension > MOST_COORDINATES:
        places = np.sort(bench.rng.choice(bench.dimension, MOST_COORDINATES, replace=False))
    crowd = bench.quiet(1)
    first = [bench.release(crowd) for _ in range(2)]
    direction = np.zeros(bench.dimension)
    twins = _twins(*first)
    if twins is not None:
        direction[list(twins)] = np.sqrt(0.5), -np.sqrt(0.5)
    else:
        # Fewer steps than twice the coordinates show directions without variance that are none.
        if runs < 2 * len(places):
            places = places[: max(2, runs // 2)]
        rows = np.array([bench.release(crowd)[places] for _ in range(runs)])
        direction[places] = np.linalg.eigh(np.cov(np.nan_to_num(rows), rowvar=False))[1][:, 0]
    return Window(LOUD * bench.training.clip * direction, crowd, lead=1)


def _twins(first: Array, second: Array) -> tuple[int, int] | None:
    """Two coordinates with the same noise in both steps, if there are any."""
    order = np.argsort(first, kind="stable")
    same = np.flatnonzero(
        (np.diff(first[order]) == 0) & (np.diff(second[order]) == 0) & (first[order][1:] != 0)
    )
    return (int(order[same[0]]), int(order[same[0] + 1])) if len(same) else None


def clipped_sum(gradients: Array, clip: float) -> Array:
    """Σ of gradients, each scaled to a norm of at most `clip`: what the claim says the step adds up."""
    if not len(gradients):
        return np.zeros(gradients.shape[1])
    norms = np.linalg.norm(gradients, axis=1)
    return np.asarray(np.minimum(1, clip / np.maximum(norms, 1e-300)) @ gradients)


# ---------------------------------------------------------------------------------------------- where to look


def watch_windows(bench: Bench, window: Window, rounds: int) -> tuple[Array, Booleans]:
    """Scores and coins of the windows that certify."""
    inside = bench.rng.random(rounds) < 0.5
    learn, weigh = int(DIRECTIONS * rounds), int(WEIGHTS * rounds)
    moments = [Moments.empty(bench.dimension) for _ in range(window.steps)]
    for coin in inside[:learn]:
        for moment, batch in zip(moments, window.batches(bool(coin)), strict=True):
            moment.add(bench.release(batch), bool(coin))
    unit = window.canary / np.linalg.norm(window.canary)
    # Beside the canary's own step only the canary and what plainly moved are looked at: weights cost
    # observations.
    views = [_directions(unit, moment) for moment in moments]
    views = [view if at == window.lead else view[:, :2] for at, view in enumerate(views)]
    features = np.array([_window_features(bench, window, views, bool(coin)) for coin in inside[learn:]])
    weights = discriminant(features[:weigh], inside[learn : learn + weigh])
    return features[weigh:] @ weights, inside[learn + weigh :]


@dataclass
class Moments:
    """Sums of releases with and without the canary, by coordinate."""

    sums: Array
    squares: Array
    counts: Array

    @classmethod
    def empty(cls, dimension: int) -> Moments:
        return cls(np.zeros((2, dimension)), np.zeros((2, dimension)), np.zeros((2, dimension)))

    def add(self, release: Array, coins: bool) -> None:
        values = np.nan_to_num(release, posinf=0, neginf=0)
        self.sums[int(coins)] += values
        self.squares[int(coins)] += values**2
        self.counts[int(coins)] += 1

    def add_at(self, places: NDArray[np.int64], scores: Array, coins: Booleans) -> None:
        """One score for each of some coordinates, with coins of their own."""
        at, values = (coins.astype(np.int64), places), np.nan_to_num(scores, posinf=0, neginf=0)
        self.sums[at] += values
        self.squares[at] += values**2
        self.counts[at] += 1

    def loudest(self) -> int:
        """The coordinate that its canary surely moves most, in deviations of one release."""
        gap, doubt, variance = self.mean_shifts()
        # Few releases of a coordinate show its variance badly: that of all is mixed in.
        few = PRIOR / (PRIOR + self.counts.sum(axis=0))
        spread = np.sqrt(few * np.median(variance) + (1 - few) * variance)
        has_counts = self.counts.min(axis=0) > 0
        sure = np.where(
            has_counts, np.abs(gap) - SURE * np.maximum(doubt, spread * np.sqrt(few / PRIOR)), -np.inf
        )
        return int(np.argmax(sure / spread))

    def mean_shifts(self) -> tuple[Array, Array, Array]:
        """How far the canary moves each coordinate on average, the deviation of that,
        and the variance of one release."""
        n = np.maximum(self.counts, 1)
        means = self.sums / n
        spread = np.maximum(self.squares / n - means**2, 0)
        variance = np.maximum(spread.mean(axis=0), 1e-12)
        return means[1] - means[0], np.sqrt((spread / n).sum(axis=0) + 1e-24), variance


def _directions(unit: Array, moments: Moments) -> Array:
    """Columns to project releases on: the canary, where it plainly shows, how much of it
    shows by blocks, and by variance."""
    gap, doubt, variance = moments.mean_shifts()
    clear_gap = np.where(np.abs(gap) > PLAIN * doubt, gap, 0.0)
    columns = [unit, clear_gap / variance, _by_blocks(unit, gap) / variance, unit / variance]
    return np.column_stack([column / max(float(np.linalg.norm(column)), 1e-300) for column in columns])


def _by_blocks(unit: Array, gap: Array) -> Array:
    """The canary, with each block of coordinates as large as it shows there: layers are
    clipped or noised each in its way."""
    block = np.minimum(np.arange(len(unit)) * BLOCKS // len(unit), BLOCKS - 1)
    along, norm = (np.bincount(block, weights, BLOCKS) for weights in (unit * gap, unit * unit))
    return np.asarray(unit * (along / np.maximum(norm, 1e-300))[block])


def _window_features(bench: Bench, window: Window, views: list[Array], coins: bool) -> Array:
    """What a window shows: releases along each direction, how long they are, and how
    much of them is no number."""
    features = []
    for batch, view in zip(window.batches(coins), views, strict=True):
        output = bench.release(batch)
        odd = float(np.count_nonzero(~np.isfinite(output)))
        values = np.nan_to_num(output, posinf=0, neginf=0)
        features.append([*(values @ view), np.log(np.linalg.norm(values) + 1e-12), odd])
    return np.concatenate(features)


def discriminant(features: Array, coins: Booleans) -> Array:
    """Fisher's linear discriminant, on standardised features with a little ridge."""
    if not 2 <= int(coins.sum()) <= len(coins) - 2:
        return np.zeros(features.shape[1])
    means = [features[coins == side].mean(axis=0) for side in (True, False)]
    rest = np.concatenate(
        [features[coins == side] - mean for side, mean in zip((True, False), means, strict=True)]
    )
    scale = np.maximum(np.sqrt(np.mean(rest**2, axis=0)), 1e-9)
    bend = (rest / scale).T @ (rest / scale) / len(rest) + RIDGE * np.eye(len(scale))
    return np.asarray(np.linalg.solve(bend, (means[0] - means[1]) / scale) / scale)
