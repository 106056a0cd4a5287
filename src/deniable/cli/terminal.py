"""What the command line does to its terminal: signs that the encoding lacks are written in ASCII, and a
warning is one sentence, said once."""

from __future__ import annotations

import codecs
import io
import sys
import warnings
from typing import Any

NAME = "deniable.ascii"
SIGNS = {
    "ε": "eps", "δ": "delta", "σ": "sigma", "ρ": "rho", "α": "alpha", "β": "beta", "γ": "gamma", "μ": "mu",
    "η": "eta", "λ": "lambda", "κ": "kappa", "Δ": "Delta", "Σ": "sum", "∞": "inf", "±": "+-",
    "×": "x", "÷": "/",
    "−": "-", "–": "-", "—": "-", "─": "-", "━": "-", "╸": "-", "╺": "-", "│": "|",
    "≤": "<=", "≥": ">=", "≠": "!=",
    "≈": "~", "√": "sqrt ", "…": "...", "·": "*", "•": "*", "→": "->", "←": "<-",
    "►": ">", "✓": "ok", "✗": "x", "█": "#",
    "░": ".", "’": "'", "“": '"', "”": '"', "é": "e", "è": "e", "á": "a", "ö": "o",
    "ü": "u", "ß": "ss", "ℓ": "l",
    "²": "^2", "³": "^3", "½": "1/2", "‖": "|", "ᵀ": "^T", "ₖ": "_k", "ᵢ": "_i",
}  # fmt: skip
"""How each sign that our texts use is spelt. A sign that is not here becomes a question mark."""


def spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler: spells what could not be encoded.

    >>> codecs.register_error("spelling", spell)
    >>> "ε ≤ 0.95 ± 0.01".encode("ascii", "spelling").decode()
    'eps <= 0.95 +- 0.01'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SIGNS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def mend_streams() -> None:
    """Let this process print every text, whatever the encoding of its terminal."""
    codecs.register_error(NAME, spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors=NAME)


def calm_warnings() -> None:
    """A warning for a person at a shell: its sentence, once, without the line of code that gave it."""
    messages: set[str] = set()

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in messages:
            messages.add(str(message))
            sys.stderr.write(f"Note: {message}\n")

    warnings.showwarning = say
