"""From pairs to a bracket: passes of discretise, compose and read off, each of them
valid, until the bracket is tight.

A pass that few rare losses decide ("jumps", at tiny rates) composes bulk and jumps apart: with P restricted
to losses ≤ h on all steps, plus one step above h, plus at most ½(Σ times·P(L > h))² for two or more
(docs/theory/numerical.md, T7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from deniable.accounting.numerical.lattice.compose import Composition, Part, compose
from deniable.accounting.numerical.lattice.curve import BoundCurve
from deniable.accounting.numerical.lattice.discretise import (
    Bools,
    LossLaw,
    anchor,
    discretise,
    infinite_mass,
    silent,
    sparse,
)
from deniable.accounting.numerical.lattice.steer import (
    Sketch,
    lattice_step,
    light,
    sketch,
    spread,
    thinner,
    tilt,
    tilted,
)
from deniable.accounting.numerical.pairs.continuous import Pair
from deniable.accounting.numerical.rounding import REACH, Array, U, relative
from deniable.accounting.refusals import check_time, collect_lowers
from deniable.errors import Unaccountable

Term: TypeAlias = tuple[Pair, int]
ETA = 1e-7
"""Tilted mass allowed outside the window in the first pass."""
TAIL = 1e-7
"""Share of δ given to losses beyond the last node in the first pass."""
NOISY = 0.05
"""A pass whose numerical error exceeds this share of δ calls for bulk and jumps apart."""
PASSES = 8
MOST_NODES = 100_000
FINEST = 200_000
"""No cell is narrower than this part of the widest pair's losses."""
FEW_TERMS = 24
"""Terms on which dt is tried out where there are many more."""
STEEPEST = 8.0
"""Most of θ·dt: on a coarse lattice ε lies between two nodes, and a steeper tilt would
leave no digit at the lower one."""


