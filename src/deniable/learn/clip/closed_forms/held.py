"""Functions of examples and parameters without a closed form: the gradients of these
alone are held, example by example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from deniable.learn.clip.closed_forms import order, taps
from deniable.learn.clip.closed_forms.cover import HANDLERS as COVERED
from deniable.learn.clip.closed_forms.cover import Cover, embedding
from deniable.learn.clip.closed_forms.owners import carry, picked_linear
from deniable.learn.clip.closed_forms.tape import Uncovered


def _hold(cover: Cover, func: Callable[..., Tensor], x: Tensor, *rest: Any, **options: Any) -> Any:
    """A function of the examples and of parameters that has no closed form: its own
    gradients are held, one for each example."""
    names = [place for place, value in enumerate(rest) if cover.tape.tracks(value)]
    keys = [name for name, value in options.items() if cover.tape.tracks(value)]
    if not names and not keys:
        return func(x, *rest, **options)
    if not isinstance(x, Tensor) or cover.tape.tracks(x) or x.dim() < 2 or x.shape[0] != cover.tape.rows:
        raise Uncovered("the first axis of a layer's input is not that of the examples")
    cover.expect(x)
    parts = [cover.tape.part(rest[place]) for place in names] + [
        cover.tape.part(options[name]) for name in keys
    ]

    def call(rows: Tensor, *values: Tensor) -> Tensor:
        own, keywords = list(rest), dict(options)
        for place, value in zip(names, values, strict=False):
            own[place] = value
        keywords.update(zip(keys, values[len(names) :], strict=True))
        return func(rows, *own, **keywords)

    return taps.tapped(taps.Held, x, cover.anchor, cover.tape, call, parts)


def _einsum(cover: Cover, func: Callable[..., Tensor], equation: Any, *operands: Any) -> Any:
    """A product of examples and one parameter: the examples' letter comes first, in the input and
    in the output, and nowhere else."""
    flat = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if not cover.tape.tracks(*flat):
        _refuse_sums(cover, equation, flat)
        return func(equation, *operands)
    if not isinstance(equation, str) or len(flat) != 2 or all(cover.tape.tracks(each) for each in flat):
        raise Uncovered("an einsum of more than examples and one parameter")
    inputs, _, output = equation.replace(" ", "").partition("->")
    names = inputs.split(",")
    turn = cover.tape.tracks(flat[0])
    (own, x), (_, weight) = sorted(zip(names, flat, strict=True), key=lambda pair: cover.tape.tracks(pair[1]))
    letter = own[:1]
    if (
        "." in equation
        or not output
        or output[:1] != letter
        or letter in names[0 if turn else 1]
        or own.count(letter) > 1
    ):
        raise Uncovered("an einsum whose examples are not its first letter")

    def product(rows: Tensor, value: Tensor) -> Tensor:
        return func(equation, value, rows) if turn else func(equation, rows, value)

    return _hold(cover, product, x, weight)


def _refuse_sums(cover: Cover, equation: Any, operands: Any) -> None:
    """Raise if examples are summed over, or are not the first letter of what comes out."""
    inputs, arrow, output = (
        equation.replace(" ", "").partition("->") if isinstance(equation, str) else [""] * 3
    )
    for letters, x in zip(inputs.split(","), operands, strict=False):
        if arrow and letters[:1] != output[:1]:
            order.refuse_sum(cover, x)


def _bag(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums and means of rows of a table, written out; bags that `offsets` cut from one
    list have no axis of examples."""
    if max_norm is None and not scale_grad_by_freq and not cover.tape.tracks(weight):
        rest = (offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights)
        return func(input, weight, *rest, include_last_offset, padding_idx)
    if offsets is not None or input.dim() != 2 or mode == "max" or padding_idx is not None:
        raise Uncovered("a bag of words by offsets, by its maximum, or with padding, has no closed form here")
    words = embedding(cover, F.embedding, input, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        words = words * per_sample_weights[..., None]
    return words.mean(1) if mode == "mean" else words.sum(1)


def _weight_norm(
    cover: Cover, func: Callable[..., Tensor], direction: Tensor, length: Tensor, axis: int = 0
) -> Any:
    """A weight made of two parameters. It keeps its graph: where it is used otherwise than by `_of_weight`,
    their gradients show."""
    weight = func(direction, length, axis)
    if cover.tape.tracks(direction, length):
        cover.weight_norms[weight] = (direction, length, axis)
    return weight


def _of_weight(
    cover: Cover, func: Callable[..., Tensor], input: Tensor, weight: Tensor, *rest: Any, **options: Any
) -> Any:
    """A linear layer or a convolution; where `weight_norm` made its weight, as a function of what it is made
    of."""
    if func is F.linear and (weight in cover.pieces or cover.owner(input) is not None):
        return _linear_at_picks(cover, func, input, weight, *rest, **options)
    if weight not in cover.weight_norms:
        return LAYERS[func](cover, func, input, weight, *rest, **options)
    direction, length, axis = cover.weight_norms[weight]

    def layer(rows: Tensor, v: Tensor, g: Tensor, *values: Any, **settings: Any) -> Tensor:
        others = [i for i in range(v.dim()) if i != axis] if axis >= 0 else list(range(v.dim()))
        return func(rows, v * (g / v.square().sum(others, keepdim=True).sqrt()), *values, **settings)

    return _hold(cover, layer, input, direction, length, *rest, **options)


def _linear_at_picks(
    cover: Cover, func: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """An expert's matrix, or positions that an index picked."""
    if not (weight in cover.pieces or cover.tape.tracks(weight, bias)):
        out = func(input, weight, bias)
        carry(cover, out, (input,))
        return out
    if input not in cover.owners:
        raise Uncovered("the examples of an expert's positions are not known")
    part = cover.pieces[weight] if weight in cover.pieces else cover.tape.part(weight)
    if cover.owner(input) is None:
        return cover.linear(input, part, cover.optional(bias))
    return picked_linear(cover, input, part, cover.optional(bias))


LAYERS = {func: COVERED[func] for func in (F.linear, F.conv1d, F.conv2d, F.conv3d)}
HANDLERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(LAYERS, _of_weight),
    torch._weight_norm: _weight_norm,
    F.conv_transpose1d: _hold,
    F.conv_transpose2d: _hold,
    F.conv_transpose3d: _hold,
    F.prelu: _hold,
    torch.prelu: _hold,
    F.embedding_bag: _bag,
    torch.einsum: _einsum,
}
