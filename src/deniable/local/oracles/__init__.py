"""Frequencies over a closed domain 0, …, k − 1: one file a protocol, and which of them is best."""
