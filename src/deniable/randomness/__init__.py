"""Exact discrete noise on a cryptographic generator.

>>> rng = SeededRandom(1)
>>> type(rng.discrete_gaussian(3.5)), rng.private, SecureRandom().private
(<class 'int'>, False, True)
"""

from deniable.randomness.generator import Generator, SecureRandom, SeededRandom

__all__ = ["Generator", "SecureRandom", "SeededRandom"]
