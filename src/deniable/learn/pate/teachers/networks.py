"""Teachers that are torch models: many small ones trained at once as one stacked model,
or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from deniable import checks
from deniable.learn.pate.teachers.stacked import Block
from deniable.learn.pate.teachers.voting import Labels, Scores, TeacherRows, check_examples, largest, positive


@dataclass(frozen=True)
class Networks:
    """Each teacher is `build()`, trained on its part by `steps` full-batch steps of Adam
    on the cross-entropy.

    `together` models form one stacked model (torch.func.vmap); 1 trains them one after
    the other, for layers that do not stack. Adam works on each number for itself, so
    both ways train the same models up to rounding.

    Guarantee: a teacher depends on its part alone: it starts from a seed of its own, the loss is a sum over
               teachers, shapes are public, and a non-finite score is no vote.
    Assumes:   the model has no state but its parameters and maps each example for itself
               (no batch norm), and draws nothing in its forward pass (no dropout);
               `capacity`, the most rows of a teacher that count, is public.
    """

    build: Callable[[], nn.Module]
    capacity: int
    steps: int = 60
    learning_rate: float = 0.01
    together: int = 50
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("capacity", "steps", "together"):
            checks.whole(name, getattr(self, name), at_least=1)
        positive("learning_rate", self.learning_rate)
        checks.number("weight_decay", self.weight_decay, at_least=0)

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> FittedNetworks:
        block = Block.from_parts(parts, self.capacity)
        stacks = [
            self._train(block, t, min(t + self.together, len(parts)))
            for t in range(0, len(parts), self.together)
        ]
        return FittedNetworks(self._models([0])[0], stacks, block.empty, tuple(block.x.shape[2:]))

    def _models(self, seeds: Sequence[int]) -> list[nn.Module]:
        """Fresh models, each from its own seed; torch's global generator is left where it was."""
        models = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(seed)
                models.append(self.build().train(mode=False))
        return models

    def _train(self, block: Block, start: int, end: int) -> dict[str, Tensor]:
        x, y, there = block.x[start:end], block.y[start:end], block.mask[start:end]
        models = self._models(range(start, end))
        first = {name: p.detach() for name, p in stack_module_state(models)[0].items()}
        parameters = {name: p.clone().requires_grad_() for name, p in first.items()}
        optimizer = torch.optim.Adam(
            parameters.values(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        for _ in range(self.steps):
            optimizer.zero_grad()
            outputs = forward(models[0], parameters, x, is_shared=False)
            losses = nn.functional.cross_entropy(
                outputs.flatten(0, 1), y.flatten(), reduction="none"
            ).reshape(y.shape)
            # Each teacher's own mean; the sum over teachers gives each of them its own gradient.
            means = (losses * there).sum(dim=1) / there.sum(dim=1).clamp_min(1)
            means.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return {name: p.detach() for name, p in parameters.items()}


@dataclass(frozen=True)
class FittedNetworks:
    """Stacks of parameters for one `model`."""

    model: nn.Module
    stacks: Sequence[Mapping[str, Tensor]]
    empty: Tensor
    shape: tuple[int, ...]

    def check(self, question: Any) -> NDArray[Any]:
        return check_examples(question, self.shape)

    @torch.no_grad()
    def scores(self, question: NDArray[Any]) -> Scores:
        x = torch.from_numpy(np.ascontiguousarray(question))
        scores = torch.cat([forward(self.model, stack, x, is_shared=True) for stack in self.stacks])
        scores[self.empty] = torch.nan
        return scores.transpose(0, 1).numpy()

    def labels(self, question: NDArray[Any]) -> Labels:
        return largest(self.scores(question))


def forward(model: nn.Module, stack: Mapping[str, Tensor], x: Tensor, *, is_shared: bool) -> Tensor:
    """(teachers, examples, classes): each teacher on its own examples, or all on the
    same. A stack of one needs no vmap."""

    def run_teacher(parameters: dict[str, Tensor], examples: Tensor) -> Tensor:
        output: Tensor = functional_call(model, parameters, (examples,))
        return output

    if len(next(iter(stack.values()))) == 1:
        return run_teacher({name: p[0] for name, p in stack.items()}, x if is_shared else x[0])[None]
    outputs: Tensor = vmap(run_teacher, in_dims=(0, None if is_shared else 0))(dict(stack), x)
    return outputs
