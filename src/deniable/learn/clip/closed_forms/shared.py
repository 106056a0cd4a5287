"""Tensors that are computed from parameters alone and then meet all examples: T5's bias by distance, a scale
of 1 + w.

Such a tensor keeps its own small graph. Where it meets the rows, the gradient of each example in it is
formed, and taken back through that graph to the parameters: these gradients are held, example by example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from deniable.learn.clip.closed_forms import taps
from deniable.learn.clip.closed_forms.cover import Cover
from deniable.learn.clip.closed_forms.tape import ParameterKey, Part, Tape
from deniable.learn.clip.closed_forms.terms import GradientRows
from deniable.learn.clip.rounding import widen

STEPS = 64
"""Nodes of a graph that are looked at: a longer one is that of an example, or is not worth its while."""


def sources(tape: Tape, value: Tensor) -> list[str]:
    """The trainable parameters that a tensor is computed from, if it is computed from nothing else that has a
    gradient; none otherwise. Whatever a tap gives hangs on an anchor, which is no parameter."""
    stack, nodes, names = [value.grad_fn], set[Any](), dict[str, None]()
    while stack:
        node: Any = stack.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            if id(leaf) not in tape.names:
                return []
            names[tape.names[id(leaf)]] = None
        if len(nodes) > STEPS:
            return []
        stack += [following for following, _ in node.next_functions]
    return list(names)


class Spread(torch.autograd.Function):
    """A shared tensor in the shape (rows, …) of `dims` axes, its own axes last: rows that are all alike."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, tape: Tape, source: list[Tensor], names: list[str], dims: int
    ) -> Tensor:
        ctx.tape, ctx.shared, ctx.names = tape, source[0], names
        value = source[0].detach()
        full = value.reshape(*[1] * (dims - value.dim()), *value.shape)
        return full.expand(tape.rows, *full.shape[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        tape, tensor, names = ctx.tape, ctx.shared, ctx.names
        parameters = [tape.parameters[name] for name in names]
        slopes = grads[0].reshape(tape.examples, -1, tensor.numel()).sum(1).view(tape.examples, *tensor.shape)
        with torch.enable_grad():
            rows = torch.autograd.grad(
                tensor, parameters, slopes.to(tensor.dtype), retain_graph=True, is_grads_batched=True
            )
        for name, gradients in zip(names, rows, strict=True):
            part = Part(tape.parameters[name].detach(), ParameterKey(name))
            tape.write(part, GradientRows(widen(gradients).reshape(tape.examples, -1)))
        return None, None, None, None, None


def fits(tape: Tape, x: Any, p: Tensor) -> bool:
    """Whether p is spread over the rows of x, which has at least as many axes."""
    is_shared = p.dim() < x.dim() or (p.dim() == x.dim() and p.dim() > 0 and p.shape[0] == 1)
    return x.dim() > 1 and is_shared and x.shape[0] == tape.rows


def spread_out(cover: Cover, p: Any, *partners: Any) -> Any:
    """p, spread over the rows of one of the others if it is computed from parameters alone; else p itself."""
    if not isinstance(p, Tensor) or p.grad_fn is None:
        return p
    for x in partners:
        if isinstance(x, Tensor) and fits(cover.tape, x, p) and (names := sources(cover.tape, p)):
            return taps.tapped(Spread, cover.anchor, cover.tape, [p], names, x.dim())
    return p


def _choose(
    cover: Cover,
    func: Callable[..., Any],
    condition: Tensor,
    input: Any = None,
    other: Any = None,
    **rest: Any,
) -> Any:
    """A bias where a mask of each example lets it."""
    if input is None:
        return func(condition, **rest)
    mine = spread_out(cover, input, condition, other), spread_out(cover, other, condition, input)
    return func(condition, *mine, **rest)


def _attention(
    cover: Cover, func: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
    *rest: Any, **options: Any,
) -> Any:  # fmt: skip
    """Scores of all examples with one bias."""
    return func(query, key, value, spread_out(cover, attn_mask, query), *rest, **options)


HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.where: _choose,
    F.scaled_dot_product_attention: _attention,
}
