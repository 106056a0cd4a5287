"""One shape for all refusals, and names as they are shown in them. Everything is decided by the text and the
declared schema."""

from __future__ import annotations

from typing import NoReturn

from deniable.errors import InvalidQuery

_QUIET = "No data was read and nothing was charged."


def refuse(what: str, way_out: str = "") -> NoReturn:
    """One shape for all refusals: what is not answered, the way out, and that nothing happened."""
    raise InvalidQuery(" ".join(part for part in (what, way_out, _QUIET) if part))


def shown(name: str) -> str:
    """A name in quotes; letters that look like others are named by their code.

    >>> print(shown("d\u0430ys"))
    "dаys" (with U+0430)
    """
    odd = sorted({f"U+{ord(c):04X}" for c in name if not (c.isascii() and c.isprintable())})
    cut = name if len(name) <= 60 else name[:60] + "…"
    note = f" (with {', '.join(odd[:3])})" if odd else ""
    return f'"{cut}"{note}'
