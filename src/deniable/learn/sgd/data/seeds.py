"""The generators that code of others draws from, under a secret seed while it reads private rows."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

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
    legacy = np.random.mtrand._rand  # what np.random.rand and its like draw from
    before = torch.get_rng_state(), legacy.get_state(), random.getstate()
    words = [int(word) for word in rng.uniform_integers(1 << 32, 6)]
    torch.default_generator.manual_seed(rng.uniform_integers(1 << 63))
    legacy.seed(words[:4])
    random.seed(words[4] << 32 | words[5])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_rng_state(before[0])
        legacy.set_state(before[1])
        random.setstate(before[2])
