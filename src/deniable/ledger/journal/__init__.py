"""The journal: what entries mean, the chain that seals them, reading them anew, checking and exporting
them."""

from deniable.ledger.journal.journal import Clock, Draft, Journal, Standings, genuine, now, read_standing

__all__ = ["Clock", "Draft", "Journal", "Standings", "genuine", "now", "read_standing"]
