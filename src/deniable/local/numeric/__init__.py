"""Means of numbers and vectors, and how many lie in a range."""
