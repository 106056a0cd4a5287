"""A real Chromium in front of a real service. Whatever the browser writes to its console fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.requirements import find_browser
from tests.server.console.browser import FLAGS, Person


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visitor(chromium: Any) -> Iterator[Callable[[str], Person]]:
    """A new person at the console of a service, with a browser of her own."""
    people: list[Person] = []

    def come(url: str, **options: Any) -> Person:
        people.append(Person.new(chromium, url, **options))
        return people[-1]

    yield come
    for person in people:
        person.leave()
