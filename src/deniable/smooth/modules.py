"""torch modules as classifiers: evaluated in evaluation mode, without gradients, on the device asked for."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
import torch.fx
from numpy.typing import NDArray
from torch import nn


class ModuleClassifier:
    """A module that gives one row of scores for each input. Its mode is put back after every batch."""

    def __init__(
        self, module: nn.Module, classes: int, device: str = "cpu", digest: str | None = None
    ) -> None:
        self.module = module.to(device)
        self.classes = classes
        self.device = device
        self.digest = digest or fingerprint(module)

    def outputs(self, batch: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.scores(torch.from_numpy(batch).to(self.device)).cpu().numpy())

    @torch.inference_mode()
    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        return evaluated(self.module, batch)


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


def fingerprint(module: nn.Module) -> str:
    """SHA-256 of the module's structure and of all its tensors, by name."""
    digest = hashlib.sha256(repr(module).encode())
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name}:{values.dtype}:{tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
