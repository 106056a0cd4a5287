"""Positions of examples along one axis, and whose they are: flattened sequences, and experts that see the
positions of many examples at once (Mixtral).

A tensor is `flat` where its first axis has the positions of the first example, then those of the second, and
so on; picked by an index, each position still has its owner. Functions of each row alone carry that on. A
linear layer at such positions writes its factors sorted by owner and filled up with zeros, so that an
example's gradient is made of its own positions, however many another one has there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from deniable.learn.clip.closed_forms import order, taps
from deniable.learn.clip.closed_forms.cover import HANDLERS as COVERED
from deniable.learn.clip.closed_forms.cover import Cover
from deniable.learn.clip.closed_forms.tape import ParameterKey, Part, Reordered, Tape, Uncovered
from deniable.learn.clip.closed_forms.terms import GradientRows, outer
from deniable.learn.clip.rounding import widen


class Picked(torch.autograd.Function):
    """x Wᵀ at positions whose examples `owner` names; x W where `flip`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, owner: Tensor, weight: Part, flip: bool
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tape, ctx.owner, ctx.weight, ctx.turned = tape, owner, weight, flip
        return x @ (weight.value if flip else weight.value.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,), tape, weight = ctx.saved_tensors, grads, ctx.tape, ctx.weight
        if weight.trained and len(x):
            slopes, inputs = by_owner(tape, widen(g), ctx.owner), by_owner(tape, widen(x), ctx.owner)
            sides = (inputs, slopes) if ctx.turned else (slopes, inputs)
            tape.write(weight, outer(*sides, tape.room))
        gx = g @ (weight.value.mT if ctx.turned else weight.value) if ctx.needs_input_grad[0] else None
        return gx, None, None, None, None, None


class Shifted(torch.autograd.Function):
    """x + b at positions whose examples `owner` names."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, owner: Tensor, bias: Part) -> Tensor:
        ctx.tape, ctx.owner, ctx.bias = tape, owner, bias
        return x + bias.value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,), tape = grads, ctx.tape
        slope = widen(g)
        rows = slope.new_zeros(tape.examples, slope.shape[1]).index_add_(0, ctx.owner, slope)
        tape.write(ctx.bias, GradientRows(rows))
        return g, None, None, None, None


def by_owner(tape: Tape, x: Tensor, owner: Tensor) -> Tensor:
    """(positions, d) as (examples, most positions of one, d), zeros where an example has fewer."""
    order = torch.argsort(owner, stable=True)
    mine = owner[order]
    counts = torch.bincount(owner, minlength=tape.examples)
    place = torch.arange(len(x), device=x.device) - (counts.cumsum(0) - counts)[mine]
    out = x.new_zeros(tape.examples, max(1, int(counts.max())), x.shape[1])
    out[mine, place] = x[order]
    return out


def picked_linear(cover: Cover, x: Tensor, weight: Part, bias: Part | None, flip: bool = False) -> Tensor:
    """A linear layer at positions that an index picked."""
    owner = cover.owner(x)
    assert owner is not None
    out = taps.tapped(Picked, x, cover.anchor, cover.tape, owner, weight, flip)
    if bias is not None:
        out = (
            taps.tapped(Shifted, out, cover.anchor, cover.tape, owner, bias)
            if bias.trained
            else out + bias.value
        )
    cover.owners[out] = owner
    return out


# ------------------------------------------------------------------------------------------------- handlers


def _item(cover: Cover, func: Callable[..., Any], x: Tensor, index: Any) -> Any:
    """Positions that an index picks; one expert's matrix of a stack."""
    out = func(x, index)
    if cover.tape.tracks(x):
        place = _to_place(index)
        if place is not None and x.dim() == 3:
            key = ParameterKey(cover.tape.names[id(x)], place, place + 1, single=True)
            cover.pieces[out] = Part(out.detach(), key)
    elif isinstance(index, Tensor) and index.dim() == 1 and x in cover.owners:
        owner = cover.every_owner(x)[index]
        cover.owners[out] = owner
        if cover.tape.rows in (len(x), len(out)) and not order.is_natural(cover, owner):
            cover.is_shuffled = True  # what is computed from these may look like the examples in their order
    else:
        order.refuse_pick(cover, x, index)
    return out


def _to_place(index: Any) -> int | None:
    """A place from 0, if the index is one number."""
    if isinstance(index, Tensor) and index.dim() == 0 and not index.is_floating_point():
        index = None if index.dtype is torch.bool else int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None


