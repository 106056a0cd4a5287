"""For the API pages: docstrings are written for the terminal; make them read well in
HTML too (an extension of griffe)."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"^(Guarantee|Assumes|Error|Reference):[ ]*", re.MULTILINE)
HANGING = re.compile(r"\n {8,}(?=\S)")


def readable(text: str) -> str:
    """Fence the examples, and give each of Guarantee, Assumes, Error and Reference its own paragraph."""
    prose = LABEL.sub(lambda found: f"\n**{found.group(1)}:** ", text) if LABEL.search(text) else text
    prose = HANGING.sub(" ", prose) if LABEL.search(text) else prose
    return EXAMPLE.sub(lambda found: f"```pycon\n{found.group(0)}\n```", prose)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)
