"""PyTorch's own layers and losses of which it is known, by what they compute, that they treat the first axis
row by row. They need no vmap to prove it; whatever is not in these lists runs under vmap."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

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
    """Whether a module without trained parameters is known to treat the rows of x one by one."""
    if does_more(module) or type(x) is not Tensor:
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
    if not isinstance(criterion, nn.Module) or does_more(criterion):
        return False
    if not all(map(is_plain, (output, target, *vars(criterion).values(), *criterion.buffers()))):
        return False
    if len(output) != len(target):
        return False
    if type(criterion) in OF_NUMBERS:
        return output.shape == target.shape
    if type(criterion) is nn.BCEWithLogitsLoss:
        return output.shape == target.shape and criterion.weight is None and criterion.pos_weight is None
    return type(criterion) in OF_CLASSES and output.dim() > 1


OWN_CALLS = ("forward", "__call__", "_call_impl", "_slow_forward", "_compiled_call_impl")
"""Attributes by which one object does something else than its class when it is called."""
KINDS: frozenset[type] = frozenset({Tensor, nn.Parameter, nn.Buffer})
"""Kinds of tensors whose operators are PyTorch's. Those of another kind see all rows, also under vmap."""


def is_plain(value: object) -> bool:
    """Whether a value is no tensor of a kind of its own."""
    return not isinstance(value, Tensor) or type(value) in KINDS


def does_more(module: nn.Module) -> bool:
    """Whether calling a module may do more than its class says."""
    own = vars(module)
    return (
        any(own.get(name) is not None for name in OWN_CALLS)
        or not all(map(is_plain, (*module._parameters.values(), *module._buffers.values())))
        or _has_hooks(module)
        or bool(torch_module._has_any_global_hook())  # type: ignore[no-untyped-call]
    )


def _has_hooks(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks,
    )  # fmt: skip
    return any(hooks)
