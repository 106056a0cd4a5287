"""Unintended memorisation: does a language model know a secret that stood in its training text once or twice?

A *canary* is a sentence with random digits, put into the text. Of all |R| ways to fill the digits the model
likes some better; the canary's **exposure** is log₂|R| − log₂ rank (Carlini et al. 2019, "The Secret Sharer",
definition 2). A secret that the model never saw has rank uniform in R, so exposure ≥ b with probability 2^−b;
one that it knows by heart has rank 1.

The rank is exact by branch and bound in the tree of all fillings, shared prefixes asked
once; where the secret is far down a large space it is estimated from random fillings, by
counting or by a skew-normal fitted to their log-perplexities. `likeliest` finds what the
model would complete the sentence with, by shortest paths.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skewnorm

from deniable.errors import InvalidParameter

Floats: TypeAlias = NDArray[np.float64]
Asked: TypeAlias = Callable[[list[str]], Floats]
"""Texts → for each the natural logarithm of the probability of each character of the alphabet coming next."""

_LARGEST = 200_000
_BATCH = 20_000
_ROUNDING = 1e-3
"""Bits by which the same sentence may be priced otherwise in another batch: networks
compute in single precision."""


@dataclass(frozen=True)
class Space:
    """All sentences `prefix` + `length` characters of `alphabet`.

    >>> Space("my number is ", 6).size
    1000000
    """

    prefix: str
    length: int
    alphabet: str = "0123456789"

    def __post_init__(self) -> None:
        if self.length < 1 or len(set(self.alphabet)) != len(self.alphabet) or len(self.alphabet) < 2:
            raise InvalidParameter(
                "Expected at least one unknown character, of an alphabet of at least two different ones."
            )

    @property
    def size(self) -> int:
        return int(len(self.alphabet) ** self.length)

    def check(self, secret: str) -> str:
        if len(secret) != self.length or not set(secret) <= set(self.alphabet):
            raise InvalidParameter(
                f"Expected a secret of {self.length} characters of {self.alphabet!r}, got {secret!r}."
            )
        return secret

    def secret_at(self, index: int) -> str:
        """The secret at a position of the space."""
        base, out = len(self.alphabet), ""
        for _ in range(self.length):
            index, digit = divmod(index, base)
            out = self.alphabet[digit] + out
        return out

    def index(self, secret: str) -> int:
        return sum(
            self.alphabet.index(c) * len(self.alphabet) ** i
            for i, c in enumerate(reversed(self.check(secret)))
        )


def exposure(rank: float, size: int) -> float:
    """log₂|R| − log₂ rank, in bits.

    >>> exposure(1, 1024), exposure(512, 1024)
    (10.0, 1.0)
    """
    return math.log2(size) - math.log2(rank)


# ------------------------------------------------------------------------------------------------ ranks


def rank(model: Asked, space: Space, secret: str) -> int:
    """How many secrets the model likes at least as much: ties count against it.

    Exact, by branch and bound: bits only grow along a sentence, so a beginning that costs more than the whole
    secret does is dropped with all that could follow. A secret that the model knows is ranked in any space;
    one that it does not know takes as long as its rank says.
    """
    limit = perplexity(model, space, secret) + _ROUNDING
    ends, bits = [""], np.zeros(1)
    for place in range(space.length):
        texts = [space.prefix + end for end in ends]
        following = np.concatenate(
            [_bits(model, texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
        )
        costs = bits[:, None] + following
        own = ends.index(secret[:place]), space.alphabet.index(secret[place])
        if place + 1 < space.length:
            mask = costs <= limit
            mask[own] = True
            rows, letters = np.nonzero(mask)
            if len(rows) > _LARGEST:
                raise InvalidParameter(
                    f"Expected a secret that the model knows: more than {_LARGEST:,} beginnings are as "
                    f"likely as it, of {space.size:,} secrets. Use sampled or extrapolated."
                )
            ends = [
                ends[row] + space.alphabet[c] for row, c in zip(rows.tolist(), letters.tolist(), strict=True)
            ]
            bits = costs[rows, letters]
    return int((costs <= costs[own]).sum())


def perplexity(model: Asked, space: Space, secret: str) -> float:
    """−log₂ of the probability of one secret."""
    texts = [space.prefix + space.check(secret)[:i] for i in range(space.length)]
    return float(sum(_bits(model, texts)[i, space.alphabet.index(c)] for i, c in enumerate(secret)))


def draw_perplexities(model: Asked, space: Space, count: int, seed: int = 0) -> Floats:
    """The perplexities of random secrets."""
    g = np.random.default_rng(seed)
    secrets = ["".join(g.choice(list(space.alphabet), space.length)) for _ in range(count)]
    texts = [space.prefix + s[:i] for s in secrets for i in range(space.length)]
    bits = np.concatenate([_bits(model, texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)])
    codes = np.array([space.alphabet.index(c) for s in secrets for c in s])
    return np.asarray(bits[np.arange(len(codes)), codes].reshape(count, space.length).sum(axis=1))


def sample_exposure(model: Asked, space: Space, secret: str, *, count: int = 1000, seed: int = 0) -> float:
    """Exposure by the share of random secrets that the model likes at least as much; at
    most log₂(count + 1)."""
    others = draw_perplexities(model, space, count, seed)
    better = int((others <= perplexity(model, space, secret)).sum())
    return -math.log2((better + 1) / (count + 1))


def extrapolate_exposure(
    model: Asked, space: Space, secret: str, *, count: int = 1000, seed: int = 0
) -> float:
    """Exposure by a skew-normal law fitted to the perplexities of random secrets: it
    reaches beyond log₂ count."""
    law = skewnorm(*skewnorm.fit(draw_perplexities(model, space, count, seed)))
    return float(-law.logcdf(perplexity(model, space, secret)) / math.log(2))


def likeliest(model: Asked, space: Space, count: int = 1) -> list[tuple[str, float]]:
    """The secrets of least perplexity, best first, with their bits: shortest paths in
    the tree (Dijkstra 1959).

    Extraction: if the secret comes first, asking the model to complete the sentence gives it away.
    """
    secrets: list[tuple[str, float]] = []
    heap: list[tuple[float, str]] = [(0.0, "")]
    while heap and len(secrets) < count:
        bits, text = heapq.heappop(heap)
        if len(text) == space.length:
            secrets.append((text, bits))
            continue
        for c, more in zip(space.alphabet, _bits(model, [space.prefix + text])[0], strict=True):
            heapq.heappush(heap, (bits + float(more), text + c))
    return secrets


def _bits(model: Asked, texts: list[str]) -> Floats:
    return np.asarray(model(texts)) / -math.log(2)
