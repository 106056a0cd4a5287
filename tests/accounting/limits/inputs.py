"""Inputs of at most one kilobyte for every public function of accounting: losses as JSON, and numbers, ordinary ones and
extremes."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random as Draw
from typing import Any

from deniable.errors import InvalidLoss
from deniable.loss import Loss

LARGEST = 1000
"""Bytes of one input."""
Tree = dict[str, Any]

NUMBERS: tuple[Any, ...] = (0.01, 0.1, 0.5, 1, 1.5, 2, 4, 10, "1/3", "1/1000000007", 60, 1000)
EXTREMES: tuple[Any, ...] = (0, 1e-300, 1e-100, 1e-12, 1e-6, 1e4, 1e7, 1e12, 1e99, 1e300, "1/" + "9" * 40)
RATES: tuple[Any, ...] = (1e-9, 1e-4, 0.01, "1/60", 0.1, 0.5, 0.9, 1)
COUNTS = (1, 2, 3, 7, 10, 64, 100, 1000, 4096, 10**5, 10**6, 10**9, 10**15, 10**40)
FAILURES: tuple[Any, ...] = (0, 1e-300, 1e-30, 1e-10, 1e-6, 1e-5, 0.01, 0.5, 0.999)


class Trees:
    """Random losses, each node with its own numbers, for a given neighbour relation or for none."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)

    def number(self) -> Any:
        draw = self.draw
        kind = draw.random()
        if kind < 0.15:
            return draw.choice(EXTREMES)
        if kind < 0.6:
            return draw.choice(NUMBERS)
        return float(f"{10 ** draw.uniform(-2, 2):.4g}")

    def rate(self) -> Any:
        if self.draw.random() < 0.5:
            return self.draw.choice(RATES)
        return float(f"{10 ** self.draw.uniform(-4, 0):.4g}")

    def count(self) -> int:
        if self.draw.random() < 0.2:
            return self.draw.choice(COUNTS)
        return self.draw.choice(COUNTS[:10]) + self.draw.randrange(3)

    def shares(self, size: int) -> list[str]:
        """Probabilities that sum to exactly one."""
        weights = [self.draw.choice((0, 1, 1, 2, 5, 1000)) for _ in range(size)]
        weights[0] += 1
        return [f"{weight}/{sum(weights)}" for weight in weights]

    def leaf(self) -> Tree:
        return self.draw.choice(LEAVES)(self)

    def tree(self, depth: int) -> Tree:
        if depth == 0 or self.draw.random() < 0.15:
            return self.leaf()
        return self.draw.choice(COMBINATORS)(self, depth - 1)


def _outcomes(trees: Trees) -> Tree:
    size = trees.draw.choice((2, 3, 8, 20))
    return {"node": "FiniteOutcomes", "present": trees.shares(size), "absent": trees.shares(size)}


def _mixed(trees: Trees) -> Tree:
    size = trees.draw.choice((1, 2, 5, 12))
    shifts = [trees.draw.choice((0, 0.1, 1, 1.5, 3, trees.number())) for _ in range(size)]
    return {
        "node": "MixedGaussianNoise",
        "sigma": trees.number(),
        "shifts": shifts,
        "weights": trees.shares(size),
    }


LEAVES: tuple[Callable[[Trees], Tree], ...] = (
    lambda t: {"node": "Pure", "epsilon": t.number()},
    lambda t: {"node": "Approximate", "epsilon": t.number(), "delta": t.draw.choice(FAILURES)},
    lambda t: {"node": "Zcdp", "rho": t.number()},
    lambda t: {"node": "BoundedRange", "epsilon": t.number()},
    lambda t: {
        "node": "ResponseNoise",
        "truth": t.draw.choice((0.5, 0.51, 0.75, "2/3", 0.999, 1 - 1e-12)),
        "options": t.count() + 1,
    },
    lambda t: {"node": "LaplaceNoise", "multiplier": t.number()},
    lambda t: {"node": "GaussianNoise", "multiplier": t.number()},
    lambda t: {"node": "DiscreteLaplaceNoise", "scale": t.number(), "sensitivity": t.count()},
    lambda t: {
        "node": "DiscreteGaussianNoise",
        "sigma": t.number(),
        "sensitivity": t.count(),
        "dimension": t.draw.choice((None, 1, 2, 1000)),
    },
    lambda t: {
        "node": "IntegerGaussianSum",
        "parties": t.count(),
        "sigma": t.draw.choice((2.5, 3, 40, 1e4, 1e12)),
        "sensitivity": t.count(),
        "dimension": t.count(),
        "replace": t.draw.random() < 0.5,
    },
    _outcomes,
    _mixed,
)


