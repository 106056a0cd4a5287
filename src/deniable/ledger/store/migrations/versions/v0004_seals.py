"""Rows sealed to the chain: releases with their unit, readers with the entry that paid,
ledgers with the form of their seals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NEW = (("ledger", "form", sa.Integer), ("releases", "unit", sa.Text), ("readers", "entry", sa.Text))


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    for table, column, kind in NEW:
        if column not in {field["name"] for field in inspector.get_columns(table)}:
            op.add_column(table, sa.Column(column, kind))
