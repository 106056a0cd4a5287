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
COLOURS = "color-contrast"
"""What another colour scheme can break; the tree of the page is the same."""


def violations(person: Person, *rules: str) -> list[str]:
    """What axe-core finds by WCAG 2.2 A and AA, and by its best practices; of all its rules unless some are named."""
    page = person.page
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate((modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate(
        "only => axe.run(document, {resultTypes: ['violations'], ...(only.length && {runOnly: only})})",
        list(rules),
    )
    return [
        f"{v['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for v in found["violations"]
        for node in v["nodes"]
    ]


def look(person: Person) -> list[str]:
    """What is wrong with the page by light, in the dark and, at last, on a phone."""
    page = person.page
    page.set_viewport_size({"width": 1280, "height": 900})
    found = violations(person)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {one}" for one in violations(person, COLOURS)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    return found + [f"phone: {one}" for one in violations(person)]


@pytest.mark.needs("node")
def test_axe_finds_nothing(shared: Hospital, visitor: Visitor) -> None:
    # The test's own script is let in past the policy, and nothing else is changed.
    person = visitor(shared.url, bypass_csp=True, color_scheme="light")
    assert look(person.go("/login")) == []
    person.log_in("olga", PASSWORD)
    for path in PAGES:
        assert look(person.go(path)) == [], path
        wide = person.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide for a phone"
    person.go("/ask").ask("SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY sex", "0.5")
    assert look(person) == []
    person.ask("SELECT sex, age < 50 AS young, COUNT(*) AS n FROM visits GROUP BY sex, age < 50", "0.5")
    assert look(person) == []
    person.ask("SELECT nothing", "0.5")
    assert look(person) == []
    number = run_mechanism(shared.service, OLGA, BROKEN, Fraction(1), Fraction(0))
    assert look(person.go(f"/audits/{number}")) == []
    person.go("/data").page.click("summary")
    assert look(person) == []


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
