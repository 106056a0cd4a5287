"""What all parties of a secure sum know and agree on before it begins, and the graph of who masks with
whom."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

import numpy as np

from deniable import strict_json
from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.secure_sum.masks import WIDTHS
from deniable.federated.secure_sum.messages import write_clients

SESSION_BYTES = 16
KEY_BYTES = 32
LARGEST_CLIENT = 2**32 - 2
NUMBERS = ("length", "threshold", "least", "bits", "neighbours", "colluders")


class Adversary(StrEnum):
    """Whom the clients' vectors are hidden from, together with the colluding clients."""

    CURIOUS = "curious"
    """A server that follows the protocol and reads along. One that shows two lists of survivors reads a
    client's vector: only by name."""
    LYING = "lying"
    """A server that may send anything to anybody."""


@dataclass(frozen=True)
class Quorum:
    """How many must agree in a cohort of `cohort` clients, of whom `colluders` are the server's.

    Two lists of survivors with `least` signatures each need 2(least − colluders) honest clients, each of whom
    signs one list, so with 2·least > cohort + colluders there is one list. Shares are a second lock: two sets
    of holders that open both secrets of one client need 2(threshold − colluders) ≤ cohort − 1 − colluders,
    which 3·threshold > 2(cohort − 1) rules out for up to a third of colluders, whatever was signed.
    Reference: docs/theory/secure-sums.md; Bonawitz et al. 2017, Theorem 6.5.

    >>> Quorum.of(9)
    Quorum(least=5, threshold=6)
    """

    least: int
    threshold: int

    @classmethod
    def of(cls, cohort: int, colluders: int = 0) -> Quorum:
        """The smallest numbers that hold against a lying server."""
        return cls(
            max(colluders + 2, (cohort + colluders) // 2 + 1), max(colluders + 1, 2 * (cohort - 1) // 3 + 1)
        )

    def holds(self, cohort: int, colluders: int) -> bool:
        return 2 * self.least > cohort + colluders and 3 * self.threshold > 2 * (cohort - 1)


@dataclass(frozen=True)
class Agreement:
    """The terms of a session. Every client checks every round against them, and refuses
    what they do not allow.

    `roster` has the Ed25519 public key of each client that may take part. It reaches the
    clients on a way that the server does not control (shipped with the application, or signed
    by an authority that both sides trust): who makes the roster decides who counts as a
    client. `least` is the smallest number of survivors whose sum may be opened; `threshold`
    shares open a secret. `neighbours` None means that everybody masks with everybody.

    Guarantee: the server and up to `colluders` clients together learn the sum over the survivors, who are at
               least `least`, and nothing more of the other clients' vectors; whatever the server sends, or,
               for adversary=CURIOUS, as long as it keeps to the protocol.
    Assumes:   X25519, Ed25519, AES-256 and SHA-256 are what they are thought to be; the
               roster is right; with neighbours, that the server does not choose who
               neighbours whom.
    Reference: Bonawitz et al. 2017, Theorems 6.3 and 6.5; Bell et al. 2020, Section 3;
               docs/theory/secure-sums.md.
    """

    session: bytes
    roster: Mapping[int, bytes] = field(repr=False)
    length: int
    threshold: int
    least: int
    bits: int = 32
    neighbours: int | None = None
    colluders: int = 0
    adversary: Adversary = Adversary.LYING

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise InvalidParameter(
                f"Expected a session id of {SESSION_BYTES} bytes, got {len(self.session)}."
            )
        if self.bits not in WIDTHS:
            raise InvalidParameter(f"Expected bits of 16, 32 or 64, got {self.bits}.")
        if self.length < 1:
            raise InvalidParameter(f"Expected vectors of at least one number, got length={self.length}.")
        self._check_roster()
        self._check_thresholds()
        object.__setattr__(self, "roster", MappingProxyType(dict(self.roster)))

    def to_json(self) -> str:
        """Public values only: what clients are given, on a way that the server does not control."""
        body = {name: getattr(self, name) for name in NUMBERS}
        roster = {str(client): self.roster[client].hex() for client in sorted(self.roster)}
        return json.dumps(
            {"session": self.session.hex(), **body, "adversary": str(self.adversary), "roster": roster}
        )

    @classmethod
    def from_json(cls, text: str) -> Agreement:
        body = strict_json.parse(text, InvalidParameter, "an agreement")
        try:
            roster = {int(client): bytes.fromhex(key) for client, key in body["roster"].items()}
            numbers = {name: body[name] for name in NUMBERS}
            is_whole = all(
                type(value) is int for name, value in numbers.items() if (name, value) != ("neighbours", None)
            )
            if not is_whole or set(body) != {*NUMBERS, "session", "adversary", "roster"}:
                raise ValueError
            return cls(
                bytes.fromhex(body["session"]), roster, adversary=Adversary(body["adversary"]), **numbers
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidParameter):
                raise
            raise InvalidParameter(
                "Expected the JSON of an agreement, as Agreement.to_json writes it."
            ) from None

    def _check_roster(self) -> None:
        for client, key in self.roster.items():
            if not isinstance(client, int) or not 0 <= client <= LARGEST_CLIENT or len(key) != KEY_BYTES:
                raise InvalidParameter(
                    f"Expected a roster of client numbers from 0 to {LARGEST_CLIENT:,} with public keys of "
                    f"{KEY_BYTES} bytes."
                )
        # One key under two numbers is one party that counts as two, and `least` counts parties.
        if len(set(self.roster.values())) != len(self.roster):
            raise InvalidParameter("Expected one public key for each client, got the same key twice.")

    def _check_thresholds(self) -> None:
        # Shamir 1979: `threshold` shares are the secret, so as many colluders would hold it.
        if self.colluders < 0 or self.threshold <= self.colluders:
            raise InvalidParameter(
                f"Expected a threshold above the number of colluders, got threshold={self.threshold} and "
                f"colluders={self.colluders}: together they could open every secret. "
                f"{self._numbers_for(len(self.roster))}"
            )
        if self.least < self.colluders + 2:
            raise InvalidParameter(
                f"Expected least ≥ colluders + 2, got least={self.least} and colluders={self.colluders}: "
                f"a sum over one honest client is that client's vector. {self._numbers_for(len(self.roster))}"
            )
        if self.neighbours is None:
            return
        # Half of the neighbours lie on either side of the ring; with fewer than `threshold` holders no secret
        # is ever opened again, so that one dropout would end the round.
        if self.neighbours % 2 or self.neighbours < self.threshold:
            raise InvalidParameter(
                f"Expected an even number of neighbours, at least the threshold {self.threshold}, got "
                f"{self.neighbours}."
            )
        if self.adversary is Adversary.LYING:
            raise InvalidParameter(
                f"Expected neighbours=None against a lying server, got {self.neighbours}: one that chooses "
                "who takes part also chooses who neighbours whom, and could surround a client with "
                "colluders. Let everybody mask with everybody, or name a server that keeps to the protocol: "
                "adversary=Adversary.CURIOUS."
            )

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        return WIDTHS[self.bits]

    @cached_property
    def fingerprint(self) -> bytes:
        """What every key and signature of the session is bound to."""
        # Fixed widths in a fixed order: two agreements that differ in any term have different bytes here.
        numbers = (self.length, self.bits, self.threshold, self.least, self.neighbours or 0, self.colluders)
        digest = hashlib.sha256(b"deniable secure sum 1 agreement\0" + self.session)
        digest.update(self.adversary.encode() + b"\0" + struct.pack(">6Q", *numbers))
        for client in sorted(self.roster):
            digest.update(struct.pack(">I", client) + self.roster[client])
        return digest.digest()

    def transcript(self, turn: int, cohort: Sequence[int]) -> bytes:
        """The cohort of one round, as all keys of the round depend on it: clients shown
        other cohorts share no key."""
        return hashlib.sha256(self.fingerprint + struct.pack(">Q", turn) + write_clients(cohort)).digest()

    def check_cohort(self, cohort: Sequence[int]) -> None:
        """Whether a round with these clients can keep what is promised."""
        count = len(cohort)
        if any(client not in self.roster for client in cohort):
            raise ProtocolError("The cohort names a client that is not in the roster. This round is over.")
        if count < self.least:
            raise ProtocolError(
                f"The cohort has {count} clients, fewer than least={self.least}. This round is over."
            )
        if self.adversary is Adversary.CURIOUS:
            return
        if not self.quorum.holds(count, self.colluders):
            raise ProtocolError(
                f"A lying server could show two lists of survivors to a cohort of {count}. "
                f"{self._numbers_for(count)} This round is over."
            )

    def check_expected(self, cohort: int) -> None:
        """Whether clients will agree to rounds of this size, before one is begun."""
        if max(self.least, self.threshold + 1) > len(self.roster):
            raise InvalidParameter(
                f"Expected least and threshold + 1 to be at most the number of clients, got "
                f"least={self.least} and threshold={self.threshold} for {len(self.roster):,} of them: no sum "
                "would ever be opened. "
                f"{self._numbers_for(len(self.roster))} Nothing was sent."
            )
        if self.adversary is Adversary.LYING and not self.quorum.holds(cohort, self.colluders):
            raise InvalidParameter(
                f"Expected least and threshold that hold against a lying server, got least={self.least} and "
                f"threshold={self.threshold}: clients would refuse a cohort of {cohort:,}, since they could "
                f"be shown two lists of survivors. {self._numbers_for(cohort)} Or name a server that keeps "
                "to the protocol: adversary=Adversary.CURIOUS. Nothing was sent."
            )

    def _numbers_for(self, cohort: int) -> str:
        """Numbers that would do, in words."""
        numbers = Quorum.of(cohort, self.colluders)
        if numbers.least > cohort:
            return f"With colluders={self.colluders} no numbers hold for {cohort}: use more clients."
        return f"Here you can use least={numbers.least} and threshold={numbers.threshold}, or more."

    @property
    def quorum(self) -> Quorum:
        return Quorum(self.least, self.threshold)

    def check_survivors(self, graph: Graph, survivors: Collection[int]) -> None:
        """Whether the sum over these survivors is one sum, over enough of them."""
        if len(survivors) < self.least:
            raise ProtocolError(
                f"{len(survivors)} clients survived, fewer than least={self.least}: their sum is not opened. "
                "This round is over."
            )
        if not graph.holds_together(survivors, self.colluders):
            raise ProtocolError(
                f"Those who dropped out, with {self.colluders} colluders, may part the survivors: the server "
                "could open the sums of both parts. This round is over; use more neighbours."
            )

    def graph(self, turn: int, cohort: Sequence[int]) -> Graph:
        """Who masks with whom in this round: everybody, or the nearest on a ring in an
        order drawn by hashing."""
        if self.neighbours is None or self.neighbours >= len(cohort) - 1:
            return Graph(tuple(cohort), None)
        # By a hash of the whole cohort, so that the order depends on nothing that one client says (Bell et
        # al. 2020).
        seed = self.transcript(turn, cohort) + b"ring"
        ring = sorted(cohort, key=lambda client: hashlib.sha256(seed + struct.pack(">I", client)).digest())
        return Graph(tuple(ring), self.neighbours // 2)


@dataclass(frozen=True)
class Graph:
    """Clients on a ring, each joined to `reach` others on either side; to all where `reach` is None."""

    ring: tuple[int, ...]
    reach: int | None

    @cached_property
    def _places(self) -> dict[int, int]:
        return {client: place for place, client in enumerate(self.ring)}

    def neighbours(self, client: int) -> tuple[int, ...]:
        if self.reach is None:
            return tuple(other for other in self.ring if other != client)
        place, count = self._places[client], len(self.ring)
        offsets = [*range(-self.reach, 0), *range(1, self.reach + 1)]
        return tuple(sorted(self.ring[(place + offset) % count] for offset in offsets))

    def holds_together(self, survivors: Collection[int], colluders: int) -> bool:
        """Whether the survivors stay joined whichever `colluders` of them are taken away: masks then cancel
        in the sum over all honest survivors and in no part of it.

        To part a ring one cuts it in two places. A cut just after survivor a takes away all survivors within
        `reach` places after it, r(a) of them; two cuts part it if neither takes the other's survivor, so
        if a and b are no neighbours. The fewest to take away are thus the least r(a) + r(b) over such pairs.
        """
        if self.reach is None:
            return True
        count, reach = len(self.ring), self.reach
        is_there = np.fromiter((client in survivors for client in self.ring), bool, count)
        # Twice around, so that a window that passes the end of the ring is one difference of running sums.
        sums = np.concatenate([[0], np.cumsum(np.concatenate([is_there, is_there]))])
        places = np.flatnonzero(is_there)
        costs = sums[places + reach + 1] - sums[places + 1]
        for place, cost in zip(places, costs, strict=True):
            if 2 * cost > colluders:  # of two cuts that part the ring one is at most half as dear
                continue
            distance = (places - place) % count
            is_apart = (distance > reach) & (distance < count - reach)
            if (costs[is_apart] + cost <= colluders).any():
                return False
        return True
