"""The search for a tight bracket: both directions of every case, pass by pass, until the two sides meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from deniable.accounting.numerical.lattice.bracket import (
    PASSES,
    TAIL,
    Steering,
    Term,
    curves,
    plan,
    top_atom,
    tops,
)
from deniable.accounting.numerical.lattice.curve import BoundCurve
from deniable.accounting.numerical.lattice.discretise import infinite_mass
from deniable.accounting.numerical.lattice.one_step import delta_of_one, epsilon_of_one
from deniable.accounting.numerical.lattice.powers import in_blocks
from deniable.accounting.numerical.lattice.steer import sketch, tilt
from deniable.accounting.numerical.pairs.continuous import Gaussian, Pair, swap
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.rounding import U
from deniable.accounting.refusals import FAILURES, collect_lowers, lower_time
from deniable.errors import DeniableError

Result = TypeVar("Result")
TOLERANCE = 7e-4
"""What discretisation may cost, as a share of ε; the rest up to `GOAL` is left to the
window and to rounding."""
GOAL = 1e-3
NEAR = 1e-5
"""Brackets of ε narrower than this are tight enough whatever ε is."""
CROWDED = 100
"""Unlike steps above which a bracket of a hundredth of ε will do."""
ROUGH = 0.1
"""Most of ε that a first look at the direction that matters less may be off."""
GOAL_DELTA = 1e-2
LEAST = 1e-250
"""No δ smaller than this is aimed at."""
TINY = 1e-40
"""Brackets of δ narrower than this are tight enough whatever δ is."""


@dataclass(frozen=True)
class TermCase:
    """Terms composed together. A case may stand for the upper side, the lower side, or (exact pairs) both."""

    terms: tuple[Term, ...]
    upper: bool = True
    lower: bool = True


@dataclass
class CaseSide:
    """One direction of one case, and what the passes so far have proved."""

    terms: tuple[Term, ...]
    is_upper: bool
    is_lower: bool
    state: Steering
    lower: float = 0.0
    upper: float = math.inf
    done: bool = field(default=False)


def merge(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Gaussians compose to a Gaussian: σ⁻² and slack add up. One pair met twice is
    counted together; loss 0 is no loss."""
    squares, left, rest = 0.0, 0.0, dict[int, tuple[Pair, int]]()
    for pair, times in terms:
        if isinstance(pair, Finite) and not pair.losses.any():
            continue
        if isinstance(pair, Gaussian):
            squares, left = squares + times / pair.sigma**2, left + times * pair.left
        else:
            rest[id(pair)] = (pair, rest.get(id(pair), (pair, 0))[1] + times)
    term = None
    if squares:
        term = (Gaussian(1 / math.sqrt(squares), left), 1)
    return tuple(rest.values()) + ((term,) if term else ())


def directions(cases: Sequence[TermCase], delta: float, epsilon: float = 0.0) -> list[CaseSide]:
    """Every case as it stands and, unless all its pairs are symmetric, with P and Q swapped."""
    sides: list[CaseSide] = []
    for case in cases:
        if case.upper:
            sides.extend(_both_directions(case, delta, epsilon))
        else:
            sides.extend(collect_lowers(partial(_both_directions, case, delta, epsilon)))
    return sides


def _both_directions(case: TermCase, delta: float, epsilon: float) -> Iterator[CaseSide]:
    terms = merge(case.terms)
    yield CaseSide(in_blocks(terms), case.upper, case.lower, Steering(delta, epsilon))
    is_lower = case.lower and not any(pair.one_way for pair, _ in terms)
    if any(pair.sided for pair, _ in terms) and (case.upper or is_lower):
        reverse = tuple((swap(pair), times) for pair, times in terms)
        yield CaseSide(in_blocks(reverse), case.upper, is_lower, Steering(delta, epsilon))


def _bounds(sides: Sequence[CaseSide]) -> tuple[float, float]:
    lower = max((s.lower for s in sides if s.is_lower), default=0.0)
    upper = max((s.upper for s in sides if s.is_upper), default=math.inf)
    # Both sides are proved, so rounding alone may cross them; more is a bug, and then no number is told.
    if lower > upper * (1 + 1e-9) + 1e-12:
        raise ArithmeticError(f"Certified bounds contradict each other: lower {lower}, upper {upper}.")
    return min(lower, upper), upper


