"""`deniable serve`: the curator as a service."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from deniable import extras
from deniable.cli import show
from deniable.cli.door import door


@door
def serve(
    settings: Annotated[
        Path, typer.Option("--settings", metavar="FILE", help="The settings, as TOML.", dir_okay=False)
    ] = Path("server.toml"),
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="The name of the first owner.")
    ] = "owner",
    reset: Annotated[
        str | None,
        typer.Option(
            "--reset", metavar="NAME", help="Print a new one-time password for this person, and leave."
        ),
    ] = None,
    proposals: Annotated[
        bool, typer.Option("--proposals", help="List what waits for a second person, and leave.")
    ] = False,
    agree: Annotated[
        str | None,
        typer.Option(
            "--agree", metavar="ID", help="Agree to a proposal as the operator of the server, and leave."
        ),
    ] = None,
    rotate: Annotated[
        bool,
        typer.Option(
            "--rotate-key", help="Make a new key of the server, end every session and token, and leave."
        ),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="A made-up hospital with three people, to look around; nothing stays."),
    ] = False,
) -> None:
    """Serve data sets in a web console, over REST and PostgreSQL's protocol, with logins, roles and a ledger.

    The first start makes an owner and prints her one-time password, once. Ctrl-C finishes what is being
    asked, and ends.

    [bold]deniable serve --demo[/]

    [bold]deniable serve --settings server.toml --owner olga[/]
    """
    if demo:
        _demo()
        return
    configuration = _part("settings").load(settings)
    service = _part("service").Service(configuration)
    try:
        if reset is not None:
            logins = _part("people.logins")
            password = service.roster.reset(logins.OPERATOR, reset, consent=logins.AT_THE_SHELL)
            show.say(f"One-time password of {reset}: {password}")
            return
        if proposals or agree is not None:
            _decide(service, agree)
            return
        if rotate:
            _part("people.keys").rotate(configuration.folder, service.state)
            show.say(
                "The server has a new key. Every session and token has ended; people log in and make new "
                "ones."
            )
            return
        _first_owner(service, owner)
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
        if configuration.workers == 1:
            asyncio.run(_part("workers").until_signal(_part("run").Doors(service), _say))
    finally:
        service.close()
    if configuration.workers > 1:
        _run_many(_part("workers").Workers(configuration))


def _demo() -> None:
    """A filled service in a folder that goes with it."""
    demo = _part("demo")
    with tempfile.TemporaryDirectory(prefix="deniable-demo-") as folder:
        service = _part("service").Service(demo.settings(Path(folder)))
        try:
            passwords = demo.fill(service, lambda step: show.say(f"{step} …"))
            people = [(name, role, passwords[name]) for name, role in demo.PEOPLE]
            doors = _part("run").Doors(service)
            asyncio.run(_part("workers").until_signal(doors, lambda ready: _welcome(ready, people)))
        finally:
            service.close()


def _welcome(ready: Any, people: list[tuple[str, str, str]]) -> None:
    show.say(
        "", f"A made-up hospital is open at http://{ready.http} until you press Ctrl-C. Log in as one of:", ""
    )
    show.table(("name", "role", "one-time password"), people)
    show.say(
        "", "A password works once: the console then asks for one of your own. Only this machine reaches it."
    )


def _part(name: str) -> Any:
    try:
        return importlib.import_module(f"deniable.server.{name}")
    except ModuleNotFoundError as error:
        raise extras.missing(f"A service needs the package {error.name}", "server") from None


def _decide(service: Any, number: str | None) -> None:
    """Say what waits for a second person, or agree to one of it."""
    if number is None:
        rows = [(each.id, each.act, each.about, each.person) for each in service.proposals.list_waiting()]
        show.table(("id", "act", "about", "proposed by"), rows)
        return
    half = service.agree_at_the_shell(number)
    show.say("Agreed, and done.")
    if half is not None:
        show.say(
            f"The second half of the one-time password, shown this once: {half}",
            "Give it to the person herself. Who proposed this has the first half. The person types the first "
            "half, a dot, and the second half.",
        )


def _first_owner(service: Any, name: str) -> None:
    password = service.roster.first_owner(name)
    if password is not None:
        show.say(f"The first owner is {name}. One-time password, shown this once: {password}")


def _run_many(workers: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: workers.stop())
    workers.serve(_say)


def _say(ready: Any) -> None:
    show.say(f"Listening: {ready.describe_addresses}.")