def _transpose(cover: Cover, func: Callable[..., Any], x: Tensor, *axes: Any, **options: Any) -> Any:
    """A stack of matrices, each of them turned."""
    out = func(x, *axes, **options)
    if cover.tape.tracks(x) and x.dim() == 3 and {axis % 3 for axis in (*axes, *options.values())} == {1, 2}:
        cover.transposes[out] = x
    return out


def _group_products(
    cover: Cover,
    func: Callable[..., Any],
    x: Tensor,
    stack: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Products of stretches of positions with one matrix each of a stack, which end at `offs`."""
    inner = cover.transposes.get(stack, stack)  # type: ignore[no-untyped-call]
    if not cover.tape.tracks(inner):
        out = func(x, stack, offs=offs, bias=bias, out_dtype=out_dtype)
        carry(cover, out, (x,))
        return out
    if x not in cover.owners or offs is None or bias is not None or out_dtype is not None:
        raise Uncovered("the examples of an expert's positions are not known")
    name, ends, owner = cover.tape.names[id(inner)], offs.tolist(), cover.every_owner(x)
    pieces, start = [], 0
    for place, end in enumerate(ends):
        part = Part(inner.detach()[place], ParameterKey(name, place, place + 1, single=True))
        arguments = (cover.anchor, cover.tape, owner[start:end], part, inner is stack)
        pieces.append(taps.tapped(Picked, x[start:end], *arguments))
        start = end
    out = torch.cat([*pieces, pieces[0].new_zeros(len(x) - start, stack.shape[2])])
    cover.owners[out] = owner
    return out


def _row_by_row(cover: Cover, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A function of each row alone."""
    out = func(*args, **options)
    if len(cover.owners):
        carry(cover, out, args)
    return out


def carry(cover: Cover, output: Any, inputs: Iterable[Any]) -> None:
    """What is computed row by row from positions has their owners, if the inputs agree on them."""
    positions = [x for x in inputs if isinstance(x, Tensor) and x in cover.owners]
    if not positions:
        return
    owner = cover.owner(positions[0])
    if any(cover.owner(other) is not owner for other in positions[1:]):
        return
    for part in output if isinstance(output, tuple | list) else [output]:
        if isinstance(part, Tensor) and part.dim() > 1 and len(part) == len(positions[0]):
            cover.owners[part] = owner


ALIKE = (
    F.relu, F.gelu, F.silu, F.mish, F.softplus, F.elu, F.leaky_relu, F.hardswish, F.dropout,
    torch.relu, torch.sigmoid, torch.tanh, torch.exp, torch.pow, torch.clamp, torch.sub, torch.div,
    torch.Tensor.relu, torch.Tensor.sigmoid, torch.Tensor.tanh, torch.Tensor.exp, torch.Tensor.pow,
    torch.Tensor.clamp, torch.Tensor.sub, torch.Tensor.div, torch.Tensor.to, torch.Tensor.float,
    torch.Tensor.type, torch.Tensor.contiguous, torch.Tensor.clone, torch.dropout,
)  # fmt: skip


def _chunk(cover: Cover, func: Callable[..., Any], x: Tensor, *rest: Any, **options: Any) -> Any:
    """A split along another axis than that of the positions."""
    out = func(x, *rest, **options)
    axis = options.get("dim", rest[1] if len(rest) > 1 else 0)
    if len(cover.owners) and axis % x.dim() > 0:
        carry(cover, out, (x,))
    return out


def _view(cover: Cover, func: Callable[..., Any], x: Tensor, *shape: Any, **options: Any) -> Any:
    """Positions that an index picked, in another shape: as many for each example, one after the other."""
    out = COVERED[func](cover, func, x, *shape, **options)
    owner = cover.owner(x)
    if owner is not None and out not in cover.owners and not order.is_natural(cover, owner):
        raise Reordered
    return out


def _cat(cover: Cover, func: Callable[..., Any], parts: Any, dim: int = 0, **options: Any) -> Any:
    """Positions of experts, one after the other."""
    out = func(parts, dim, **options)
    if dim % out.dim() == 0 and any(part in cover.owners for part in parts):
        owners = [order.owner_of(cover, part) for part in parts]
        present = [owner for owner in owners if owner is not None]
        if len(present) == len(owners):
            cover.owners[out] = torch.cat(present)
    return out


HANDLERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(ALIKE, _row_by_row),
    **dict.fromkeys((torch.Tensor.view, torch.Tensor.reshape, torch.reshape), _view),
    torch.cat: _cat,
    torch.Tensor.__getitem__: _item,
    torch.Tensor.transpose: _transpose,
    torch.transpose: _transpose,
    torch.Tensor.chunk: _chunk,
    torch.chunk: _chunk,
    torch.Tensor.split: _chunk,
    torch._grouped_mm: _group_products,
}
