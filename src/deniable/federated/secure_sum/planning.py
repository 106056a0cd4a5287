"""How many neighbours are enough: the smallest graph that is safe and seldom lost, by binomial tails."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import binom

from deniable.errors import InvalidParameter


@dataclass(frozen=True)
class Neighbourhood:
    """`neighbours` of each client, None for all others, and the `threshold` of shares that open a secret."""

    neighbours: int | None
    threshold: int


def neighbourhood(
    clients: int, *, colluding: float, dropping: float, unsafe: float = 2**-40, lost: float = 2**-20
) -> Neighbourhood:
    """The fewest neighbours for an honest-but-curious server, with these shares of
    colluding and dropping clients.

    Guarantee: but for probability 2·`unsafe`, no client has `threshold` colluding neighbours and the honest
               survivors hang together, so that the server learns one sum over all of them; a round is lost
               with probability at most `lost`, also where clients allow for `threshold` − 1 colluders.
    Assumes:   the order on the ring does not depend on who colludes or drops out.
               Neighbours are then drawn without replacement, and their tails lie below
               the binomial ones used here (Hoeffding 1963, Theorem 4).
    Reference: Bell et al. 2020, Section 3.4.

    >>> neighbourhood(1000, colluding=.05, dropping=.05)
    Neighbourhood(neighbours=34, threshold=19)
    """
    for name, share in (("colluding", colluding), ("dropping", dropping)):
        if not 0 <= share < 1:
            raise InvalidParameter(f"Expected {name} in [0, 1), got {share}.")
    if clients < 3:
        raise InvalidParameter(f"Expected at least 3 clients, got {clients}.")
    # Two cuts of half the neighbours each part a ring, anywhere: one isolated client is one way of many.
    cuts = clients * (clients - 1) / 2
    for neighbours in range(2, clients - 1, 2):
        if cuts * (colluding + dropping) ** neighbours > unsafe:
            continue
        threshold = _safe_threshold(clients, neighbours, colluding, unsafe)
        # Too few shares of one of the clients' secrets, or two cuts that threshold − 1 colluders complete.
        events = clients + cuts
        if threshold is not None and events * binom.cdf(threshold - 1, neighbours, 1 - dropping) <= lost:
            return Neighbourhood(neighbours, threshold)
    return Neighbourhood(None, _complete_threshold(clients, colluding, dropping))


def _safe_threshold(clients: int, neighbours: int, colluding: float, unsafe: float) -> int | None:
    """The least threshold that colluding neighbours reach for no client."""
    for threshold in range(2, neighbours + 1):
        if clients * binom.sf(threshold - 1, neighbours, colluding) <= unsafe:
            return threshold
    return None


def _complete_threshold(clients: int, colluding: float, dropping: float) -> int:
    """The threshold with everybody for a neighbour: above the colluders, and as many shares as survivors
    still bring."""
    colluders, survivors = int(colluding * clients), clients - 1 - int(dropping * clients)
    if survivors <= colluders:
        raise InvalidParameter(
            f"With {colluding:.0%} colluding and {dropping:.0%} dropping of {clients} clients no threshold "
            "is both safe and reached. Ask more clients, or allow fewer to drop."
        )
    return colluders + 1 + (survivors - colluders - 1) // 2