@dataclass
class Steering:
    """What the passes so far suggest; nothing here enters a bound except as a choice."""

    delta: float
    epsilon: float = 0.0
    theta: float | None = None
    passes: int = 0
    noise: float = 0.0
    split: bool = False
    sketches: tuple[Sketch, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Piece:
    """One composition of a pass: its tilt, whether it is the one with a jump, and whether it decides δ."""

    theta: float
    jump: bool
    leads: bool


@dataclass(frozen=True)
class PassPlan:
    """The choices of one pass."""

    tail: float
    eta: float
    pieces: tuple[Piece, ...]
    slack: float
    cut: float
    sketches: tuple[Sketch, ...] = field(repr=False)
    passes: int
    wide: bool
    reach: tuple[float, float]

    @property
    def leading(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.leads)

    def density(self, one: Sketch) -> Array:
        """Where the leading compositions look, as masses on the sketch: the bulk at
        every step, a jump at one."""
        total = np.zeros(len(one.losses))
        low = one.losses <= self.cut
        for piece in self.leading:
            total += one.times * tilted(one, piece.theta, low)
            if piece.jump:
                total += tilted(one, piece.theta, ~low)
        return total / max(float(total.sum()), 1e-300)


def plan(terms: Sequence[Term], state: Steering, slack: float | None, tolerance: float) -> PassPlan:
    """Choose tail, window, tilt and whether to set jumps apart. `slack`: allowed error
    in ε, else tolerance·ε."""
    times = sum(t for _, t in terms)
    first = state.passes == 1
    # `curves` charges times·tail to δ, so the share is divided by the number of steps.
    tail = (TAIL if first else 2e-4) * state.delta / times
    sketches = (
        state.sketches if first and state.sketches else tuple(sketch(pair, t, tail) for pair, t in terms)
    )
    state.split = state.split or (state.noise > NOISY and times > 1)
    cut = math.inf
    if state.split:
        # Two jumps or more are charged ½(Σ times·P(L > cut))², here about 1e-4 of δ.
        cut = _cut(sketches, math.sqrt(2e-4 * state.delta))
    if cut < math.inf:
        pieces = _pieces(sketches, cut, state.epsilon)
    else:
        pieces = (
            Piece(
                state.theta if first and state.theta else tilt(sketches, epsilon=state.epsilon)[0],
                False,
                True,
            ),
        )
    guess = max(state.epsilon, 1e-2 * spread(sketches) * 0.5**state.passes)
    room = slack if slack is not None else tolerance * guess
    eta = ETA * 1e-5 ** min(state.passes - 1, 8)
    # Jumps are steeper than the tilt of their piece says, and after a noisy pass ε is hardly known: a finer
    # lattice.
    room /= 1 if math.isinf(cut) else 16 if state.noise > 1 else 4
    wide = state.passes > 2 and state.noise > 1e-4
    reach = (0.0, 1.5 * state.epsilon if cut < math.inf else 0.0)
    return PassPlan(tail, eta, pieces, room, cut, sketches, state.passes, wide, reach)


def _pieces(sketches: Sequence[Sketch], cut: float, epsilon: float) -> tuple[Piece, ...]:
    """Bulk alone, and bulk with one jump (of the term whose jumps are heaviest); either
    leads unless e⁸ times smaller."""
    bulk = [s.below(cut) for s in sketches]
    still, log_still = tilt(bulk, epsilon=epsilon)
    best = max(
        range(len(sketches)), key=lambda i: sketches[i].times * float(sketches[i].above(cut).mass.sum())
    )
    rest = [s.fewer() if i == best else s for i, s in enumerate(bulk)]
    jump, log_jump = tilt([*(r for r in rest if r.times), sketches[best].above(cut)], epsilon=epsilon)
    log_jump += math.log(sketches[best].times)
    return Piece(still, False, log_still > log_jump - 8), Piece(jump, True, log_jump > log_still - 8)


def _cut(sketches: Sequence[Sketch], rare: float) -> float:
    """The least loss h with Σ times·P(L > h) ≤ rare, as the sketches see it; ∞ if nothing lies above it."""
    losses = np.concatenate([s.losses for s in sketches])
    mass = np.concatenate([s.times * s.mass for s in sketches])
    order = np.argsort(losses)
    above = np.cumsum(mass[order][::-1])[::-1]
    rarely = np.flatnonzero(above <= rare)
    if len(rarely) > 1:
        return float(losses[order][rarely[0]])
    return math.inf


@dataclass(frozen=True)
class Laws:
    """All terms on one lattice, above and below."""

    dt: float
    upper: tuple[Part, ...]
    lower: tuple[Part, ...] | None
    reach: float


def discretise_all(terms: Sequence[Term], plan: PassPlan) -> Laws:
    """Shrink dt until the two sides, compared by their tilted moments, are as near as the plan asks."""
    times = sum(t for _, t in terms)
    pairs = [pair for pair, _ in terms]
    width = max(plan.reach[1], *(high - low for low, high in (pair.span(plan.tail) for pair in pairs)))
    dt = math.sqrt(7 * plan.slack / (times * (1 + max(piece.theta for piece in plan.leading)))) * 0.75 ** min(
        plan.passes - 1, 4
    )
    lone = any(sparse(pair) for pair in pairs) or sum(pair.lattice is not None for pair in pairs) > 1
    # Of many terms a few, standing for the others, show how fine dt must be; all are then put on the lattice
    # once.
    every = max(1, len(terms) // FEW_TERMS)
    few, sketches = [(pair, t * every) for pair, t in terms[::every]], plan.sketches[::every]
    for attempt in range(6):
        dt = lattice_step(pairs, max(dt, width / FINEST), attempt > 0)
        laws = Laws(dt, *_laws(few, sketches, plan, dt, times))
        gap = max(_gap(laws, piece, plan.cut) for piece in plan.leading)
        nodes = max(len(law.index) for law, _ in laws.upper)
        if gap <= 1.05 * plan.slack or nodes > MOST_NODES or dt <= width / FINEST or attempt == 5:
            break
        # Both discretisations are second order in dt (lone atoms: first), so the dt that will do can be
        # foreseen.
        shrink = 0.5
        if gap < math.inf:
            shrink = plan.slack / gap
        dt *= max(0.02, min(0.9, 0.95 * shrink)) if lone else max(0.2, min(0.9, 0.95 * math.sqrt(shrink)))
    if every == 1:
        return laws
    return Laws(dt, *_laws(terms, plan.sketches, plan, dt, times))


def _laws(
    terms: Sequence[Term], sketches: Sequence[Sketch], plan: PassPlan, dt: float, times: int
) -> tuple[tuple[Part, ...], tuple[Part, ...] | None, float]:
    upper: list[Part] = []
    lower: list[Part] = []
    reach = 0.0
    for (pair, t), outline in zip(terms, sketches, strict=True):
        low, high = pair.span(plan.tail)
        reach = max(reach, abs(low), abs(high))
        place = anchor(pair, dt)
        # Losses too low to matter: the upper side lifts them, the lower side drops them.
        density = plan.density(outline)
        low = min(max(low, light(outline, density, 1e-10 / times)), high)
        thin = thinner(outline, density, place[0], dt, valley=math.isinf(plan.cut))
        above, below = discretise(pair, dt, low, high, thin, place)
        if below is None and len(terms) > 1 and low <= 0:
            # All its losses lie within a cell or two: beside others it may count below as if it said nothing.
            above, _ = discretise(pair, dt, low, high, None, (0.0, math.nan))
            below = silent(above)
        upper.append((above, t))
        if below is not None:
            lower.append((below, t))
    return tuple(upper), tuple(lower) if len(lower) == len(upper) else None, reach


def _gap(laws: Laws, piece: Piece, cut: float) -> float:
    """How far apart the two sides are in ε, by the moments that the piece's tilt is made of."""
    if laws.lower is None:
        return math.inf
    gap = 0.0
    for (above, times), (below, _) in zip(laws.upper, laws.lower, strict=True):
        low = above.losses <= cut
        gap += times * _distance(above, below, piece.theta, low)
        if piece.jump and not low.all():
            gap += _distance(above, below, piece.theta, ~low)
    return gap


def _distance(above: LossLaw, below: LossLaw, theta: float, keep: Bools) -> float:
    z = theta * above.losses[keep]
    mask = above.mass[keep] > 0
    if not mask.any():
        return 0.0
    weight = np.exp(np.minimum(z - z[mask].max(), 0.0))
    high, low = float(weight @ above.mass[keep]), float(weight @ below.mass[keep])
    if low > 0:
        return math.log(high / low) / theta
    return math.inf


def curves(terms: Sequence[Term], plan: PassPlan) -> tuple[BoundCurve, BoundCurve | None]:
    """Both sides of δ(ε), certified."""
    check_time()
    times = sum(t for _, t in terms)
    _within_reach(terms, plan.tail)
    laws = discretise_all(terms, plan)
    _check(terms, laws.upper, plan.tail)
    # 1 − Π(1 − mᵢ)^tᵢ without cancelling: that any step reveals outright.
    exposure = -math.expm1(sum(t * math.log1p(-min(infinite_mass(p), 1 - U)) for p, t in terms))
    # Slack is mass that a pair left out: above, it counts as revealed, step by step.
    tails = times * plan.tail + sum(t * pair.slack for pair, t in terms)
    exponent = max(float(np.abs(law.losses[[0, -1]]).max()) for law, _ in laws.upper) * max(
        piece.theta for piece in plan.pieces
    )
    # Each step's masses are off by r (T5), and e^(θ·loss) by its exponent in ulp; the errors of all steps
    # multiply.
    r = relative(laws.reach)
    safe = math.exp(times * (r + 4 * U * (8 + exponent)))
    # Ends of cells are off by r as well, and a sum of losses by that of every step.
    shift = 2 * times * r
    above, twice = _sums(laws.upper, plan, None)
    upper = BoundCurve(above, 1, safe, shift, exposure * (1 + 16 * U) + tails + twice)
    if laws.lower is None:
        return upper, None
    # Below, what is left out (tails, second jumps) only lowers the curve, so nothing is added for it.
    lower = laws.lower
    for below, _ in collect_lowers(lambda: [_sums(lower, plan, above)]):
        return upper, BoundCurve(below, -1, safe, shift, exposure * (1 - 16 * U))
    return upper, None


def _within_reach(terms: Sequence[Term], tail: float) -> None:
    reach = max(max(map(abs, pair.span(tail))) for pair, _ in terms)
    if reach > REACH:
        raise Unaccountable(
            f"One step may lose ε = {reach:.0f}, over the {REACH:.0f} that doubles can hold in this method. "
            "Nothing was computed; use more noise, or another method."
        )


def _check(terms: Sequence[Term], upper: Sequence[Part], tail: float) -> None:
    """Both measures keep their mass: catches a mismatch of lattice and masses before it
    becomes a wrong bound."""
    for (pair, _), (law, _) in zip(terms, upper, strict=True):
        p, q = float(law.mass.sum()), float((law.mass * np.exp(-law.losses)).sum())
        if not (abs(p - 1 + infinite_mass(pair)) < 1e-6 + tail + pair.slack + pair.short and q < 1 + 1e-6):
            raise ArithmeticError(f"A law on the lattice has masses {p} and {q} under P and Q instead of 1.")


def _sums(
    parts: Sequence[Part], plan: PassPlan, like: tuple[Composition, ...] | None
) -> tuple[tuple[Composition, ...], float]:
    """The compositions that add up to δ, and a bound on what they leave out (two jumps
    or more). Windows as in `like`."""
    wide, steepest = plan.wide, STEEPEST / parts[0][0].dt
    thetas = [min(piece.theta, steepest) for piece in plan.pieces]
    if math.isinf(plan.cut):
        return (compose(parts, thetas[0], plan.eta, slopes=like[0].slopes if like else None, wide=wide),), 0.0
    halves = [(*_halves(law, plan.cut), times) for law, times in parts]
    bulk = [(low, times) for low, _, times in halves]
    out = [compose(bulk, thetas[0], plan.eta, reach=plan.reach, wide=wide)]
    jumping = 0.0
    for i, (low, high, times) in enumerate(halves):
        mass = float(high.mass.sum())
        if mass > 0:
            jumping += times * mass
            # One step of this term jumps, its others stay low; `times` ways to choose it are the log_weight.
            rest = [b for k, b in enumerate(bulk) if k != i] + ([(low, times - 1)] if times > 1 else [])
            jump_parts = [*rest, (high, 1)]
            out.append(
                compose(
                    jump_parts, thetas[1], plan.eta, reach=plan.reach, wide=wide, log_weight=math.log(times)
                )
            )
    return tuple(out), 0.5 * jumping**2 * (1 + 1e-9)


def _halves(law: LossLaw, cut: float) -> tuple[LossLaw, LossLaw]:
    high = law.losses > cut
    return (
        LossLaw(law.offset, law.dt, law.index[~high], law.mass[~high]),
        LossLaw(law.offset, law.dt, law.index[high], law.mass[high]),
    )


def tops(terms: Sequence[Term]) -> float:
    """Σ of the largest finite losses: no ε above it is ever needed beyond what is revealed outright."""
    total = sum(times * max(0.0, pair.span(0.0)[1]) for pair, times in terms)
    # Rounded up: it stands as an upper bound.
    return total * (1 + 4 * U)


def top_atom(terms: Sequence[Term]) -> tuple[float, float]:
    """The sum of the largest losses and ln of the chance to lose that much: δ(ε) ≥
    P(top)·(1 − e^(ε − top)), nothing composed.

    0 and −∞ where the largest loss of a pair has no mass of its own.
    """
    top = log_mass = 0.0
    for pair, times in terms:
        losses, p, _ = pair.atoms
        finite = np.isfinite(losses)
        if not finite.any() or (pair.smooth and pair.span(0.0)[1] > losses[finite].max() * (1 + 4 * U)):
            return 0.0, -math.inf
        largest = int(np.argmax(np.where(finite, losses, -math.inf)))
        if losses[largest] <= 0 or p[largest] <= 0:
            return 0.0, -math.inf
        top += times * float(losses[largest])
        log_mass += times * math.log(float(p[largest]))
    # Each loss is right to `relative`, each mass too (T5).
    slack = sum(times for _, times in terms) * relative(REACH)
    return top * (1 - 4 * U) - slack, log_mass - slack
