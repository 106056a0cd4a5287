"""How much of a sensitive column a model gives away about those it was trained on, beside what its guarantee
allows.

Everybody's value is a fair coin, so it has nothing to do with the rest of the row: whatever is guessed better
than by a coin was learnt from that person's own row. A model is trained to predict the column; the attack
sees its confidence on the row, and that of shadow models trained with the coins thrown anew, and guesses by
the likelihood ratio of the two values. Its advantage is how much more often it says 1 of people with 1 than
of people with 0. With ε and δ stated for one *replaced value*,

    advantage ≤ (e^ε − 1 + 2δ)/(e^ε + 1)

for every attack (Kairouz, Oh, Viswanath 2015; as a Bayes advantage Humphries et al. 2023). A value replaced
is a row removed and a row added: ε stated for one row added or removed counts twice.

What the guarantee does not hide is what follows from the rest of the row in the population: a model that
learnt it, under any ε, guesses people whom it never saw as well. `strangers` measures that, on columns as
they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import extras
from deniable.accounting import calibrate_noise
from deniable.accounting.meaning import advantage as most_advantage
from deniable.attack.members.coins import Watch, coins, iterate_silently
from deniable.attack.members.evidence import Evidence
from deniable.attack.members.scores import lira
from deniable.attack.models.examples import encode_table
from deniable.datasets.real import FileTable, load
from deniable.errors import InvalidParameter

try:
    import torch

    from deniable.attack.members.shadow import Stack, append_ones
except ImportError:
    raise extras.missing("Attacks on models need PyTorch", "learn") from None

ATTACK = "column"
Rows = NDArray[np.float32]
Bits = NDArray[np.bool_]
DELTA = 1e-5
CONFIDENCE = 1.96
NAMES = ("made-up", "adult")
EPSILONS = (8.0, 4.0, 2.0, 1.0, 0.5)
GIVEAWAY = 1.0
"""How far apart the two values are in the first feature of made-up rows, in its deviations."""


@dataclass(frozen=True)
class Learner:
    """A network of one hidden layer trained to predict the column: wide and long it learns rows by heart,
    small it cannot.

    With `epsilon`, by full-batch steps with gradients clipped at 1 and Gaussian noise, (ε, δ)-DP for one
    replaced value: a replaced value changes the sum of gradients by at most 2. Noise is drawn in single
    precision from a seed: an experiment, not a release."""

    words: str
    hidden: int = 128
    steps: int = 200
    epsilon: float | None = None

    @property
    def learning_rate(self) -> float:
        return 0.01 if self.epsilon is None else 2.0

    def train(self, x: Rows, bits: Bits, seed: int) -> Stack:
        """A model for each row of `bits` (models, people)."""
        stack = Stack.random(len(bits), x.shape[1], self.hidden, 2, seed)
        rows = append_ones(torch.from_numpy(x))
        targets = torch.nn.functional.one_hot(torch.from_numpy(bits.astype(np.int64)), 2).float()
        if self.epsilon is None:
            self._plainly(stack, rows, targets)
        else:
            self._privately(stack, rows, targets, torch.Generator().manual_seed(seed))
        return stack

    def _plainly(self, stack: Stack, rows: Any, targets: Any) -> None:
        optimiser = torch.optim.Adam([stack.first, stack.second], lr=self.learning_rate)
        for _ in range(self.steps):
            stack.first.grad, stack.second.grad = stack.gradients(
                rows, targets, lambda n: torch.full_like(n, 1 / len(rows))
            )
            optimiser.step()

    def _privately(self, stack: Stack, rows: Any, targets: Any, g: Any) -> None:
        for _ in range(self.steps):
            sums = stack.gradients(rows, targets, lambda norms: 1 / norms.clamp(min=1.0))
            for parameter, total in zip((stack.first, stack.second), sums, strict=True):
                noise = self.noise * torch.randn(total.shape, generator=g)
                parameter -= self.learning_rate / len(rows) * (total + noise)

    @property
    def noise(self) -> float:
        """The deviation of the noise on the sum of gradients, for a sensitivity of 2."""
        return (
            0.0
            if self.epsilon is None
            else 2 * calibrate_noise(self.epsilon, DELTA, rate=1, steps=self.steps)
        )


@dataclass(frozen=True)
class Hidden:
    """What was guessed of the column through one model: the advantage, and the most that its guarantee
    allows."""

    model: str
    epsilon: float | None
    advantage: float
    reach: float
    people: int

    @property
    def bound(self) -> float:
        """(e^ε − 1 + 2δ)/(e^ε + 1); 1 without a guarantee."""
        return 1.0 if self.epsilon is None else most_advantage(self.epsilon, DELTA)

    def to_dict(self) -> dict[str, Any]:
        body = {"model": self.model, "epsilon": self.epsilon, "delta": DELTA, "advantage": self.advantage}
        return body | {"reach": self.reach, "bound": self.bound, "people": self.people}


def advantage(guesses: Bits, truth: Bits) -> tuple[float, float]:
    """How much more often 1 is guessed of those with 1 than of those with 0, and half of its 95 % interval,
    people taken as independent."""
    rates = [float(guesses[side].mean()) for side in (truth, ~truth)]
    sizes = [int(side.sum()) for side in (truth, ~truth)]
    variance = sum(max(p * (1 - p), 1 / n) / n for p, n in zip(rates, sizes, strict=True))
    return rates[0] - rates[1], CONFIDENCE * math.sqrt(variance)


def measure_hidden(learner: Learner, x: Rows, *, models: int = 16, targets: int = 4, seed: int = 0) -> Hidden:
    """Throw everybody's coin anew for each model, and guess those of the first `targets` of them."""
    if not 1 <= targets < models - 1:
        raise InvalidParameter(
            f"Expected targets={targets} between 1 and {models - 2}, fewer than the models less one."
        )
    bits = coins(models, len(x), seed)
    logits = learner.train(x, bits, seed).logits(x)
    ones = np.ones(len(x), np.int64)
    guesses = []
    for target in range(targets):
        others = np.arange(models) != target
        # Shadows whose coin fell on 1 take the part of models with the row, the others of those without.
        guesses.append(lira(Evidence(logits[target], logits[others], bits[others], ones)) > 0)
    gain, reach = advantage(np.concatenate(guesses), bits[:targets].ravel())
    return Hidden(learner.words, learner.epsilon, gain, reach, targets * len(x))


