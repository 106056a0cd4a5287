"""How often a test repeats an audit to see how often it errs."""

from __future__ import annotations

import os

IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def repeats(count: int) -> int:
    """All of them in `make soak`, a quarter in `make test`: a bound on errors is computed from what this gives.

    >>> repeats(200) in (50, 200)
    True
    """
    return count if IS_SOAK else count // 4
