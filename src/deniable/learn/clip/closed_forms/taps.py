"""Layers whose backward writes on the tape what their weights' per-example gradients are made of.

No weight gradient is ever formed by autograd: a tap computes the gradient of its input, keeps the two factors
of its weight's, and leaves the rest to `terms`. `anchor` is a number that requires a gradient, so that the
first layer of a model is visited by backward although its input needs none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import vjp, vmap
from torch.nn import functional as F

from deniable.learn.clip.closed_forms.tape import Part, Tape
from deniable.learn.clip.closed_forms.terms import (
    GradientRows,
    Lookup,
    Outer,
    Single,
    is_product_cheaper,
    outer,
)
from deniable.learn.clip.rounding import row_squares, widen
from deniable.learn.clip.workspace import Workspace

CACHED = 2**18
"""Numbers that a convolution's inputs are copied out in at once."""
SHORT = 16
"""Up to so many neighbours, numbers are copied out one by one."""


class Linear(torch.autograd.Function):
    """x Wᵀ + b at any number of positions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, weight: Part, bias: Part | None) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tape, ctx.weight, ctx.bias = tape, weight, bias
        return F.linear(x, weight.value, None if bias is None else bias.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,) = ctx.saved_tensors, grads
        return (
            linear_back(ctx.tape, ctx.weight, ctx.bias, x, g, ctx.needs_input_grad[0]),
            None,
            None,
            None,
            None,
        )


def linear_back(
    tape: Tape, weight: Part, bias: Part | None, x: Tensor, g: Tensor, deeper: bool
) -> Tensor | None:
    """Write what the weights' gradients are made of; the gradient of x if it is needed."""
    slope = widen(g)
    if g.dim() == 2 and tape.multiplicity == 1 and len(g) == tape.examples:
        squares = row_squares(slope)  # the weight and the bias share a factor; it is measured once
        tape.write(weight, Single(slope, widen(x), squares))
        if bias is not None:
            tape.write(bias, GradientRows(slope, squares))
    else:
        slopes = tape.fold(slope)
        if weight.trained:
            tape.write(weight, outer(slopes, tape.fold(widen(x)), tape.room))
        if bias is not None:
            tape.write(bias, GradientRows(summed(slopes)))
    if not deeper:
        return None
    width, inner = weight.value.shape
    back = tape.room.take((math.prod(g.shape[:-1]), inner), g)
    return torch.mm(g.reshape(len(back), width), weight.value, out=back).view(*g.shape[:-1], inner)


class Product(torch.autograd.Function):
    """x W with a bare matrix, perhaps with a bias."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, weight: Part, bias: Part | None = None
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tape, ctx.weight, ctx.bias = tape, weight, bias
        return x @ weight.value if bias is None else torch.addmm(bias.value, x, weight.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,), tape = ctx.saved_tensors, grads, ctx.tape
        slopes = tape.fold(widen(g))
        if ctx.weight.trained:
            tape.write(ctx.weight, outer(tape.fold(widen(x)), slopes, tape.room))
        if ctx.bias is not None and ctx.bias.trained:
            tape.write(ctx.bias, GradientRows(summed(slopes)))
        return (g @ ctx.weight.value.mT if ctx.needs_input_grad[0] else None), None, None, None, None


class Convolution(torch.autograd.Function):
    """A convolution over two or three axes, channels last in memory: patches are then one strided copy."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        anchor: Tensor,
        tape: Tape,
        weight: Part,
        bias: Part | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> Tensor:
        ctx.tape, ctx.weight, ctx.bias, ctx.geometry = tape, weight, bias, (stride, padding, dilation, groups)
        out, x, ctx.kernel = convolve(x, weight, bias, *ctx.geometry)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,) = ctx.saved_tensors, grads
        arguments = (x, ctx.kernel, *ctx.geometry)
        gx = convolve_back(ctx.tape, ctx.weight, ctx.bias, g, ctx.needs_input_grad[0], *arguments)
        return gx, None, None, None, None, None, None, None, None