def strangers(learner: Learner, x: Rows, bits: Bits, *, models: int = 1, seed: int = 0) -> Hidden:
    """Train on the real values of half of the people, and guess those of the other half, by the model's own
    answer."""
    half = len(x) // 2
    logits = learner.train(x[:half], np.stack([bits[:half]] * models), seed).logits(x[half:])
    guesses = logits.argmax(axis=2) == 1
    gain, reach = advantage(guesses.ravel(), np.concatenate([bits[half:]] * models))
    return Hidden(learner.words, learner.epsilon, gain, reach, len(x) - half)


def people(name: str = "made-up", rows: int = 400, *, seed: int = 0) -> tuple[Rows, Bits]:
    """Rows without the sensitive column, and the column: made up, or sex in Adult."""
    if name == "made-up":
        g = np.random.default_rng(seed)
        bits = g.random(rows) < 0.5
        features = g.normal(size=(rows, 64)) / 8
        features[:, 0] = g.normal(size=rows) + GIVEAWAY * (2 * bits - 1)
        return features.astype(np.float32), bits
    if name != "adult":
        raise InvalidParameter(f"Expected data={name!r} to be one of {', '.join(NAMES)}.")
    x, women = encode_table(FileTable(load("adult").table, "sex"), "Female")
    picks = np.random.default_rng(seed).permutation(len(women))[:rows]
    return np.ascontiguousarray(x[picks]), women[picks].astype(np.bool_)


POPULATION = 4000
"""People of whom one half is learnt from and the other guessed, where the column is as it is."""


@dataclass(frozen=True)
class Comparison:
    """The same learners without a guarantee and with every ε: one that memorises, one that cannot, and
    strangers."""

    memorising: list[Hidden]
    small_learners: list[Hidden]
    strangers: list[Hidden]

    def to_dict(self) -> dict[str, Any]:
        groups = {"memorising": self.memorising, "small": self.small_learners, "strangers": self.strangers}
        return {name: [each.to_dict() for each in group] for name, group in groups.items()}


def compare(
    name: str = "made-up",
    rows: int = 300,
    epsilons: tuple[float, ...] | None = None,
    *,
    seed: int = 0,
    watch: Watch = iterate_silently,
) -> Comparison:
    """Train on coins and on the column as it is."""
    if rows < 50:
        raise InvalidParameter(f"Expected people={rows} to be at least 50.")
    x, _ = people(name, rows, seed=seed)
    population = people(name, POPULATION, seed=seed + 1)
    each: list[float | None] = [None, *(EPSILONS if epsilons is None else epsilons)]
    wide = [Learner("memorises", epsilon=e, steps=200 if e is None else 60) for e in each]
    small = [Learner("cannot memorise", hidden=1, epsilon=e, steps=60) for e in each]
    results: tuple[list[Hidden], ...] = ([], [], [])
    for at in watch(range(len(each)), "Training"):
        results[0].append(measure_hidden(wide[at], x, models=12, seed=seed))
        results[1].append(measure_hidden(small[at], x, models=12, seed=seed))
        results[2].append(strangers(wide[at], *population, seed=seed))
    return Comparison(*results)
