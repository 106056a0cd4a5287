"""torch modules as classifiers: evaluated in evaluation mode, without gradients, on the device asked for.

`rowwise` records the module as a program of one input (`programs`), where that is possible: what depends on
other inputs cannot be computed there, and what looks at numbers to decide what to do (`if x.sum() > 0`) or
draws at random has no program. Such a module counts as not proved.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.fx
from numpy.typing import NDArray
from torch import nn

from deniable.accounting.radius.robustness import Isolation
from deniable.smooth.models.digests import digest
from deniable.smooth.models.programs import record
from deniable.smooth.models.protocol import Evaluate, Outputs


class ModuleClassifier:
    """A module that gives one row of scores for each input. Its mode is put back after every batch."""

    def __init__(self, module: nn.Module, classes: int, device: str = "cpu") -> None:
        self.module = module.to(device)
        self.classes = classes
        self.device = device

    @property
    def digest(self) -> str:
        return digest(self.module)

    def part(self, module: nn.Module) -> ModuleClassifier:
        """Some layers of the same network."""
        return ModuleClassifier(module, self.classes, self.device)

    def outputs(self, batch: NDArray[Any]) -> Outputs:
        return to_numpy(self.scores(torch.from_numpy(batch).to(self.device)))

    def rowwise(self, sample: NDArray[Any]) -> tuple[Evaluate, Isolation]:
        """Each input by the program of the module; in ordinary batches if it has none."""
        scores, isolation = self.rowwise_scores(torch.from_numpy(sample[:2].copy()).to(self.device))
        return lambda batch: to_numpy(scores(torch.from_numpy(batch).to(self.device))), isolation

    def rowwise_scores(
        self, sample: torch.Tensor
    ) -> tuple[Callable[[torch.Tensor], torch.Tensor], Isolation]:
        """The same for tensors. A copy is recorded: what a fake input leaves in it does no harm there."""
        try:
            module = copy.deepcopy(self.module)
        except Exception:  # a module's own code is copied too, and may raise anything
            return self.scores, Isolation.SEEN
        program = record(partial(evaluate, module), sample)
        if program is None:
            return self.scores, Isolation.SEEN
        return program.scores, Isolation.PROVED

    @torch.inference_mode()
    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        return evaluate(self.module, batch)


def evaluate(module: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """The module's scores as in use: no dropout, running statistics."""
    modes = [(part, part.training) for part in module.modules() if part.training]
    if modes and not isinstance(module, torch.fx.GraphModule):  # an exported program has one mode only
        module.eval()
    try:
        scores: torch.Tensor = module(batch)
    finally:
        for part, mode in modes:
            part.training = mode
    return scores


def to_numpy(scores: torch.Tensor) -> Outputs:
    """Scores as numbers of a type that NumPy has."""
    if scores.dtype is torch.bfloat16:  # NumPy has no such type; 32 bits hold it exactly
        scores = scores.float()
    return np.asarray(scores.cpu().numpy())
