"""What some mechanism with a loss does reach at δ = 0: the lower side of basic
composition, by theorem or not at all.

>>> from deniable.loss import NegativeBinomialRuns, Pure, Selected
>>> float(reach(Pure(1) * 3))
3.0
>>> round(float(reach(Selected(Pure(1), NegativeBinomialRuns(1, 0.5)))), 3)
1.621

`reach(loss)` is an ε such that, for every smaller one, a mechanism with this loss and an outcome of it exist
whose chance with the unit is more than e^ε times that without it (or with it replaced). One direction
throughout, so that sums add up:

| node | reached because |
|---|---|
| Pure, LaplaceNoise, DiscreteLaplaceNoise | randomized response; noise beyond the shift |
| ResponseNoise | its own two answers |
| BoundedRange(ε) | two outcomes with losses t and t − ε, t → ε (Dong, Durfee, Rogers 2020) |
| Composed, Repeated | independent answers, each at its largest loss |
| Parallel | the unit lies in the part that reaches most |
| Sampled | others look alike, so the sample tells only whether it holds the unit: ln(1 + q(e^ε − 1)) |
| Sampled by Poisson, replaced; Grouped | noise that moves both ways, or many times (`_moves`): ln R, k·ε |
| Shuffled | every report, by chance, is the outcome at which one report reaches its ε |
| Selected(Pure) | `selection.pure_epsilon`, which is exact: proof there |
| Selected, else | all scores equal: a run taken at random, so one run's ε |

Where none of these holds nothing is claimed beyond what a part of the loss reaches alone.
"""

from __future__ import annotations

from fractions import Fraction

from deniable.accounting.methods.pure import exact_pair
from deniable.accounting.methods.sampling import LARGE, amplify_pair
from deniable.accounting.rounding import log_ratio_up
from deniable.accounting.runs.selection import pure_epsilon
from deniable.loss import (
    POISSON,
    SHUFFLED,
    BoundedRange,
    Composed,
    DiscreteLaplaceNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Selected,
    Shuffled,
    exact,
)


def reach(loss: Loss) -> Fraction:
    """An ε that mechanisms with this loss come up to at δ = 0, right to a relative
    1e-15; 0 where none is known."""
    match loss:
        case Pure() | LaplaceNoise() | DiscreteLaplaceNoise() | ResponseNoise() | BoundedRange():
            return exact_pair(loss)[0]
        case Repeated(times, of):
            return times * reach(of)
        case Composed(parts):
            return sum((reach(part) for part in parts), Fraction(0))
        case Parallel(parts, replace):
            # A unit replaced within a part may move its answer out and back in on the other side: twice as
            # far.
            return max((2 if replace and _moves(part) else 1) * reach(part) for part in parts)
        case Grouped(size, of):
            return reach(of) * (size if _moves(of) else 1)
        case Sampled():
            return _sample_epsilon(loss)
        case Shuffled(_, of):
            return reach(of)
        case Selected(of, runs):
            if isinstance(of, Pure):
                return pure_epsilon(reach(of), runs)
            return reach(of)
        case _:
            return Fraction(0)


def _sample_epsilon(loss: Sampled) -> Fraction:
    inner, rate = reach(loss.of), exact(loss.rate)
    # Of batches in a shuffled order nothing is known from below.
    if loss.scheme is SHUFFLED:
        return Fraction(0)
    if inner > LARGE:  # ln(1 + q(e^ε − 1)) ≥ ε − ln(1/q)
        return max(inner - log_ratio_up(1 / rate), Fraction(0))
    twice = loss.replace and loss.scheme is POISSON and _moves(loss.of)
    as_if = Sampled(loss.rate, Pure(0), POISSON, replace=twice)
    return amplify_pair(as_if, inner, Fraction(0))[0]


def _moves(loss: Loss) -> bool:
    """Whether each further unit of a group can add the same ε once more, in either
    direction: an answer that counts units.

    Not so for randomized response: however many people change, it still gives one of its answers.
    """
    match loss:
        case Pure() | LaplaceNoise() | DiscreteLaplaceNoise():
            return True
        case Repeated(_, of):
            return _moves(of)
        case Composed(parts):
            return all(_moves(part) for part in parts)
        case _:
            return False
