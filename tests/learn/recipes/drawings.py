"""Fewer drawn pictures than the recipes learn their directions from: to draw all of them takes twenty seconds."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from torch import Tensor

from deniable.learn.recipes import maps, patches, principal

PICTURES = 5
"""Canvases of 25 pictures each, of 24 in the recipes."""
PATCHES = 2
"""Canvases that patches are cut from, of 8 in the recipes."""

# What is behind the caches of the recipes, so that these hold nothing of few pictures.
DRAWN = principal.drawn.__wrapped__
DICTIONARY = patches.dictionary.__wrapped__
PRINCIPAL = maps._principal.__wrapped__


@contextmanager
def few_drawn() -> Iterator[None]:
    """While this lasts, directions and patches come from few pictures; `make soak` draws all of them."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "soak":
        yield
        return
    with (
        mock.patch.object(principal, "drawn", _drawn),
        mock.patch.object(patches, "dictionary", _dictionary),
        mock.patch.object(maps, "_principal", _principal),
    ):
        yield


@functools.cache
def _drawn() -> Tensor:
    with mock.patch.object(principal, "CANVASES", PICTURES):
        pictures: Tensor = DRAWN()
    return pictures


@functools.cache
def _dictionary() -> Tensor:
    with mock.patch.object(patches, "CANVASES", PATCHES):
        filters: Tensor = DICTIONARY()
    return filters


@functools.cache
def _principal() -> tuple[principal.Principal, principal.Principal]:
    return PRINCIPAL()
