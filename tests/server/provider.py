"""An OpenID provider on loopback, over real HTTP: discovery, authorization with PKCE, tokens, keys. And the ways in
which one may be wrong or hostile."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT, SECRET = "deniable", "the client's own secret"


@dataclass
class Provider:
    """`claims` and `signing` bend what it says of whoever logs in, `metadata` what it says of itself."""

    url: str = ""
    subject: str = "248289761001"
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}))
    claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    signing: str = "RS256"
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            **self.metadata,
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Where a browser is sent back to after the person has logged in here."""
        wanted = {"response_type": "code", "code_challenge_method": "S256", "client_id": CLIENT}
        assert asked | wanted == asked
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]})

    def token(self, given: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """A code is good once, for the client and the verifier that it was made for."""
        asked = self.codes.pop(given.get("code", ""), None)
        wanted = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge or authorization != f"Basic {wanted}":
            self.refused.append(given.get("code", ""))
            return None
        now = int(time.time())
        claims = {"iss": self.url, "sub": self.subject, "aud": CLIENT, "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"], **self.claims}
        return {"access_token": "unused", "token_type": "Bearer", "id_token": self.signed(claims)}

    def signed(self, claims: dict[str, Any]) -> str:
        head = {"alg": self.signing, "kid": str(self.key.kid)}
        if self.signing == "none":
            parts = (json.dumps(part).encode() for part in (head, claims))
            return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        if self.signing == "HS256":  # with the public key, which everybody has, as if it were a secret
            key = OctKey.import_key(self.key.as_pem(private=False))
            return jwt.encode(head, claims, key, algorithms=["HS256"])
        return jwt.encode(head, claims, self.key)


@contextmanager
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def said(self, status: int, body: dict[str, Any]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", made.authorize(asked))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            known = {
                "/.well-known/openid-configuration": made.discovery,
                "/keys": lambda: {"keys": [made.key.as_dict(private=False)]},
            }
            self.said(200, known[parts.path]()) if parts.path in known else self.said(404, {})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
            given = {name: values[0] for name, values in parse_qs(raw).items()}
            token = made.token(given, self.headers.get("Authorization", ""))
            self.said(200, token) if token else self.said(400, {"error": "invalid_grant"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
