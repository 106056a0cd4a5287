"""One error tree: what doubles cannot hold becomes a refusal with a sentence, never a
bare OverflowError or a NaN.

Every public function of the accountant that computes with floats stands behind `guard`. Numbers of a loss
may have any size; a method that meets one beyond its range refuses, and `choose` goes on to the next.

A call also has a limit on its processor time, `PATIENCE`, for losses come from strangers (certificates, a
service's questions). A call that reaches it is refused as a whole: a number that depended on how fast the
machine is would be no bound that anybody could verify.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import numpy as np

from deniable.errors import DeniableError, Unaccountable
from deniable.loss import Composed, Loss, Node

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LARGEST, SMALLEST = 1e100, 1e-100
"""Numbers whose squares and quotients stay far within the range of doubles."""
MOST_STEPS = 10**15
"""Steps of one composition: beyond, rounding alone would pass any δ."""

FAILURES = (ArithmeticError, ValueError, RecursionError, MemoryError, IndexError)
"""What arithmetic beyond the range of doubles, or of the memory, raises."""

PATIENCE = 8.0
"""CPU seconds of one call of a public function, calls inside it included."""
PARTS = 50
"""More parts than a kilobyte can say. A question of more gets as much time again for every so many."""


class _Clock(threading.local):
    """The CPU time at which the call under way in this thread is refused, and whether that has happened."""

    final = math.inf
    deadline = math.inf
    is_over = False


_clock = _Clock()


def check_time() -> None:
    """Refuse to go on where the public call under way, or its lower side, has used up its CPU time."""
    now = time.thread_time()
    if now > _clock.deadline:
        _clock.is_over = now > _clock.final
        raise Unaccountable(_too_long())


def _too_long() -> str:
    return (
        f"This takes more than {PATIENCE:g} seconds of processor time, the limit for one call of the "
        f"accountant ({PARTS} unlike parts; more parts get more time). Nothing was computed. Ask about fewer "
        "unlike parts, or about a simpler loss that is at least as large (for example Approximate, or the "
        "same noise without its sample)."
    )


def _seconds(arguments: Iterable[object]) -> float:
    """How long a call with these arguments may take: whoever asks about much waits for longer."""
    sizes = (
        len(value.parts) if isinstance(value, Composed) else len(value)
        for value in arguments
        if isinstance(value, Composed) or (isinstance(value, Sized) and not isinstance(value, str | bytes))
    )
    return PATIENCE * max(1.0, max(sizes, default=0) / PARTS)


@contextmanager
def _start_clock(seconds: float) -> Iterator[None]:
    """Start the clock of an outermost call; a call inside another shares its clock."""
    if math.isfinite(_clock.final):
        check_time()
        yield
        return
    _clock.final = _clock.deadline = time.thread_time() + seconds
    try:
        yield
        # A part that ran out of time may have been passed over for another method: that would make the answer
        # depend on the machine.
        if _clock.is_over:
            raise Unaccountable(_too_long())
    finally:
        _clock.final, _clock.deadline, _clock.is_over = math.inf, math.inf, False


@contextmanager
def lower_time() -> Iterator[None]:
    """Half of the time that is left: for lower bounds, which never cost the upper one."""
    before = _clock.deadline
    now = time.thread_time()
    _clock.deadline = now + (before - now) / 2
    try:
        yield
    finally:
        _clock.deadline = before


def guard(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`function`, with arithmetic that fails (or gives NaN) turned into `Unaccountable`."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            with np.errstate(all="ignore"), _start_clock(_seconds((*args, *kwargs.values()))):
                result = function(*args, **kwargs)
        except DeniableError:
            raise
        except FAILURES as problem:
            raise Unaccountable(
                f"The numbers given are beyond what this method can compute with ({type(problem).__name__}: "
                f"{str(problem)[:120]}). Nothing was computed; another method may know a bound."
            ) from problem
        if isinstance(result, float) and math.isnan(result):
            raise Unaccountable(
                "The numbers given are beyond what this method can compute with: it came to no number. "
                "Nothing was computed; another method may know a bound."
            )
        return result

    return call


def collect_lowers(build: Callable[[], Iterable[Result]]) -> tuple[Result, ...]:
    """What `build` gives until it fails, if it fails. **For lower bounds alone**: one that cannot be had
    proves nothing, so it is left out, and never costs the upper bound that stands beside it."""
    lowers: list[Result] = []
    try:
        with np.errstate(all="ignore"), lower_time():
            for lower in build():
                lowers.append(lower)
    except (*FAILURES, DeniableError):
        pass
    return tuple(lowers)


def check_range(nodes: Iterable[tuple[Loss, int]]) -> None:
    """Refuse steps whose parameters, or whose number, doubles could not carry through a
    numerical composition."""
    steps = 0
    for node, times in nodes:
        steps += times
        _check_node(node, node)
    if steps > MOST_STEPS:
        raise Unaccountable(
            "The numerical accountant composes up to 10^15 steps, and this loss has about "
            f"1e{len(str(steps)) - 1}. Nothing was computed; another method may know a bound."
        )


def _check_node(node: Node, tree: Loss) -> None:
    for value in vars(node).values():
        if isinstance(value, Node):
            _check_node(value, tree)
        elif isinstance(value, tuple):
            for part in value:
                if isinstance(part, Node):
                    _check_node(part, tree)
        elif not isinstance(value, bool | str | None) and value and not SMALLEST <= abs(value) <= LARGEST:
            raise Unaccountable(
                "The numerical accountant takes numbers between 1e-100 and 1e+100, and a "
                f"{type(node).__name__} of this loss has another. Nothing was computed; another method may "
                "know a bound."
            )
