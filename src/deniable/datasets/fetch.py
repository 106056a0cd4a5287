"""Download a publisher's file, check it, and lay it down whole or not at all."""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from deniable.errors import DataError

BLOCK = 1 << 18
TIMEOUT = 30.0
ALGORITHM = {32: "md5", 64: "sha256"}
"""By the length of the hexadecimal checksum that is published."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at `url`, and what is kept of it: {file name: its checksum}; None where the
    publisher gives no checksum.

    A name other than the last part of `url` is that of a member of the archive at `url`.
    """

    url: str
    files: Mapping[str, str | None]


def fetch(remote: RemoteFile, folder: Path) -> None:
    """Download into `folder`. Each file is checked before it takes its place; what fails
    leaves no file behind."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as spool:
        _download(remote.url, spool)
        for name, checksum in remote.files.items():
            spool.seek(0)
            content = spool.read() if remote.url.endswith(f"/{name}") else member(spool, name)
            check(content, checksum, name, remote.url)
            _write_file(content, folder / name)


def check(content: bytes, checksum: str | None, name: str, url: str) -> None:
    if checksum is None:
        return
    digest = hashlib.new(ALGORITHM[len(checksum)], content, usedforsecurity=False).hexdigest()
    if digest != checksum:
        raise DataError(
            f"{name} from {url} has the checksum {digest}, and {checksum} was expected. It was not kept. Try "
            "again, or fetch it by other means."
        )


def member(archive: IO[bytes], name: str) -> bytes:
    """The content of the file `name`, in whatever folder of a tar or zip archive;
    nothing is written by the archive's paths."""
    if zipfile.is_zipfile(archive):
        archive.seek(0)
        with zipfile.ZipFile(archive) as zip_file:
            return zip_file.read(_find_path(zip_file.namelist(), name))
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        file = tar.extractfile(_find_path([info.name for info in tar if info.isfile()], name))
        if file:
            return file.read()
        return b""


def _find_path(paths: list[str], name: str) -> str:
    matches = [path for path in paths if path == name or PurePosixPath(path).name == name]
    if not matches:
        raise DataError(f"The archive does not hold {name}. Nothing was kept of it.")
    return matches[0]


def _download(url: str, file: IO[bytes]) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "deniable"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, _bar(url, answer.length) as advance:
        while block := answer.read(BLOCK):
            file.write(block)
            advance(len(block))


class _Advance:
    def __init__(self, bar: Progress, total: int | None, label: str) -> None:
        self._bar, self._task = bar, bar.add_task(label, total=total)

    def __call__(self, size: int) -> None:
        self._bar.advance(self._task, size)


@contextmanager
def _bar(url: str, total: int | None) -> Iterator[_Advance]:
    """A bar on stderr while it lasts; nothing is drawn into a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        yield _Advance(bar, total, url.rsplit("/", 1)[-1])


def _write_file(content: bytes, path: Path) -> None:
    """Whole or not at all, also when two processes load the same set."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(name, path)
