"""Which tests chance or a busy machine could make fail: those that draw real noise, start processes, or listen.

They are told by what stands in the test and in whatever of its file it calls, so nobody has to mark them. `make sure` runs
them alone, again and again. The same reading finds a test that draws real noise and judges it by a number of its own.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

NOISE = re.compile(r"\bSecureRandom\(\)")
"""The system's generator, by name. Where no generator is given, an account takes it too; what is asserted there are
prices and words, which no noise moves."""
SEED = re.compile(r"SeededRandom|default_rng\(|manual_seed|\bseed\b|random_state")
OUTSIDE = re.compile(
    r"\bsubprocess\.|\bmultiprocessing\b|\bos\.fork\(|\bThread\(|ThreadPoolExecutor|\bsocket\.|\bserver\(\)"
    r"|\bHospital\b|with hospital\(|\bpostgres|\bbrowser\b|\bcrowd\b|\brace\("
)
"""Processes, threads, and those who listen: a database, the service, a browser."""
LITERAL = re.compile(
    r"pvalue [<>]=? [\d.]|\.(?:ppf|isf)\(|\b[\d.]+ \* (?:math\.|np\.)?sqrt\(|< [\d.]+ [*/] |\brel=[\d.]|\babs=[\d.]"
)
"""A judgement of noise by a number that stands there, and not by a chance."""


def mark_chancy(items: Iterable[pytest.Item]) -> None:
    for item in items:
        function = getattr(item, "originalname", None) or item.name
        if is_chancy(read_closure(item.path, function)):
            item.add_marker(pytest.mark.chancy)


def is_chancy(text: str) -> bool:
    return bool(OUTSIDE.search(text) or NOISE.search(text))


def judges_by_number(own: str, closure: str) -> bool:
    """Whether a test draws real noise and compares with a literal. `own` is the test alone."""
    return bool(NOISE.search(closure)) and not SEED.search(closure) and bool(LITERAL.search(own))


@functools.cache
def read_closure(path: Path, function: str) -> str:
    """The text of a function and of all that it uses of its file, fixtures by their names included."""
    parts = read_parts(path)
    pending, seen, text = [function], {function}, []
    while pending:
        part = parts.get(pending.pop())
        if part is None:
            continue
        text.append(ast.unparse(part))
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
        names |= {node.arg for node in ast.walk(part) if isinstance(node, ast.arg)}
        pending += names - seen
        seen |= names
    return "\n".join(text)


@functools.cache
def read_parts(path: Path) -> dict[str, ast.stmt]:
    """What a file binds at its top, by name."""
    parts: dict[str, ast.stmt] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                parts[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                parts[name] = node
    return parts
