"""Login by an OpenID provider: a real one, over HTTP, which the test starts; and what a hostile one, a stolen code or
another browser get."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey

from deniable.errors import InvalidParameter
from deniable.server.people.oidc import Attempt
from deniable.server.people.oidc import Provider as Known
from deniable.server.settings import Oidc, parse
from tests.server.hospital import Running, opened, settings
from tests.server.provider import CLIENT, SECRET, Provider, provider

ORIGIN = "https://stats.example.org"


@dataclass
class Site:
    """A service, its provider, and browsers."""

    running: Running
    provider: Provider

    def browser(self) -> httpx.Client:
        return self.running.client()

    def sent_back(self, browser: httpx.Client) -> str:
        """Log in at the provider; the path and query that it sends the browser back to."""
        begun = browser.get("/v1/oidc/login")
        assert begun.status_code == 303, begun.text
        back = httpx.get(begun.headers["location"], trust_env=False).headers["location"]
        assert back.startswith(ORIGIN + "/")
        return str(back.removeprefix(ORIGIN))

    def log_in(self, browser: httpx.Client) -> httpx.Response:
        return browser.get(self.sent_back(browser))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("oidc")
    (folder / "state").mkdir()
    secret = folder / "state" / "oidc.secret"
    secret.touch(0o600)
    secret.write_text(SECRET + "\n", encoding="utf-8")
    with provider() as there:
        oidc = Oidc(there.url, CLIENT, "oidc.secret")
        with opened(settings(folder, oidc=oidc, origin=ORIGIN, wire=None)) as running:
            running.service.roster.first_owner("olga")
            running.service.roster.invite("olga", "ada", ["analyst"], there.subject)
            yield Site(running, there)


@pytest.fixture
def site(started: Site) -> Iterator[Site]:
    there = started.provider
    before = there.subject, there.key
    yield started
    there.subject, there.key = before
    there.signing = "RS256"
    there.claims.clear()


def test_who_the_provider_names_gets_a_session_and_a_page_that_goes_on(site: Site) -> None:
    with site.browser() as browser:
        begun = browser.get("/v1/oidc/login")
        assert "SameSite=lax" in begun.headers["set-cookie"]
        assert "Max-Age=600" in begun.headers["set-cookie"]
        said = site.log_in(browser)
        assert said.status_code == 200
        assert '<meta http-equiv="refresh" content="0;url=/">' in said.text
        cookies = said.headers.get_list("set-cookie")
        assert any("SameSite=strict" in cookie and "HttpOnly" in cookie for cookie in cookies)
        assert any("-oidc=" in cookie and "Max-Age=0" in cookie for cookie in cookies)
        me = browser.get("/v1/me").json()
        assert (me["name"], me["roles"], me["must_change"]) == ("ada", ["analyst"], False)
        unsafe = {"Origin": ORIGIN, "X-CSRF-Token": me["csrf"]}
        assert browser.post("/v1/tokens", json={"scope": ["ask"]}, headers=unsafe).status_code == 201


def test_a_code_is_good_once_and_in_the_browser_that_began(site: Site) -> None:
    with site.browser() as browser, site.browser() as thief:
        back = site.sent_back(browser)
        assert thief.get(back).status_code == 401
        thief.get("/v1/oidc/login")  # an attempt of her own does not fit to the code
        assert thief.get(back).status_code == 401
        assert thief.get("/v1/me").status_code == 401
        assert browser.get(back).status_code == 200
        assert browser.get(back).status_code == 401  # the attempt is used up
    assert not site.provider.refused  # and none of these codes was even sent on


def test_a_code_with_another_verifier_is_refused_by_the_provider(site: Site) -> None:
    with site.browser() as browser:
        begun = browser.get("/v1/oidc/login").headers["location"]
        swapped = begun.replace("code_challenge=", "code_challenge=x")
        back = httpx.get(swapped, trust_env=False).headers["location"].removeprefix(ORIGIN)
        assert browser.get(back).status_code == 401
    assert len(site.provider.refused) == 1
    site.provider.refused.clear()


HOSTILE: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "somebody else"},
    "several audiences, made for another": {"aud": [CLIENT, "x"], "azp": "x"},
    "another issuer": {"iss": "https://evil.example"},
    "another nonce": {"nonce": "guessed"},
    "no nonce": {"nonce": None},
    "expired": {"exp": int(time.time()) - 3600},
    "no expiry": {"exp": None},
    "no subject": {"sub": None},
    "a subject that is a list": {"sub": ["248289761001"]},
}


@pytest.mark.parametrize("bent", HOSTILE)
def test_a_token_that_is_not_for_this_login_opens_nothing(site: Site, bent: str) -> None:
    site.provider.claims |= HOSTILE[bent]
    with site.browser() as browser:
        said = site.log_in(browser)
        assert (said.status_code, browser.get("/v1/me").status_code) == (401, 401)
        assert "Traceback" not in said.text


@pytest.mark.parametrize("signing", ["none", "HS256"])
def test_a_token_that_anybody_could_have_signed_opens_nothing(site: Site, signing: str) -> None:
    site.provider.signing = signing
    with site.browser() as browser:
        assert site.log_in(browser).status_code == 401


def test_new_keys_of_the_provider_are_taken_and_foreign_ones_are_not(site: Site) -> None:
    with site.browser() as browser:
        assert site.log_in(browser).status_code == 200
        site.provider.key = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})
        assert site.log_in(browser).status_code == 200
        shown = RSAKey.generate_key(2048, {"kid": "second", "use": "sig"})
        genuine = site.provider.signed
        foreign = Provider(site.provider.url, key=RSAKey.generate_key(2048, {"kid": "second"}))
        site.provider.signed = foreign.signed  # type: ignore[method-assign]
        site.provider.key = shown
        assert site.log_in(browser).status_code == 401
        site.provider.signed = genuine  # type: ignore[method-assign]


def test_somebody_unknown_is_told_what_to_give_to_an_owner(site: Site) -> None:
    site.provider.subject = "<img src=x onerror=alert(1)>"
    with site.browser() as browser:
        said = site.log_in(browser)
    assert said.status_code == 401
    assert "&lt;img src=x" in said.text
    assert "<img" not in said.text


def test_a_disabled_person_and_an_unlinked_one_are_unknown(site: Site) -> None:
    roster = site.running.service.roster
    with site.browser() as browser:
        assert site.log_in(browser).status_code == 200
        roster.change("olga", "ada", disabled=True)
        assert browser.get("/v1/me").status_code == 401
        assert site.log_in(browser).status_code == 401
        roster.change("olga", "ada", disabled=False)
        assert site.log_in(browser).status_code == 200
        roster.link("olga", "ada", None)
        assert browser.get("/v1/me").status_code == 401
        assert site.log_in(browser).status_code == 401
        roster.link("olga", "ada", site.provider.subject)
        with pytest.raises(InvalidParameter, match="belongs to somebody"):
            roster.link("olga", "olga", site.provider.subject)


def test_the_wish_of_a_provider_that_refused_is_one_sentence(site: Site) -> None:
    with site.browser() as browser:
        said = browser.get("/v1/oidc/callback?error=access_denied&state=x")
        assert said.status_code == 401
        assert "did not log you in" in said.text


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
def test_a_provider_that_points_elsewhere_is_not_followed(tmp_path: Path, metadata: dict[str, Any]) -> None:
    with provider() as there:
        there.metadata |= metadata
        with pytest.raises(Exception, match=r"calls itself|not https"):
            Known(Oidc(there.url, CLIENT), tmp_path, ORIGIN).begin(Attempt.begin())


def test_an_address_counts_where_the_provider_has_verified_it(tmp_path: Path) -> None:
    with provider() as there:
        (tmp_path / "s").touch(0o600)
        (tmp_path / "s").write_text(SECRET, encoding="utf-8")
        known = Known(Oidc(there.url, CLIENT, "s", "email"), tmp_path, ORIGIN)

        def subject(**claims: Any) -> str:
            there.claims = {"email": "ada@example.org", **claims}
            attempt = Attempt.begin()
            back = httpx.get(known.begin(attempt), trust_env=False).headers["location"]
            given = httpx.URL(back).params
            return known.finish(attempt, code=given["code"], state=given["state"])

        assert subject(email_verified=True) == "ada@example.org"
        for verified in ({}, {"email_verified": False}, {"email_verified": "true"}):
            with pytest.raises(Exception, match="not verified"):
                subject(**verified)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[oidc]\nissuer = "https://x.example"\nclient = "c"', "Expected origin beside oidc"),
        ('origin = "https://s"\n[oidc]\nissuer = "http://x.example"\nclient = "c"', "https address"),
        ('origin = "https://s"\n[oidc]\nissuer = "https://x"', "oidc.client is missing"),
        ('origin = "https://s"\n[oidc]\nissuer = "https://x"\nclient = "c"\nclaim = "name"', "sub or email"),
    ],
)
def test_settings_that_would_trust_too_much_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        parse(text)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(SECRET, encoding="utf-8")
    (tmp_path / "s").chmod(0o644)
    with pytest.raises(InvalidParameter, match="chmod 600"):
        Known(Oidc("https://x", CLIENT, "s"), tmp_path, ORIGIN)
