"""Many small networks trained at once, as one stacked model: the shadow models of membership inference.

Model k of the stack is trained on the rows that `members[k]` names; all share every matrix product. Its
private twin takes full-batch steps with per-example gradients clipped in closed form and Gaussian noise. This
is a measuring instrument for public example data, not a door for releases: nothing here is charged to an
account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable import extras
from deniable.accounting import calibrate_noise
from deniable.attack.members.coins import Watch, coins, iterate_silently
from deniable.attack.members.evidence import Booleans, Labels
from deniable.attack.members.measured import MeasuredRecipe, measure_recipe
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA
from deniable.loss import GaussianNoise, Loss

try:
    import torch
    from torch import Tensor
except ImportError:
    raise extras.missing("Shadow models need PyTorch", "learn") from None


@dataclass(frozen=True)
class Stack:
    """One hidden layer of rectified units in each of k networks: first (k, d + 1, h), second (k, h + 1,
    classes)."""

    first: Tensor
    second: Tensor

    @classmethod
    def random(cls, models: int, features: int, hidden: int, classes: int, seed: int) -> Stack:
        g = torch.Generator().manual_seed(seed)
        first = torch.randn(models, features + 1, hidden, generator=g) * (2 / (features + 1)) ** 0.5
        second = torch.randn(models, hidden + 1, classes, generator=g) * (1 / (hidden + 1)) ** 0.5
        return cls(first, second)

    def logits(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The logits of every model for every row: (k, rows, classes)."""
        out: NDArray[np.float32] = (
            append_ones(self._hidden(append_ones(torch.from_numpy(x)))) @ self.second
        ).numpy()
        return out

    def _hidden(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.first)

    def gradients(
        self, x: Tensor, targets: Tensor, weigh: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Σ_i w_ki·∇(loss of row i under model k); `weigh` gets each example's gradient norm, (k, rows), and
        gives w.

        The gradient of a linear layer is the outer product of its input and its output's gradient, so its
        norm is the product of theirs (Goodfellow 2015): no per-example gradient is ever held."""
        inside = append_ones(self._hidden(x))
        out = torch.softmax(inside @ self.second, dim=2) - targets
        back = (out @ self.second[:, :-1].transpose(1, 2)) * (inside[:, :, :-1] > 0)
        squares = (x**2).sum(1) * (back**2).sum(2) + (inside**2).sum(2) * (out**2).sum(2)
        w = weigh(squares.sqrt())[:, :, None]
        return x.T @ (w * back), inside.transpose(1, 2) @ (w * out)


@dataclass(frozen=True)
class PlainRecipe:
    """Minibatches and Adam until the training rows are known by heart."""

    hidden: int = 64
    epochs: int = 80
    learning_rate: float = 5e-3
    batch: int = 256

    def train(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.int64],
        members: Booleans,
        classes: int,
        seed: int,
        watch: Watch,
    ) -> Stack:
        stack = Stack.random(len(members), x.shape[1], self.hidden, classes, seed)
        rows, targets, mask = (
            append_ones(torch.from_numpy(x)),
            _one_hot(y, classes),
            torch.from_numpy(members).float(),
        )
        optimiser = torch.optim.Adam([stack.first, stack.second], lr=self.learning_rate)
        g = torch.Generator().manual_seed(seed)
        for _ in watch(range(self.epochs), f"Training {len(members)} models"):
            order = torch.randperm(len(y), generator=g)
            for start in range(0, len(y), self.batch):
                lot = order[start : start + self.batch]
                stack.first.grad, stack.second.grad = stack.gradients(
                    rows[lot], targets[lot], _mean(mask[:, lot])
                )
                optimiser.step()
        return stack


@dataclass(frozen=True)
class PrivateRecipe:
    """Full-batch gradient steps, each example's gradient at most `clip` long, Gaussian noise solved from (ε,
    δ).

    Guarantee: each model of the stack, by itself, is (ε, δ)-DP for one row added or removed, as `loss` says,
    with noise drawn in
               single precision from a seeded generator: an experiment, not a release.
    """

    epsilon: float
    delta: float = DEFAULT_DELTA
    steps: int = 60
    hidden: int = 64
    clip: float = 1.0
    learning_rate: float = 2.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InvalidParameter(f"Expected steps={self.steps} to be at least 1.")

    @property
    def noise_multiplier(self) -> float:
        return calibrate_noise(self.epsilon, self.delta, rate=1, steps=self.steps)

    @property
    def loss(self) -> Loss:
        return GaussianNoise(self.noise_multiplier) * self.steps

    def train(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.int64],
        members: Booleans,
        classes: int,
        seed: int,
        watch: Watch,
    ) -> Stack:
        stack = Stack.random(len(members), x.shape[1], self.hidden, classes, seed)
        rows, targets, mask = (
            append_ones(torch.from_numpy(x)),
            _one_hot(y, classes),
            torch.from_numpy(members).float(),
        )
        g, size = torch.Generator().manual_seed(seed), len(y) / 2  # the expected number of members, public
        sigma = self.noise_multiplier * self.clip
        for _ in watch(range(self.steps), f"Training {len(members)} private models"):
            sums = stack.gradients(
                rows, targets, lambda norms: mask * (self.clip / norms.clamp(min=self.clip))
            )
            for parameter, total in zip((stack.first, stack.second), sums, strict=True):
                noise = sigma * torch.randn(total.shape, generator=g)
                parameter -= self.learning_rate / size * (total + noise)
        return stack


def measure(
    recipe: PlainRecipe | PrivateRecipe,
    x: NDArray[np.float32],
    y: Labels,
    *,
    name: str,
    models: int = 32,
    targets: int = 4,
    seed: int = 0,
    watch: Watch = iterate_silently,
) -> MeasuredRecipe:
    """Train `models` at once; the first `targets` of them are attacked in turn, all others being the
    shadows."""
    members = coins(models, len(y), seed)
    logits = recipe.train(x, y, members, int(y.max()) + 1, seed, watch).logits(x)[:, None]
    epsilon, delta = (recipe.epsilon, recipe.delta) if isinstance(recipe, PrivateRecipe) else (None, 0.0)
    return measure_recipe(logits, members, y, name=name, targets=targets, epsilon=epsilon, delta=delta)


def _mean(mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Every member of the lot with the same weight."""
    share = mask / mask.sum(1, keepdim=True).clamp(min=1)
    return lambda _: share


def append_ones(x: Tensor) -> Tensor:
    """`x` with a last column of ones, for the offsets."""
    return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], dim=-1)


def _one_hot(y: NDArray[np.int64], classes: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.from_numpy(y), classes).float()
