"""The oracle for a domain and an ε: the least variance, and among near equals the shortest report."""

from __future__ import annotations

from collections.abc import Callable

from deniable.errors import InvalidParameter
from deniable.local.oracles.hadamard import HadamardResponse
from deniable.local.oracles.local_hashing import LocalHashing
from deniable.local.oracles.oracle import Oracle
from deniable.local.oracles.response import GeneralisedResponse
from deniable.local.oracles.subset import SubsetSelection
from deniable.local.oracles.unary import OptimisedUnary, SymmetricUnary
from deniable.loss import Number

ORACLES: tuple[Callable[[int, Number], Oracle], ...] = (
    GeneralisedResponse,
    LocalHashing,
    HadamardResponse,
    OptimisedUnary,
    SymmetricUnary,
    SubsetSelection,
)
NEAR = 1.05


def candidates(k: int, epsilon: Number) -> list[Oracle]:
    """All oracles that can serve k items at ε."""
    oracles = []
    for oracle in ORACLES:
        try:
            oracles.append(oracle(k, epsilon))
        except InvalidParameter:
            if oracle is GeneralisedResponse:
                raise
    return oracles


def best(k: int, epsilon: Number, *, most_bytes: int | None = None) -> Oracle:
    """The shortest report among the oracles whose variance is within 5 % of the least;
    `most_bytes` limits a report's size.

    >>> best(1024, 1), best(4, 2)
    (LocalHashing(k=1024, epsilon=1), GeneralisedResponse(k=4, epsilon=2))
    """
    fitting = [oracle for oracle in candidates(k, epsilon) if most_bytes is None or oracle.size <= most_bytes]
    if not fitting:
        least = min(oracle.size for oracle in candidates(k, epsilon))
        raise InvalidParameter(
            f"Expected most_bytes={most_bytes} to be at least {least} for k={k} and epsilon={epsilon}."
        )
    # Averaged over the domain: the share 1/k of each item tells apart protocols for very small k.
    variance = {oracle: float(oracle.variance(1, 1 / k)) for oracle in fitting}
    limit = NEAR * min(variance.values())
    return min((o for o in fitting if variance[o] <= limit), key=lambda o: (o.size, variance[o]))
