"""How sure a verdict is: the errors that an audit may make, and how they are shared among looks.

An audit states two things. The certified ε holds with the confidence that was asked for (.95 by default). An
accusation is graver: whatever an audit does, a sound target is accused with a probability of at most
`ACCUSED`. These are the ways to an accusation, and their parts of it:

    AT_ONCE    the certifying runs refute the claim by themselves at this level
    CONFIRMED  they refute it at the asked confidence only ("look again"), and a second, fresh sample refutes
               it too. A sound target gets as far as a second sample with probability alpha, so the second
               sample has the level CONFIRMED / alpha.
    COPIES     what never changes gives the neighbours away ("violation if"), and copies of the neighbours
               under new names, each asked once, show the same

The k-th of any number of looks has the part 6/(π²k²) of each. All parts sum to 1, however many looks there
are. The proof is in docs/theory/audit.md.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

ACCUSED = 1e-3
AT_ONCE, CONFIRMED, COPIES = ACCUSED / 2, ACCUSED / 4, ACCUSED / 4
LARGEST_SECOND = 0.01
"""No second sample confirms anything at a weaker level than this."""


def look_share(look: int) -> float:
    """The part of the error that the k-th look may spend: 6/(π²k²).

    >>> [round(look_share(k), 3) for k in (1, 2, 3)], sum(map(look_share, range(1, 10_000))) < 1
    ([0.608, 0.152, 0.068], True)
    """
    return 6 / (math.pi * look) ** 2


def draw_seed() -> int:
    """A seed that nobody chose."""
    return secrets.randbelow(2**32)


@dataclass(frozen=True)
class Levels:
    """`alpha`: the error of what is certified; `accusing`: that of an accusation, which is no larger."""

    alpha: float
    accusing: float

    @classmethod
    def for_look(cls, confidence: float, share: float = 1.0) -> Levels:
        """Those of an audit, or of one of its looks."""
        alpha = 1 - confidence
        return cls(share * alpha, share * min(alpha, AT_ONCE))

    @classmethod
    def second(cls, confidence: float, time: int) -> Levels:
        """Those of a second, fresh sample that is to confirm a first one; the `time`-th such sample."""
        alpha = 1 - confidence
        level = min(LARGEST_SECOND, CONFIRMED / alpha) * look_share(time)
        return cls(alpha, min(alpha, level))
