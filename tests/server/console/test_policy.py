"""What the pages must withstand: text that is markup, requests from elsewhere, GETs that would charge; and what
every response says of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.routing import APIRoute

from deniable.guarantee import Budget
from deniable.server.console import routes
from deniable.server.console.page import PageRoute
from deniable.server.data.declaration import Declaration
from deniable.server.people.rights import Caller, Role
from deniable.units import Unit
from tests.server.console.browser import Person
from tests.server.hospital import PASSWORD, Hospital, Running, opened, settings

EVIL = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
PAGES = ("/ask", "/budget", "/ledger", "/audits", "/data", "/people", "/explain")
Visitor = Callable[[str], Person]


def logged_in(running: Running, name: str = "olga") -> httpx.Client:
    """A client that keeps the console's cookies, as a browser on loopback does."""
    with running.client() as client:
        form = client.get("/login")
        visit = form.headers["set-cookie"].split(";")[0]
        said = client.post(
            "/login",
            data={"name": name, "password": PASSWORD, "token": _token(form.text)},
            headers={"Origin": running.url, "Cookie": visit},
        )
    assert said.status_code == 303, said.text
    client = running.client()
    client.headers["Cookie"] = said.headers["set-cookie"].split(";")[0]
    return client


def _token(page: str) -> str:
    return page.split('name="form-token" content="')[1].split('"')[0]


# ------------------------------------------------------------------------------------------------ markup


@pytest.mark.needs("browser")
def test_text_from_people_and_data_stays_text(tmp_path: Path, visitor: Visitor) -> None:
    """Column names, group keys, analysts' names, query texts, reasons, labels and versions, on every page."""
    data = tmp_path / "data"
    data.mkdir()
    rows = {"who": list(range(900)), EVIL: [EVIL, SCRIPT, '"><svg/onload=alert(3)>'] * 300}
    pq.write_table(pa.table(rows), data / "evil.parquet")
    key = EVIL.replace('"', '""')
    with opened(settings(tmp_path)) as running:
        first = running.service.roster.first_owner("olga")
        assert first is not None
        olga = Caller("olga", frozenset({Role.OWNER}))
        schema = f"tables: {{evil: {{unit: who, columns: {{who: integer, '{EVIL}': text}}}}}}"
        made = Declaration.declare(
            "evil", {"evil": "evil.parquet"}, schema, Unit.column("who", max_rows=1), Budget(50, 1e-6)
        )
        running.service.register(olga, made)
        analyst = "<b>ada"
        running.service.roster.add("olga", analyst, ["analyst"])
        running.service.grant(olga, "evil", analyst, Budget(1, 1e-7))
        running.service.set_version(olga, "evil", f"2 {EVIL}")
        running.service.freeze(olga, "evil", analyst, f"because {EVIL}")
        person = visitor(running.url).log_in("olga", first, first=True)
        said = person.go("/ask").ask(
            f'SELECT "{key}" AS "{key} x", COUNT(*) AS n FROM evil WHERE "{key}" <> \'{SCRIPT} y\' GROUP BY "{key}"',
            "20",
        )
        assert EVIL in said
        assert SCRIPT in said
        person.ask(f"SELECT {EVIL}", "1")
        assert person.page.locator("#result [role=alert]").count() == 1
        person.go("/people").page.fill("form[action='/people/token'] [name=label]", EVIL)
        person.page.click("text=Make a token")
        for path in PAGES:
            person.go(path)
            assert person.page.locator("img, script:not([src]):not([type='application/json'])").count() == 0
        assert EVIL in person.go("/ledger").text()


def test_what_the_editor_is_told_cannot_end_its_script(tmp_path: Path, fresh: Hospital) -> None:
    with logged_in(fresh) as olga:
        page = olga.get("/ask").text
    told = page.split('id="completion">')[1].split("</script>")[0]
    assert "<" not in told


# ------------------------------------------------------------------------------------------------ requests


def test_every_response_carries_the_policy(shared: Hospital) -> None:
    with logged_in(shared) as olga:
        for path in (*PAGES, "/login", "/audits/77", "/static/x/app.js"):
            response = olga.get(path)
            policy = response.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["x-frame-options"] == "DENY"
            assert response.headers["referrer-policy"] in ("no-referrer", "same-origin")
            if "text/html" in response.headers["content-type"]:
                assert "script-src 'self';" in policy
                assert " style=" not in response.text
                assert " onclick" not in response.text


def test_nonces_are_used_once(shared: Hospital) -> None:
    with shared.client() as client:
        first, second = (client.get("/login").headers["content-security-policy"] for _ in range(2))
    assert first != second


def test_the_session_cookie_is_of_this_host_and_site_alone(shared: Hospital) -> None:
    with shared.client() as client:
        form = client.get("/login")
        visit = form.headers["set-cookie"]
        said = client.post(
            "/login",
            data={"name": "ada", "password": PASSWORD, "token": _token(form.text)},
            headers={"Origin": shared.url, "Cookie": visit.split(";")[0]},
        )
        for cookie in (visit, said.headers.get_list("set-cookie")[0]):
            assert cookie.startswith("__Host-deniable")
            assert {"HttpOnly", "Secure", "Path=/", "SameSite=strict"} <= {
                part.strip() for part in cookie.split(";")
            }
            assert "Domain" not in cookie


