"""The measures of the house (`make house`): what one query passes through, and how the code reads.

    python -m tools.house            the measures beside what they are to be
    python -m tools.house --all      and where each of them fails

A query is measured on an open curator that has answered before, in all threads. A measure prints ✗ where it
misses its aim; the command itself never fails: it steers, tests guard.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

from tests.meta.source import SOURCE, imports, list_nodes, modules, parse
from tools import names
from tools.names import lone, lone_local

PACKAGE = SOURCE / "deniable"
KEPT = "a kept answer"
WALKS = {
    "people with any number of rows": "SELECT region, COUNT(*), AVG(x) FROM visits GROUP BY region",
    "a window over groups": (
        "SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY n DESC) AS place FROM visits GROUP BY region"
    ),
    KEPT: "SELECT region, COUNT(*), AVG(x) FROM visits GROUP BY region",
}
"""Three queries that are followed from `Curator.sql` to their answers."""
AIMS = {
    "people with any number of rows": (55, 150, 10**4),
    "a window over groups": (55, 150, 10**4),
    KEPT: (25, 150, 600),
}
"""Of each walk at most so many modules, returns and calls."""
# fmt: off
WORDS = frozenset([
    "errors", "process", "strict_json", "numbers", "units", "checks", "loss", "guarantee", "mechanism",
    "accounting", "randomness",
])
# fmt: on
"""Layer 0, and what every stage of a query speaks of in numbers."""
BEFORE = "SELECT COUNT(*) FROM visits"
SEED = 30
"""Of the noise in a walk."""
PRICE = ("accounting/filters/charges.py", "charge")
TRANSACTIONS = {("ledger/store/store.py", "reading"), ("ledger/store/store.py", "writing")}
LONG = 110
COMPLEX = 12
FILES = 12
LINES = 600
MEDIAN = 200
CODE_LINES = 51_500
LONE = 2
CATALOGUES = ("cli", "plots", "reproduce")
"""Folders with one file for each command, picture or published figure: called by name, so they may be long."""

ROOMS = ("deniable.accounting.numerical", "deniable.randomness")
"""Rooms with a vocabulary of their own that nobody imports from outside by name: a
bracket's cells, a sampler's table."""

BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measure:
    """A number, its aim (at most, unless `at_least`), and the places behind it."""

    name: str
    value: float
    aim: float
    at_least: bool = False
    places: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        return self.value >= self.aim if self.at_least else self.value <= self.aim

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        mark = "✓" if self.reached else "✗"
        return f"{mark} {self.name:<64}{self.value:>10g}   ({sign} {self.aim:g})"


# ----------------------------------------------------------------------------------- the walk of one query


@dataclass
class Walk:
    """What a profiler sees of our own modules while one query is answered.

    Words (layer 0), accounting and randomness are a vocabulary that every stage speaks, so they are left out of
    `rooms`, and a call through them counts as one between the modules on either side. A return is a call into
    another room of the listing (`curator`, `ledger`, `mechanisms`, and of `sql` each of its rooms): so often
    whoever follows the query changes rooms."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    crossings: Counter[tuple[str, str]] = field(default_factory=Counter)
    running: bool = False

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        here = _ours(frame) if self.running and event == "call" else None
        if here is None:
            return
        self.calls[here, frame.f_code.co_name] += 1
        if _is_word(here):
            return
        caller = _caller(frame)
        if caller is not None and _room(here) != _room(caller):
            self.crossings[caller, here] += 1

    @property
    def returns(self) -> int:
        return self.crossings.total()

    @property
    def modules(self) -> list[str]:
        return sorted({module for module, _ in self.calls})

    @property
    def rooms(self) -> list[str]:
        """The modules but words, accounting and randomness."""
        return [module for module in self.modules if not _is_word(module)]


