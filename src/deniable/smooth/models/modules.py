"""torch modules as classifiers: evaluated in evaluation mode, without gradients, on the device asked for.

`rowwise` runs a module under `torch.func.vmap`, where its code sees a batch of one input: what depends on
other inputs cannot be computed there, and what looks at numbers to decide what to do (`if x.sum() > 0`) or
draws at random is an error. An operation that brings its own rule for vmap could mix; a module that uses one
counts as not proved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.fx
from numpy.typing import NDArray
from torch import nn
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _get_current_dispatch_mode

from deniable.accounting.radius.robustness import Isolation
from deniable.smooth.models.digests import digest
from deniable.smooth.models.protocol import Evaluate, Outputs

OWN = ("aten", "prims", "prim")
"""Operations of PyTorch itself, whose rules for vmap are PyTorch's."""


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
        """Each input as a batch of its own: of one row or, for programs that want more, of two equal ones."""
        copies = self.copies_apart(torch.from_numpy(sample[:2].copy()).to(self.device))
        if copies is None:
            return self.outputs, Isolation.SEEN
        return partial(self.separate, copies=copies), Isolation.PROVED

    def copies_apart(self, sample: torch.Tensor) -> int | None:
        """How many equal rows the module wants to see under vmap; None if it does not run there."""
        for copies in (1, 2):
            try:
                self.separate_scores(sample.clone(), copies)
            except Exception:  # a network's own code may raise anything under vmap; then it is not proved
                continue
            return copies
        return None

    def separate(self, batch: NDArray[Any], copies: int) -> Outputs:
        """Scores of inputs whose code never sees another input: `copies` equal rows are its whole batch."""
        return to_numpy(self.separate_scores(torch.from_numpy(batch).to(self.device), copies))

    @torch.inference_mode()
    def separate_scores(self, batch: torch.Tensor, copies: int) -> torch.Tensor:
        def answer(row: torch.Tensor) -> torch.Tensor:
            return evaluated(self.module, row.expand(copies, *row.shape))[0]

        with _OwnOperations():
            scores: torch.Tensor = torch.func.vmap(answer, randomness="error")(batch)
        return scores

    @torch.inference_mode()
    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        return evaluated(self.module, batch)


class _OwnOperations(TorchFunctionMode):
    """Only operations of PyTorch itself: under vmap others may bring a rule that sees all inputs."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        foreign = isinstance(func, HigherOrderOperator)
        if isinstance(func, OpOverload | OpOverloadPacket):
            foreign = str(func).split(".")[0] not in OWN
        if foreign or _get_current_dispatch_mode() is not None:
            raise NotImplementedError(f"{func} may have a rule of its own for vmap.")
        return func(*args, **(kwargs or {}))


def evaluated(module: nn.Module, batch: torch.Tensor) -> torch.Tensor:
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
