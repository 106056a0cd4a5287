"""Reports that are private before they leave the phone: python examples/local.py"""

import numpy as np

from deniable.local import best
from deniable.randomness import SecureRandom

rng, truth = SecureRandom(), np.random.default_rng(0).zipf(1.5, 20_000) % 16
oracle = best(16, 2.0)
reports = oracle.reports(truth, rng=rng)
server = oracle.server()
server.add(reports)
estimate = server.estimate()
print(type(oracle).__name__, "at ε = 2")
for item in range(5):
    print(item, "truth", int((truth == item).sum()), "estimate", round(float(estimate.counts[item])))
