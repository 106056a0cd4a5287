"""Imports go only downward, in no circle, and heavy packages stay where they belong (docs: the layer
table)."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.meta.source import Import, imports, modules

LAYERS = (
    (
        "_version",
        "errors",
        "extras",
        "process",
        "strict_json",
        "numbers",
        "units",
        "checks",
        "loss",
        "guarantee",
        "mechanism",
    ),
    ("randomness", "accounting"),
    ("mechanisms", "ledger"),
    ("sql", "learn", "federated", "local", "smooth", "datasets"),
    ("curator", "audit", "attack", "plots", "reproduce"),
    ("cli", "server"),
    ("__main__",),
)
LAYER = {part: layer for layer, parts in enumerate(LAYERS) for part in parts}
BESIDE = {
    ("federated", "learn"),
    ("plots", "audit"),
    ("plots", "attack"),
    ("curator", "plots"),
    ("reproduce", "curator"),
    ("reproduce", "plots"),
}
"""Imports within one layer that are meant: a picture reads the finding that it draws, a
published result is computed by what users hold and then drawn, and never the other way.
Layer 0 is a chain: each part may use those before it."""
HEAVY = {
    "matplotlib": {"plots"},
    "torch": {"learn", "federated", "attack", "audit", "smooth"},
    "sklearn": {"learn", "attack", "datasets"},
    "pyspark": {"sql"},
    "fastapi": {"server"},
    "uvicorn": {"server"},
    "argon2": {"server"},
    "limits": {"server"},
    "jinja2": {"server"},
    "markupsafe": {"server"},
    "authlib": {"server"},
    "httpx2": {"server"},
    "psycopg": {"ledger", "sql"},
    "flwr": {"federated"},
    "lightning": {"learn"},
    "pytorch_lightning": {"learn"},
    "transformers": {"learn"},
}
ARRAYS = {"numpy", "scipy", "pyarrow", "duckdb", "sqlalchemy"}


def part(module: str) -> str:
    """The part of the package that a module belongs to: `deniable.sql.read.query` → `sql`."""
    return module.split(".")[1] if "." in module else ""


def upward(edge: Import) -> bool:
    """Whether an import of one of our modules by another goes anywhere but down."""
    here, there = part(edge.module), part(edge.target)
    if not here or here == there:
        return False
    if not there:
        return True  # public names are for users; inside, a name is imported from its home
    if LAYER[here] == LAYER[there] == 0:
        return LAYERS[0].index(there) > LAYERS[0].index(here)
    return LAYER[there] >= LAYER[here] and (here, there) not in BESIDE


def wrong(known: dict[str, Path]) -> list[str]:
    """Every import that breaks a rule."""
    found = []
    for name, path in known.items():
        for edge in imports(name, path, known):
            top = edge.target.split(".")[0]
            ours = top == "deniable"
            heavy = top in HEAVY and part(name) not in HEAVY[top] and not edge.typing_only
            arrays = top in ARRAYS and LAYER.get(part(name), 0) == 0 and not edge.typing_only
            if (ours and upward(edge)) or heavy or arrays:
                found.append(str(edge))
    return found


def cycle(known: dict[str, Path]) -> list[str]:
    """The modules of an import circle, if there is one. What only type checkers see does not count."""
    graph = {
        name: {
            e.target
            for e in imports(name, path, known)
            if e.target in known and e.target != name and not e.typing_only
        }
        for name, path in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_part_has_a_layer() -> None:
    assert {part(name) for name in modules()} - {""} <= LAYER.keys()


def test_imports_go_only_downward() -> None:
    assert wrong(modules()) == []


def test_there_is_no_import_circle() -> None:
    assert cycle(modules()) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("accounting/a.py", "from deniable.ledger import Ledger"),
        ("accounting/a.py", "from deniable import randomness"),
        ("errors.py", "def f():\n    from deniable.loss import Loss"),
        ("loss.py", "import numpy"),
        ("cli/a.py", "import matplotlib.pyplot"),
        ("mechanisms/a.py", "from deniable import Budget"),
    ],
)
def test_a_planted_upward_import_is_found(tmp_path: Path, file: str, text: str) -> None:
    for name in ("__init__.py", "ledger/__init__.py", "randomness/__init__.py", "loss.py", file):
        path = tmp_path / "deniable" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == file else "", encoding="utf-8")
    assert len(wrong(modules(tmp_path))) == 1


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "deniable"
    folder.mkdir()
    (folder / "a.py").write_text("from deniable import b", encoding="utf-8")
    (folder / "b.py").write_text("def f():\n    from deniable.a import x", encoding="utf-8")
    assert set(cycle(modules(tmp_path))) == {"deniable.a", "deniable.b"}
