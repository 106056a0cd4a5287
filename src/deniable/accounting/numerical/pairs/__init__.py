"""Dominating pairs: two laws whose hockey-stick curve is that of a loss, or bounds it on a known side."""
