"""Examples that a model puts into another order by what they are: sorted by a router, packed for an expert.

A layer that sees as many rows as there are examples is taken to see them in their order. Where a model picks
or places rows by an index that it computed, they may be in that order on made-up rows and in another one on
others, or once a router that began with zeros has learnt something. So every index that is computed is looked
at, in every pass: if the rows are not in their order afterwards, or not known to be those of the owners that
are on record, the pass ends with `Reordered`, and the examples go through the model one by one.

Examples that are sorted, counted or compared with one another end the pass too. Not reached: an order that is
made without any of these; there the trials on made-up rows are what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deniable.learn.clip.closed_forms.cover import Cover
from deniable.learn.clip.closed_forms.shared import sources
from deniable.learn.clip.closed_forms.tape import Reordered


def owner_of(cover: Cover, x: Any) -> Tensor | None:
    """The example of each place along the first axis; None where x has no such axis, as far as is known."""
    if not isinstance(x, Tensor) or x.dim() < 2:
        return None
    if x in cover.owners:
        return cover.every_owner(x)
    if x.shape[0] != cover.tape.rows or cover.tape.tracks(x) or id(x) in cover.constants:
        return None
    is_weight = x.grad_fn is not None and bool(sources(cover.tape, x))
    return None if is_weight else cover.every_owner(x)


def is_natural(cover: Cover, owner: Tensor) -> bool:
    """Whether there are as many places for each example, one example after the other."""
    each, rest = divmod(len(owner), cover.tape.examples)
    natural = torch.arange(cover.tape.examples, device=owner.device).repeat_interleave(each)
    return not rest and torch.equal(owner, natural)


def leading(index: Any) -> Any:
    """What picks along the first axis."""
    if not isinstance(index, tuple):
        return index
    return next((each for each in index if each is not None), None)


def _places(index: Tensor) -> Tensor:
    """The places along the first axis, as a matrix (places, …); a mask has one for each place that it lets
    through."""
    at = torch.nonzero(index)[:, 0] if index.dtype is torch.bool else index
    return at.flatten(1) if at.dim() > 1 else at.reshape(-1, 1)


def refuse_pick(cover: Cover, x: Any, index: Any) -> None:
    """Raise if picking these places of the first axis leaves examples out of their order, and nobody knows
    whose they are then."""
    owner, first = owner_of(cover, x), leading(index)
    if owner is None or not isinstance(first, Tensor | list):
        return
    whose = owner[_places(torch.as_tensor(first, device=owner.device))]
    if not (is_natural(cover, whose[:, 0]) and bool((whose == whose[:, :1]).all())):
        raise Reordered


def refuse_place(cover: Cover, target: Any, index: Any, value: Any) -> None:
    """Raise if rows are placed where those of another example belong."""
    owner = owner_of(cover, value)
    if owner is None or not isinstance(index, Tensor):
        return
    at = _places(index)
    each, rest = divmod(len(target), cover.tape.examples)
    if rest or not each or len(at) != len(owner):
        raise Reordered
    if not bool((at // each == owner[:, None]).all()):
        raise Reordered


def refuse_sum(cover: Cover, x: Any) -> None:
    """Raise if x has an axis of examples, which a product is about to sum over."""
    if owner_of(cover, x) is not None:
        raise Reordered


# ------------------------------------------------------------------------------------------------- handlers


def _select(
    cover: Cover, func: Callable[..., Any], input: Tensor, dim: int, index: Tensor, **rest: Any
) -> Any:
    """Rows by an index, or numbers of each column by an index of its own."""
    if dim % input.dim() == 0:
        refuse_pick(cover, input, index)
    return func(input, dim, index, **rest)


def _has_examples(cover: Cover, x: Any) -> bool:
    """Whether the first axis may be that of the examples."""
    if not isinstance(x, Tensor) or not x.dim() or x.shape[0] != cover.tape.rows:
        return False
    return not cover.tape.tracks(x) and id(x) not in cover.constants


def _sort(
    cover: Cover, func: Callable[..., Any], input: Tensor, *args: Any, dim: Any = None, **options: Any
) -> Any:
    """Examples by what they are: `dim` is the first number that is no truth value, after k where there is
    one."""
    axis = dim if dim is not None else _axis_of(func, args)
    if _has_examples(cover, input) and axis % input.dim() == 0:
        raise Reordered
    return func(input, *args, **options) if dim is None else func(input, *args, dim=dim, **options)


def _axis_of(func: Callable[..., Any], args: tuple[Any, ...]) -> int:
    numbers = [each for each in args if isinstance(each, int) and not isinstance(each, bool)]
    numbers = numbers[1:] if func in BY_RANK else numbers
    return numbers[0] if numbers else -1


def _compare(cover: Cover, func: Callable[..., Any], input: Tensor, *args: Any, **options: Any) -> Any:
    """Which values there are, and how many of each."""
    if _has_examples(cover, input):
        raise Reordered
    return func(input, *args, **options)


def _batched_product(cover: Cover, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Products of stacks of matrices: as many rows of the last as there are examples, but not as many
    matrices, may be the examples, which are added up."""
    last = args[-1]
    rows = cover.tape.rows
    if isinstance(last, Tensor) and last.dim() == 3 and last.shape[1] == rows != last.shape[0]:
        raise Reordered
    return func(*args, **options)


