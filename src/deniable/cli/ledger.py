"""`deniable ledger`: look at budgets, keep their heads, check that nobody touched them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeAlias

import typer

from deniable import accounting, numbers
from deniable.cli import show
from deniable.cli.door import BAD_INPUT, door
from deniable.cli.options import Json, Replace
from deniable.errors import DeniableError, InvalidParameter, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import Account, Entry, Filter, Ledger, Left, Purpose, Verification
from deniable.ledger.export import comma_separated, json_lines
from deniable.ledger.versions import version_of
from deniable.units import Unit

WIDTH = 20
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
    protects = None if unit is None else Unit.parse(unit, replace=replace)
    if protects is None and parent is None:
        raise InvalidParameter("Expected --unit: whom does the account protect? For example --unit row.")
    limit = Budget(numbers.integral(epsilon), numbers.integral(delta))
    with Ledger.open(ledger, key=key) as book:
        new_account = book.create(
            account, protects, limit=limit, owner=owner, parent=parent, purpose=purpose, filter=RULES[filter]
        )
        _tell(new_account, json)


@app.command("list")
@door
def list_(ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False) -> None:
    """Every account, with a bar of what is spent.

    [bold]deniable ledger list[/]
    """
    with _opened(ledger, key) as book:
        accounts = book.accounts()
        if json:
            show.as_json({"accounts": [_facts(account) for account in accounts]})
            return
        show.table(
            ("account", "spent", "", "limit", "status"),
            [_line(account) for account in accounts],
            right=(1, 2),
        )


@app.command("show")
@door
def show_(account: Name, ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False) -> None:
    """One account: its limit, what is spent, what is left, and a bound on what was lost by now.

    [bold]deniable ledger show visits[/]
    """
    with _opened(ledger, key) as book:
        _tell(book.account(account), json)


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
    with _opened(ledger, key) as book:
        entries = book.history() if account is None else book.account(account).history()
        selection = entries[-last:] if last else entries
        if json:
            show.as_json({"entries": [entry.to_dict() for entry in selection]})
            return
        limits = {ledger_account.name: ledger_account.limit for ledger_account in book.accounts()}
        rows = [_row(entry, limits) for entry in selection]
        if show.console().width < WIDE:
            _tell_in_lines(rows)
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
    with _opened(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.freeze(note)
        _tell(ledger_account, json)


@app.command()
@door
def unfreeze(
    account: Name, note: Note = "Looked at.", ledger: Url = DEFAULT, key: KeyFile = None, json: Json = False
) -> None:
    """The owner has looked: let the account run again. What was charged stays charged.

    A query that fails on the way freezes its account: the reason may depend on data, so the analyst is not told it.

    [bold]deniable ledger unfreeze visits --note "Restored the file from the backup."[/]
    """
    with _opened(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.unfreeze(note)
        _tell(ledger_account, json)


@app.command("raise")
@door
def raise_(
    account: Name,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The new limit's ε.")],
    delta: Annotated[
        float | None, typer.Option("--delta", help="The new limit's δ; left out, as it was.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Raise the limit of an account. A limit is never lowered, and the guarantee is that of the highest ever set.

    [bold]deniable ledger raise visits --epsilon 4[/]
    """
    with _opened(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.raise_limit(
            Budget(
                numbers.integral(epsilon),
                ledger_account.limit.delta if delta is None else numbers.integral(delta),
            ),
            owner=owner,
        )
        _tell(ledger_account, json)


@app.command()
@door
def close(
    account: Name,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Close an account for good: no more charges to it and its parts. Its data, its name and what was spent stay with it.

    [bold]deniable ledger close visits[/]
    """
    with _opened(ledger, key) as book:
        ledger_account = book.account(account)
        ledger_account.close(owner=owner)
        _tell(ledger_account, json)


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
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """A person was erased from the data: write a random receipt, and say what that means for what was released.

    Who she is stands nowhere: not in the ledger, and not in the history of your shell.

    [bold]deniable ledger forget visits --declared 10[/]
    """
    with _opened(ledger, key) as book:
        outcome = book.account(account).forget(None, declared=declared, units=units, owner=owner)
    if json:
        show.as_json(outcome.to_dict())
    else:
        show.say(outcome.reading)


@app.command()
@door
def versions(
    account: Name,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Which entries were made from which version of the data, and which of them after somebody was forgotten.

    [bold]deniable ledger versions visits[/]
    """
    with _opened(ledger, key) as book:
        ledger_account = book.account(account, analyst=owner)
        made, held = ledger_account.versions(), ledger_account.still_held()
    if json:
        listed = [{"version": version, "entries": entries} for version, entries in made.items()]
        show.as_json({"versions": listed, "still_held": held})
        return
    rows = [(version or "(none declared)", ", ".join(map(str, made[version]))) for version in made]
    show.table(("data", "entries"), rows)
    if held:
        show.say(
            f"Entries {', '.join(map(str, held))} were made after somebody was forgotten, from a version that was "
            "in use before or from none that was declared: they may hold her still."
        )


@app.command()
@door
def rename(
    account: Name,
    name: Annotated[str, typer.Argument(help="The new name.")],
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Give an account a further name. The old one goes on to mean it; its data and what was spent stay with it.

    [bold]deniable ledger rename visits stays[/]
    """
    with _opened(ledger, key) as book:
        _tell(book.rename(account, name, owner=owner), json)


@app.command()
@door
def clock(
    accept: Annotated[
        str, typer.Option("--accept", metavar="REASON", help="Why the clock is right and the journal is not.")
    ],
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who you are, if not the user of this shell.")
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Go on at the time of this clock, though the journal has an entry of a later time. For an owner; it is journaled.

    [bold]deniable ledger clock --accept "The server's clock was a year ahead on Monday."[/]
    """
    with _opened(ledger, key) as book:
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
    with _opened(ledger, key) as book:
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
    with _opened(ledger, key) as book:
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
    _tell_verdict(verdict)


@app.command()
@door
def export(
    format: Annotated[
        Format, typer.Option("--format", help="jsonl loses nothing; csv opens in a spreadsheet.")
    ] = Format.JSONL,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write; left out: to the screen.", dir_okay=False
        ),
    ] = None,
    ledger: Url = DEFAULT,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Write the whole journal for other tools.

    [bold]deniable ledger export --format csv --out journal.csv[/]
    """
    with _opened(ledger, key) as book, _target(out) as file:
        count = WRITERS[Format.JSONL if json and out is None else format](book.history(), file)
    if out is not None and json:
        show.as_json({"file": out, "entries": count})
    elif out is not None:
        show.say(f"{out}: {count:,} entries.")


# --------------------------------------------------------------------------------------------- how it is said


@contextmanager
def _opened(url: str, key: Path | None) -> Iterator[Ledger]:
    with Ledger.open(url, key=key, create=False) as ledger:
        yield ledger


@contextmanager
def _target(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        yield file


def _facts(account: Account) -> dict[str, Any]:
    expenditure, left, running = account.spent(), account.remaining(), account.odometer()
    return {
        "account": account.name,
        "parent": account.parent,
        "owner": account.owner,
        "unit": account.unit.to_dict(),
        "status": str(account.status),
        "limit": {"epsilon": float(account.limit.epsilon), "delta": float(account.limit.delta)},
        "spent": {
            "epsilon": expenditure.epsilon,
            "delta": expenditure.delta,
            "method": expenditure.method,
            "share": expenditure.share,
        },
        "remaining": {"epsilon": left.epsilon, "rho": left.rho, "delta": left.delta},
        "odometer": {"epsilon": running.epsilon, "delta": running.delta, "method": running.method},
    }


def _line(account: Account) -> tuple[str, ...]:
    expenditure = account.spent()
    return (
        account.name,
        bar(expenditure.share),
        percent(expenditure.share),
        str(account.limit),
        str(account.status),
    )


SMALLER = 0.95
"""A share this much below that of the summed ε is explained."""


def bar(share: float) -> str:
    """How much is spent, never drawn as less.

    >>> bar(0.0), bar(0.26), bar(1.0)
    ('····················', '██████··············', '████████████████████')
    """
    full = WIDTH if share >= 1 else math.ceil(share * WIDTH)
    return "█" * full + "·" * (WIDTH - full)


def percent(share: float) -> str:
    """In whole percent, rounded up.

    >>> percent(0.0), percent(0.7501), percent(1.0)
    ('0 %', '76 %', '100 %')
    """
    return "over" if share > 1 else f"{math.ceil(100 * share)} %"


def _tell(account: Account, json: bool) -> None:
    if json:
        show.as_json(_facts(account))
        return
    expenditure, running = account.spent(), account.odometer()
    part = f", part of {account.parent}" if account.parent else ""
    show.heading(f"{account.name}{part} ({account.status})")
    show.say(f"{bar(expenditure.share)} {percent(expenditure.share)} of {account.limit}")
    if expenditure.share < SMALLER * expenditure.epsilon / float(account.limit.epsilon):
        show.say(
            "(Many small charges cost less together than their sum, so the bar is shorter than ε below.)"
        )
    show.say(f"Protects {account.unit}. Owner: {account.owner}.")
    show.say(f"Spent: ε = {numbers.up(expenditure.epsilon)}{_at(expenditure.delta)} ({expenditure.method}).")
    show.say(f"Left for one charge: {_left(account.remaining())}.")
    show.say(
        "A bound on the ε of all releases so far, valid at every moment: ε ≤ "
        f"{numbers.up(running.epsilon)}{_at(running.delta)}."
    )


def _at(delta: float) -> str:
    return f" at δ = {numbers.up(delta)}" if delta else ""


def _left(left: Left) -> str:
    rho = f", or ρ ≤ {numbers.down(left.rho)} of zCDP" if left.rho else ""
    if left.mu and not left.rho:
        rho = f", or Gaussian noise of μ ≤ {numbers.down(left.mu)} (the sensitivity over the noise)"
    delta = f"; δ ≤ {numbers.down(left.delta)} for those charged at a δ" if left.delta else ""
    return f"ε ≤ {numbers.down(left.epsilon)}{rho}{delta}"


def _row(entry: Entry, limits: Mapping[str, Budget]) -> tuple[str, ...]:
    version = version_of(entry)
    what = str(entry.description or entry.loss or "") + ("" if version is None else f" (data: {version})")
    cost = _cost(entry, limits.get(entry.account))
    return str(entry.seq), entry.time[:19], entry.kind, entry.account, entry.analyst, cost, what


def _tell_in_lines(rows: Iterable[tuple[str, ...]]) -> None:
    """A journal where seven columns do not fit: a line for each entry, and what it was for below it."""
    for seq, time, kind, account, analyst, cost, what in rows:
        show.heading(f"{seq}  {time}  {kind} · {account} · {analyst}" + (f" · ε = {cost}" if cost else ""))
        show.indented(what)


def _cost(entry: Entry, limit: Budget | None) -> str:
    """The ε of one charge by itself; nothing where an entry charges nothing."""
    if entry.loss is None or limit is None:
        return ""
    try:
        return numbers.up(accounting.epsilon(entry.loss, float(limit.delta)).upper)
    except DeniableError:
        return "–"


def _tell_verdict(found: Verification) -> None:
    if found.problems:
        raise TamperedLedger(" ".join(found.problems))
    show.heading(f"Good: {found.head.count:,} entries, every one as it was written.")
    show.say(f"Head: {found.head}", *found.unseen)
