"""Losses of one number per row, for models that average over a batch themselves."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

LEFT_OUT = -100
"""The label of a token that does not count, as transformers has it."""


def next_token_losses(model: nn.Module, batch: Any) -> Tensor:
    """For a causal language model: each row's mean cross-entropy of its next tokens.

    `batch` has input_ids and labels (the same ids, −100 where a token does not count), and what else the
    model takes. Use as `BatchLoss(next_token_losses)`. A row without a label that counts has the loss 0.
    """
    inputs = {name: part for name, part in batch.items() if name != "labels"}
    logits = model(**inputs).logits[:, :-1].transpose(1, 2)
    labels = batch["labels"][:, 1:]
    losses = F.cross_entropy(logits, labels, reduction="none", ignore_index=LEFT_OUT)
    means: Tensor = losses.sum(1) / (labels != LEFT_OUT).sum(1).clamp(min=1)
    return means
