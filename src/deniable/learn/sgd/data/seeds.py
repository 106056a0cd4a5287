"""The generators that code of others draws from, under a secret seed while it reads private rows."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.random import mtrand

from deniable.mechanism import Random


@contextmanager
def secret_seeds(rng: Random) -> Iterator[None]:
    """Inside, the generators of torch (on the CPU), numpy and Python have fresh secret seeds; afterwards they
    are where they were.

    A data set, its transforms and a collator draw views of their rows from one stream. If its seed were known
    (`transformers` sets 42), a row more would give all rows after it another view, and move the sum by all
    of theirs; under a secret one the views of other rows have the same law with it and without it. And what
    is left of the stream would tell, in a framework's checkpoint, how many rows were drawn. A warning that a
    row calls forth would tell of it too.
    """
    before = torch.get_rng_state(), random.getstate()
    words = [int(word) for word in rng.uniform_integers(1 << 32, 6)]
    with _numpy_seeded(words[:4]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(rng.uniform_integers(1 << 63))
        random.seed(words[4] << 32 | words[5])
        try:
            yield
        finally:
            torch.set_rng_state(before[0])
            random.setstate(before[1])


@contextmanager
def _numpy_seeded(words: list[int]) -> Iterator[None]:
    """What `np.random.rand` and its like draw from, of whatever kind it is. Its state holds a normal number
    that is left of a pair, too."""
    bits, state = mtrand.get_bit_generator(), np.random.get_state(legacy=False)  # noqa: NPY002
    mtrand.set_bit_generator(np.random.MT19937(words))
    try:
        yield
    finally:
        mtrand.set_bit_generator(bits)
        np.random.set_state(state)  # noqa: NPY002
