"""Federated learning: what leaves a device is a masked, noisy, clipped sum and nothing else.

So far: `secure_sum`, the sum of many clients' vectors of which nobody sees a single one.
"""
