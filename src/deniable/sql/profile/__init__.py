"""The profile of a table: what must be known before a question is asked, measured once and shown to all."""
