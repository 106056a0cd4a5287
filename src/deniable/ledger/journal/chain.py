"""The chain that makes tampering show: each entry carries a MAC over itself and the MAC before it.

The key lies outside the database. Whoever edits the database without it cannot make a
MAC that fits; whoever holds it can, so a *head* (how many entries, and the last MAC)
kept elsewhere is what a roll-back shows against.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deniable.errors import InvalidParameter, LedgerError

VARIABLE = "DENIABLE_LEDGER_KEY"
"""Names the file of the key where none is given."""


_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True)
class Head:
    """How long the journal is, and the MAC of its last entry. As text `count:mac`, to be kept elsewhere.

    >>> Head.parse("12:" + "0f" * 32).count
    12
    """

    count: int
    mac: str

    def __str__(self) -> str:
        return f"{self.count}:{self.mac}"

    @classmethod
    def parse(cls, text: str) -> Head:
        count, _, mac = text.strip().partition(":")
        if not (count.isdecimal() and len(mac) == 64 and set(mac) <= set("0123456789abcdef")):
            raise InvalidParameter(
                f"Expected a head like 12:0f3a… (a count and 64 hexadecimal digits), got {text!r}."
            )
        return cls(int(count), mac)


def sealed(key: bytes, before: str, fields: Sequence[str | int | None]) -> str:
    """The MAC of `fields` after `before`. JSON keeps fields apart: no two lists have one text."""
    return hmac.digest(key, _encode([before, *fields]).encode(), "sha256").hex()


def key_check(key: bytes, ledger: str) -> str:
    """Tells whether a key is the one of this ledger, and nothing else about it."""
    return sealed(key, "key of", [ledger])


def key_path(given: str | Path | None, database: Path | None) -> Path:
    """Where the key is: as given, as the environment says, beside the file, or in the user's own folder."""
    location = given or os.environ.get(VARIABLE)
    if location:
        return Path(location)
    if database is not None:
        return database.with_name(database.name + ".key")
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "deniable" / "ledger.key"


def read_key(path: Path) -> bytes | None:
    """The key in a file, or None if there is no such file."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise LedgerError(f"The file {path} holds no key that can be read. Nothing was opened.") from None
    if len(key) != 32:
        raise LedgerError(f"The file {path} holds no key of 64 hexadecimal digits. Nothing was opened.")
    return key


def make_key(path: Path) -> bytes:
    """A new key in a file that only its owner can read; the one that is there, if
    another process was faster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(hashlib.sha256().digest_size)
    # Written whole under another name and linked: nobody ever reads half a key.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return read_key(path) or key
    except OSError as error:
        raise LedgerError(
            f"The key of the ledger could not be written to {path}: {error.strerror}."
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)
    return key


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
