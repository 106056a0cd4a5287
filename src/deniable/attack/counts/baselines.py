"""Curators who mean well: rules that are in use, are not differentially private, and are
taken apart by the attacks here.

Each takes an `Ask` that tells the truth and gives one that follows the rule.
"""

from __future__ import annotations

import hashlib
from statistics import NormalDist

import numpy as np

from deniable.attack.asking import Answers, Ask, Subsets
from deniable.errors import InvalidParameter, InvalidQuery

_NORMAL = NormalDist()


def only_large(ask: Ask, least: int) -> Ask:
    """Answer only about at least `least` people: k-anonymity for queries."""

    def answer(subsets: Subsets) -> Answers:
        if len(subsets) and int(subsets.sum(axis=1, dtype=np.int64).min()) < least:
            raise InvalidQuery(f"Expected a set of at least {least} people. Nothing was answered.")
        return ask(subsets)

    return answer


def to_multiples(ask: Ask, base: int) -> Ask:
    """Round every count to the nearest multiple of `base`, as statistical offices do."""
    if base < 1:
        raise InvalidParameter(f"Expected base={base} to be at least 1.")
    return lambda subsets: np.asarray(np.floor(ask(subsets) / base + 0.5) * base)


def sticky(ask: Ask, deviation: float, secret: str) -> Ask:
    """Noise that is always the same for the same set, so that asking again tells nothing new."""

    def answer(subsets: Subsets) -> Answers:
        noise = [hashed_normal(secret, np.packbits(subset).tobytes()) for subset in subsets]
        answers = ask(subsets)
        return answers + deviation * np.array(noise[: len(answers)])

    return answer


def hashed_normal(secret: str, text: bytes) -> float:
    """A standard normal number that is a fixed function of a secret and a text."""
    digest = hashlib.sha256(secret.encode() + b"\x00" + text).digest()
    uniform = (int.from_bytes(digest[:6], "big") + 0.5) / 2**48
    return _NORMAL.inv_cdf(uniform)