def _search(
    sides: Sequence[CaseSide],
    refine: Callable[[CaseSide, float], None],
    enough: Callable[[float, float], float],
) -> None:
    """Refine every side that could still move the bracket, from the lower bound known so far. `enough(lower,
    upper)` is the width that will do."""
    for _ in range(PASSES):
        lower, upper = _bounds(sides)
        width = enough(lower, upper)
        if upper - lower <= width < math.inf:
            return
        todo = [s for s in sides if not s.done and (not s.state.passes or _matters(s, lower, upper, width))]
        if not todo:
            return
        for side in todo:
            attempt(side, lambda side: refine(side, max((s.lower for s in sides if s.is_lower), default=0.0)))


def attempt(side: CaseSide, act: Callable[[CaseSide], Result]) -> Result | None:
    """Do `act` to a side. One that stands for the lower bound alone proves nothing where that fails, not even
    what it said before, and never costs the upper bound: None."""
    try:
        if side.is_upper:
            return act(side)
        with lower_time():
            return act(side)
    except (*FAILURES, DeniableError):
        if side.is_upper:
            raise
        side.lower, side.done = 0.0, True
        return None


def _matters(side: CaseSide, lower: float, upper: float, width: float) -> bool:
    """Whether another pass of `side` could narrow the bracket: it is not tight itself,
    and it reaches above `lower`."""
    if math.isinf(upper):
        return True
    return side.upper - side.lower > width and side.upper > lower + width / 2


def epsilon_bounds(
    cases: Sequence[TermCase], delta: float, *, tolerance: float = TOLERANCE, goal: float = GOAL
) -> tuple[float, float]:
    """Bounds on the least ε at δ."""
    if (
        sum(len(case.terms) for case in cases) > CROWDED
    ):  # many unlike steps: time and memory before the third digit
        tolerance, goal = 2 * tolerance, 8 * goal
    sides = directions(cases, delta)
    for side in sides:
        attempt(side, lambda side: _start(side, delta))
    sides.sort(key=lambda side: -side.state.epsilon)  # the one that seems to decide first
    _search(
        sides,
        lambda side, known: _refine_epsilon(side, delta, tolerance, known),
        lambda _, upper: max(goal * upper, NEAR * goal / GOAL),
    )
    return _bounds(sides)


def _refine_epsilon(side: CaseSide, delta: float, tolerance: float, known: float) -> None:
    state, terms = side.state, side.terms
    state.passes += 1
    slack = None
    if state.passes == 1 and known > state.epsilon:
        # It seems to stay below what another direction reaches, and only has to be shown to.
        slack = max(min((known - state.epsilon) / 4, ROUGH * state.epsilon), tolerance * state.epsilon)
    upper, lower = curves(terms, plan(terms, state, slack, tolerance))
    side.upper = min(side.upper, upper.epsilon(delta))
    if lower is not None:
        side.lower = max([side.lower, *collect_lowers(lambda: [lower.epsilon(delta)])])
    state.epsilon = min(max(upper.estimate(delta), side.lower, 1e-9), side.upper)
    state.noise = upper.noise(state.epsilon)


def _start(side: CaseSide, delta: float) -> None:
    """What can be said without composing: nothing to compose, revealed outright, the sum
    of all losses, one release."""
    terms = side.terms
    if not terms:
        side.lower = side.upper = 0.0
        side.done = True
        return
    exposure = revealed_mass(terms)
    # Less δ than is revealed outright: no ε will do.
    if delta < exposure * (1 - 16 * U):
        side.lower = side.upper = math.inf
        side.done = True
        return
    # δ pays for what is revealed outright; the rest never exceeds the sum of the largest losses.
    if delta >= exposure * (1 if len(terms) == 1 and terms[0][1] == 1 else 1 + 16 * U):
        side.upper = tops(terms) if not any(pair.slack for pair, _ in terms) else math.inf
    if side.upper == 0:
        side.done = True
        return
    # Slack is mass that a pair left out and charges as revealed: it proves nothing from below.
    if delta == 0 and math.isinf(side.upper):
        side.lower = 0.0 if any(pair.slack for pair, _ in terms) else math.inf
        side.done = True
        return
    # All of δ is used up by what is revealed, so nothing below that sum holds.
    if delta <= exposure * (1 + 1e-9):
        side.lower = side.upper * (1 - 16 * U) if delta == exposure and math.isfinite(side.upper) else 0.0
        side.done = True
        return
    if len(terms) == 1 and terms[0][1] == 1:
        side.lower, upper = epsilon_of_one(terms[0][0], delta)
        side.upper = min(side.upper, upper)
        side.lower = min(side.lower, side.upper)
        side.done = True
        return
    # The outcomes of largest loss alone have δ(ε) ≥ m·(1 − e^(ε − top)); solved for ε.
    top, log_mass = top_atom(terms)
    if math.log(delta) < log_mass - 1e-9:
        side.lower = max(side.lower, min(top + math.log1p(-math.exp(math.log(delta) - log_mass)), side.upper))
    times = sum(t for _, t in terms)
    side.state.sketches = tuple(sketch(pair, t, TAIL * delta / times) for pair, t in terms)
    side.state.theta, guess = tilt(side.state.sketches, delta=delta)
    side.state.epsilon = max(guess, 0.0)


