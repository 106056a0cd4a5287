"""Each role's day from the first start on: register a CSV file, grant, ask, be refused, look, audit, export."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pytest

from deniable.datasets.visits import visits
from deniable.server.people.logins import AT_THE_SHELL
from tests.server.console.browser import Person
from tests.server.hospital import PASSWORD, opened, settings

pytestmark = pytest.mark.needs("browser")
COLUMNS = {
    "patient_id": ("integer", "", "", ""),
    "age": ("integer", "0", "100", ""),
    "sex": ("text", "", "", "F, M"),
    "ward": ("text", "", "", "emergency, medicine, surgery, children, eyes"),
    "diagnosis": ("text", "", "", ""),
    "admitted": ("date", "", "", ""),
    "days": ("integer", "0", "60", ""),
    "cost": ("integer", "0", "50000", ""),
}


def register(owner: Person) -> None:
    """Fill in the form as an owner would: name the file, take its columns, say what is known."""
    page = owner.go("/data").page
    page.fill("[name=name]", "visits")
    page.fill("[name=source]", "visits.csv")
    page.click("button[value=read]")
    page.wait_for_selector("[name=column_name] >> nth=7")
    assert page.input_value("[name=name]") == "visits"
    names = [field.input_value() for field in page.locator("[name=column_name]").all()]
    assert names == list(COLUMNS)
    for i, (kind, low, high, keys) in enumerate(COLUMNS.values()):
        page.locator("[name=column_type]").nth(i).select_option(kind)
        for name, value in (("low", low), ("high", high), ("keys", keys)):
            page.locator(f"[name=column_{name}]").nth(i).fill(value)
    page.click("button[value=test]")
    page.wait_for_selector("[role=alert]:has-text('Expected the column')")  # and nothing typed is lost
    page.fill("[name=unit]", "patient_id")
    page.fill("[name=rows]", "4")
    page.fill("[name=epsilon]", "2")
    page.click("button[value=test]")
    page.wait_for_selector("[role=status]:has-text('opens as declared')")
    page.click("button[value=register]")
    page.wait_for_selector("h2:has-text('visits')")


def add(owner: Person, name: str, role: str) -> str:
    page = owner.go("/people").page
    form = page.locator("form[action='/people/add']")
    form.locator("[name=name]").fill(name)
    for box in form.locator("[name=roles]").all():
        box.set_checked(box.get_attribute("value") == role)
    form.locator("button").click()
    return str(page.locator(".secret").inner_text())


def test_three_people_and_their_day(tmp_path: Path, visitor: Callable[[str], Person]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pyarrow.csv.write_csv(visits(400), data / "visits.csv")
    with opened(settings(tmp_path)) as running:
        first = running.service.roster.first_owner("olga")
        assert first is not None
        olga = visitor(running.url).log_in("olga", first, first=True)
        assert "Nothing to ask about yet" in olga.text()
        register(olga)
        passwords = {name: add(olga, name, role) for name, role in (("ada", "analyst"), ("vera", "auditor"))}

        ada = visitor(running.url).log_in("ada", passwords["ada"], first=True)
        assert "You have no part of any data set" in ada.text()
        grant = olga.go("/people").page.locator("form[action='/people/grant']")
        grant.locator("[name=epsilon]").fill("1")
        grant.locator("button").click()
        olga.page.wait_for_selector("text=visits: ε = 1")

        said = ada.go("/ask").ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "0.6")
        assert "emergency" in said
        refused = ada.ask("SELECT COUNT(*) AS n FROM visits WHERE age > 50", "0.6")
        assert "Not answered" in refused
        assert "Nothing was run and nothing was charged" in refused
        ada.page.click("#result .way:has-text('Ask for ε =')")
        assert float(ada.page.input_value("[name=epsilon]")) <= 0.4
        ada.page.wait_for_selector("#preview .left")
        ada.page.click("#run")
        ada.page.wait_for_selector("#result .figures")
        assert "Not one more count" in ada.go("/budget").text()
        with ada.page.expect_download() as file:
            ada.go("/ask").page.click("[data-again] >> nth=1")
            ada.page.click("#result button[value=csv]")
        assert Path(file.value.path()).read_text(encoding="utf-8-sig").startswith("ward,n,n_low,n_high")

        raise_limit(olga)
        look(visitor(running.url).log_in("vera", passwords["vera"], first=True))


def raise_limit(olga: Person) -> None:
    page = olga.go("/budget").page
    form = page.locator("form[action='/budget/raise']")
    form.locator("[name=epsilon]").fill("1")  # less than it is
    form.locator("[name=reason]").fill("A second study was approved")
    form.locator("button").click()
    page.wait_for_selector("[role=alert]:has-text('never lowered')")
    assert form.locator("[name=reason]").input_value() == "A second study was approved"
    form.locator("[name=epsilon]").fill("4")
    form.locator("button").click()
    page.wait_for_selector("text=of ε = 4 spent")


def look(vera: Person) -> None:
    """An auditor: the journal, its seals, an attack, the same again, an export. She cannot ask."""
    page = vera.page
    assert page.url.endswith("/ledger")
    assert page.locator("nav a:has-text('Ask')").count() == 0
    assert "A second study was approved" in vera.text()
    page.click("button:has-text('Verify now')")
    page.wait_for_selector(".tag.good:has-text('verified')")
    page.fill("[name=head]", "9:" + "00" * 32)
    page.click("button:has-text('Verify now')")
    page.wait_for_selector(".tag.bad")
    vera.go("/audits").page.fill("[name=sql]", "SELECT COUNT(*) FROM visits")
    page.click("button:has-text('Attack it')", no_wait_after=True)
    page.wait_for_selector(".wait[role=status], .tag.good")
    page.wait_for_url(re.compile("/audits/1$"))
    assert "consistent" in vera.text()
    page.click("button:has-text('Run it again')")
    page.wait_for_selector("text=the same to the last digit")
    with page.expect_download() as file:
        vera.go("/ledger").page.click("text=Export JSON lines")
    lines = Path(file.value.path()).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("run") == 2
    with page.expect_response("**/ask") as answer:
        vera.go("/ask")
    assert answer.value.status == 403


def test_a_password_can_be_changed_and_sessions_ended(
    tmp_path: Path, visitor: Callable[[str], Person]
) -> None:
    with opened(settings(tmp_path)) as running:
        first = running.service.roster.first_owner("olga")
        assert first is not None
        one = visitor(running.url).log_in("olga", first, first=True)
        other = visitor(running.url).log_in("olga", PASSWORD)
        page = one.go("/people").page
        page.fill("form[action='/people/token'] [name=label]", "notebook")
        page.click("text=Make a token")
        assert page.locator(".secret").inner_text().startswith("dnb_")
        page.click("[aria-label^='Revoke']")
        page.wait_for_selector("[aria-label^='Revoke']", state="detached")
        page.click("text=End all your sessions (2)")
        page.wait_for_url("**/login")
        assert other.go("/people").page.url.endswith("/login?back=/people")


def test_a_second_person_agrees_on_the_page_of_budgets(
    tmp_path: Path, visitor: Callable[[str], Person]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pyarrow.csv.write_csv(visits(50), data / "visits.csv")
    with opened(settings(tmp_path, second_person=True)) as running:
        first = running.service.roster.first_owner("olga")
        assert first is not None
        second = running.service.roster.add("operator", "otto", ["owner"], consent=AT_THE_SHELL)
        olga = visitor(running.url).log_in("olga", first, first=True)
        page = olga.go("/data").page
        for name, value in (
            ("name", "visits"),
            ("source", "visits.csv"),
            ("unit", "patient_id"),
            ("rows", "2"),
        ):
            page.fill(f"[name={name}]", value)
        page.locator("[name=column_name]").nth(0).fill("patient_id")
        page.locator("[name=column_type]").nth(0).select_option("integer")
        page.click("button[value=register]")
        page.wait_for_selector("[role=status]:has-text('Another owner must agree')")
        assert olga.go("/budget").page.locator("button:has-text('Agree')").count() == 0
        otto = visitor(running.url).log_in("otto", second, first=True)
        otto.go("/budget").page.click("button:has-text('Agree')")
        otto.page.wait_for_selector("h2:has-text('visits')")
