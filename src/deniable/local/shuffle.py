"""The shuffle model: the same reports through somebody who mixes them and tells nobody the order.

>>> from deniable.local import GeneralisedResponse
>>> mixed = Shuffler(GeneralisedResponse(k=2, epsilon=1), reports=100_000)
>>> mixed.central(delta=1e-6).upper < 0.03
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.accounting import epsilon
from deniable.errors import DataError
from deniable.guarantee import Bound
from deniable.local.arrays import Bytes
from deniable.local.odds import check_whole
from deniable.local.protocol import Client
from deniable.loss import Shuffled
from deniable.mechanism import Random
from deniable.units import Unit


@dataclass(frozen=True)
class Shuffler:
    """At least `reports` reports of one client in, one report from each device; the same
    out, in uniform order.

    Guarantee: `Shuffled(reports, client.loss)`: against whoever sees only the mixed reports, far less than
               one report's ε; against the shuffler himself, or if the other devices collude, one report's ε.
    Assumes:   a shuffler who keeps the order to himself, and that `reports` devices follow the protocol.
    Reference: Erlingsson et al. 2019; Feldman, McMillan, Talwar 2021.
    """

    client: Client[Any]
    reports: int

    def __post_init__(self) -> None:
        check_whole("reports", self.reports, 1, 10**12)

    @property
    def loss(self) -> Shuffled:
        return Shuffled(self.reports, self.client.loss)

    @property
    def unit(self) -> Unit:
        return Unit.value()

    def error(self, confidence: float = 0.95) -> None:
        """Mixing adds none."""
        return None

    def central(self, delta: float) -> Bound:
        """ε of the mixed reports at `delta`, from accounting."""
        return epsilon(self.loss, delta)

    def __call__(self, data: Bytes, *, rng: Random) -> Bytes:
        """The rows of an array of reports, mixed. What a client cannot have sent hides
        nobody, so it does not count."""
        rows = np.asarray(data)
        good = self.client.server()
        if good.add(rows) < self.reports:
            raise DataError(
                f"Only {good.users:,} valid reports arrived, and the loss is stated for {self.reports:,} at "
                "least. Nothing was passed on. State fewer reports, or wait for more."
            )
        return rows[rng.permutation(len(rows))]
