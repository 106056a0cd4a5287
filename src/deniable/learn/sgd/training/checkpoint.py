"""A folder that survives a kill: whose charge paid for a run, and the run after one of its steps.

    run.json    a name, which is in the ledger entry that paid for the run, and the run's loss
    state.pt    model, optimiser, step and loss so far; never the generator's key or position

Which steps were begun is not in the folder: the ledger knows, and notes it before they are taken
(`Account.begin`). So the folder may be copied, lost or put back as it was before: a run that is resumed from
an older one goes on after the ledger's number.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import uuid
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from deniable.errors import InvalidParameter, LedgerError

RANDOM_DIGITS = 32
"""Of a run's name, before the mark of its terms."""


class Checkpoint:
    """The folder of one run, held by this process until it is closed."""

    def __init__(self, folder: Path, name: str, loss: str) -> None:
        self.folder, self.name, self.loss = folder, name, loss
        self._file = (folder / "lock").open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise LedgerError(f"Another process is training in {folder}. Nothing was run.") from None

    @classmethod
    def create(cls, folder: str | Path, *, loss: str, terms: str = "") -> Checkpoint:
        """Name a run in an empty or new folder. It is on the disk before the charge, so
        that no kill loses what was paid."""
        path, name = vacant(folder), new_name(terms)
        _write(path / "run.json", json.dumps({"name": name, "loss": loss}).encode())
        return cls(path, name, loss)

    @classmethod
    def open(cls, folder: str | Path) -> Checkpoint:
        """Take up a run that was broken off."""
        path = Path(folder)
        try:
            header = json.loads((path / "run.json").read_text(encoding="utf-8"))
            name, loss = str(header["name"]), str(header["loss"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidParameter(
                f"Expected the folder of a run in {path}: its run.json cannot be read."
            ) from None
        return cls(path, name, loss)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the saved state, whole or not at all."""
        memory = io.BytesIO()
        torch.save(state, memory)
        _write(self.folder / "state.pt", memory.getvalue())

    def load(self) -> dict[str, Any] | None:
        """The saved state; None if the run broke off before its first."""
        path = self.folder / "state.pt"
        if not path.exists():
            return None
        state: dict[str, Any] = torch.load(path, weights_only=True)
        return state

    def discard(self) -> None:
        """A run that was never charged leaves an empty folder."""
        (self.folder / "run.json").unlink(missing_ok=True)

    def close(self) -> None:
        self._file.close()


def new_name(terms: str) -> str:
    """The name of a run: random digits, and the mark of its terms. It stands in the ledger, so nobody changes
    it."""
    return uuid.uuid4().hex + mark(terms)


def mark(terms: str) -> str:
    """A digest of what a run's loss does not say of its steps; nothing where the loss says all."""
    return blake2b(terms.encode(), digest_size=16).hexdigest() if terms else ""


def names_terms(name: str, terms: str) -> bool:
    """Whether a run of this name has these terms. Older names have no mark."""
    return name[RANDOM_DIGITS:] in ("", mark(terms))


def vacant(folder: str | Path) -> Path:
    """A folder for a new run, made if there is none; raises if another run has it."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if (path / "run.json").exists() or (path / "state.pt").exists():
        raise InvalidParameter(
            f"Expected an empty folder, but {path} holds a run. Resume it, or name another folder."
        )
    return path


def _write(path: Path, content: bytes) -> None:
    """Write it: on the disk under its name, whole, when this returns."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
