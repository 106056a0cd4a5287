"""The page Ask in a real browser: preview, answer, refusal with its way out, same again, files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.server.console.browser import Person
from tests.server.hospital import PASSWORD, Hospital

pytestmark = pytest.mark.needs("browser")
Visitor = Callable[[str], Person]


@pytest.fixture
def ada(shared: Hospital, visitor: Visitor) -> Person:
    return visitor(shared.url).log_in("ada", PASSWORD)


def test_a_preview_follows_what_is_typed_and_charges_nothing(ada: Person, shared: Hospital) -> None:
    before = shared.spent()
    ada.write("SELECT AVG(cost) AS c FROM visits WHERE age > 31")
    ada.page.fill("[name=epsilon]", "0.25")
    ada.page.wait_for_selector("#preview .price:has-text('ε 0.25')")
    ada.page.wait_for_selector("#preview:has-text('c')")
    assert shared.spent() == before


def test_an_answer_is_paid_once_and_then_free(ada: Person, shared: Hospital) -> None:
    before = shared.spent()
    text = "SELECT sex, COUNT(*) AS n FROM visits WHERE age < 41 GROUP BY sex"
    said = ada.ask(text, "0.2")
    assert "paid ε 0.2" in said
    assert "±" in said
    assert ada.page.locator("#result svg[role=img] .error").count() == 2 * 3
    spent = shared.spent()
    assert spent == pytest.approx(before + 0.2)
    assert "same again, free" in ada.ask(text, "0.2")
    ada.go("/ask")
    ada.page.click("[data-again] >> nth=0")
    ada.page.wait_for_selector("#result .tag.free")
    assert shared.spent() == spent
