"""Attacks on published rows: names joined to them, and what anonymity does not hide.

link       names joined to rows by zip, birth date and sex
fuzzy      sparse ratings found by a few of them, known roughly
series     six days of step counts as a fingerprint
anonymity  k-anonymity, t-closeness, swapping: how they fail
hide       one town, published in six ways
"""
