"""A server that lies at random to real clients, and what it could read afterwards, by linear algebra."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from deniable.errors import ProtocolError
from deniable.federated.secure_sum import Agreement, SumClient, shamir
from deniable.federated.secure_sum.messages import (
    BOX_BYTES,
    read_by_client,
    write_by_client,
    write_clients,
)

HALF = 0.5


@dataclass
class Liar:
    """Plays one round. It has the colluders' secrets, shows every client lists of its own, and mixes what
    they signed; clients that refuse are left behind."""

    agreement: Agreement
    signers: dict[int, Ed25519PrivateKey]
    colluders: frozenset[int]
    draw: random.Random
    holders: dict[int, list[int]] = field(default_factory=dict)
    survivors: dict[int, list[int]] = field(default_factory=dict)
    opened: dict[int, dict[int, bytes]] = field(default_factory=dict)

    def play(self) -> None:
        everybody = sorted(self.signers)
        self.clients = {v: SumClient(self.agreement, v, self.signers[v], 1) for v in everybody}
        adverts = {v: client.advertise() for v, client in self.clients.items()}
        size = self.draw.choice([len(everybody), self.draw.randint(2, len(everybody))])
        self.cohort = sorted(self.draw.sample(everybody, size))
        boxes: dict[int, dict[int, bytes]] = {}
        for v in self.cohort:
            offered = write_by_client({w: adverts[w] for w in self.cohort if w != v})
            try:
                boxes[v] = read_by_client(
                    self.clients[v].share(write_clients(self.cohort) + offered), BOX_BYTES
                )
            except ProtocolError:
                return  # all are shown the same cohort, so all refuse it
        self._mask(boxes)
        self._sign()

    def _mask(self, boxes: dict[int, dict[int, bytes]]) -> None:
        truth = self.cohort if self.draw.random() < HALF else self._changed(self.cohort, 0.2)
        for v in self.cohort:
            listed = self._shown(truth, v)
            parts = write_by_client({w: boxes[w][v] for w in listed if w != v})
            try:
                self.clients[v].mask(write_clients(listed) + parts, np.array([v]))
            except ProtocolError:
                continue
            self.holders[v] = listed

    def _sign(self) -> None:
        arrived = sorted(self.holders)
        lists = [arrived, *([w for w in arrived if w != victim] for victim in arrived)]
        lists = [arrived, self.draw.choice(lists), self._changed(arrived, 0.2)]
        signatures: dict[int, bytes] = {}
        for v in arrived:
            self.survivors[v] = self.draw.choice([arrived, arrived, *lists])
            try:
                signatures[v] = self.clients[v].sign(write_clients(self.survivors[v]))
            except ProtocolError:
                continue
        for v in signatures:
            if v in self.colluders:
                continue  # its shares are known anyhow
            own = self.clients[v]._statement
            forged = {w: self.signers[w].sign(own) for w in self.colluders & {*self.survivors[v]}}
            try:
                answer = self.clients[v].unmask(write_by_client(signatures | forged))
            except ProtocolError:
                continue
            self.opened[v] = read_by_client(answer, shamir.SHARE_BYTES)

    def _shown(self, truth: Sequence[int], client: int) -> list[int]:
        if self.draw.random() < 0.7:
            return list(truth)
        return sorted({client, *self._changed(truth, 0.2)})

    def _changed(self, clients: Sequence[int], share: float) -> list[int]:
        return [v for v in clients if self.draw.random() >= share]

    # ------------------------------------------------------------------------------------------- what it reads

    def readable(self) -> list[NDArray[np.float64]]:
        """Combinations of honest clients' vectors, by client, of which every mask is known to the server."""
        known = self._secrets()
        honest = [v for v in self.holders if v not in self.colluders]
        unknown: dict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
        for place, v in enumerate(honest):
            if ("seed", v) not in known:
                unknown["own", v][place] = 1
            for w in self.holders[v]:
                if w != v and ("key", v) not in known and ("key", w) not in known:
                    unknown["pair", min(v, w), max(v, w)][place] = 1 if v < w else -1
        masks = np.zeros((len(unknown) + 1, len(honest)))
        for row, entries in enumerate(unknown.values()):
            for place, sign in entries.items():
                masks[row, place] = sign
        _, sizes, basis = np.linalg.svd(masks)
        combinations = basis[int((sizes > 1e-9).sum()) :]
        result = np.zeros((len(combinations), max(self.signers) + 1))
        result[:, honest] = combinations
        return list(result)

    def _secrets(self) -> set[tuple[str, int]]:
        shares: dict[tuple[str, int], set[int]] = defaultdict(set)
        for v in self.cohort:
            if v in self.colluders:
                for w in self.cohort:
                    shares["seed", w].add(v)
                    shares["key", w].add(v)
            for w in self.opened.get(v, ()):
                shares["seed" if w in self.survivors[v] else "key", w].add(v)
        joined = {secret for secret, holders in shares.items() if len(holders) >= self.agreement.threshold}
        return joined | {(kind, v) for kind in ("seed", "key") for v in self.colluders}

    def finding(self) -> str:
        """ "nothing", "sum" for one sum over enough honest clients, else "leak"."""
        combinations = self.readable()
        if not combinations:
            return "nothing"
        weights = combinations[0][np.abs(combinations[0]) > 1e-9]
        enough = len(weights) >= self.agreement.least - len(self.colluders)
        if len(combinations) == 1 and enough and np.ptp(weights) < 1e-9:
            return "sum"
        return "leak"
