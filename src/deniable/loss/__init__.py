"""What a run may reveal, as an immutable tree that any accountant can read.

A `Loss` is a value: it is known before data is seen, it is stable as JSON, and its
meaning never changes once released; a new meaning is a new node. Leaves say which noise
was used, combinators say how runs are put together:

    leaf          Pure  Approximate  Zcdp  BoundedRange  ResponseNoise
                  LaplaceNoise  GaussianNoise  DiscreteLaplaceNoise  DiscreteGaussianNoise
                  IntegerGaussianSum  MixedGaussianNoise  FiniteOutcomes
    combinator    Sampled  Repeated  Composed  Parallel  Grouped  Shuffled  Selected
    batches       Allocated  CappedSample  UniformlyCappedSample  DrawnSample
    relation      Silenced

>>> step = GaussianNoise(4).sampled(0.01)
>>> print(step * 10_000)
10,000 × (Gaussian noise of 4 × the sensitivity, on a Poisson sample of rate 0.01)
>>> Loss.from_json(step.to_json()) == step
True

Numbers are `int`, `float` or `Fraction`. **A float means the decimal it prints**: 0.1 is one tenth, so thirty
times 0.1 is exactly 3 in every sum that the ledger makes. `exact` gives that meaning.
"""

from deniable.loss.batches import Allocated, CappedSample, DrawnSample, UniformlyCappedSample
from deniable.loss.leaves import (
    Approximate,
    BoundedRange,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    ResponseNoise,
    Zcdp,
)
from deniable.loss.node import DEEPEST, MOST_NODES, POISSON, SHUFFLED, WITHOUT_REPLACEMENT, Node, Scheme
from deniable.loss.noises import FiniteOutcomes, IntegerGaussianSum, MixedGaussianNoise
from deniable.loss.relations import Silenced
from deniable.loss.selection import NegativeBinomialRuns, PoissonRuns, Selected
from deniable.loss.tree import (
    Composed,
    Grouped,
    Loss,
    Parallel,
    Repeated,
    Sampled,
    Shuffled,
    mismatch,
)
from deniable.numbers import Number, exact, show

__all__ = [
    "DEEPEST",
    "MOST_NODES",
    "POISSON",
    "SHUFFLED",
    "WITHOUT_REPLACEMENT",
    "Allocated",
    "Approximate",
    "BoundedRange",
    "CappedSample",
    "Composed",
    "DiscreteGaussianNoise",
    "DiscreteLaplaceNoise",
    "DrawnSample",
    "FiniteOutcomes",
    "GaussianNoise",
    "Grouped",
    "IntegerGaussianSum",
    "LaplaceNoise",
    "Loss",
    "MixedGaussianNoise",
    "NegativeBinomialRuns",
    "Node",
    "Number",
    "Parallel",
    "PoissonRuns",
    "Pure",
    "Repeated",
    "ResponseNoise",
    "Sampled",
    "Scheme",
    "Selected",
    "Shuffled",
    "Silenced",
    "UniformlyCappedSample",
    "Zcdp",
    "exact",
    "mismatch",
    "show",
]
