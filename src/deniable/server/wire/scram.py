"""SCRAM-SHA-256 on the server's side (RFC 5802, RFC 7677), as an exchange of texts.

The user is the one of the connection, the password one of her tokens. Whoever does not exist walks the same
steps.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from deniable.errors import ProtocolError
from deniable.server.people.roster import Roster
from deniable.server.people.secrets import ROUNDS

MECHANISM = "SCRAM-SHA-256"


class ScramExchange:
    """One login. `first` answers the client's first message, `final` checks its proof."""

    def __init__(self, roster: Roster, person: str) -> None:
        self._roster = roster
        self._person = person
        self._header = ""
        self._client_first = ""
        self._server = ""
        self._nonce = ""

    def first(self, text: str) -> str:
        binding, _, rest = text.partition(",")
        if binding not in ("n", "y") or rest.count(",") < 2:
            raise ProtocolError(
                "The first message of the login is not one of SCRAM-SHA-256 without channel binding."
            )
        name, _, self._client_first = rest.partition(",")
        # RFC 5802 §5.1: the authzid. Ignoring it would log somebody in as another than she asked for.
        if name:
            raise ProtocolError(
                "The login asks to act as somebody else (an authorization identity), which nobody may. "
                "Nothing was done. Leave it out."
            )
        self._header = f"{binding},,"
        fields = dict(part.partition("=")[::2] for part in self._client_first.split(","))
        # RFC 5802 §5.1: "m" names an extension that a server must refuse if it does not know it.
        if "m" in fields or not 8 <= len(fields.get("r", "")) <= 256:
            raise ProtocolError("The first message of the login has no nonce, or asks for an extension.")
        # The server's part of the nonce makes every exchange new: a recorded proof signs another one.
        self._nonce = fields["r"] + secrets.token_urlsafe(24)
        # Whoever does not exist has a salt too, the same each time, so that names cannot be tried.
        salt = base64.b64encode(self._roster.salt(self._person)).decode()
        self._server = f"r={self._nonce},s={salt},i={ROUNDS}"
        return self._server

    def proof(self, text: str) -> tuple[bytes, bytes]:
        """What was signed, and the proof in the client's final message."""
        without, _, proof = text.rpartition(",p=")
        fields = dict(part.partition("=")[::2] for part in without.split(","))
        # The header is signed again (RFC 5802 §7), so nobody between can take channel binding out of it.
        channel = base64.b64encode(self._header.encode()).decode()
        if fields.get("r") != self._nonce or fields.get("c") != channel:
            raise ProtocolError("The final message of the login does not belong to the first.")
        try:
            raw = base64.b64decode(proof, validate=True)
        except binascii.Error:
            raise ProtocolError("The proof of the login is not base64.") from None
        return f"{self._client_first},{self._server},{without}".encode(), raw
