"""Loops of others train models that are alike: these are tried once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.learn.sgd.runs import tried_once


@pytest.fixture(autouse=True)
def quick_checks() -> Iterator[None]:
    with tried_once():
        yield