def forms() -> list[PageRoute]:
    every = (route for part in routes.PARTS for route in part.router.routes)
    found = [route for route in every if isinstance(route, PageRoute) and "POST" in (route.methods or ())]
    assert len(found) >= 18
    return found


def test_no_form_is_taken_from_elsewhere_or_without_its_token(shared: Hospital) -> None:
    """Every POST of the console, by a foreign origin, without one, and without the token."""
    before = shared.service.ledger.head(), len(shared.service.acts(Caller("olga", frozenset({Role.OWNER}))))
    with logged_in(shared) as olga:
        token = _token(olga.get("/ask").text)
        for route in forms():
            path = route.path.replace("{audit}", "1")
            body = {
                "name": "x",
                "data": "visits",
                "sql": "SELECT COUNT(*) FROM visits",
                "epsilon": "1",
                "act": "register",
            }
            for headers, more in (
                ({"Origin": "https://elsewhere.example"}, {"token": token}),
                ({}, {"token": token}),
                ({"Origin": "null"}, {"token": token}),
                ({"Origin": shared.url}, {}),
                ({"Origin": shared.url}, {"token": "0" * 64}),
            ):
                response = olga.post(path, data=body | more, headers=headers)
                assert response.status_code == 403, (path, headers)
        assert olga.get("/ask").status_code == 200  # the session is still there
    after = shared.service.ledger.head(), len(shared.service.acts(Caller("olga", frozenset({Role.OWNER}))))
    assert after == before


def test_no_get_asks_or_charges(shared: Hospital) -> None:
    before = shared.service.ledger.head()
    query = {
        "sql": "SELECT COUNT(*) FROM visits WHERE age = 77",
        "epsilon": "1",
        "data": "visits",
        "by": "epsilon",
    }
    with logged_in(shared) as olga:
        for path in (*PAGES, "/ask/preview", "/ask/export", "/budget/raise", "/data/version"):
            olga.get(path, params=query)
    assert shared.service.ledger.head() == before


def test_an_export_gives_what_was_paid_for_and_never_asks(shared: Hospital) -> None:
    with logged_in(shared, "ada") as ada:
        token = _token(ada.get("/ask").text)
        body = {"data": "visits", "sql": "SELECT COUNT(*) AS n FROM visits WHERE age = 3", "by": "epsilon",
                "epsilon": "0.3", "token": token, "kind": "csv"}  # fmt: skip
        head = {"Origin": shared.url}
        before = shared.spent()
        assert ada.post("/ask/export", data=body, headers=head).status_code == 404
        assert shared.spent() == before
        assert ada.post("/ask", data=body, headers=head).status_code == 200
        for kind in ("csv", "parquet", "py"):
            said = ada.post("/ask/export", data=body | {"kind": kind}, headers=head)
            assert said.status_code == 200
            assert "attachment" in said.headers["content-disposition"]
        compile(said.text, "answer.py", "exec")
        assert shared.spent() == pytest.approx(before + 0.3)


def test_an_analyst_sees_her_own_part_alone(shared: Hospital) -> None:
    shared.ask("bob", "SELECT COUNT(*) AS secret_of_bob FROM visits", 0.2)
    with logged_in(shared, "ada") as ada:
        for path in ("/budget", "/ledger", "/people", "/data"):
            page = ada.get(path)
            assert page.status_code == 200, path
            assert "bob" not in page.text
            assert "ε = 1000" not in page.text
        for path in ("/audits", "/audits/1", "/audits/1/finding.json"):
            assert ada.get(path).status_code == 403
        token = _token(ada.get("/ask").text)
        for path, body in (
            ("/people/add", {"name": "eve", "roles": "owner"}),
            ("/people/grant", {"analyst": "ada", "data": "visits", "epsilon": "900", "delta": "0"}),
            (
                "/budget/raise",
                {"data": "visits", "analyst": "ada", "epsilon": "900", "delta": "1e-6", "reason": "x"},
            ),
            ("/data", {"act": "register", "name": "y"}),
            ("/data/version", {"data": "visits", "version": "9"}),
            ("/ledger/verify", {}),
            ("/audits", {"what": "laplace", "epsilon": "1"}),
        ):
            said = ada.post(path, data=body | {"token": token}, headers={"Origin": shared.url})
            assert said.status_code == 403, path


def test_a_login_goes_back_to_a_page_of_this_site_only(shared: Hospital) -> None:
    with shared.client() as client:
        for back in (
            "//elsewhere.example",
            "https://elsewhere.example",
            "/\\elsewhere.example",
            "javascript:alert(1)",
        ):
            assert "elsewhere" not in client.get("/login", params={"back": back}).text
            assert "javascript" not in client.get("/login", params={"back": back}).text


def test_the_console_is_no_part_of_the_described_interface() -> None:
    assert not any(route.include_in_schema for route in routes.router.routes if isinstance(route, APIRoute))
