"""The curator as a service: login, REST and PostgreSQL's wire protocol in front of data that stays where it
is.

    deniable serve --settings server.toml
    remote = deniable.Remote("https://stats.example.org", token="dnb_…", data="visits")
    remote.sql("SELECT COUNT(*) FROM visits", epsilon=0.1)

Doors only: no privacy logic lives here, and no class has a loss. Who may ask is proved by a login, what it
costs by the ledger.
"""

from deniable.server.remote import Remote

__all__ = ["Remote"]
