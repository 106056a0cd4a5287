"""The sum of many clients' vectors, of which nobody sees a single one (Bonawitz et al.
2017; Bell et al. 2020).

Bytes in, bytes out: `SumClient` and `SumServer` do no input or output of their own, so any transport carries
them. `simulate` plays a whole round in one process, with clients that drop out wherever one likes.

>>> import numpy as np
>>> agreement, signers = generated(clients=5, length=3, threshold=3, least=3)
>>> vectors = {client: np.array([client, 1, -1]) for client in range(5)}
>>> outcome = simulate(agreement, signers, vectors, dropouts={4: Stage.MASK})
>>> outcome.survivors, outcome.signed().tolist()
((0, 1, 2, 3), [6, 4, -4])
"""

from deniable.federated.secure_sum.agreement import Adversary, Agreement, Quorum
from deniable.federated.secure_sum.client import SumClient
from deniable.federated.secure_sum.planning import Neighbourhood, neighbourhood
from deniable.federated.secure_sum.server import SumServer
from deniable.federated.secure_sum.simulation import Outcome, Stage, generated, simulate

__all__ = [
    "Adversary",
    "Agreement",
    "Neighbourhood",
    "Outcome",
    "Quorum",
    "Stage",
    "SumClient",
    "SumServer",
    "generated",
    "neighbourhood",
    "simulate",
]
