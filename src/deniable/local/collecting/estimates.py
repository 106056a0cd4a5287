"""Reports over a declared list of values: the client that makes them, and tables of what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.estimate import Estimate, quantile
from deniable.local.open_domains.rappor import Rappor
from deniable.local.oracles.oracle import Oracle
from deniable.local.protocol import Client
from deniable.local.simulate import protocol
from deniable.loss import Number
from deniable.mechanism import Random
from deniable.randomness import SecureRandom

CLOSED = ("best", "grr", "sue", "oue", "olh", "hr", "ss")
"""Frequency protocols over a known list, by the names of the literature."""
NAMES = (*CLOSED, "rappor")
HASHES = 2
PARTS = 1 << 30
"""RAPPOR's f is a multiple of 1 over this, rounded up: towards more noise."""


def read_domain(path: Path) -> tuple[str, ...]:
    """The values that may be reported, each on a line of its own."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise InvalidParameter(
            f"The list {path} cannot be read as text ({type(error).__name__}). Nothing was reported."
        ) from None
    values = tuple(line.strip() for line in lines if line.strip())
    if len(values) < 2 or len(set(values)) < len(values):
        raise InvalidParameter(
            f"The list {path} must hold at least two values, each once, on lines of their own. Nothing was "
            "reported."
        )
    return values


def client_of(name: str, epsilon: Number, domain: Sequence[str]) -> Client[Any]:
    """The client of that name, of which all reports from one memo reveal at most `epsilon`."""
    if name not in NAMES:
        raise InvalidParameter(f"The protocol {name!r} is none of {', '.join(NAMES)}. Nothing was reported.")
    if name == "rappor":
        return Rappor(f=_turning(epsilon), hashes=HASHES)
    return protocol(name, len(domain), epsilon)


def _turning(epsilon: Number) -> Fraction:
    """The least f, on a grid, for which a memo costs at most ε: f = 2/(1 + e^(ε/2h))."""
    if not 0 < float(epsilon) < 60:
        raise InvalidParameter(f"Expected ε in (0, 60), got {float(epsilon):g}. Nothing was reported.")
    parts = math.floor(2 / (1 + math.exp(float(epsilon) / (2 * HASHES))) * PARTS)
    while Rappor(f=Fraction(parts, PARTS), hashes=HASHES).memo_epsilon > epsilon:
        parts += 1
    return Fraction(parts, PARTS)


def value_of(client: Client[Any], domain: Sequence[str], text: str, stand_in: int | None = None) -> Any:
    """A value as the client takes it. In place of one that is not on the list stands the value at `stand_in`,
    or one drawn here, so that no report, no error and no silence tells of it."""
    if stand_in is None:
        stand_in = draw_stand_in(domain, SecureRandom())
    place = domain.index(text) if text in domain else stand_in
    return place if isinstance(client, Oracle) else domain[place]


def draw_stand_in(domain: Sequence[str], rng: Random) -> int:
    """The place of the listed value that one which is not listed is reported as: each is equally likely."""
    return int(rng.uniform_integers(len(domain)))


@dataclass(frozen=True)
class ValueEstimate:
    """What the reports say of one value."""

    value: str
    count: float
    low: float
    high: float


@dataclass(frozen=True)
class Collected:
    """What a file of reports says: a line for each value, the most frequent first."""

    lines: tuple[ValueEstimate, ...]
    users: int
    dropped: int


def collect(
    client: Client[Any], domain: Sequence[str], reports: bytes, confidence: float = 0.95
) -> Collected:
    """Count reports that were written one after the other, and estimate every value of the list."""
    end = len(reports) // client.size * client.size
    server = client.server()
    server.add(np.frombuffer(reports[:end], np.uint8).reshape(-1, client.size))
    if end < len(reports):
        server.add(reports[end:])
    if isinstance(client, Oracle):
        estimate: Estimate = server.estimate()
        counts, errors = estimate.counts, estimate.standard_errors
    else:
        decoding = server.estimate(list(domain))
        counts, errors = decoding.counts, decoding.standard_errors
    half = quantile(confidence) * errors
    order = np.argsort(-counts, kind="stable")
    lines = tuple(
        ValueEstimate(domain[i], float(counts[i]), float(counts[i] - half[i]), float(counts[i] + half[i]))
        for i in order
    )
    return Collected(lines, server.users, server.dropped)
