"""PyTorch's own layers and losses of which it is known, by what they compute, that they treat the first axis
row by row. They need no vmap to prove it; whatever is not in these lists runs under vmap."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

ROW_BY_ROW: frozenset[type[nn.Module]] = frozenset(
    {
        nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout,
        nn.FeatureAlphaDropout, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU,
        nn.Mish, nn.Softplus, nn.Softsign, nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Hardtanh, nn.Hardsigmoid,
        nn.Hardswish, nn.Tanhshrink, nn.Softshrink, nn.Hardshrink, nn.Threshold,
    }
)  # fmt: skip
"""Functions of each number alone. A mask of dropout is drawn for each number, or channel, of its own."""
PICTURES: frozenset[type[nn.Module]] = frozenset(
    {nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.ZeroPad2d}
)
"""Functions of each picture of a batch (rows, channels, height, width)."""
OF_NUMBERS = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
OF_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)


def is_row_by_row(module: nn.Module, x: Tensor) -> bool:
    """Whether a module without trained parameters is known to treat the rows of x one by one. Of its class
    itself, with no `forward` of its own (hooks are refused elsewhere)."""
    if "forward" in vars(module):
        return False
    return type(module) in ROW_BY_ROW or (type(module) in PICTURES and x.dim() == 4)


KNOWN_LOSSES = (*OF_NUMBERS, *OF_CLASSES, nn.BCEWithLogitsLoss)


def is_loss_of_rows(criterion: Any, output: Any, target: Any) -> bool:
    """Whether a loss of PyTorch's is known to give one number for each row. Shapes that are spread over one
    another are not: (n, 1) beside (n) are n² pairs."""
    if (
        not (isinstance(output, Tensor) and isinstance(target, Tensor))
        or not output.dim()
        or not target.dim()
    ):
        return False
    if not isinstance(criterion, nn.Module) or "forward" in vars(criterion) or _has_hooks(criterion):
        return False
    if len(output) != len(target):
        return False
    if type(criterion) in OF_NUMBERS:
        return output.shape == target.shape
    if type(criterion) is nn.BCEWithLogitsLoss:
        return output.shape == target.shape and criterion.weight is None and criterion.pos_weight is None
    return type(criterion) in OF_CLASSES and output.dim() > 1


def _has_hooks(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks,
    )  # fmt: skip
    return any(hooks)
