"""Bring a database to the tables of this version, when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from deniable.errors import LedgerError
from deniable.ledger.store.store import APPLICATION, Store, write_ahead

SCRIPTS = Path(__file__).parent / "migrations"
NEWEST = "0005"
TABLE = "deniable_ledger_version"
_LOCK = 0x44504C


def migrate(store: Store, *, create: bool) -> None:
    """Create or upgrade the tables, unless they are as they should be. Processes that
    open at once take turns."""
    version = None
    if store.exists() or create:
        version = _version(store)
    if version == NEWEST:
        return
    if version is None and not create:
        raise LedgerError(
            f"There is no ledger in {store}. Nothing was created. A ledger lies beside the data that it was "
            "charged for: go to that folder, or name its address (--ledger sqlite:///folder/privacy.db)."
        )
    if store.path is not None:
        write_ahead(store)
    with store.passing(), store.failures(), store.engine.begin() as connection:
        if not store.sqlite:
            connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(_LOCK)))
        _upgrade(connection, store)


def _version(store: Store) -> str | None:
    with (
        store.passing(),
        store.failures(),
        store.engine.connect().execution_options(reading=True) as connection,
    ):
        version = MigrationContext.configure(connection, opts={"version_table": TABLE}).get_current_revision()
        if version is None and store.sqlite and sqlalchemy.inspect(connection).get_table_names():
            raise LedgerError(
                f"The file {store} is a database of something else. Nothing was changed; name another file."
            )
    if version is not None and version not in {script.revision for script in _scripts().walk_revisions()}:
        raise LedgerError(
            f"The ledger in {store} was written by a later version of Deniable. Nothing was changed."
        )
    return version


def _upgrade(connection: Connection, store: Store) -> None:
    scripts = _scripts()

    def steps(revision: Any, _: MigrationContext) -> Any:
        return scripts._upgrade_revs(NEWEST, revision)  # what alembic's own `upgrade` runs

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev=NEWEST) as environment:
        environment.configure(connection=connection, transactional_ddl=True, version_table=TABLE)
        environment.run_migrations()
    if store.sqlite:
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(SCRIPTS))
