"""Releases that are kept, and the accounts that have paid for each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "releases",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("loss", sa.Text, nullable=False),
        sa.Column("delta", sa.Text),
        sa.Column("private", sa.Integer, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
    )
    op.create_table(
        "readers",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("mac", sa.Text, nullable=False),
    )
