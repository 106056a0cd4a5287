"""Pages for everybody: axe-core finds nothing, in light, dark and on a phone; the keyboard reaches everything;
without a script every form works."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from deniable.server.audits import BROKEN, run_mechanism
from deniable.server.people.rights import Caller, Role
from tests.server.console.browser import Person
from tests.server.console.node import modules
from tests.server.hospital import PASSWORD, Hospital

pytestmark = pytest.mark.needs("browser")
OLGA = Caller("olga", frozenset({Role.OWNER}))
Visitor = Callable[..., Person]
PAGES = ("/ask", "/budget", "/ledger", "/audits", "/data", "/people", "/explain", "/password")


def violations(person: Person) -> list[str]:
    """What axe-core finds by WCAG 2.2 A and AA, and by its best practices."""
    page = person.page
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate((modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{v['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for v in found["violations"]
        for node in v["nodes"]
    ]


@pytest.mark.needs("node")
@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_axe_finds_nothing(shared: Hospital, visitor: Visitor, look: str) -> None:
    phone = look == "phone"
    # The test's own script is let in past the policy, and nothing else is changed.
    person = visitor(shared.url, bypass_csp=True, color_scheme="dark" if look == "dark" else "light")
    if phone:
        person.page.set_viewport_size({"width": 390, "height": 844})
    assert violations(person.go("/login")) == []
    person.log_in("olga", PASSWORD)
    for path in PAGES:
        assert violations(person.go(path)) == [], path
        if phone:
            wide = person.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} is {wide} pixels too wide"
    person.go("/ask").ask("SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY sex", "0.5")
    assert violations(person) == []
    person.ask("SELECT sex, age < 50 AS young, COUNT(*) AS n FROM visits GROUP BY sex, age < 50", "0.5")
    assert violations(person) == []
    person.ask("SELECT nothing", "0.5")
    assert violations(person) == []
    number = run_mechanism(shared.service, OLGA, BROKEN, Fraction(1), Fraction(0))
    assert violations(person.go(f"/audits/{number}")) == []
    person.go("/data").page.click("summary")
    assert violations(person) == []


def test_a_question_is_asked_by_the_keyboard_alone(shared: Hospital, visitor: Visitor) -> None:
    person = visitor(shared.url).log_in("ada", PASSWORD)
    page = person.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('cm-content')"):
            break
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT COUNT(*) AS n FROM vis")
    page.wait_for_selector(".cm-tooltip-autocomplete >> text=visits")
    page.wait_for_timeout(100)  # CodeMirror takes no key for a completion in its first moments
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#result .figures")
    assert "FROM visits" in person.text(".cm-content")
    page.keyboard.press("Tab")  # the editor is no trap
    assert not page.evaluate("document.activeElement.classList.contains('cm-content')")


def test_without_a_script_everything_still_works(shared: Hospital, visitor: Visitor) -> None:
    person = visitor(shared.url, java_script_enabled=False).log_in("ada", PASSWORD)
    page = person.page
    page.fill("#sql", "SELECT AVG(cost) AS c FROM visits WHERE sex = 'F'")
    page.fill("[name=epsilon]", "0.7")
    page.click("#look")
    page.wait_for_selector("#preview .price:has-text('ε 0.7')")
    assert page.input_value("#sql").startswith("SELECT AVG(cost)")
    page.click("#run")
    page.wait_for_selector("#result .figures")
    page.fill("#sql", "SELECT AVG(cost) AS c FROM visits")
    page.fill("[name=within]", "10")
    page.check("[name=by][value=within]")
    page.click("#run")
    page.wait_for_selector("#result .refused")
    page.click("#result .way:has-text('Say what it may cost')")
    assert page.is_checked("[name=by][value=epsilon]")
    assert "AVG(cost)" in page.input_value("#sql")


def test_sliders_move_the_words(shared: Hospital, visitor: Visitor) -> None:
    page = visitor(shared.url).log_in("ada", PASSWORD).go("/explain").page
    page.fill("#epsilon", "4")
    page.wait_for_selector("#meaning h2:has-text('ε = 4')")
    assert "little" in page.inner_text("main")
