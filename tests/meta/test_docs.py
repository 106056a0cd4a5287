"""A command or option cannot go undocumented, and the documentation names none that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deniable.cli.app import COMMANDS, load
from tests.meta.source import ROOT

PAGE = (ROOT / "docs" / "guide" / "cli.md").read_text(encoding="utf-8")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:
    """Every command by its full name, with its options."""
    if hasattr(command, "commands"):
        for word, inner in command.commands.items():
            yield from commands(inner, f"{name} {word}")
    else:
        options = (p.opts + p.secondary_opts for p in command.params if p.param_type_name == "option")
        yield name, {o for names in options for o in names if o.startswith("--")} - {"--help"}


def every() -> dict[str, set[str]]:
    return {name: options for word in COMMANDS for name, options in commands(load(word), f"deniable {word}")}


def sections(page: str) -> dict[str, str]:
    """The text under each heading that is a command: ## `deniable cost`."""
    parts = re.split(r"^#+ `(deniable [a-z ]+)`.*$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_is_documented_and_every_documented_one_exists() -> None:
    assert sections(PAGE).keys() == every().keys()


def test_every_option_is_documented_and_every_documented_one_exists() -> None:
    documented = {name: set(OPTION.findall(text)) for name, text in sections(PAGE).items()}
    assert documented == every()


def test_every_command_teaches_by_example() -> None:
    for name in every():
        assert re.search(rf"(\$ |^    ){name}\b", sections(PAGE)[name], re.MULTILINE), name


def test_the_help_shows_each_command_by_its_own_first_line() -> None:
    own = {name: " ".join(load(name).help.split("\n\n")[0].split()) for name in COMMANDS}
    assert own == COMMANDS