def _ours(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    root = f"{PACKAGE}/"
    return name.removeprefix(root) if name.startswith(root) else None


def _is_word(module: str) -> bool:
    return module.split("/")[0].removesuffix(".py") in WORDS


def _room(module: str) -> str:
    """The room of a module: of `sql` the second folder, of other packages the first.

    >>> _room("sql/plan/measures/totals.py"), _room("sql/arrays.py"), _room("ledger/store/store.py")
    ('sql/plan', 'sql', 'ledger')
    """
    folders = module.split("/")[:-1]
    return "/".join(folders[:2] if folders[:1] == ["sql"] else folders[:1])


def _caller(frame: FrameType) -> str | None:
    """The next of our own modules below in the stack that is no word."""
    below = frame.f_back
    while below is not None:
        module = _ours(below)
        if module is not None and not _is_word(module):
            return module
        below = below.f_back
    return None


def walk(kind: str) -> Walk:
    """One query on a small table, asked of a curator that has answered another one: a text of `WALKS`, of a unit
    whose rows are not declared to be few. "a kept answer" is asked a second time.

    Noise decides whether people seem to have more rows than count, and with that which intervals an average has (its
    returns are 288 or 332), so it is drawn from a seed and each walk is the same one. What a process has priced once it
    knows, so a second walk in the same one is shorter."""
    import pyarrow as pa
    import pyarrow.parquet

    from deniable import Budget, Curator, Unit
    from deniable.randomness import SeededRandom

    class WalkRandom(SeededRandom):
        """It passes for a secure generator, so that the ledger may lie on disk as a user's does: the people of a walk
        are made up."""

        private = True

    regions, people = ["north", "south", "east"], [i % 3000 for i in range(6000)]
    rows = {"person": people, "region": regions * 2000, "x": [float(i % 50) for i in range(6000)]}
    seen = Walk()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        pyarrow.parquet.write_table(pa.table(rows), path)
        threading.setprofile(seen.watch)
        try:
            with Curator.open(
                str(path),
                unit=Unit.column("person"),
                limit=Budget(9, 1e-6),
                bounds={"x": (0, 50)},
                keys={"region": regions},
                rng=WalkRandom(SEED),
            ) as curator:
                curator.sql(BEFORE, epsilon=1)
                if kind == KEPT:
                    curator.sql(WALKS[kind], epsilon=1)
                sys.setprofile(seen.watch)
                seen.running = True
                curator.sql(WALKS[kind], epsilon=1)
                seen.running = False
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return seen


def of_query() -> list[Measure]:
    """Of three walks: the aims, which are not all reached."""
    measures = []
    for kind in WALKS:
        seen, (rooms, returns, calls) = walk(kind), AIMS[kind]
        crossings = [f"{times:>4} {' -> '.join(pair)}" for pair, times in seen.crossings.most_common()]
        measures += [
            Measure(f"modules, of {kind} (but words, accounting)", len(seen.rooms), rooms, places=seen.rooms),
            Measure(f"returns to another room, of {kind}", seen.returns, returns, places=crossings),
        ]
        if kind == KEPT:
            measures.append(Measure(f"calls, of {kind}", seen.calls.total(), calls))
        else:
            transactions = sum(seen.calls[each] for each in TRANSACTIONS)
            measures.append(Measure(f"times the loss is priced, of {kind}", seen.calls[PRICE], 1))
            measures.append(Measure(f"transactions, of {kind}", transactions, 3))
    return measures


# ----------------------------------------------------------------------------------- the code


@dataclass(frozen=True)
class Module:
    """One file: its text, its tree and what is counted in them."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        """The first-level package or module that it is in."""
        return f"{self.name}.".split(".")[1]

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return parse(self.path)

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in list_nodes(self.path) if isinstance(node, FUNCTIONS)]

    @property
    def comments(self) -> int:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT for token in tokens)

    @property
    def classes(self) -> list[str]:
        names = [node.name for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return [name for name in names if not name.startswith("_")]

    @property
    def locals(self) -> Iterator[tuple[str, int]]:
        """Names that functions bind, with their lines."""
        for function in self.functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, node.lineno


def complexity(function: Function) -> int:
    """Ways through a function: one more for each branch, loop, handler, case, condition and `and` or `or`."""
    ways = 1
    for node in ast.walk(function):
        match node:
            case ast.comprehension(ifs=conditions):
                ways += 1 + len(conditions)
            case ast.BoolOp(values=values):
                ways += len(values) - 1
            case ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None):
                pass  # `case _` is the way that was there before
            case ast.match_case():
                ways += 1
            case _ if isinstance(node, BRANCHES):
                ways += 1
    return ways


def typed(function: Function) -> bool:
    """Whether every argument and the result have a type."""
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    free = {"self", "cls"}
    return function.returns is not None and all(a is None or a.annotation or a.arg in free for a in named)


def twice(house: list[Module]) -> dict[str, list[str]]:
    """Public class names that stand in several modules, but for rooms whose words nobody else uses."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in house:
        if module.name.startswith(ROOMS):
            continue
        for name in module.classes:
            homes[name].append(module.name.removeprefix("deniable."))
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def folders(house: list[Module]) -> Counter[str]:
    """How many files each folder holds, but for catalogues and for what a package says of itself."""
    homes = (m.path.parent.relative_to(PACKAGE).as_posix() for m in house if m.path.name != "__init__.py")
    return Counter(home for home in homes if home not in CATALOGUES)


def circle() -> list[str]:
    """The modules of one import circle, if there is any. What type checkers alone see does not count."""
    known = modules()
    graph = {
        name: {
            edge.target
            for edge in imports(name, path, known)
            if edge.target in known and not edge.typing_only
        }
        - {name}
        for name, path in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def source() -> list[Module]:
    """Every module; read and parsed once."""
    return [Module(name, path) for name, path in modules().items()]


def of_packages(house: list[Module], packages: tuple[str, ...]) -> list[Module]:
    """Those of some first-level packages, like "sql"."""
    return [module for module in house if module.package in packages]


def complex_functions(house: list[Module]) -> list[str]:
    """Functions with more ways through them than a reader holds, the worst first."""
    ways = [(complexity(f), f"{module.name}.{f.name}") for module in house for f in module.functions]
    return [f"{count:>4} {name}" for count, name in sorted(ways, reverse=True) if count > COMPLEX]


def full_folders(house: list[Module]) -> list[str]:
    counts = sorted(((count, name) for name, count in folders(house).items()), reverse=True)
    return [f"{count:>4} {name}" for count, name in counts if count > FILES]


def long_lines(house: list[Module]) -> list[str]:
    return [f"{m.name}:{i}" for m in house for i, line in enumerate(m.lines, 1) if len(line) > LONG]


def long_files(house: list[Module]) -> list[str]:
    return [f"{len(m.lines)} {m.name}" for m in house if len(m.lines) > LINES]


def lone_locals(house: list[Module]) -> list[str]:
    return sorted({f"{m.name}:{line} {name}" for m in house for name, line in m.locals if lone_local(name)})


def lone_names(house: list[Module], kind: str) -> list[str]:
    """The functions, parameters or attributes that are named by a lone participle or pronoun, with their places."""
    found = ((m.name, line, name) for m in house for name, line in names.KINDS[kind](m.tree) if lone(name))
    return sorted(f"{module}:{line} {name}" for module, line, name in found)


def lone_share(house: list[Module], kind: str) -> float:
    """Of all functions, parameters or attributes the per cent that tell a reader nothing."""
    total = sum(1 for module in house for _ in names.KINDS[kind](module.tree))
    return round(100 * len(lone_names(house, kind)) / max(1, total), 1)


def packages(house: list[Module]) -> list[str]:
    """The first-level packages, without the modules beside them."""
    return sorted({module.package for module in house if module.path.parent != PACKAGE})


def of_names() -> list[Measure]:
    """How many names say nothing: of all, and in the packages that are over the aim."""
    house = source()
    every = [
        Measure(f"lone {kind}, %", lone_share(house, kind), LONE, places=lone_names(house, kind))
        for kind in names.KINDS
    ]
    rooms = [
        Measure(f"lone {kind} in {package}/, %", lone_share(of_packages(house, (package,)), kind), LONE)
        for package in packages(house)
        for kind in names.KINDS
    ]
    return every + [measure for measure in rooms if not measure.reached]


def code_lines(house: list[Module]) -> int:
    """Lines with code on them: no blanks, comments, docstrings or imports. A statement that the formatter broke over
    several lines counts once, so that nobody gains by joining lines."""
    return sum(_logical_lines(module.text) - _silent_statements(module.tree) for module in house)


def _logical_lines(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.NEWLINE for token in tokens)


def _silent_statements(tree: ast.Module) -> int:
    """Docstrings and imports."""
    count = 0
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                count += 1
    return count


def choices(house: list[Module]) -> float:
    """Conditional expressions per thousand lines."""
    count = sum(isinstance(node, ast.IfExp) for module in house for node in ast.walk(module.tree))
    return round(1000 * count / sum(len(module.lines) for module in house), 1)


def lengths(house: list[Module]) -> list[int]:
    """Lines of every function."""
    functions = [function for module in house for function in module.functions]
    return [(function.end_lineno or 0) - function.lineno + 1 for function in functions]


def of_code() -> list[Measure]:
    house = source()
    total = sum(len(module.lines) for module in house)
    functions = [(module, function) for module in house for function in module.functions]
    untyped = [f"{module.name}.{function.name}" for module, function in functions if not typed(function)]
    typed_share = 100 * (1 - len(untyped) / len(functions))
    comments = sum(module.comments for module in house)
    named_twice = [f"{name}: {', '.join(homes)}" for name, homes in twice(house).items()]
    in_sql = of_packages(house, ("sql",))
    worst = max(complexity(function) for module in in_sql for function in module.functions)
    sizes = [len(module.lines) for module in house]
    return [
        Measure(
            "greatest complexity of a function in sql/", worst, COMPLEX, places=complex_functions(in_sql)
        ),
        _of_places("functions of a complexity over 12, everywhere", complex_functions(house)),
        Measure("files in one folder of sql/, most", max(folders(in_sql).values()), FILES),
        Measure(
            "files in one folder, most (catalogues aside)",
            max(folders(house).values()),
            FILES,
            places=full_folders(house),
        ),
        Measure("public class names that stand twice", len(named_twice), 12, places=named_twice),
        Measure("lines of a file, median", statistics.median(sizes), MEDIAN),
        Measure("code lines", code_lines(house), CODE_LINES),
        Measure("lines of a file, most", max(sizes), LINES, places=long_files(house)),
        Measure("lines of a function, median", statistics.median(lengths(house)), 6),
        _of_places("modules in an import circle", circle()),
        Measure("typed functions, %", typed_share, 100, at_least=True, places=untyped),
        _of_places(f"lines over {LONG} characters", long_lines(house)),
        Measure("conditional expressions per thousand lines", choices(house), 9),
        Measure("comments per thousand lines", round(1000 * comments / total, 1), 25, at_least=True),
        _of_places("locals that are a lone participle or pronoun", lone_locals(house)),
        operation_mentions(),
    ]


def operation_mentions() -> Measure:
    """Names of scalar functions that stand as strings in sql/ outside of their records, by file."""
    from deniable.sql.functions import OPS

    counts = {
        module.name: sum(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPS
            for node in ast.walk(module.tree)
        )
        for module in of_packages(source(), ("sql",))
        if not module.name.startswith("deniable.sql.functions")
    }
    places = [f"{count:>4} {name}" for name, count in sorted(counts.items(), key=lambda c: -c[1]) if count]
    return Measure(
        "operations named as strings outside sql/functions/", sum(counts.values()), 100, places=places
    )


def _of_places(name: str, places: list[str]) -> Measure:
    """One that is to have none."""
    return Measure(name, len(places), 0, places=places)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="also say where a measure fails")
    parser.add_argument("--code", action="store_true", help="only what is read from the code")
    options = parser.parse_args()
    for measure in [*([] if options.code else of_query()), *of_code(), *of_names()]:
        sys.stdout.write(f"{measure}\n")
        if options.all and not measure.reached:
            sys.stdout.writelines(f"      {place}\n" for place in measure.places)


if __name__ == "__main__":
    main()
