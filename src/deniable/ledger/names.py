"""Names of accounts and analysts: text that means one thing, to a program and to a reader.

A data set is `visits`, an analyst's part of it `visits/ada`. So no name may hold the
stroke that joins the two, and no name may look like another: a Cyrillic letter in "ada"
would be another analyst with a budget of her own.

>>> name("ada@example.org", "an analyst")
'ada@example.org'
"""

from __future__ import annotations

import unicodedata
from typing import Any

from deniable.errors import InvalidParameter

LONGEST = 200
STROKE = "/"

TOGETHER = (
    {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "LATIN", "IDEOGRAPHIC"},
    {"CJK", "HANGUL", "LATIN"},
    {"CJK", "BOPOMOFO", "LATIN"},
)
"""Scripts that are written in one word, as in Unicode's "highly restrictive" level (UTS
39, 5.2); else one script a name."""

LIKE_LATIN = frozenset(
    # Cyrillic, Greek, Armenian
    "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u051b\u0455\u051d\u0445\u0443\u04af"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u050c"
    "\u051a\u051c"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3\u03c9\u0391\u0392\u0395\u0396\u0397"
    "\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f3"
    "\u0585\u057d\u0578\u0570\u0581\u0584\u0566\u0572"
)
"""Letters of other scripts that look like Latin ones. A name of these alone is a Latin
name to whoever reads it."""

INVISIBLE = frozenset(
    map(
        chr,
        (
            0x034F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x3164,
            0xFFA0,
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
        ),
    )
)
"""Letters and marks that leave no trace on the page; what is invisible by its category is refused by that."""

PHONETIC = frozenset((*range(0x0250, 0x0300), *range(0x1D00, 0x1DC0)))
"""Phonetic and modifier letters: Latin by script, and like plain letters to the eye."""


def name(text: Any, owner: str) -> str:
    """`text`, if it can be the name of `owner`; else the reason why it cannot."""
    if not isinstance(text, str) or not text:
        raise InvalidParameter(f"Expected a name for {owner}, got {text!r}. Nothing was done.")
    if reason := _find_fault(text):
        raise InvalidParameter(
            f"The name {text[:60]!a} cannot name {owner}: {reason}. Nothing was done. Choose a name of "
            "letters, digits and signs like - _ . @ and of one script."
        )
    return text


def account(text: Any, parent: str | None) -> str:
    """The name of an account: a plain one, or inside another's `parent/name`."""
    inside = f"{parent}{STROKE}"
    if parent is not None and isinstance(text, str) and text.startswith(inside):
        return inside + name(text.removeprefix(inside), "an account")
    return name(text, "an account")


def part(root: str, analyst: str) -> str:
    """The account of an analyst inside a data set's."""
    return f"{root}{STROKE}{name(analyst, 'an analyst')}"


def normalise(text: str) -> str:
    """A name made by a file or table, in the one spelling of Unicode that names have here."""
    return unicodedata.normalize("NFKC", text).replace(STROKE, "_").strip()


def _find_fault(text: str) -> str | None:
    if len(text) > LONGEST:
        return f"it has more than {LONGEST} characters"
    if STROKE in text:
        return f'"{STROKE}" stands between a data set and an analyst\'s part of it'
    if unicodedata.normalize("NFKC", text) != text:
        return "its spelling is not the usual one of Unicode (NFKC), so it looks like another name"
    if text != text.strip() or "  " in text:
        return "it has spaces that cannot be seen"
    for c in text:
        if not _is_visible(c):
            return f"it holds U+{ord(c):04X}, which cannot be seen or stands for no letter, digit or sign"
    return _find_mixture(text)


def _is_visible(c: str) -> bool:
    if c in INVISIBLE or ord(c) in PHONETIC:
        return False
    if c.isascii():
        return c.isprintable()
    return unicodedata.category(c)[0] in "LM" or unicodedata.category(c) == "Nd"


def _find_mixture(text: str) -> str | None:
    scripts = {script for c in text if (script := _script(c))}
    if len(scripts) > 1 and not any(scripts <= group for group in TOGETHER):
        return (
            f"it mixes scripts ({', '.join(sorted(script.lower() for script in scripts))}), so it may look "
            "like another"
        )
    letters = [c for c in text if c.isalpha()]
    if letters and all(c in LIKE_LATIN for c in letters):
        return "all its letters look like Latin ones, and are not"
    return None


def _script(c: str) -> str | None:
    """The script of a letter, which is the first word of its name; marks and ASCII signs belong to any."""
    if unicodedata.category(c)[0] == "M" or (c.isascii() and not c.isalpha()):
        return None
    return unicodedata.name(c, "UNKNOWN").split()[0]
