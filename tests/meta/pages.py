"""Markdown pages as tests: python blocks are run, console blocks are run and compared with what they
print."""

from __future__ import annotations

import contextlib
import doctest
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from deniable.cli.app import app

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NOT_OURS = {"make", "pip", "git"}
"""Commands that a page may show and no test runs."""
NOISY = re.compile(r"-?\d[\d,.]* ± \d[\d,.]*")


class Calm(doctest.OutputChecker):
    """A number with noise, written like 8,310 ± 89, stands for any other; so does the
    length of a line drawn below a head."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(_calm(want), _calm(got), optionflags)


def _calm(text: str) -> str:
    return re.sub("─+", "─", NOISY.sub("# ± #", text))


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for found in BLOCK.finditer(page):
        _, language, text = found.groups()
        yield Block(language, textwrap.dedent(text), page[: found.start()].count("\n") + 2)


def failures(path: Path, without: Collection[str] = ()) -> list[str]:
    """Everything on a page that does not come out as it stands there. Runs in the current folder.

    A statement or command that has one of the words of `without` in it is not run."""
    seen: list[str] = []
    names: dict[str, object] = {}
    for block in blocks(path.read_text(encoding="utf-8")):
        where = f"{path.name}:{block.line}"
        if block.language in {"python", "pycon"}:
            seen += _python(block, names, where, without)
        elif block.language == "console":
            seen += _console(block, where, without)
    return seen


def _is_left_out(text: str, without: Collection[str]) -> bool:
    return any(word in text for word in without)


def _python(block: Block, names: dict[str, object], where: str, without: Collection[str]) -> list[str]:
    if ">>>" not in block.text:
        if not _is_left_out(block.text, without):
            exec(compile(block.text, where, "exec"), names)
        return []
    test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    test.examples = [example for example in test.examples if not _is_left_out(example.source, without)]
    said: list[str] = []
    doctest.DocTestRunner(checker=Calm(), optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    return ["".join(said)] if said else []


def _commands(block: Block) -> list[str]:
    return re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]


def _run(arguments: list[str]) -> str:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}).output


def _console(block: Block, where: str, without: Collection[str]) -> list[str]:
    """`$ deniable …` and what it prints, to the letter but for blanks at line ends;
    `...` stands for anything."""
    wrong = []
    for part in _commands(block):
        command, _, expected = part.partition("\n")
        program, *arguments = shlex.split(command, comments=True)
        if program in NOT_OURS or _is_left_out(command, without):
            continue
        if program != "deniable":
            wrong.append(f"{where}: {program} is not run here; show deniable, or name it in NOT_OURS.")
            continue
        printed = _run(arguments)
        if not Calm().check_output(_tidy(expected), _tidy(printed), doctest.ELLIPSIS):
            wrong.append(f"{where}: {command}\nstands there:\n{expected}\nis printed:\n{printed}")
    return wrong


def rewrite(path: Path) -> None:
    """Put what is printed now in the place of what stands there (python -m
    tests.meta.pages PAGE…); read the difference."""
    page = path.read_text(encoding="utf-8")
    for block in blocks(page):
        if block.language == "console":
            page = page.replace(block.text, "\n".join(_again(part) for part in _commands(block)))
    path.write_text(page, encoding="utf-8")


def _again(part: str) -> str:
    command, _, expected = part.partition("\n")
    program, *arguments = shlex.split(command, comments=True)
    keep = program in NOT_OURS or "..." in expected
    said = expected if keep else _tidy(_run(arguments))
    return f"$ {command}\n{said.rstrip()}".rstrip() + "\n"


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            rewrite(page)
