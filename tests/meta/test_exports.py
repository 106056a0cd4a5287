"""Every public name exists, and `import deniable` costs next to nothing."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

import pytest

import deniable
from tests.meta.source import modules

PUBLIC = [name for name, path in modules().items() if path.name == "__init__.py"]
LIGHT = (
    "numpy",
    "scipy",
    "pyarrow",
    "duckdb",
    "sqlalchemy",
    "sqlglot",
    "typer",
    "rich",
    "matplotlib",
    "torch",
)


@pytest.mark.parametrize("package", PUBLIC)
def test_every_exported_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert missing == []


def test_what_loads_lazily_is_what_type_checkers_see() -> None:
    tree = ast.parse(modules()["deniable"].read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen | {"__version__"} == set(deniable.__all__)
    assert set(dir(deniable)) == set(deniable.__all__)


def test_a_lazy_name_is_the_one_of_its_home() -> None:
    for name, home in deniable._HOME.items():
        assert getattr(deniable, name) is getattr(importlib.import_module(f"deniable.{home}"), name)


def test_the_top_level_is_what_a_first_week_needs() -> None:
    assert len(deniable.__all__) <= 45


def test_a_name_that_moved_is_found_with_a_word_about_its_home() -> None:
    for name, home in deniable._OLD_HOME.items():
        with pytest.warns(DeprecationWarning, match=rf"use deniable\.{home}\.{name}\."):
            value = getattr(deniable, name)
        assert value is getattr(importlib.import_module(f"deniable.{home}"), name)
        assert name not in deniable.__all__


def test_every_error_and_every_loss_is_at_a_door() -> None:
    """All of them by `deniable.errors` and `deniable.loss`, which the top level names."""
    raised = {name for name, value in vars(deniable.errors).items() if isinstance(value, type)}
    assert {"Stopped", "AlreadyPaid", "Forbidden", "NotFound", "TooMany"} <= raised
    assert {"errors", "loss"} <= set(deniable.__all__)
    old = {name for name, home in deniable._OLD_HOME.items() if home == "loss"}
    assert old <= set(deniable.loss.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Epsilon'"):
        deniable.Epsilon  # noqa: B018


def test_importing_deniable_loads_no_heavy_package() -> None:
    code = "import sys, deniable, deniable.loss, deniable.units; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "deniable.loss" in loaded
    assert sorted(set(LIGHT) & set(loaded)) == []


def test_no_plain_install_of_the_core_loads_matplotlib_or_torch() -> None:
    code = "import sys, deniable.cli.app; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"matplotlib", "torch", "pyspark", "sklearn"} & set(loaded) == set()
