"""Login by an OpenID provider (OpenID Connect Core 1.0, code flow with PKCE): it proves who somebody is, the
roster says what she may.

State, nonce and PKCE's verifier travel in a short-lived cookie of the browser that began, sealed with the
server's key: a code that another browser brings opens nothing. The ID token is checked by its signature
(asymmetric algorithms alone), issuer, audience, nonce and times. Whom it names is looked up by the subject,
or by an address that the provider says is verified; a name that people choose themselves proves nothing.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from deniable.errors import InvalidParameter, LedgerError, NotLoggedIn
from deniable.ledger.journal import chain
from deniable.server.settings import Oidc, loopback

CALLBACK = "/v1/oidc/callback"
SECONDS = 600.0
LEEWAY = 60
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"})
"""Signatures that only the provider can make. `none` and HS…, whose key this service has too, are not among
them."""
FAILED = "The login at the provider did not end well. Nothing was done. Begin again."


@dataclass(frozen=True)
class Attempt:
    """A login that has begun: what its end is held against."""

    state: str
    nonce: str
    verifier: str
    expires: float

    @classmethod
    def begin(cls) -> Attempt:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, time.time() + SECONDS)

    def seal(self, key: bytes) -> str:
        """The attempt as a cookie of the browser that began."""
        body = base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()
        return f"{body}.{chain.sealed(key, 'oidc', [body])}"

    @classmethod
    def unseal(cls, text: str, key: bytes) -> Attempt:
        body, _, seal = text.partition(".")
        if not hmac.compare_digest(chain.sealed(key, "oidc", [body]).encode(), seal.encode()):
            raise NotLoggedIn(FAILED)
        attempt = cls(**json.loads(base64.urlsafe_b64decode(body)))
        if attempt.expires < time.time():
            raise NotLoggedIn("The login at the provider took too long. Nothing was done. Begin again.")
        return attempt


@dataclass(frozen=True)
class Endpoints:
    """What the provider says of itself."""

    authorization: str
    token: str
    keys: str


class Provider:
    """One OpenID provider. It is asked in threads; what it says of itself is read once, its keys when a
    new one signs."""

    def __init__(self, settings: Oidc, folder: Path, origin: str) -> None:
        self._settings = settings
        self._redirect = origin + CALLBACK
        self._secret: str | None = None
        if settings.secret:
            self._secret = _read_secret(folder / settings.secret)
        self._endpoints: Endpoints | None = None
        self._keys: KeySet | None = None

    def begin(self, attempt: Attempt) -> str:
        """The provider's page where the person logs in."""
        with self._client() as client:
            endpoints = self._discover(client)
            url, _ = client.create_authorization_url(
                endpoints.authorization,
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
            )
        return str(url)

    def finish(self, attempt: Attempt, *, code: str, state: str) -> str:
        """Who has logged in: the subject that the provider names her by."""
        if not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise NotLoggedIn(FAILED)
        with self._client() as client:
            try:
                token = client.fetch_token(
                    self._discover(client).token, code=code, code_verifier=attempt.verifier
                )
                return self._subject(client, token, attempt.nonce)
            except (AuthlibBaseError, JoseError, httpx2.HTTPError, ValueError, TypeError, KeyError):
                raise NotLoggedIn(FAILED) from None

    def _client(self) -> OAuth2Client:
        method = "client_secret_basic" if self._secret is not None else "none"
        return OAuth2Client(
            client_id=self._settings.client,
            client_secret=self._secret,
            token_endpoint_auth_method=method,
            scope="openid email" if self._settings.claim == "email" else "openid",
            redirect_uri=self._redirect,
            follow_redirects=False,
            timeout=10.0,
            trust_env=False,
        )

    def _discover(self, client: OAuth2Client) -> Endpoints:
        if self._endpoints is None:
            issuer = self._settings.issuer
            document = _fetch(client, issuer.rstrip("/") + "/.well-known/openid-configuration")
            if document.get("issuer") != issuer:
                raise LedgerError("The OpenID provider calls itself otherwise than the settings do.")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            self._endpoints = Endpoints(*(_check_address(document.get(name), issuer) for name in names))
        return self._endpoints

    def _subject(self, client: OAuth2Client, token: dict[str, Any], nonce: str) -> str:
        id_token = self._decode(client, str(token["id_token"]))
        options = {
            "iss": {"essential": True, "value": self._settings.issuer},
            "aud": {"essential": True, "value": self._settings.client},
        }
        params = {"nonce": nonce, "client_id": self._settings.client, "access_token": token["access_token"]}
        claims = CodeIDToken(id_token.claims, id_token.header, options, params)
        claims.validate(leeway=LEEWAY)
        name = self._settings.claim
        if name == "email" and claims.get("email_verified") is not True:
            raise NotLoggedIn("The provider has not verified your address. Nothing was done.")
        if not isinstance(claims.get(name), str) or not claims[name]:
            raise NotLoggedIn(FAILED)
        return str(claims[name])

    def _decode(self, client: OAuth2Client, text: str) -> jwt.Token:
        """Check a token against the keys that are known, and, where none fits, against those that the
        provider shows now."""
        if self._keys is not None:
            try:
                return jwt.decode(text, self._keys, algorithms=ALGORITHMS)
            except (JoseError, ValueError):
                pass
        shown_now: Any = _fetch(client, self._discover(client).keys)
        self._keys = KeySet.import_key_set(shown_now)
        return jwt.decode(text, self._keys, algorithms=ALGORITHMS)


def _fetch(client: OAuth2Client, url: str) -> dict[str, Any]:
    try:
        response = client.request("GET", url, withhold_token=True)
        document = None
        if response.status_code == 200:
            document = response.json()
    except (httpx2.HTTPError, ValueError):
        document = None
    if not isinstance(document, dict):
        raise LedgerError("The OpenID provider cannot be reached now. Nothing was done. Try again later.")
    return document


def _check_address(url: object, issuer: str) -> str:
    """An address that the provider names: encrypted, unless all of it is on this machine."""
    parts = urlsplit(url if isinstance(url, str) else "")
    local = loopback(urlsplit(issuer).hostname or "") and loopback(parts.hostname or "")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise LedgerError("The OpenID provider names an address that is not https. Nothing was done.")
    return str(url)


def _read_secret(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidParameter(
                f"The file {path.name} can be read by others (chmod 600). Nothing was started."
            )
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        raise InvalidParameter(
            f"The file {path.name} of the OpenID client's secret cannot be read. Nothing was started."
        ) from None
