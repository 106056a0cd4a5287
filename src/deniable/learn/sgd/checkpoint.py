"""A folder that survives a kill: which steps were begun, and the model after one of them.

    run.json    which ledger entry paid for the run, and its loss
    steps       the number of every step that was begun: eight bytes each, on the disk before the step's gradient is computed
    state.pt    model, optimiser, step and loss so far; never the generator's key or position

A step whose number is in `steps` is spent, whether or not its gradient was ever seen; a run that is resumed goes on at the next
number with fresh randomness. The file of steps is part of the account: an older copy of it would let steps be taken
twice, so a file that was copied or put back (its inode is another) is refused, and one process holds it at a time.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
from pathlib import Path
from typing import Any

import torch

from deniable.errors import InvalidParameter, LedgerError

_WIDTH = 8


class Checkpoint:
    """The folder of one run, held by this process until it is closed."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder, self.header = folder, header
        self._file = (folder / "steps").open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise LedgerError(f"Another process is training in {folder}. Nothing was run.") from None
        if header["inode"] != os.fstat(self._file.fileno()).st_ino:
            self.close()
            raise LedgerError(
                f"The file of steps in {folder} is a copy or was put back. It may lack steps that were taken, so this run is not "
                "resumed: start a new one. Nothing was run."
            )

    @classmethod
    def create(cls, folder: str | Path, *, entry: str, loss: str) -> Checkpoint:
        """Begin a run in an empty or new folder."""
        path = vacant(folder)
        (path / "steps").touch()
        header = {"entry": entry, "loss": loss, "inode": (path / "steps").stat().st_ino}
        _write(path / "run.json", json.dumps(header).encode())
        return cls(path, header)

    @classmethod
    def open(cls, folder: str | Path) -> Checkpoint:
        """Take up a run that was broken off."""
        path = Path(folder)
        try:
            header = json.loads((path / "run.json").read_text(encoding="utf-8"))
            return cls(path, {name: header[name] for name in ("entry", "loss", "inode")})
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidParameter(f"Expected the folder of a run in {path}: its run.json cannot be read.") from None

    @property
    def begun(self) -> int:
        """How many steps were begun. Half a number counts: it may be that its step was taken."""
        return -(-os.fstat(self._file.fileno()).st_size // _WIDTH)

    def begin(self, step: int) -> None:
        """Put the number of a step on the disk. It is spent from now on."""
        if step <= self.begun:
            raise LedgerError(f"Step {step} was begun before. Nothing was run.")
        self._file.write(b"".join(k.to_bytes(_WIDTH, "big") for k in range(self.begun + 1, step + 1)))
        os.fsync(self._file.fileno())

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

    def close(self) -> None:
        self._file.close()


def vacant(folder: str | Path) -> Path:
    """A folder for a new run, made if there is none; raises if another run has it."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if (path / "run.json").exists() or (path / "steps").exists():
        raise InvalidParameter(f"Expected an empty folder, but {path} holds a run. Resume it, or name another folder.")
    return path


def _write(path: Path, content: bytes) -> None:
    """On the disk under its name, whole, when this returns."""
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
