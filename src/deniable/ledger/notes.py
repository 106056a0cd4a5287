"""Steps that are begun: what a run of many steps has taken is known to the ledger before it is taken.

A training run is paid for as a whole and saved on the way. Whatever its folder says after a kill, an older
folder put back among it, the ledger knows up to where steps were begun, and no step is begun twice: a resumed
run goes on after the ledger's number. A note is written before its steps. One written afterwards would let an
older folder repeat the steps between two notes.
"""

from __future__ import annotations

from collections.abc import Sequence

from deniable.errors import InvalidParameter, LedgerError
from deniable.ledger.journal import Draft, Journal, Standings
from deniable.ledger.journal.chain import Head
from deniable.ledger.journal.entries import Entry, EntryKind, Status
from deniable.ledger.refusal import stop_error

PAID = (EntryKind.RUN, EntryKind.OPEN)


def begin(journal: Journal, names: Sequence[str], author: str, entry: str, start: int, stop: int) -> None:
    """Note durably that steps start + 1 … stop of what `entry` paid for are begun."""
    head = Head.parse(entry)
    if not (_is_integer(start) and _is_integer(stop) and 0 <= start < stop):
        raise InvalidParameter(
            f"Expected steps from 0 ≤ start < stop, got start={start!r}, stop={stop!r}. None was begun."
        )

    def decide(standings: Standings) -> Draft:
        payment = _find_payment(standings, names, head)
        last_step = standings.tip.begun.get(payment.seq, 0)
        if start < last_step:
            raise LedgerError(
                f"Step {start + 1} of entry {payment.seq} was begun before: the ledger has noted "
                f"{last_step}, and no step is taken twice. Nothing was begun. Go on with step "
                f"{last_step + 1}."
            )
        details = {"entry": payment.seq, "start": start, "stop": stop}
        words = f"Steps {start + 1} to {stop} of entry {payment.seq} begun."
        return Draft(EntryKind.BEGIN, names[0], author, words, standings[names[0]].unit_json, details)

    journal.append(names, decide)


def count_begun(journal: Journal, entry: str) -> int:
    """How many steps of what `entry` paid for were noted as begun."""
    head = Head.parse(entry)
    with journal.following() as (_, at):
        return at.begun.get(head.count, 0)


def _find_payment(standings: Standings, names: Sequence[str], head: Head) -> Entry:
    for name in names:
        if standings[name].status is not Status.OPEN:
            raise stop_error(standings[name])
    entry = standings.entry(head.count)
    if entry is None or entry.mac != head.mac or entry.kind not in PAID or entry.account != names[0]:
        raise LedgerError(f'Entry {head.count} is no charge of the account "{names[0]}". Nothing was begun.')
    if entry.kind is EntryKind.OPEN and entry.seq not in standings.tip.begun:
        raise LedgerError(f"The session of entry {entry.seq} is closed. Nothing was begun; open a new one.")
    return entry


def _is_integer(steps: object) -> bool:
    return isinstance(steps, int) and not isinstance(steps, bool)
