"""How the tables came to be, step by step: Alembic revisions, run when a ledger is opened."""
