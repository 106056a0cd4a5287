"""Parameters that are used by themselves: added, multiplied, spread over the examples, as matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deniable.learn.clip.closed_forms import order, taps
from deniable.learn.clip.closed_forms.cover import Cover
from deniable.learn.clip.closed_forms.owners import carry
from deniable.learn.clip.closed_forms.shared import fits, spread_out
from deniable.learn.clip.closed_forms.tape import Uncovered


def _times(cover: Cover, func: Callable[..., Tensor], a: Any, b: Any, **options: Any) -> Any:
    """x·p or p·x with a bare parameter."""
    x, p = (b, a) if cover.tape.tracks(a) else (a, b)
    if options or not spreads(cover, x, p):
        return _apply_pair(cover, func, a, b, options)
    return cover.affine(x, p, None, p.shape)


def _plus(cover: Cover, func: Callable[..., Tensor], a: Any, b: Any, **options: Any) -> Any:
    """x + p or p + x with a bare parameter."""
    x, p = (b, a) if cover.tape.tracks(a) else (a, b)
    if options or not spreads(cover, x, p):
        return _apply_pair(cover, func, a, b, options)
    return cover.affine(x, None, p, p.shape)


def _apply_pair(cover: Cover, func: Callable[..., Tensor], a: Any, b: Any, options: dict[str, Any]) -> Any:
    """A function of two tensors, one of which may be computed from parameters alone and be spread over the
    examples."""
    out = func(spread_out(cover, a, b), spread_out(cover, b, a), **options)
    if len(cover.owners):
        carry(cover, out, (a, b))
    return out


def spreads(cover: Cover, x: Any, p: Any) -> bool:
    """Whether p is a parameter that is spread over the examples of x, and x over nothing."""
    if not (cover.tape.tracks(p) and isinstance(x, Tensor) and not cover.tape.tracks(x)):
        return False
    return x.dtype == p.dtype and fits(cover.tape, x, p) and _broadcast(x, p) == x.shape


def _matmul(cover: Cover, func: Callable[..., Tensor], a: Any, b: Any, **options: Any) -> Any:
    """x @ W with a bare matrix."""
    is_covered = cover.tape.tracks(b) and not cover.tape.tracks(a) and b.dim() == 2 and a.dim() > 1
    if options or not is_covered:
        if isinstance(b, Tensor) and b.dim() == 2:
            order.refuse_sum(cover, b)
        return func(a, b, **options)
    cover.expect(a)
    return taps.tapped(taps.Product, a, cover.anchor, cover.tape, cover.tape.part(b), None)


def _addmm(
    cover: Cover, func: Callable[..., Tensor], bias: Tensor, x: Tensor, weight: Tensor, **options: Any
) -> Any:
    """bias + x @ W, as GPT-2 has it: the positions of all examples along one axis."""
    if options or not cover.tape.tracks(bias, weight):
        return func(bias, x, weight, **options)
    if bias.dim() != 1 or cover.tape.tracks(x):
        raise Uncovered("an addmm of more than examples, a matrix and a bias")
    cover.expect(x)
    parts = cover.tape.part(weight), cover.tape.part(bias)
    return taps.tapped(taps.Product, x, cover.anchor, cover.tape, *parts)


def _expand(cover: Cover, func: Callable[..., Tensor], x: Tensor, *sizes: Any, **options: Any) -> Any:
    """A bare parameter with a first axis of one, spread over the examples: the token
    that a picture begins with."""
    if not cover.tape.tracks(x):
        return func(x, *sizes, **options)
    shape = func(x.detach(), *sizes, **options).shape
    spread = x.dim() == len(shape) and x.shape[0] == 1 and shape[0] == cover.tape.rows and x.dim() > 1
    if not spread or torch.broadcast_shapes(x.shape, shape) != shape:  # type: ignore[no-untyped-call]
        return func(x, *sizes, **options)
    return cover.affine(torch.zeros(shape, dtype=x.dtype, device=x.device), None, x, x.shape)


def _repeat(cover: Cover, func: Callable[..., Tensor], x: Tensor, *times: Any) -> Any:
    """As many copies as there are examples is the same as spreading out."""
    counts = tuple(times[0]) if len(times) == 1 and not isinstance(times[0], int) else times
    if (
        cover.tape.tracks(x)
        and len(counts) == x.dim()
        and counts[0] == cover.tape.rows
        and set(counts[1:]) <= {1}
    ):
        return _expand(cover, torch.Tensor.expand, x, counts[0], *[-1] * (x.dim() - 1))
    return func(x, *times)


def _broadcast(x: Tensor, p: Tensor) -> torch.Size | None:
    """The common shape, if there is one."""
    try:
        return torch.broadcast_shapes(x.shape, p.shape)  # type: ignore[no-untyped-call, no-any-return]
    except RuntimeError:
        return None


HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.mul: _times,
    torch.Tensor.mul: _times,
    torch.add: _plus,
    torch.Tensor.add: _plus,
    torch.matmul: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.mm: _matmul,
    torch.Tensor.mm: _matmul,
    torch.Tensor.__matmul__: _matmul,
    torch.addmm: _addmm,
    torch.Tensor.expand: _expand,
    torch.Tensor.repeat: _repeat,
}
