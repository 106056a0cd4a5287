"""Calls of torch functions, during one pass, that use a trainable parameter in a way a closed form covers.

Functions are covered, not modules: a parameter counts where it is used, under whatever module, so subclasses,
reuse, tying and bare parameters need no rule of their own. What is not covered runs as always, and the
parameter then shows up in autograd's own gradient, which ends the pass with `Uncovered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from deniable.errors import InvalidParameter
from deniable.learn.clip.closed_forms import taps
from deniable.learn.clip.closed_forms.tape import Part, Reordered, Tape, Uncovered
from deniable.learn.clip.guard import refuse_call


class Cover(TorchFunctionMode):
    """While it is entered, covered calls go through taps that write on `tape`."""

    def __init__(
        self, tape: Tape, handlers: Mapping[Any, Callable[..., Any]], constants: Iterable[Tensor] = ()
    ) -> None:
        super().__init__()
        self.tape, self.handlers = tape, handlers
        self.constants = {id(value) for value in constants}
        """Tensors of the model that are not trained: as many rows as there are examples are no examples."""
        self.is_shuffled = False
        """Whether as many positions as there are examples were picked, in another order than theirs."""
        self.anchor = torch.zeros((), requires_grad=True)
        self.owners = WeakIdKeyDictionary()
        """Whose positions a tensor has along its first axis: None where all examples have as many, one after
        the other (`owners`)."""
        self.pieces = WeakIdKeyDictionary()
        """Matrices of a stack that is a parameter."""
        self.transposes = WeakIdKeyDictionary()
        """Stacks of matrices, each transposed: the parameter of each."""
        self.weight_norms = WeakIdKeyDictionary()
        """Weights that `weight_norm` made: direction, length and axis of each."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        handler = self.handlers.get(func)
        if handler is None:
            refuse_call(func, args)
            return func(*args, **(kwargs or {}))
        return handler(self, func, *args, **(kwargs or {}))

    def optional(self, value: Tensor | None) -> Part | None:
        return None if value is None else self.tape.part(value)

    def linear(self, x: Tensor, weight: Part, bias: Part | None) -> Tensor:
        if not (weight.trained or (bias is not None and bias.trained)):
            return F.linear(x, weight.value, None if bias is None else bias.value)
        self.expect(x)
        out = taps.tapped(taps.Linear, x, self.anchor, self.tape, weight, bias)
        self.follow(x, out)
        return out

    def goes_back(self, x: Tensor) -> bool:
        """Whether there is a way back from x."""
        return x.requires_grad

    def long_short_term(
        self, gates: Tensor, state: Sequence[Tensor], across: Part, bias: Part | None, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states of an LSTM over gates (rows, T, 4·h)."""
        self.tape.expect(state[0])
        run: Any = taps.LongShortTerm.apply
        out, *end = run(gates, *state, self.tape, across, bias, backwards)
        return out, tuple(end)

    def is_for_all(self, table: str, ids: Tensor) -> bool:
        """Whether rows of a table are looked up for all examples at once: a bias by distance. As many places
        as there are examples would look like words of each, so what was seen once is noted."""
        if ids.dim() < 1 or ids.shape[0] != self.tape.rows:
            self.tape.for_all.add(table)
        return table in self.tape.for_all

    def owner(self, x: Tensor) -> Tensor | None:
        """The examples of positions that an index picked; None where there is one stretch for each
        example."""
        owner: Tensor | None = self.owners.get(x)  # type: ignore[no-untyped-call]
        return owner

    def every_owner(self, x: Tensor) -> Tensor:
        """The example of each position along the first axis."""
        owner = self.owner(x)
        if owner is not None:
            return owner
        each = len(x) // self.tape.examples
        return torch.arange(self.tape.examples, device=x.device).repeat_interleave(each)

    def follow(self, x: Tensor, output: Tensor) -> None:
        """What is computed from positions in one stretch for each example has them too."""
        if len(self.owners) and x in self.owners:
            self.owners[output] = None

    def expect(self, x: Tensor) -> None:
        """Rows along the first axis, or the positions of rows one after the other."""
        if x not in self.owners:
            # After rows were put into another order their place no longer says whose they are.
            if self.is_shuffled and x.dim() == 2:
                raise Reordered
            self.tape.expect(x)
        elif self.owner(x) is not None:
            raise Uncovered("a layer other than a linear one sees positions that an index picked")

    def affine(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
        """x·weight + bias, both seen in `shape`."""
        parts = [
            None if p is None else Part(p.detach().view(shape), self.tape.part(p).key) for p in (weight, bias)
        ]
        self.expect(x)
        out = taps.tapped(taps.Affine, x, self.anchor, self.tape, *parts)
        self.follow(x, out)
        return out


def _linear(
    cover: Cover, func: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    return (
        cover.linear(input, cover.tape.part(weight), cover.optional(bias))
        if cover.tape.tracks(weight, bias)
        else func(input, weight, bias)
    )


def _convolution(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    if not cover.tape.tracks(weight, bias):
        return func(input, weight, bias, stride, padding, dilation, groups)
    if input.dim() != weight.dim():
        raise Uncovered("a convolution's input has no axis of examples")
    cover.tape.expect(input)
    axes = weight.dim() - 2
    steps, spaces = _per_axis(stride, axes), _per_axis(dilation, axes)
    input, edges = _pad(input, weight.shape[2:], padding, spaces)
    part = cover.tape.part(weight, last=True)
    if axes > 1:
        return taps.tapped(
            taps.Convolution,
            input,
            cover.anchor,
            cover.tape,
            part,
            cover.optional(bias),
            steps,
            edges,
            spaces,
            groups,
        )
    # One axis is a convolution over two, the first of them of length 1: one tap serves both.
    flat = Part(part.value.unsqueeze(2), part.key)
    geometry = ((1, *steps), (0, *edges), (1, *spaces), groups)
    wide = taps.tapped(
        taps.Convolution, input.unsqueeze(2), cover.anchor, cover.tape, flat, cover.optional(bias), *geometry
    )
    return wide.squeeze(2)


def _per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """A setting per axis."""
    settings = (value,) if isinstance(value, int) else tuple(value)
    return settings * axes if len(settings) == 1 else settings


def _pad(
    x: Tensor, kernel: Sequence[int], padding: int | str | Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, tuple[int, ...]]:
    """Input and symmetric padding; "same" puts the odd one at the end, as PyTorch does."""
    if padding == "same":
        margins = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(w % 2 for w in margins):
            x = F.pad(x, [p for w in reversed(margins) for p in (0, w % 2)])
        return x, tuple(w // 2 for w in margins)
    return x, (0,) * len(kernel) if isinstance(padding, str) else _per_axis(padding, len(kernel))


def embedding(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    if max_norm is not None:
        raise InvalidParameter(
            "An embedding with max_norm rewrites its table by the rows that were looked up, without noise; "
            "nothing was trained. Build it with max_norm=None."
        )
    if not cover.tape.tracks(weight):
        return func(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if scale_grad_by_freq:
        raise InvalidParameter(
            "An embedding with scale_grad_by_freq divides one example's gradient by how often others use its "
            "words; nothing was trained. Build it with scale_grad_by_freq=False."
        )
    if input.dim() > 1 and input.shape[0] == 1:
        # One row of words for all examples (positions), spread out: there is no other meaning of an axis of
        # one.
        input = input.expand(cover.tape.rows, *input.shape[1:])
    if cover.is_for_all(cover.tape.names[id(weight)], input):
        return func(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    # As PyTorch reads it: -1 is the last row.
    hole = None if padding_idx is None else padding_idx % weight.shape[0]
    return taps.tapped(taps.Table, input, cover.anchor, cover.tape, cover.tape.part(weight), hole)


def _layer_norm(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if not cover.tape.tracks(weight, bias):
        return func(input, normalized_shape, weight, bias, eps)
    # Without weights it is a function of the row alone; scale and shift have a closed form of their own.
    normal = func(input, normalized_shape, None, None, eps)
    cover.follow(input, normal)
    return cover.affine(normal, weight, bias, tuple(normalized_shape))


def _rms_norm(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    if not cover.tape.tracks(weight):
        return func(input, normalized_shape, weight, eps)
    normal = func(input, normalized_shape, None, eps)
    cover.follow(input, normal)
    return cover.affine(normal, weight, None, tuple(normalized_shape))


def _group_norm(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    if not cover.tape.tracks(weight, bias):
        return func(input, num_groups, weight, bias, eps)
    return cover.affine(func(input, num_groups, None, None, eps), weight, bias, _channel(input))


def _instance_norm(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    rest = (use_input_stats, momentum, eps)
    if not cover.tape.tracks(weight, bias):
        return func(input, running_mean, running_var, weight, bias, *rest)
    return cover.affine(
        func(input, running_mean, running_var, None, None, *rest), weight, bias, _channel(input)
    )


def _batch_norm(
    cover: Cover,
    func: Callable[..., Tensor],
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if training:
        raise InvalidParameter(BATCH_NORM.format("A call of batch_norm"))
    if not cover.tape.tracks(weight, bias):
        return func(input, running_mean, running_var, weight, bias, training, momentum, eps)
    output = func(input, running_mean, running_var, None, None, training, momentum, eps)
    return cover.affine(output, weight, bias, _channel(input))


BATCH_NORM = (
    "{} normalises each example by the others of its lot, so no bound on one example's contribution exists; "
    "nothing was trained. Use GroupNorm or LayerNorm, or freeze it: eval mode and requires_grad=False."
)


def _channel(x: Tensor) -> tuple[int, ...]:
    return (x.shape[1], *[1] * (x.dim() - 2))


def _view(cover: Cover, func: Callable[..., Tensor], x: Tensor, *shape: Any, **options: Any) -> Any:
    """A convolution's output is channels last here, whatever it would be outside; `view` must not notice."""
    try:
        out = func(x, *shape, **options)
    except RuntimeError:
        out = x.contiguous().view(*shape, **options)
    rows = cover.tape.rows
    if (
        isinstance(out, Tensor)
        and x.dim() > 2
        and x.shape[0] == rows
        and out.dim() == 2
        and out.shape[1] == x.shape[-1]
    ):
        cover.owners[out] = None
    elif x in cover.owners and isinstance(out, Tensor) and out.shape == x.shape:
        cover.owners[out] = cover.owner(x)
    return out


HANDLERS: dict[Any, Callable[..., Any]] = {
    F.linear: _linear,
    F.conv1d: _convolution,
    F.conv2d: _convolution,
    F.conv3d: _convolution,
    F.embedding: embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
    F.instance_norm: _instance_norm,
    F.batch_norm: _batch_norm,
    torch.Tensor.view: _view,
    torch.Tensor.reshape: _view,
    torch.reshape: _view,
}