def _take(cover: Cover, func: Callable[..., Any], input: Tensor, indices: Tensor, dim: Any = None) -> Any:
    if dim is not None and dim % input.dim() == 0:
        refuse_pick(cover, input, indices)
    return func(input, indices, dim)


def _place(
    cover: Cover, func: Callable[..., Any], input: Tensor, dim: int, index: Tensor, *values: Any, **rest: Any
) -> Any:
    """Rows to the places that an index names."""
    if dim % input.dim() == 0:
        refuse_place(cover, input, index, values[0] if values else rest.get("source", rest.get("src")))
    return func(input, dim, index, *values, **rest)


def _set(cover: Cover, func: Callable[..., Any], x: Tensor, index: Any, value: Any) -> Any:
    refuse_place(cover, x, leading(index), value)
    return func(x, index, value)


def _index_put(
    cover: Cover,
    func: Callable[..., Any],
    input: Tensor,
    indices: Any,
    values: Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    refuse_place(cover, input, leading(tuple(indices)), values)
    return func(input, indices, values, *rest, **options)


BY_RANK = (torch.topk, torch.Tensor.topk, torch.kthvalue, torch.Tensor.kthvalue)

HANDLERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(
        (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort, *BY_RANK), _sort
    ),
    **dict.fromkeys(
        (
            torch.msort, torch.Tensor.msort, torch.unique, torch.Tensor.unique, torch.bincount,
            torch.unique_consecutive, torch.Tensor.unique_consecutive, torch.Tensor.bincount,
            torch.histc, torch.Tensor.histc,
        ),
        _compare,
    ),
    **dict.fromkeys((torch.bmm, torch.Tensor.bmm, torch.baddbmm), _batched_product),
    **dict.fromkeys(
        (torch.index_select, torch.Tensor.index_select, torch.gather, torch.Tensor.gather), _select
    ),
    **dict.fromkeys((torch.take_along_dim, torch.Tensor.take_along_dim), _take),
    **dict.fromkeys(
        (
            torch.index_add, torch.Tensor.index_add, torch.Tensor.index_add_,
            torch.index_copy, torch.Tensor.index_copy, torch.Tensor.index_copy_,
            torch.scatter, torch.Tensor.scatter, torch.Tensor.scatter_,
            torch.scatter_add, torch.Tensor.scatter_add, torch.Tensor.scatter_add_,
        ),
        _place,
    ),
    torch.Tensor.__setitem__: _set,
    **dict.fromkeys((torch.index_put, torch.Tensor.index_put, torch.Tensor.index_put_), _index_put),
}  # fmt: skip
