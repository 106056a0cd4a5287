"""`deniable ledger`: look at budgets, keep their heads, check that nobody touched them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO, TypeAlias

import typer

from deniable import numbers
from deniable.cli import ledger_words as words
from deniable.cli import show
from deniable.cli.door import BAD_INPUT, door
from deniable.cli.options import Json, OutFile, Owner, Replace
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Filter, Ledger, Purpose
from deniable.ledger.journal.export import comma_separated, json_lines
from deniable.units import Unit

WIDE = 120
"""Columns of a terminal from which a journal is one table."""

app = typer.Typer(
    help="Budgets that cannot be overspent: create them, look at them, verify them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Url: TypeAlias = Annotated[
    str,
    typer.Option(
        "--ledger", envvar="DENIABLE_LEDGER", metavar="URL", help="sqlite:///file.db or postgresql://…"
    ),
]
KeyFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--key",
        envvar="DENIABLE_LEDGER_KEY",
        metavar="FILE",
        help="The key's file, if not beside the database.",
    ),
]
Name: TypeAlias = Annotated[str, typer.Argument(help="The account's name.", metavar="ACCOUNT")]
Note: TypeAlias = Annotated[str, typer.Option("--note", help="What to write into the journal.")]
DEFAULT = "sqlite:///privacy.db"


class FilterName(StrEnum):
    """What keeps the limit."""

    BASIC = "basic"
    RENYI = "renyi"
    GAUSSIAN = "gaussian"


class Format(StrEnum):
    """How a journal is exported."""

    JSONL = "jsonl"
    CSV = "csv"


RULES = {
    None: None,
    FilterName.BASIC: Filter.basic,
    FilterName.RENYI: Filter.renyi,
    FilterName.GAUSSIAN: Filter.gaussians,
}
WRITERS = {Format.JSONL: json_lines, Format.CSV: comma_separated}


@app.command()
@door
def create(
    account: Name,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The limit's ε.")],
    delta: Annotated[float, typer.Option("--delta", help="The limit's δ; 0 for a pure one.")] = 0.0,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", help="Who is protected: row, client, value, column:NAME or column:NAME:MAX_ROWS."
        ),
    ] = None,
    replace: Replace = False,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who may raise the limit; you, by default.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="ACCOUNT", help="The account that this is a part of.")
    ] = None,
    filter: Annotated[
        FilterName | None,
        typer.Option("--filter", help="What keeps the limit; renyi where there is a δ, else basic."),
    ] = None,
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            "--purpose", help="What it is for: counts (Gaussian answers), one run, or mixed (the default)."
        ),
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Make an account, and the ledger if there is none.

    [bold]deniable ledger create visits --epsilon 3 --delta 1e-6 --unit column:patient_id:4[/]

    [bold]deniable ledger create visits/ada --epsilon 1 --delta 1e-7 --parent visits[/]
    """
    protects = None
    if unit is not None:
        protects = Unit.parse(unit, replace=replace)
    if protects is None and parent is None:
        raise InvalidParameter("Expected --unit: whom does the account protect? For example --unit row.")
    limit = Budget(numbers.integral(epsilon), numbers.integral(delta))
    with Ledger.open(ledger, key=key) as book:
        new_account = book.create(
            account, protects, limit=limit, owner=owner, parent=parent, purpose=purpose, filter=RULES[filter]
        )
        words.tell(new_account, json)


@app.command("list")
@door
def list_(ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False) -> None:
    """Every account, with a bar of what is spent.

    [bold]deniable ledger list[/]
    """
    with _open_ledger(ledger, key) as book:
        accounts = book.accounts()
        if json:
            show.as_json({"accounts": [words.facts(account) for account in accounts]})
            return
        show.table(
            ("account", "spent", "", "limit", "status"),
            [words.line(account) for account in accounts],
            right=(1, 2),
        )


