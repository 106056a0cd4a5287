"""Who may: people with roles, passwords, sessions and tokens. Only hashes are stored, and names alone prove
nothing."""
