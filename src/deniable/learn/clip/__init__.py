"""Exact per-example clipping: the sum of clipped gradients, at about the cost of the plain gradient.

rounding     norms rounded up, weights rounded down
terms        what per-example gradients are made of; their norms and weighted sums
tape, taps   layers that write terms during backward
cover        calls of torch functions that taps cover; `sequences` adds recurrent layers and attention
chain        models that are chains of layers, run by hand
passes       closed forms, vmap(grad), one example after the other
structure    what is refused at sight; `probe`: what is refused, or done more slowly, after a trial
per_example  `PerExample`
"""

from deniable.learn.clip.per_example import Clipped, PerExample

__all__ = ["Clipped", "PerExample"]
