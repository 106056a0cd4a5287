"""What is heavy is optional: the command that brings an extra, for the way this package was installed."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deniable.errors import MissingExtra

PACKAGE = "deniable"


def missing(what: str, extra: str) -> MissingExtra:
    """`what` begins the sentence: "Pictures need matplotlib"."""
    return MissingExtra(f"{what}: {install(extra)}.")


def install(extra: str) -> str:
    """The command to type. An extra comes from where the package came from (PEP 610): a clone, a wheel, a
    repository, or the package index."""
    origin = _origin()
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        return _from_folder(Path(unquote(urlsplit(url).path)), origin["dir_info"], extra)
    requirement = f"{PACKAGE}[{extra}]"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}"
    if url:
        requirement = f"{requirement} @ {url}"
    return f'pip install "{requirement}"'


def _from_folder(folder: Path, how: dict[str, Any], extra: str) -> str:
    editable = "-e " if how.get("editable") else ""
    place = "." if folder == Path.cwd() else str(folder)
    return f'pip install {editable}"{place}[{extra}]"'


def _origin() -> dict[str, Any]:
    """What the installer noted; nothing if it came from an index or was never installed."""
    try:
        note_of = metadata.distribution(PACKAGE).read_text
    except metadata.PackageNotFoundError:
        return {}
    return dict(json.loads(note_of("direct_url.json") or "{}"))
