"""A mechanism that claims twice the privacy it gives is found: python examples/audit.py"""

from deniable.audit import audit
from deniable.mechanisms import Laplace

print(audit(Laplace(scale=1), (0, 1), 0.5, samples=100_000, seed=1), "\n")  # true ε = 1
print(audit(Laplace(scale=2), (0, 1), 0.5, samples=100_000, seed=1))  # true ε = .5