def _composed(trees: Trees, depth: int) -> Tree:
    size = trees.draw.choice((2, 3, 30))
    if size == 30:  # many unlike nodes of one kind
        make = trees.draw.choice(LEAVES)
        return {"node": "Composed", "parts": [make(trees) for _ in range(size)]}
    return {"node": "Composed", "parts": [trees.tree(depth) for _ in range(size)]}


def _parallel(trees: Trees, depth: int) -> Tree:
    parts = [trees.tree(depth) for _ in range(trees.draw.choice((2, 3, 8)))]
    return {"node": "Parallel", "parts": parts, "replace": trees.draw.random() < 0.5}


def _runs(trees: Trees) -> Tree:
    if trees.draw.random() < 0.5:
        return {"node": "PoissonRuns", "mean": trees.number()}
    return {"node": "NegativeBinomialRuns", "eta": trees.draw.choice((-0.5, 0, 1, 5)), "gamma": trees.rate()}


def _sampled(trees: Trees, depth: int) -> Tree:
    scheme = trees.draw.choice(("poisson", "poisson", "without replacement", "shuffled"))
    replace = scheme != "poisson" or trees.draw.random() < 0.5
    return {
        "node": "Sampled",
        "rate": trees.rate(),
        "of": trees.tree(depth),
        "scheme": scheme,
        "replace": replace,
    }


COMBINATORS: tuple[Callable[[Trees, int], Tree], ...] = (
    _sampled,
    _sampled,
    _sampled,
    lambda t, depth: {"node": "Repeated", "times": t.count(), "of": t.tree(depth)},
    lambda t, depth: {"node": "Repeated", "times": t.count(), "of": t.tree(depth)},
    _composed,
    _composed,
    _parallel,
    lambda t, depth: {"node": "Grouped", "size": t.count(), "of": t.tree(depth)},
    lambda t, depth: {"node": "Shuffled", "reports": t.count(), "of": t.leaf()},
    lambda t, depth: {"node": "Selected", "of": t.tree(depth), "runs": _runs(t)},
    lambda t, depth: {"node": "Allocated", "steps": t.count(), "of": t.tree(depth)},
    lambda t, depth: {
        "node": t.draw.choice(LOTS),
        "rate": t.rate(),
        "cap": t.count(),
        "rows": t.count(),
        "of": t.tree(depth),
    },
    lambda t, depth: {"node": "DrawnSample", "draws": t.count(), "rows": t.count(), "of": t.tree(depth)},
    lambda t, depth: {"node": "Silenced", "of": t.tree(depth)},
)
LOTS = ("CappedSample", "UniformlyCappedSample")

PLAIN: tuple[Any, ...] = (0, 1e-5, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1, 2, 3, 8, 10, 30, 100, 365, 1000)
WILD: tuple[Any, ...] = (
    *(-1, 1e-300, 1e-30, 1 - 1e-12, 1e5, 10**7, 10**9, 1e12, 10**30, 1e300, 10**400),
    *("nan", "inf", "-inf", True),
)


def numbers(draw: Draw) -> list[Any]:
    """Eight numbers, of which a function takes as many as it needs."""
    return [
        draw.choice(PLAIN) if draw.random() < 0.75 else draw.choice((*WILD, 10 ** draw.uniform(-8, 4)))
        for _ in range(8)
    ]


def build_input(seed: int) -> str:
    """The text of one input: a loss and numbers."""
    draw = Draw(seed)
    while True:
        tree = Trees(draw.randrange(2**40)).tree(draw.choice((0, 1, 1, 2, 2, 3, 4)))
        text = json.dumps({"loss": tree, "numbers": numbers(draw)}, separators=(",", ":"))
        if len(text) <= LARGEST and (_is_loss(tree) or draw.random() < 0.01):
            return text


def _is_loss(tree: Tree) -> bool:
    try:
        Loss.from_dict(tree)
    except InvalidLoss:
        return False
    return True
