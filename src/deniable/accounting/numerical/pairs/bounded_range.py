"""Many choices of bounded range ε (exponential mechanisms), each free to depend on the earlier answers.

The most that k of them reveal obeys a recursion over the loss so far (Dong, Durfee, Rogers 2020): the last
choice is one of two outcomes with losses t and t − ε, at the t that is worst for what is left. `above` solves
it from above on a lattice, every t in [0, ε] included; `below` keeps to the t of the lattice. Proofs:
docs/theory/numerical.md, "Bounded range".
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from deniable.accounting.numerical.pairs.dots import connected
from deniable.accounting.numerical.pairs.finite import Finite, Sided
from deniable.accounting.numerical.rounding import REACH, Array, U
from deniable.accounting.refusals import check_time

LARGEST_BLOCK = 128
"""Choices that one recursion takes; more are composed of such blocks, which loses little
and is an upper bound."""
PARTS, MOST_PARTS = 16, 256
"""Cells of the lattice within one ε, at least and at most: the upper side errs by about
1/2·parts² of the composed ε."""
NODES = 2048
FAINT = 600.0
"""Heights below e^(loss − FAINT) are not resolved: the last chord stands for them."""
OFF = 1e-9
"""What rounding may do to the mass of one cell of the lower side, which is a difference of two sums."""


def blocks(epsilon: float, times: int) -> tuple[tuple[int, int], ...]:
    """(size, count) of the blocks that `times` choices are cut into."""
    size = min(times, LARGEST_BLOCK, max(1, int(REACH / epsilon)))
    count, rest = divmod(times, size)
    if rest:
        return ((size, count), (rest, 1))
    return ((size, count),)


def _parts(times: int) -> int:
    return min(max(NODES // times, PARTS), MOST_PARTS)


def block_work(times: int, parts: int = PARTS) -> int:
    """Cells that the recursion for so many choices goes through, about, on a lattice of `parts`."""
    block = min(times, LARGEST_BLOCK)
    return block * parts * (1 + block * parts // 500)


@lru_cache(maxsize=64)
def above(epsilon: float, times: int, parts: int = 0) -> Finite:
    """A pair that dominates `times` adaptive choices of range `epsilon`; on a lattice of `parts`, if
    stated."""
    parts = parts or _parts(times)
    dt = epsilon / parts
    heights = np.zeros(1)
    for _ in range(times):
        check_time()
        heights = _worst(_extended(heights, parts, dt), parts, dt)
    losses = dt * np.arange(len(heights))
    # The curve is convex, so the chord to its end lies above the heights that are left out.
    solid = heights > np.exp(losses - FAINT)
    solid[-1] = True
    last = epsilon * times
    losses[-1] = last
    return connected(losses[solid], heights[solid], (-last, dt))


def _extended(heights: Array, parts: int, dt: float) -> Array:
    """Heights at nodes −parts … count + 2·parts: mirrored below 0, and 0 above."""
    profile = np.concatenate([heights, np.zeros(2 * parts)])
    below = dt * np.arange(parts, 0, -1)
    return np.concatenate([-np.expm1(-below) + np.exp(-below) * profile[parts:0:-1], profile])


def _worst(rest: Array, parts: int, dt: float) -> Array:
    """One more choice: at each node the most over all t, on the chords of `rest`.

    With λ = e^(t−ε), and y the node, the height is p·R(y − t) + (1 − p)·R(y − t + ε), p
    linear in λ and R linear in 1/λ while t stays in one cell: −aλ + c − b/λ with a, b ≥
    0, concave, so its top is known in closed form.
    """
    count = len(rest) - 2 * parts
    omega, total = math.expm1(dt), -math.expm1(-parts * dt)
    best = np.zeros(count)
    for cell in range(parts):
        # r goes from 0 to 1 while t rises by dt and both heights climb to the node before.
        left_low, left_high = _slices(rest, parts - cell - 1, count)
        right_low, right_high = _slices(rest, 2 * parts - cell - 1, count)
        p = -math.expm1((cell - parts) * dt) / total
        falls = math.exp((cell - parts) * dt) * omega / total
        up, up_right = left_low - left_high, right_low - right_high
        start = (1 + omega) * (p * up + (1 - p) * up_right) - falls * (left_high - right_high)
        end = ((p - falls) * up + (1 - p + falls) * up_right) / (1 + omega) - falls * (left_low - right_low)
        r = _turning(start, end, omega)
        g = r * (1 + omega) / (1 + omega * r)
        share = np.maximum(p - falls * r, 0.0)
        height = share * (left_high + up * g) + (1 - share) * (right_high + up_right * g)
        np.maximum(best, height, out=best)
    best[-1] = 0.0
    # Rounded up, and off the range of subnormal numbers: the heights must dominate.
    return np.where(best > 0, np.maximum(best * (1 + 64 * U), 1e-250), 0.0)


def _slices(rest: Array, first: int, count: int) -> tuple[Array, Array]:
    return rest[first : first + count], rest[first + 1 : first + 1 + count]


def _turning(start: Array, end: Array, omega: float) -> Array:
    """Where in the cell (0 … 1) the slope, −a + b/(1 + ωr)², falls through 0, given its values at both
    ends."""
    with np.errstate(divide="ignore", invalid="ignore"):
        b = (start - end) / -math.expm1(-2 * math.log1p(omega))
        inside = np.expm1(0.5 * np.log1p(start / (b - start))) / omega
    return np.where(start <= 0, 0.0, np.where(end >= 0, 1.0, np.clip(np.nan_to_num(inside), 0.0, 1.0)))


@lru_cache(maxsize=64)
def below(epsilon: float, times: int) -> Finite:
    """A curve under the most that `times` adaptive choices reveal: the tangents, at each
    node, of a mechanism made for it.

    Each ε has a mechanism of its own, so the curve is attained as a whole only where one factor of a
    composition is of this kind: the choices then come last, and know how much is left.
    """
    parts = _parts(times)
    dt = epsilon / parts
    tails = np.zeros((2, 1))
    for _ in range(times):
        check_time()
        tails = _best_on_lattice(tails, parts, dt)
    return _tangents(tails, dt)


def _best_on_lattice(tails: Array, parts: int, dt: float) -> Array:
    """P and Q of {loss > y} at each node y ≥ 0 after one more choice, t being the best multiple of dt."""
    count = tails.shape[1] + parts
    profile = np.concatenate([tails, np.zeros((2, 2 * parts))], axis=1)
    rest = np.concatenate([1 - profile[::-1, parts:0:-1], profile], axis=1)
    x = np.exp(dt * np.arange(count))
    best = np.zeros((2, count))
    heights = np.full(count, -1.0)
    for cell in range(parts + 1):
        p = math.expm1((cell - parts) * dt) / math.expm1(-parts * dt)
        q = p * math.exp(-cell * dt)
        high, low = parts - cell, 2 * parts - cell
        option = np.stack(
            [
                share * rest[side, high : high + count] + (1 - share) * rest[side, low : low + count]
                for side, share in enumerate((p, q))
            ]
        )
        height = option[0] - x * option[1]
        better = height > heights
        heights[better] = height[better]
        best[:, better] = option[:, better]
    return best


def _tangents(tails: Array, dt: float) -> Finite:
    """The tangents meet once between nodes, where the mass of that cell then lies; a
    tangent that does not is left out."""
    nodes = [0]
    place: list[float] = []
    for j in range(1, tails.shape[1]):
        while True:
            p, q = tails[:, nodes[-1]] - tails[:, j]
            at = math.nan
            if p > 0 and q > 0:
                at = math.log(p / q)
            if (place[-1] if place else 0.0) <= at <= dt * j:
                nodes.append(j)
                place.append(at)
                break
            if math.isnan(at) or at > dt * j or len(nodes) == 1:
                break
            nodes.pop()
            place.pop()
    p, q = -np.diff(tails[:, nodes], axis=1)
    losses = np.array(place)
    # What neither side has lies at loss 0, where it reveals nothing.
    middle = max(0.0, 1 - float(tails[:, 0].sum()))
    return Sided.of(
        np.concatenate([-losses[::-1], [0.0], losses]),
        np.concatenate([q[::-1], [middle], p]),
        np.concatenate([p[::-1], [middle], q]),
        0.0,
        -OFF,
    )
