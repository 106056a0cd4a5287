"""Secrets, and what is stored instead of them: argon2 for passwords that people choose, SHA-256 for random
texts, SCRAM for the wire.

A token is `dnb_` + an identifier + a random text of 256 bits: guessing it is hopeless, so a plain digest is
enough. All tokens of a person share the salt of her SCRAM verifiers, which is made from her name and the
server's own secret: before the proof, somebody who does not exist looks like everybody else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from deniable.errors import InvalidParameter, TooMany

ROUNDS = 4096
SHORTEST, LONGEST = 12, 256
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash(secrets.token_urlsafe(32))
"""The hash of a password that nobody has: an unknown name costs the same work as a wrong password."""


class HashQueue:
    """The few places where a password is hashed, and a short queue before them.

    A hash of argon2 takes 64 MB and several cores for a moment, and anybody may ask for one. So `parallel`
    run and `waiting` more wait; whoever comes then is refused at once, before any memory is taken.
    """

    def __init__(self, parallel: int, waiting: int) -> None:
        self.parallel, self.waiting = parallel, waiting
        self._room = threading.BoundedSemaphore(parallel + waiting)
        self._places = threading.BoundedSemaphore(parallel)

    @contextmanager
    def place(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise TooMany(
                "Too many logins at this moment. Nothing was done, and it was not counted as a failure. Wait "
                "a few seconds, and log in again."
            )
        try:
            with self._places:
                yield
        finally:
            self._room.release()


HASHES = HashQueue(parallel=2, waiting=16)


def password_hash(password: str) -> str:
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidParameter(
            f"Expected a password of {SHORTEST} to {LONGEST} characters. Nothing was changed."
        )
    with HASHES.place():
        return _HASHER.hash(password)


def password_matches(stored_hash: str | None, password: str) -> bool:
    """Takes the same work whether there is such a person or not."""
    try:
        with HASHES.place():
            matches = _HASHER.verify(stored_hash or _NOBODY, password[: LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return False
    return matches and stored_hash is not None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def hide_first_half(password: str) -> str:
    """A one-time password as it is stored: of one that two people gave, `first.second`, the first half is
    known by its digest alone. Neither of them has the whole."""
    first, dot, second = password.partition(".")
    if not dot:
        return password
    return f"{digest(first)}.{second}"


@dataclass(frozen=True)
class Token:
    """A token as it is shown once."""

    id: str
    text: str

    @classmethod
    def make(cls) -> Token:
        name = secrets.token_hex(6)
        return cls(name, f"dnb_{name}_{new_secret()}")


def token_id(text: str) -> str | None:
    """The identifier in what may be a token."""
    parts = text.split("_", 2)
    if len(parts) == 3 and parts[0] == "dnb" and len(parts[1]) == 12:
        return parts[1]
    return None


@dataclass(frozen=True)
class Verifier:
    """What checks a SCRAM proof, and from which nobody can make one (RFC 5802, RFC 7677)."""

    stored_key: bytes
    server_key: bytes

    @classmethod
    def derive(cls, secret: str, salt: bytes) -> Verifier:
        password_key = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, ROUNDS)
        client = hmac.digest(password_key, b"Client Key", "sha256")
        return cls(hashlib.sha256(client).digest(), hmac.digest(password_key, b"Server Key", "sha256"))

    def signature(self, exchange: bytes, proof: bytes) -> bytes | None:
        """The server's signature of the exchange, if the proof is right."""
        mask = hmac.digest(self.stored_key, exchange, "sha256")
        if len(proof) != len(mask):
            return None
        client = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client).digest(), self.stored_key):
            return None
        return hmac.digest(self.server_key, exchange, "sha256")


def salt_of(server_secret: bytes, person: str) -> bytes:
    return hmac.digest(server_secret, b"scram salt of " + person.encode(errors="surrogatepass"), "sha256")[
        :16
    ]