@app.command("show")
@door
def show_(account: Name, ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False) -> None:
    """One account: its limit, what is spent, what is left, and a bound on the loss so far.

    [bold]deniable ledger show visits[/]
    """
    with _open_ledger(ledger, key) as book:
        words.tell(book.account(account), json)


@app.command()
@door
def history(
    account: Annotated[
        str | None, typer.Argument(help="Only this account and its parts.", metavar="ACCOUNT")
    ] = None,
    last: Annotated[int, typer.Option("--last", help="How many entries, the newest; 0 for all.", min=0)] = 20,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """The journal: who charged what, when, for whom.

    [bold]deniable ledger history visits --last 5[/]
    """
    with _open_ledger(ledger, key) as book:
        entries = book.history() if account is None else book.account(account).history()
        selection = entries
        if last:
            selection = entries[-last:]
        if json:
            show.as_json({"entries": [entry.to_dict() for entry in selection]})
            return
        limits = {ledger_account.name: ledger_account.limit for ledger_account in book.accounts()}
        rows = [words.row(entry, limits) for entry in selection]
        if show.console().width < WIDE:
            words.tell_in_lines(rows)
        else:
            show.table(
                ("entry", "time", "what", "account", "analyst", "ε", "description"), rows, right=(0, 1, 5)
            )
        show.say("ε is that of the entry alone, at the δ of its account's limit; together they cost less.")


@app.command()
@door
def freeze(
    account: Name,
    note: Note = "Frozen by hand.",
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Refuse every charge to an account and its parts until its owner has looked.

    [bold]deniable ledger freeze visits --note "A file may be damaged."[/]
    """
    with _open_ledger(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.freeze(note)
        words.tell(ledger_account, json)


@app.command()
@door
def unfreeze(
    account: Name, note: Note = "Looked at.", ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False
) -> None:
    """The owner has looked: let the account run again. What was charged stays charged.

    A query that fails on the way freezes its account: the reason may depend on data, so the analyst is not
    told it.

    [bold]deniable ledger unfreeze visits --note "Restored the file from the backup."[/]
    """
    with _open_ledger(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.unfreeze(note)
        words.tell(ledger_account, json)


@app.command("raise")
@door
def raise_(
    account: Name,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The new limit's ε.")],
    delta: Annotated[
        float | None, typer.Option("--delta", help="The new limit's δ; left out, as it was.")
    ] = None,
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Raise the limit of an account. A limit is never lowered, and the guarantee is that of the highest ever
    set.

    [bold]deniable ledger raise visits --epsilon 4[/]
    """
    with _open_ledger(ledger, key) as book:
        ledger_account = book.account(account)
        limit = replace(ledger_account.limit, epsilon=numbers.integral(epsilon))
        if delta is not None:
            limit = replace(limit, delta=numbers.integral(delta))
        ledger_account.raise_limit(limit, owner=owner)
        words.tell(ledger_account, json)


@app.command()
@door
def close(
    account: Name,
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Close an account for good: no more charges to it and its parts. Its data, its name and what was spent
    stay with it.

    [bold]deniable ledger close visits[/]
    """
    with _open_ledger(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.close(owner=owner)
        words.tell(ledger_account, json)


@app.command()
@door
def forget(
    account: Name,
    declared: Annotated[
        int | None,
        typer.Option("--declared", help="The number at which all is made anew; later only lowered."),
    ] = None,
    units: Annotated[
        int, typer.Option("--units", help="How many units she is: her rows, where a row is protected.")
    ] = 1,
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """A person was erased from the data: write a random receipt, and say what that means for what was
    released.

    Who she is stands nowhere: not in the ledger, and not in the history of your shell.

    [bold]deniable ledger forget visits --declared 10[/]
    """
    with _open_ledger(ledger, key) as book:
        outcome = book.account(account).forget(None, declared=declared, units=units, owner=owner)
    if json:
        show.as_json(outcome.to_dict())
    else:
        show.say(outcome.reading)


@app.command()
@door
def versions(
    account: Name,
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Which entries were made from which version of the data, and which of them after somebody was forgotten.

    [bold]deniable ledger versions visits[/]
    """
    with _open_ledger(ledger, key) as book:
        ledger_account = book.account(account, analyst=owner)
        by_version, still_held = ledger_account.versions(), ledger_account.still_held()
    if json:
        versions = [{"version": version, "entries": entries} for version, entries in by_version.items()]
        show.as_json({"versions": versions, "still_held": still_held})
        return
    rows = [
        (version or "(none declared)", ", ".join(map(str, entries)))
        for version, entries in by_version.items()
    ]
    show.table(("data", "entries"), rows)
    if still_held:
        show.say(
            f"Entries {', '.join(map(str, still_held))} were made after somebody was forgotten, from a "
            "version that was in use before or from none that was declared: they may hold her still."
        )


@app.command()
@door
def rename(
    account: Name,
    name: Annotated[str, typer.Argument(help="The new name.")],
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Give an account a further name. The old one goes on to mean it; its data and what was spent stay with
    it.

    [bold]deniable ledger rename visits stays[/]
    """
    with _open_ledger(ledger, key) as book:
        words.tell(book.rename(account, name, owner=owner), json)


@app.command()
@door
def clock(
    accept: Annotated[
        str, typer.Option("--accept", metavar="REASON", help="Why the clock is right and the journal is not.")
    ],
    owner: Owner = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Go on at the time of this clock, though the journal has an entry of a later time. For an owner; it is
    journaled.

    [bold]deniable ledger clock --accept "The server's clock was a year ahead on Monday."[/]
    """
    with _open_ledger(ledger, key) as book:
        book.accept_clock(accept, owner=owner)
        entry = book.history()[-1]
    if json:
        show.as_json(entry.to_dict())
    else:
        show.say(f"Entry {entry.seq}: the journal goes on at {entry.time}.")


@app.command()
@door
def head(ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False) -> None:
    """How many entries there are, and the last seal. Keep it where the ledger's keeper cannot write.

    [bold]deniable ledger head > head.txt[/]
    """
    with _open_ledger(ledger, key) as book:
        current_head = book.head()
    if json:
        show.as_json({"head": str(current_head), "count": current_head.count, "mac": current_head.mac})
    else:
        typer.echo(str(current_head))


@app.command()
@door
def verify(
    head: Annotated[
        str | None, typer.Option("--head", metavar="HEAD", help="A head kept elsewhere: finds a roll-back.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Read the whole journal and check every seal, number and sum. Exit code 2 if anything is wrong.

    [bold]deniable ledger verify --head "$(cat head.txt)"[/]
    """
    with _open_ledger(ledger, key) as book:
        verdict = book.verify(head)
    if json:
        show.as_json(
            {
                "ok": verdict.ok,
                "head": str(verdict.head),
                "problems": verdict.problems,
                "unseen": verdict.unseen,
            }
        )
        if not verdict.ok:
            raise typer.Exit(BAD_INPUT)
        return
    words.tell_verdict(verdict)


@app.command()
@door
def export(
    format: Annotated[
        Format, typer.Option("--format", help="jsonl loses nothing; csv opens in a spreadsheet.")
    ] = Format.JSONL,
    out: OutFile = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Write the whole journal for other tools.

    [bold]deniable ledger export --format csv --out journal.csv[/]
    """
    with _open_ledger(ledger, key) as book, _target(out) as file:
        if json and out is None:
            format = Format.JSONL
        count = WRITERS[format](book.history(), file)
    if out is not None and json:
        show.as_json({"file": out, "entries": count})
    elif out is not None:
        show.say(f"{out}: {count:,} entries.")


# --------------------------------------------------------------------------------------------- how it is said


@contextmanager
def _open_ledger(url: str, key: Path | None) -> Iterator[Ledger]:
    with Ledger.open(url, key=key, create=False) as ledger:
        yield ledger


@contextmanager
def _target(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        yield file
