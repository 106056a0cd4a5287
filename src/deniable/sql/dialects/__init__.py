"""The vocabulary of each engine."""
