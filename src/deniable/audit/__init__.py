"""Attack any mechanism from the outside and certify what was found.

>>> from deniable.audit import audit
>>> from deniable.audit.bench import case
>>> halved = case("HalvedNoise")
>>> finding = audit(halved, halved.pairs(), seed=0, samples=400_000)
>>> finding.verdict, finding.epsilon > 0.17
(<Verdict.VIOLATION: 'violation'>, True)
"""

from __future__ import annotations

from deniable.audit.endpoint import Endpoint
from deniable.audit.finding import Finding, Verdict, Witness
from deniable.audit.membership import membership
from deniable.audit.runs.pairs import Pair, patterns
from deniable.audit.runs.target import Asking
from deniable.audit.sniper import audit, replay

__all__ = [
    "Asking",
    "Endpoint",
    "Finding",
    "Pair",
    "Verdict",
    "Witness",
    "audit",
    "membership",
    "patterns",
    "replay",
]
