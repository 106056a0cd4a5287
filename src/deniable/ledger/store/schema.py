"""Seven tables, and every statement that the ledger runs on them.

`journal` is the truth and only grows. `accounts` is what the journal comes to, kept so that a charge costs
the same however long the history is; `verify` computes it again. `ledger` is one row: the name of this ledger
and the lock that PostgreSQL writers queue on. `releases` are answers kept for whoever asks the same again,
`readers` the accounts that have paid for each. `marks` sum up the journal now and then, so that a process
need not read it from the first entry. `requests` are keys that paid once.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, or_, select, text

metadata = MetaData()

CHAINED = 1
"""The form of a ledger whose accounts are sealed to the entries of the chain; earlier ones have none."""

ledger = Table(
    "ledger",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key_check", Text, nullable=False),
    Column("form", Integer),
)

journal = Table(
    "journal",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("loss", Text),
    Column("unit", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("mac", Text, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("parent", Text),
    Column("owner", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("spent", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("mac", Text, nullable=False),
)

releases = Table(
    "releases",
    metadata,
    Column("key", Text, primary_key=True),
    Column("entry", Text, nullable=False),
    Column("loss", Text, nullable=False),
    Column("delta", Text),
    Column("private", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("mac", Text, nullable=False),
    Column("unit", Text),
)

readers = Table(
    "readers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("account", Text, primary_key=True),
    Column("mac", Text, nullable=False),
    Column("entry", Text),
)

marks = Table(
    "marks",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("mac", Text, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    Column("key", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("entry", Integer, nullable=False),
)

IDENTITY = select(ledger.c.id, ledger.c.key_check)
LOCK = IDENTITY.with_for_update()
BEGIN = ledger.insert()
FORM = select(ledger.c.form)
ADOPT = ledger.update().values(form=bindparam("new_form"))
APPEND = journal.insert()
LAST = select(journal.c.seq, journal.c.time, journal.c.mac).order_by(journal.c.seq.desc()).limit(1)
ENTRY = select(journal).where(journal.c.seq == bindparam("this"))
ENTRIES = (
    select(journal).where(journal.c.seq > bindparam("after")).order_by(journal.c.seq).limit(bindparam("most"))
)
ACCOUNT = select(accounts).where(accounts.c.name == bindparam("this"))
ACCOUNTS = select(accounts).order_by(accounts.c.name)
OPEN_ACCOUNT = accounts.insert()
UPDATE_ACCOUNT = (
    accounts.update()
    .where(accounts.c.name == bindparam("this"))
    .values({c: bindparam(f"new_{c}") for c in ("owner", "unit", "filter", "spent", "status", "seq", "mac")})
)
RELEASE = select(releases).where(releases.c.key == bindparam("this"))
RELEASES = select(releases).order_by(releases.c.key)
READERS = select(readers).where(readers.c.key == bindparam("this")).order_by(readers.c.account)
KEEP = releases.insert()
FORGET = releases.delete().where(releases.c.key == bindparam("this"))
FORGET_READERS = readers.delete().where(readers.c.key == bindparam("this"))
ADMIT = readers.insert()
MARKED = select(marks).order_by(marks.c.seq.desc()).limit(1)
MARK = marks.insert()
UNMARK = marks.delete().where(or_(marks.c.seq < bindparam("before"), marks.c.seq >= bindparam("this")))
REQUEST = select(requests.c.body, requests.c.entry).where(requests.c.key == bindparam("this"))
CLAIM = requests.insert()
CHECK = text("PRAGMA integrity_check")
"""Only of SQLite."""
