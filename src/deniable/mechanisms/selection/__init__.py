"""Mechanisms that choose: one of a public list, a place on a public grid, which questions pass a
threshold."""
