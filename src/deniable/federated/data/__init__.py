"""Clients and their rows: from arrays, tables and plays, or dealt out for experiments."""
