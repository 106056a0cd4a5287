"""The commands of `deniable`, put together. The module of a command is loaded when the command is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from deniable._version import VERSION

COMMANDS = {
    "query": "Ask a private table in SQL: a table with a ± for every number, charged to a limit that is "
    "kept beside the data.",
    "profile": "Show what is known of a private table: how many rows people have, how large values are. Buy "
    "it as its owner.",
    "train": "Train a classifier on a table by DP-SGD; save the model and a certificate of what it costs.",
    "federate": "Train a classifier on the rows of many clients by federated averaging; every client is "
    "protected as a whole.",
    "cost": "What a run costs: ε by every known method side by side, and the bracket that holds the truth.",
    "calibrate": "Solve for what is left out: the noise, or with --noise given the steps or the rate.",
    "explain": "What a guarantee means: how far a belief can move, what the best attacker can do, what a "
    "group can expect.",
    "certify": "Write a certificate: the loss, who is protected, the bracket on ε, and every assumption "
    "it rests on.",
    "verify": "Compute the claim of a certificate again, here and now, and say what it rests on.",
    "robustness": "How far a classifier's answers certainly hold under noise: certified accuracy by "
    "radius, with abstentions.",
    "audit": "Attack a mechanism from the outside and certify what was found.",
    "serve": "Serve data sets in a web console, over REST and PostgreSQL's protocol, with logins, roles "
    "and a ledger.",
    "reproduce": "Compute a published result again: a table on the screen, the same as CSV, and a figure.",
    "demo": "A tour of Deniable: SQL under a budget, what ε means, training, claims, ledgers, attacks, "
    "audits, phones, sums.",
    "schema": "What an analyst may know about private tables: draft it from metadata, review it, check it.",
    "ledger": "Budgets that cannot be overspent: create them, look at them, verify them.",
    "local": "Reports that are private before they leave the phone.",
    "attack": "What releases give away: attacks with and without protection.",
    "doctor": "Say what is installed, which engines work, whether the ledger is sound, and what to do "
    "about the rest.",
}
"""The line that the help shows for each; a test holds it to the command's own."""
MODULES = {"certify": "certificate", "verify": "certificate"}
"""Where a command lives that does not live in the module of its name."""


class Commands(TyperGroup):
    """Shows a line for each command, and loads the one that is called: a question about cost waits for no
    database."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = "deniable --help lists what there is."
            if near:
                hint = f"Did you mean deniable {near[0]}?"
            ctx.fail(f'There is no command "{args[0]}". {hint}')
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(str(name)), rest

    def get_params(self, ctx: Any) -> Any:
        return quiet_flags(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        return None


def load(name: str) -> Any:
    """The command itself: a function of its module, or the module's own group."""
    module = importlib.import_module(f"deniable.cli.{MODULES.get(name, name)}")
    holder = typer.Typer(rich_markup_mode="rich", callback=lambda: None)
    if command := getattr(module, name, None):
        holder.command(name)(command)
    else:
        holder.add_typer(module.app, name=name)
    entry = typer.main.get_group(holder).commands[name]
    for command in (entry, *getattr(entry, "commands", {}).values()):
        command.get_params = compose(quiet_flags, command.get_params)
    return entry


def quiet_flags(params: list[Any]) -> list[Any]:
    """A flag takes no value, so the help shows no type beside it."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def compose(outer: Callable[[Any], Any], inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: outer(inner(value))


app = typer.Typer(
    name="deniable",
    cls=Commands,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"deniable {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Differential privacy for data about people: SQL, training and statistics under a budget that cannot be
    overspent.

    Start with [bold]deniable demo[/], or ask what a training run costs:
    [bold]deniable cost --rate .01 --noise 4 --steps 10000 --delta 1e-5[/]
    """
