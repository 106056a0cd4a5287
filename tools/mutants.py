"""Put out guards of the source, one by one, and see that their tests notice (`make guards`).

    python -m tools.mutants              all of tools/mutants.toml
    python -m tools.mutants ledger sql   those whose file or words hold one of these

Each runs in a copy of the source that is thrown away. A test that cannot run at all counts as no notice: it must
collect and then fail. Ends with 1 where fewer than 95 in 100 are noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
PACKAGE = Path("src") / "deniable"
ENOUGH = 0.95
FAILED = 1
"""What pytest ends with where tests ran and some failed."""


@dataclass(frozen=True)
class Mutant:
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def put_out(self, tree: Path) -> None:
        path = tree / PACKAGE / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.what}: the old text stands {text.count(self.old)} times in {path}.")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def read_list(path: Path = LIST) -> list[Mutant]:
    """All mutants; raises where one has no file, tests that are not there, or a text that does not stand there once."""
    mutants = [
        Mutant(**{**entry, "tests": tuple(entry["tests"])})
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    ]
    for mutant in mutants:
        text = (ROOT / PACKAGE / mutant.file).read_text(encoding="utf-8")
        if text.count(mutant.old) != 1 or mutant.old == mutant.new:
            raise ValueError(
                f"{mutant.what}: the old text stands {text.count(mutant.old)} times in {mutant.file}."
            )
        for test in mutant.tests:
            if not (ROOT / test).exists():
                raise ValueError(f"{mutant.what}: there is no {test}.")
    return mutants


def copy_tree(folder: Path) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for name in ("src", "tests", "tools", "docs", "examples"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def is_noticed(mutant: Mutant, tree: Path) -> bool:
    """Whether one of the tests fails on a tree in which the guard is out. The tree is mended afterwards."""
    path = tree / PACKAGE / mutant.file
    before, stat = path.read_bytes(), path.stat()
    mutant.put_out(tree)
    # Compiled files are kept from mutant to mutant, and told by date and size: so each has a date of its own.
    date = zlib.crc32(f"{mutant.what} {mutant.old} {mutant.new}".encode())
    os.utime(path, (date, date))
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": ""}
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        return run.returncode == FAILED and "FAILED" in run.stdout
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def try_all(mutants: list[Mutant]) -> Iterator[tuple[Mutant, bool]]:
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = copy_tree(Path(folder))
        for mutant in mutants:
            yield mutant, is_noticed(mutant, tree)


def main(words: list[str]) -> int:
    mutants = [
        mutant
        for mutant in read_list()
        if not words or any(word in f"{mutant.file} {mutant.what}" for word in words)
    ]
    noticed = 0
    for mutant, seen in try_all(mutants):
        noticed += seen
        sys.stdout.write(f"{'✓' if seen else '✗'} {mutant.file}: {mutant.what}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{noticed} of {len(mutants)} were noticed.\n")
    return int(noticed < ENOUGH * len(mutants))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
