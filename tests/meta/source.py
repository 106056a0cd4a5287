"""The source tree as data: its modules, and what each of them imports."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Import:
    """`module` imports `target` (dotted) on `line`; `typing_only` if it happens under TYPE_CHECKING."""

    module: str
    target: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parse(path: Path) -> ast.Module:
    """The tree of a file, made once for all who look into it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def list_nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file: to walk a tree takes as long as to make it."""
    return list(ast.walk(parse(path)))


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """All imports of one module. `from package import x` means the module `package.x` where there is one."""
    for node, typing_only in _list_imports(path):
        for target in _targets(node, known):
            yield Import(name, target, node.lineno, typing_only)


@functools.cache
def _list_imports(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements of a file, and whether type checkers alone see them."""
    nodes = list_nodes(path)
    guarded = {id(node) for block in nodes if _is_typing(block) for node in ast.walk(block)}
    return [(node, id(node) in guarded) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _targets(node: ast.Import | ast.ImportFrom, known: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        if node.level:
            raise AssertionError(f"Line {node.lineno}: imports are absolute here.")
        for alias in node.names:
            deeper = f"{node.module}.{alias.name}"
            yield deeper if deeper in known else str(node.module)


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
