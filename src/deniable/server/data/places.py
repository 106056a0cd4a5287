"""Where registered data may lie: files below the folders that the operator named, and databases that she
named by a word.

An owner says where data is; the operator says where it may be. So no address of a network and no path out of
those folders comes in by a registration, through a link, a `..` or a NUL; passwords of databases stay in a
file that only the server's user can read.
"""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from deniable.errors import InvalidParameter

SUFFIXES = (".parquet", ".csv")
SECRETS = "sources.toml"


class Places:
    """The folders and the named databases of a service."""

    def __init__(self, roots: tuple[Path, ...], folder: Path) -> None:
        self._roots = tuple(root.resolve() for root in roots)
        self._secrets = folder / SECRETS

    def locate_all(self, sources: Mapping[str, str]) -> dict[str, str]:
        return {table: self.locate(source) for table, source in sources.items()}

    def files(self, limit: int = 500) -> list[str]:
        """What lies below the folders, as a registration names it."""
        pairs = (
            (root, path)
            for root in self._roots
            for path in sorted(root.rglob("*"))
            if path.suffix in SUFFIXES and path.resolve().is_relative_to(root) and path.is_file()
        )
        return [str(path.relative_to(root)) for root, path in islice(pairs, limit)]

    def locate(self, source: str) -> str:
        """The place that a registration may mean by `source`: a file below a root, or `@name` of a
        database."""
        if source.startswith("@"):
            return self._database(source[1:])
        return str(self._file(source))

    def _file(self, source: str) -> Path:
        if "\0" in source or "://" in source or "*" in source or not source.endswith(SUFFIXES):
            raise _refusal("is no file of Parquet or CSV below a folder of this service")
        for root in self._roots:
            path = (root / source).resolve()
            if path.is_relative_to(root) and path.is_file():
                return path
        raise _refusal("is no file below a folder of this service")

    def _database(self, name: str) -> str:
        try:
            if stat.S_IMODE(self._secrets.stat().st_mode) & 0o077:
                raise _refusal(f"cannot be used: {SECRETS} can be read by others (chmod 600)")
            urls = tomllib.loads(self._secrets.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError):
            urls = {}
        url = urls.get(name)
        if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
            raise _refusal(f"names no PostgreSQL database in {SECRETS}")
        return url


def _refusal(reason: str) -> InvalidParameter:
    return InvalidParameter(f"The source {reason}. Nothing was registered and nothing was opened.")
