"""The commands of `deniable`, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable._version import VERSION
from deniable.cli import attack, ledger, local, schema
from deniable.cli.audit import audit
from deniable.cli.calibrate import calibrate
from deniable.cli.certificate import certify, verify
from deniable.cli.cost import cost
from deniable.cli.demo import demo
from deniable.cli.explain import explain
from deniable.cli.query import query
from deniable.cli.reproduce import reproduce
from deniable.cli.train import train

app = typer.Typer(
    name="deniable",
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deniable {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """One meter for everything that leaves a private data set.

    Start with [bold]deniable demo[/], or ask what a training run costs:
    [bold]deniable cost --rate .01 --noise 4 --steps 10000 --delta 1e-5[/]
    """


for command in (query, train, cost, calibrate, explain, certify, verify, audit, reproduce, demo):
    app.command(command.__name__)(command)
app.add_typer(schema.app, name="schema")
app.add_typer(ledger.app, name="ledger")
app.add_typer(local.app, name="local")
app.add_typer(attack.app, name="attack")
