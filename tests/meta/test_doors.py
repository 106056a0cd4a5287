"""Doors hold no privacy logic: neither `cli/` nor `server/` defines a class with a loss. And all seven take the
terms of a `Question`, no fewer."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import fields, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from deniable.cli.app import app
from deniable.cli.query import OpeningOptions
from deniable.curator import Curator, Inquiry, Question, notebook
from deniable.server.console.page import Typed
from deniable.server.console.pages.ask import AskForm
from deniable.server.http.bodies import QueryBody
from deniable.server.remote import Remote
from deniable.server.wire.conversation import WireConversation
from deniable.server.wire.statements import statements
from deniable.units import Unit
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


# ------------------------------------------------------------------------------- the terms of a question, by door

Examples = dict[str, tuple[Any, str]]
EXAMPLES: Examples = {
    "epsilon": (0.5, "0.5"),
    "within": (20, "20"),
    "delta": (2**-10, "0.0009765625"),
    "confidence": (0.9, "0.9"),
    "at_least": (30, "30"),
    "max_groups": (2, "2"),
    "noise": ("laplace", "laplace"),
    "discover": (True, "on"),
    "of": (7, "7"),
    "left_out": (False, "off"),
    "most_rows": (12, "12"),
    "bracket": (False, "off"),
    "nonnegative": (True, "on"),
}
"""A value of each term that is not its default, and how it is typed."""
COUNT = "SELECT COUNT(*) AS n FROM visits"


class Caught(Exception):
    """The question that came through a door, before anything was done with it."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def catch(act: Callable[[], object]) -> Question:
    with pytest.raises(Caught) as caught:
        act()
    return caught.value.question


@pytest.fixture
def curator(monkeypatch: pytest.MonkeyPatch) -> Curator:
    """One that shows what it was asked, and does nothing."""

    def inquire(_: Curator, question: Question) -> Inquiry:
        raise Caught(question)

    monkeypatch.setattr(Curator, "inquire", inquire)
    return object.__new__(Curator)


def by_python(curator: Curator, examples: Examples) -> Question:
    return catch(lambda: curator.sql(COUNT, **{name: value for name, (value, _) in examples.items()}))


def by_shell(curator: Curator, examples: Examples) -> Question:
    options = []
    for name, (value, text) in examples.items():
        option = {"left_out": "--bounded-only", "bracket": "--no-bracket"}.get(name)
        words = [option or f"--{name.replace('_', '-')}"]
        options += words if isinstance(value, bool) else [*words, text]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpeningOptions, "opened", lambda _: nullcontext(curator))
        result = CliRunner().invoke(app, ["query", "visits.parquet", COUNT, *options])
    assert isinstance(result.exception, Caught), result.output
    return result.exception.question


def by_notebook(curator: Curator, examples: Examples) -> Question:
    line = " ".join(["visits", *(f"{name}={text}" for name, (_, text) in examples.items())])
    return catch(lambda: notebook.ask(line, COUNT, {"visits": curator}))


def by_rest(_: Curator, examples: Examples) -> Question:
    values = {name: value for name, (value, _) in examples.items()}
    return QueryBody.model_validate_json(json.dumps({"sql": COUNT, **values})).question


def by_remote(curator: Curator, examples: Examples) -> Question:
    """What `Remote` sends, as the service reads it."""
    bodies: list[dict[str, Any]] = []

    class Wire(Remote):
        def _call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
            bodies.append(body)
            raise Caught(Question(COUNT))

    remote = Wire("http://127.0.0.1", token="", data="visits")
    catch(lambda: remote.sql(COUNT, **{name: value for name, (value, _) in examples.items()}))
    return QueryBody.model_validate_json(json.dumps(bodies[0])).question


def by_wire(_: Curator, examples: Examples) -> Question:
    talk = object.__new__(WireConversation)
    talk.settings, talk._data = {}, "visits"
    talk.curator = cast(Curator, SimpleNamespace(account=SimpleNamespace(unit=Unit.row())))
    for name, (_, text) in examples.items():
        talk._set(f"deniable.{name}", text)
    return talk._question(statements(COUNT)[0], ())


def by_console(_: Curator, examples: Examples) -> Question:
    by = "within" if "within" in examples else "epsilon"
    pairs = [("sql", COUNT), ("by", by), *((name, text) for name, (_, text) in examples.items())]
    return AskForm.read(Typed(pairs)).question


Door = Callable[[Curator, Examples], Question]
DOORS_OF_A_QUESTION: list[Door] = [by_python, by_shell, by_notebook, by_rest, by_remote, by_wire, by_console]


def lacking(door: Door, curator: Curator, question: type) -> set[str]:
    """The terms of `question` that do not come through a door as they were said."""
    names = {each.name for each in fields(question)} - {"text"}
    lost = names - set(EXAMPLES)
    for name in names & set(EXAMPLES):
        said = {name: EXAMPLES[name]}
        if name not in ("epsilon", "within"):
            said["epsilon"] = EXAMPLES["epsilon"]
        if door(curator, said).changes != {each: value for each, (value, _) in said.items()}:
            lost.add(name)
    return lost


@pytest.mark.parametrize("door", DOORS_OF_A_QUESTION)
def test_every_term_of_a_question_comes_through_the_door(door: Door, curator: Curator) -> None:
    assert lacking(door, curator, Question) == set()


@pytest.mark.parametrize("door", DOORS_OF_A_QUESTION)
def test_a_term_that_is_added_to_a_question_alone_is_missed_at_the_door(door: Door, curator: Curator) -> None:
    longer = make_dataclass("Longer", [("weight", int, 1)], bases=(Question,), frozen=True)
    assert lacking(door, curator, longer) == {"weight"}
