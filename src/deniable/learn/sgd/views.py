"""Views of examples by a caller's own function, which must treat each row for itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from deniable.errors import InvalidParameter

Augment = Callable[[Tensor], Tensor]

ROWS = 9


def refuse_mixing(augment: Augment | None, x: Tensor) -> None:
    """Raise if a row's view changes with the other rows, torch's generator being at the same place; only x's shape is read.

    Mixing rows (mixup, statistics of the batch) would let one row move the gradient of every other one.
    """
    if augment is None:
        return
    for wide in (1.0, 30.0):
        near, far = _generated(x, 0, 1.0), _generated(x, 1, wide)
        for i in (0, ROWS - 1):
            far[i] = near[i]
            here, there = _seen(augment, near), _seen(augment, far)
            if here.shape[:1] != near.shape[:1]:
                raise InvalidParameter(
                    f"Expected augment to give one view for each row, got {len(here)} for {ROWS} rows. Nothing was charged."
                )
            if here.shape != there.shape or not torch.equal(here[i], there[i]):
                raise InvalidParameter(
                    "The views that augment gives of a row change with the other rows, so no bound on one row's contribution "
                    "exists. Nothing was charged. Treat each row by itself, and draw from torch's default generator."
                )


def seen(augment: Augment | None, x: Tensor) -> Tensor:
    """What `augment` makes of public rows: it may change their shape."""
    return x if augment is None else _seen(augment, x)


def _generated(x: Tensor, seed: int, wide: float) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    shape = (ROWS, *x.shape[1:])
    if x.is_floating_point():
        return torch.rand(shape, generator=random, dtype=x.dtype).mul_(wide)
    return torch.randint(0, 2, shape, generator=random).to(x.dtype)


def _seen(augment: Augment, x: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return augment(x.clone())
        except Exception as error:
            raise InvalidParameter(
                f"augment fails on generated rows of the shape {tuple(x.shape)}: {error}. Nothing was charged."
            ) from None
