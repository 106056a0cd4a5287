"""Losses of runs that have a name: DP-SGD, the best of many runs, the sparse vector technique."""
