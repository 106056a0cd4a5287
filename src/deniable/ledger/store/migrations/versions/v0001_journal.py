"""The journal, the accounts that it comes to, and the identity of the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SAID = "the journal only grows"
GROWS = {
    "sqlite": [
        f"CREATE TRIGGER journal_no_{verb.lower()} BEFORE {verb} ON journal BEGIN SELECT RAISE(ABORT, "
        f"'{SAID}'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        f"CREATE FUNCTION journal_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{SAID}'; END $$",
        "CREATE TRIGGER journal_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON journal "
        "FOR EACH STATEMENT EXECUTE FUNCTION journal_only_grows()",
    ],
}


def upgrade() -> None:
    op.create_table(
        "ledger",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key_check", sa.Text, nullable=False),
    )
    op.create_table(
        "journal",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("analyst", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("loss", sa.Text),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
    )
    op.create_table(
        "accounts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("parent", sa.Text),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("spent", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
    )
    # Against accidents; against an editor of the file there is the chain of MACs.
    for statement in GROWS[op.get_bind().dialect.name]:
        op.execute(statement)