def convolve(
    x: Tensor,
    weight: Part,
    bias: Part | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and input and kernel with channels last."""
    last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    x, kernel = channels_last(x), channels_last(weight.value)
    settings = (False, [0] * len(stride), groups)
    out = torch.convolution(
        x, kernel, None if bias is None else bias.value, stride, padding, dilation, *settings
    )
    # Pooling is nine times slower on the other layout.
    return out.contiguous(memory_format=last), x, kernel


def convolve_back(
    tape: Tape,
    weight: Part,
    bias: Part | None,
    g: Tensor,
    deeper: bool,
    x: Tensor,
    kernel: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor | None:
    """Write what the weights' gradients are made of; the gradient of x if it is needed."""
    flat = widen(g).movedim(1, -1).flatten(1, -2)
    if weight.trained:
        patches = windows(widen(x), kernel.shape[2:], g.shape[2:], stride, padding, dilation)
        tape.write(weight, convolved(tape.fold(flat), patches, groups, tape.room))
    if bias is not None:
        tape.write(bias, GradientRows(summed(tape.fold(flat))))
    if not deeper:
        return None
    geometry = (stride, padding, dilation, False, [0] * len(stride), groups, (True, False, False))
    gx: Tensor = torch.ops.aten.convolution_backward(g, x, kernel, None, *geometry)[0]
    return gx


class Table(torch.autograd.Function):
    """Rows of an embedding table; the row `padding` learns nothing."""

    @staticmethod
    def forward(
        ctx: Any, ids: Tensor, anchor: Tensor, tape: Tape, weight: Part, padding: int | None
    ) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.tape, ctx.weight, ctx.padding = tape, weight, padding
        return F.embedding(ids, weight.value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        (ids,), (g,), tape = ctx.saved_tensors, grads, ctx.tape
        ids = ids.reshape(tape.examples, -1)
        cols = tape.fold(widen(g))
        if ctx.padding is not None:
            # PyTorch gives that row no gradient: counted in the norm, it would clip an example for nothing.
            cols = torch.where((ids == ctx.padding)[:, :, None], 0, cols)
        tape.write(ctx.weight, Lookup(ids, cols))
        return None, None, None, None, None


class Affine(torch.autograd.Function):
    """x·w + b with w and b spread over axes that they do not have: normalisations,
    scales, learned positions."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, weight: Part | None, bias: Part | None
    ) -> Tensor:
        ctx.save_for_backward(x if weight is not None else x.new_empty(0))
        ctx.tape, ctx.weight, ctx.bias = tape, weight, bias
        out = x if weight is None else x * weight.value
        return out + bias.value if bias is not None else out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,), tape = ctx.saved_tensors, grads, ctx.tape
        slope = widen(g)
        if ctx.weight is not None:
            products = slope * widen(x)
            tape.write(ctx.weight, GradientRows(spread(products, ctx.weight.value, tape.examples)))
        if ctx.bias is not None:
            tape.write(ctx.bias, GradientRows(spread(slope, ctx.bias.value, tape.examples)))
        return (g if ctx.weight is None else g * ctx.weight.value), None, None, None, None


class Held(torch.autograd.Function):
    """A function `call(x, *weights)` of rows and weights: the gradient of each example is formed and held."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, tape: Tape, call: Any, parts: list[Part]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tape, ctx.call, ctx.parts = tape, call, parts
        out: Tensor = call(x, *(part.value for part in parts))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,), (g,), tape, call = ctx.saved_tensors, grads, ctx.tape, ctx.call
        values = tuple(part.value for part in ctx.parts)

        def of_example(rows: Tensor, slope: Tensor) -> Any:
            return vjp(lambda *own: call(rows, *own), *values)[1](slope)

        # By vmap over examples, not rows: views of one example share one gradient, which is clipped once.
        stacks = [torch.unflatten(each, 0, (tape.examples, tape.multiplicity)) for each in (x, g)]
        for part, each in zip(ctx.parts, vmap(of_example)(*stacks), strict=True):
            tape.write(part, GradientRows(widen(each).reshape(tape.examples, -1)))
        gx = vjp(lambda rows: call(rows, *values), x)[1](g)[0] if ctx.needs_input_grad[0] else None
        return gx, None, None, None, None


class LongShortTerm(torch.autograd.Function):
    """The states of an LSTM over x (rows, T, 4·h), what its input adds to the gates: hidden states
    (rows, T, h) and the last pair. Each position is one use of the matrix that the hidden state goes through,
    all of them one sum."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        tape: Tape,
        across: Part,
        bias: Part | None,
        backwards: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        times, rows, size = x.shape[1], x.shape[0], h.shape[1]
        gates = x.transpose(0, 1).contiguous() if bias is None else x.transpose(0, 1) + bias.value
        hidden, cells = h.new_empty(times, rows, size), h.new_empty(times, rows, size)
        tanhs = torch.empty_like(cells)
        before, order = (h, c), range(times)
        for t in reversed(order) if backwards else order:
            gates[t].addmm_(before[0], across.value.t())
            gates[t, :, : 2 * size].sigmoid_()
            i, f, g, o = gates[t].chunk(4, 1)
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, before[1], out=cells[t]).addcmul_(i, g)
            torch.mul(o, torch.tanh(cells[t], out=tanhs[t]), out=hidden[t])
            before = hidden[t], cells[t]
        ctx.save_for_backward(h, c)
        ctx.tape, ctx.across, ctx.bias, ctx.backwards = tape, across, bias, backwards
        ctx.kept = gates, hidden, cells, tanhs
        return hidden.transpose(0, 1).contiguous(), before[0].clone(), before[1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (h, c), (gates, hidden, cells, tanhs), (outward, dh, dc) = ctx.saved_tensors, ctx.kept, grads
        times = len(gates)
        slopes, past = torch.empty_like(gates), torch.empty_like(hidden)
        order = range(times) if ctx.backwards else range(times - 1, -1, -1)
        for t in order:
            earlier = t + 1 if ctx.backwards else t - 1
            inside = 0 <= earlier < times
            # The matrix saw the state before this step, so that is what its gradient at this step is made of.
            past[t] = hidden[earlier] if inside else h
            i, f, g, o = gates[t].chunk(4, 1)
            dh = dh + outward[:, t]
            dc = dc + torch.ops.aten.tanh_backward(dh * o, tanhs[t])
            di, df, dg, do = slopes[t].chunk(4, 1)
            di.copy_(torch.ops.aten.sigmoid_backward(dc * g, i))
            df.copy_(torch.ops.aten.sigmoid_backward(dc * (cells[earlier] if inside else c), f))
            dg.copy_(torch.ops.aten.tanh_backward(dc * i, g))
            do.copy_(torch.ops.aten.sigmoid_backward(dh * tanhs[t], o))
            dh, dc = slopes[t] @ ctx.across.value, dc * f
        slopes = slopes.transpose(0, 1).contiguous()
        factor = ctx.tape.fold(widen(slopes))
        if ctx.across.trained:
            inputs = widen(past).transpose(0, 1)
            ctx.tape.write(ctx.across, outer(factor, ctx.tape.fold(inputs), ctx.tape.room))
        if ctx.bias is not None:
            ctx.tape.write(ctx.bias, GradientRows(summed(factor)))
        return slopes, dh, dc, None, None, None, None


def tapped(function: type[torch.autograd.Function], *args: Any) -> Tensor:
    """Run a tap."""
    out: Tensor = function.apply(*args)  # type: ignore[no-untyped-call]
    return out


def summed(x: Tensor) -> Tensor:
    """(n, T, d) → (n, d)."""
    return x[:, 0] if x.shape[1] == 1 else x.sum(1)


def spread(g: Tensor, like: Tensor, examples: int) -> Tensor:
    """Per-example sums of g (rows, …) over the axes along which `like` was spread, flat."""
    missing = g.dim() - like.dim()
    ones = [missing + i for i, size in enumerate(like.shape) if size == 1 and g.shape[missing + i] != 1]
    # Never over axis 0: that one is the examples, whose gradients stay apart.
    axes = [axis for axis in [*range(missing), *ones] if axis > 0]
    per_row = g.sum(axes) if axes else g
    return per_row.reshape(examples, -1, like.numel()).sum(1)


def channels_last(x: Tensor) -> Tensor:
    """x with its channels last in memory, also where one channel leaves it open which strides say so."""
    x = x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    if x.shape[1] > 1:
        return x
    return x.as_strided(x.shape, (x.stride(0), 1, *x.stride()[2:]))


def windows(
    x: Tensor,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """What each output position of a convolution saw: a view (rows, *out, *kernel,
    channels) of the padded input."""
    image = x.movedim(1, -1)
    if any(padding):
        image = F.pad(image, [0, 0, *(p for pad in reversed(padding) for p in (pad, pad))])
    image = image.contiguous()
    rows, *steps, channel = image.stride()
    strides = (
        rows,
        *(s * t for s, t in zip(steps, stride, strict=True)),
        *(s * t for s, t in zip(steps, dilation, strict=True)),
    )
    return image.as_strided((x.shape[0], *out, *kernel, x.shape[1]), (*strides, channel))


def convolved(rows: Tensor, seen: Tensor, groups: int, room: Workspace) -> GradientRows | Outer:
    """The term of a convolution's weight from its output gradient (n, T, p) and what it saw."""
    axes = (seen.dim() - 2) // 2
    positions, kernel, channels = (
        math.prod(part) for part in (seen.shape[: axes + 1], seen.shape[axes + 1 : -1], seen.shape[-1:])
    )
    if groups > 1:
        split = seen.reshape(rows.shape[0], -1, kernel, groups, channels // groups)
        apart = split.movedim(3, 1).flatten(3)
        return GradientRows((torch.unflatten(rows, 2, (groups, -1)).movedim(2, 1).mT @ apart).flatten(1))
    shape = (rows.shape[0], positions // rows.shape[0], kernel * channels)
    if is_product_cheaper(rows.shape, shape[2]):
        return products(rows, seen, shape, room)
    return outer(rows, seen.reshape(shape), room)


def products(rows: Tensor, seen: Tensor, shape: tuple[int, int, int], room: Workspace) -> GradientRows:
    """Σ_t rows_t ⊗ seen_t for each example, a few at a time, so that what they saw is
    copied out within the cache."""
    n, positions, width = shape
    each, size = seen.shape[0] // n, max(1, CACHED // (positions * width))
    gradients = room.take((n, rows.shape[2] * width), rows)
    window = room.take((min(size, n) * each, *seen.shape[1:]), rows)
    for start in range(0, n, size):
        part = slice(start, min(start + size, n))
        copies = copy_out(seen[start * each : part.stop * each], window[: (part.stop - start) * each])
        torch.bmm(
            rows[part].mT,
            copies.view(-1, positions, width),
            out=gradients[part].view(-1, rows.shape[2], width),
        )
    return GradientRows(gradients)


def copy_out(seen: Tensor, room: Tensor) -> Tensor:
    """What was seen, copied into `room`: number by number where few lie side by side,
    which strided copies are slow at."""
    kernel, channels = seen.shape[-2:]
    if kernel * channels > SHORT:
        return room.copy_(seen)
    size = seen.stride(0)
    torch.index_select(
        seen.as_strided((len(seen), size), (size, 1)), 1,
        _places(seen.shape[1:], seen.stride()[1:]).to(seen.device), out=room.view(len(seen), -1),
    )  # fmt: skip
    return room


@lru_cache(maxsize=64)
def _places(shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Where the numbers of one row of a strided view lie, in its order."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + torch.arange(size) * stride
    return offsets.reshape(-1)
