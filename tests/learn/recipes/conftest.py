"""Recipes stand on few drawn pictures here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.learn.recipes.drawings import few_drawn


@pytest.fixture(autouse=True, scope="module")
def few_pictures() -> Iterator[None]:
    with few_drawn():
        yield
