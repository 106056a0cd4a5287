"""What the code between layers may not do in a pass that many rows share: act on gradients by itself.

A backward pass of one's own, or a hook, sees the gradients of all rows at once and may mix them without a
word in the losses, for values that no trial has. So they end the pass, and rows go through the model one by
one, where there is nothing to mix. This is looked at in every pass, since a model may branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor
from torch._functorch.autograd_function import custom_function_call
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from deniable.learn.clip.closed_forms.tape import Uncovered

HOOKS = frozenset(
    {
        Tensor.register_hook,
        Tensor.register_post_accumulate_grad_hook,
        cast(Any, Tensor).grad_fn.__get__,  # nodes of the graph take hooks too
    }
)
TRUSTED_PLACES = ("deniable.learn.clip.", "torch.nn.modules.")
"""Where functions with a backward pass of their own are known to keep rows apart."""
OWN_BACKWARD = "the model has a backward pass of its own"
HAS_HOOKS = "the model has hooks on gradients"
FOREIGN = "the model calls an operator that is not PyTorch's"


def refuse_call(func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise `Uncovered` for a call by which gradients of many rows, or their values, come into other
    hands: a hook, an operator of a library, a `Function` that says itself what it does with many rows."""
    if func in HOOKS:
        raise Uncovered(HAS_HOOKS)
    if isinstance(func, OpOverload | OpOverloadPacket) and not str(func).startswith(("aten.", "prims.")):
        raise Uncovered(FOREIGN)
    if isinstance(func, HigherOrderOperator) and not _maps_by_rule(func, args):
        raise Uncovered(OWN_BACKWARD)


def _maps_by_rule(func: HigherOrderOperator, args: tuple[Any, ...]) -> bool:
    """Whether this is a `Function` that PyTorch itself runs for many rows, both ways under vmap."""
    return func is custom_function_call and bool(args) and bool(args[0].generate_vmap_rule)


def refuse_own_backward(result: Tensor) -> None:
    """Raise `Uncovered` if the graph of a result has a node whose backward pass is neither PyTorch's nor
    ours. A module with backward hooks has one (`BackwardHookFunction`, which is elsewhere in PyTorch)."""
    stack, nodes = [result.grad_fn], set[Any]()
    while stack:
        node: Any = stack.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        if isinstance(node, BackwardCFunction):
            forward_class: Any = cast(Any, type(node))._forward_cls
            if not forward_class.__module__.startswith(TRUSTED_PLACES):
                raise Uncovered(OWN_BACKWARD)
        stack += [following for following, _ in node.next_functions]


class GradientGuard(TorchFunctionMode):
    """While it is entered, calls that act on gradients end the pass."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        refuse_call(func, args)
        return func(*args, **(kwargs or {}))


@contextmanager
def without_saved_hooks() -> Iterator[None]:
    """Hooks on what autograd saves see all rows; to set one raises."""
    with torch.autograd.graph.disable_saved_tensors_hooks(HAS_HOOKS):
        yield


@contextmanager
def model_guard() -> Iterator[None]:
    """A part of a pass in which the model's own code runs."""
    with without_saved_hooks(), GradientGuard():
        yield