def revealed_mass(terms: Sequence[Term]) -> float:
    """P mass at loss +∞ after composition."""
    if len(terms) == 1 and terms[0][1] == 1:
        return infinite_mass(terms[0][0])
    # 1 − Π(1 − mᵢ)^tᵢ: at least one of all steps reveals.
    return -math.expm1(sum(t * math.log1p(-min(infinite_mass(pair), 1 - U)) for pair, t in terms))


def delta_bounds(
    cases: Sequence[TermCase], epsilon: float, *, goal: float = GOAL_DELTA
) -> tuple[float, float]:
    """Bounds on δ at ε."""
    sides = directions(cases, 1.0, epsilon)
    for side in sides:
        side.upper = 1.0
    _search(
        sides, lambda side, _: _refine_delta(side, epsilon, goal), lambda _, upper: max(goal * upper, TINY)
    )
    return _bounds(sides)


def _refine_delta(side: CaseSide, epsilon: float, goal: float) -> None:
    state, terms = side.state, side.terms
    state.passes += 1
    if state.passes == 1 and start_delta(side, epsilon):
        return
    theta = state.theta or 1.0
    upper, lower = curves(terms, plan(terms, state, 0.5 * goal / theta, 0.0))
    read_delta(side, upper, lower, epsilon)
    state.noise = upper.noise(epsilon)
    # The Chernoff bound that the first guess came from is roughly an upper bound: a noisy pass must not raise
    # it.
    state.delta = max(min(state.delta, side.upper, upper.node_estimate(epsilon)), LEAST)


def read_delta(side: CaseSide, upper: BoundCurve, lower: BoundCurve | None, epsilon: float) -> None:
    side.upper = min(side.upper, upper.delta(epsilon))
    if lower is not None:
        side.lower = max([side.lower, *collect_lowers(lambda: [min(lower.delta(epsilon), side.upper)])])


def start_delta(side: CaseSide, epsilon: float) -> bool:
    """True where nothing needs composing."""
    terms = side.terms
    if not terms:
        side.lower = side.upper = 0.0
    elif len(terms) == 1 and terms[0][1] == 1:
        side.lower, side.upper = delta_of_one(terms[0][0], epsilon)
    elif epsilon >= tops(terms) and not any(pair.slack for pair, _ in terms):
        mass = max(0.0, revealed_mass(terms))
        side.lower, side.upper = mass * (1 - 16 * U), mass * (1 + 16 * U)
    else:
        _at_the_top(side, epsilon)
        times = sum(t for _, t in terms)
        sketches = [sketch(pair, t, 1e-30 / times) for pair, t in terms]
        side.state.theta, log_delta = tilt(sketches, epsilon=epsilon)
        side.state.delta = max(math.exp(min(log_delta, 0.0)), LEAST)
        return False
    side.done = True
    return True


def _at_the_top(side: CaseSide, epsilon: float) -> None:
    """What the sum of the largest losses says of δ: all the rest lies below it, and it has a mass of its own.
    That is all there is where every loss is the same."""
    if not any(pair.slack for pair, _ in side.terms):
        below = -math.expm1(epsilon - tops(side.terms))
        side.upper = min(side.upper, (revealed_mass(side.terms) + below) * (1 + 16 * U))
    top, log_mass = top_atom(side.terms)
    if top > epsilon:
        least = math.exp(log_mass) * -math.expm1(epsilon - top) * (1 - 16 * U)
        side.lower = max(side.lower, min(least, side.upper))
