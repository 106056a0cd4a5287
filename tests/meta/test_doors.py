"""Doors hold no privacy logic: neither `cli/` nor `server/` defines a class with a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.source import list_nodes, modules

DOORS = ("deniable.cli", "deniable.server")
BASES = {"Mechanism", "Interactive", "Loss"}


def names(statement: ast.stmt) -> Iterator[str]:
    """What a statement of a class body defines."""
    match statement:
        case (
            ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.AnnAssign(target=ast.Name(id=name))
        ):
            yield name
        case ast.Assign(targets=targets):
            yield from (
                node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
            )


def base(node: ast.expr) -> str:
    """The last word of a base class, without its parameters."""
    return ast.unparse(node).partition("[")[0].rpartition(".")[2]


def with_a_loss(known: dict[str, Path]) -> list[str]:
    return [
        f"{name}.{node.name}"
        for name, path in known.items()
        if name in DOORS or name.startswith(tuple(f"{door}." for door in DOORS))
        for node in list_nodes(path)
        if isinstance(node, ast.ClassDef)
        if any("loss" in names(each) for each in node.body) or BASES & {base(each) for each in node.bases}
    ]


def test_no_door_defines_a_class_with_a_loss() -> None:
    assert with_a_loss(modules()) == []


@pytest.mark.parametrize(
    "body",
    [
        "class Run:\n    @property\n    def loss(self): ...",
        "class Run:\n    loss: int = 1",
        "def f():\n    class Run:\n        loss = rate = 1",
        "class Run(mechanism.Mechanism[int]): ...",
    ],
)
def test_a_planted_one_is_found(tmp_path: Path, body: str) -> None:
    for place in ("cli/run.py", "server/run.py", "learn/run.py"):
        path = tmp_path / "deniable" / place
        path.parent.mkdir(parents=True)
        path.write_text(body, encoding="utf-8")
    assert with_a_loss(modules(tmp_path)) == ["deniable.cli.run.Run", "deniable.server.run.Run"]
