"""One error tree: what doubles cannot hold becomes a refusal with a sentence, never a
bare OverflowError or a NaN.

Every public function of the accountant that computes with floats stands behind `guarded`. Numbers of a loss
may have any size; a method that meets one beyond its range refuses, and `choose` goes on to the next.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

import numpy as np

from deniable.errors import DeniableError, Unaccountable
from deniable.loss import Loss, Node

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LARGEST, SMALLEST = 1e100, 1e-100
"""Numbers whose squares and quotients stay far within the range of doubles."""
MOST_STEPS = 10**15
"""Steps of one composition: beyond, rounding alone would pass any δ."""

FAILURES = (ArithmeticError, ValueError, RecursionError, MemoryError, IndexError)
"""What arithmetic beyond the range of doubles, or of the memory, raises."""


def guarded(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`function`, with arithmetic that fails (or gives NaN) turned into `Unaccountable`."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            with np.errstate(all="ignore"):
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


def _check_node(node: Node, whole: Loss) -> None:
    for value in vars(node).values():
        if isinstance(value, Node):
            _check_node(value, whole)
        elif isinstance(value, tuple):
            for part in value:
                if isinstance(part, Node):
                    _check_node(part, whole)
        elif not isinstance(value, bool | str | None) and value and not SMALLEST <= abs(value) <= LARGEST:
            raise Unaccountable(
                "The numerical accountant takes numbers between 1e-100 and 1e+100, and a "
                f"{type(node).__name__} of this loss has another. Nothing was computed; another method may "
                "know a bound."
            )
