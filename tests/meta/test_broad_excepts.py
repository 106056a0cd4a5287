"""Every `except Exception` says which row may steer it, or that none does."""

from __future__ import annotations

import ast
from collections import Counter

from tests.meta.source import modules

BROAD = {"Exception", "BaseException"}
SILENT: dict[str, int] = {}
"""How many still say nothing, by package. No number here may rise, and none is added."""


def is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds)


def is_explained(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    """A comment stands on the line of `except`, or before or beside the first statement under it."""
    last = handler.body[0].end_lineno or handler.body[0].lineno
    return any("  # " in line or line.lstrip().startswith("# ") for line in lines[handler.lineno - 1 : last])


def silent_handlers(text: str) -> list[int]:
    lines = text.splitlines()
    handlers = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ExceptHandler)]
    return [each.lineno for each in handlers if is_broad(each) and not is_explained(each, lines)]


def test_every_broad_except_says_which_row_may_steer_it() -> None:
    places = [
        (f"{name}.".split(".")[1], f"{path}:{line}")
        for name, path in modules().items()
        for line in silent_handlers(path.read_text(encoding="utf-8"))
    ]
    counts = Counter(package for package, _ in places)
    assert {p: n for p, n in counts.items() if n > SILENT.get(p, 0)} == {}, [place for _, place in places]


def test_a_handler_without_a_word_is_found() -> None:
    silent = "try:\n    f()\nexcept (ValueError, Exception):\n    pass\n"
    assert silent_handlers(silent) == [3]
    assert silent_handlers(silent.replace("pass", "pass  # made-up rows")) == []
    assert silent_handlers(silent.replace("(ValueError, Exception)", "")) == [3]
    assert silent_handlers(silent.replace("(ValueError, Exception)", "ValueError")) == []
