"""Taps under `vmap`: the code between layers sees one example, the taps see all of them.

The model and the criterion run under `torch.func.vmap`, on tensors without an axis of examples, so what they
compute of one example cannot depend on another, whatever they do: that is how vmap is defined, and each of
its rules keeps it. Only the functions below are run on all examples at once: layers of which it is known that
they treat the first axis row by row. A parameter that meets examples in any other way is spread over them
first, one copy for each, whose gradient is then that of the example (`Copies`). Backward runs outside of
vmap, by PyTorch's own formulas and those of the taps; no code of the model's own takes part in it (`guard`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.weak import WeakIdKeyDictionary

from deniable.errors import InvalidParameter
from deniable.learn.clip.closed_forms import cover, sequences, taps
from deniable.learn.clip.closed_forms.shared import sources
from deniable.learn.clip.closed_forms.tape import ParameterKey, Part, Tape, Uncovered
from deniable.learn.clip.closed_forms.terms import GradientRows
from deniable.learn.clip.guard import Watch
from deniable.learn.clip.rounding import widen

SHORTCUTS = frozenset({"transformers.masking_utils"})
"""Modules in which the truth of a tensor is asked only to leave out a mask that hides nothing. There it is
not: with the mask the numbers are the same, and the way no longer depends on the rows."""
functorch: Any = torch._C._functorch
NESTED = "the model uses transforms of torch.func of its own"


@contextmanager
def without_loops() -> Iterator[None]:
    """Operators that have no rule for vmap raise: PyTorch would run them example by example, with a
    warning."""
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)


@contextmanager
def outside() -> Iterator[None]:
    """A part of a pass that sees all examples: outside of vmap, with functions of torch as they are."""
    with temporarily_pop_interpreter_stack(), torch._C.DisableTorchFunction():
        yield


class MappedTape(Tape):
    """A tape for a pass under vmap, where the first axis is that of the examples by construction."""

    def expect(self, x: Tensor) -> None:
        """Nothing is to be found out."""


class Copies(torch.autograd.Function):
    """One copy of a tensor for each example, in no memory of their own. The tensor is a parameter, or is
    computed from parameters alone by a graph of its own, through which gradients go on."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tape: Tape, source: list[Tensor], names: list[str]) -> Tensor:
        ctx.tape, ctx.shared, ctx.names = tape, source[0], names
        value = source[0].detach()
        return value.expand(tape.examples, *value.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        tape, tensor, names = ctx.tape, ctx.shared, ctx.names
        slopes: tuple[Tensor, ...] = (grads[0],)
        if id(tensor) not in tape.names:
            parameters = [tape.parameters[name] for name in names]
            with torch.enable_grad():
                slopes = torch.autograd.grad(
                    tensor, parameters, grads[0].to(tensor.dtype), retain_graph=True, is_grads_batched=True
                )
        for name, slope in zip(names, slopes, strict=True):
            part = Part(tape.parameters[name].detach(), ParameterKey(name))
            tape.write(part, GradientRows(widen(slope).reshape(tape.examples, -1)))
        return None, None, None, None


class Mapped(Watch):
    """While it is entered, inside of vmap, covered calls go through taps that write on `tape`."""

    def __init__(self, tape: MappedTape) -> None:
        super().__init__()
        self.tape, self.anchor = tape, torch.zeros((), requires_grad=True)
        self.inner = cover.Cover(tape, {})
        self.inner.anchor = self.anchor
        self.turned = WeakIdKeyDictionary()
        """Transposes of matrices that are parameters."""
        self.level = -1

    def __enter__(self) -> Mapped:
        self.level = functorch.maybe_current_level() or -1
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__bool__ and sys._getframe(1).f_globals.get("__name__") in SHORTCUTS:
            return False
        return super().__torch_function__(func, types, args, kwargs)

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        tap = TAPS.get(func)
        return self.spread(func, args, options) if tap is None else tap(self, func, *args, **options)

    # -------------------------------------------------------------------- between one example and all of them

    def is_example(self, x: Any) -> bool:
        """Whether a tensor has a value for each example."""
        return isinstance(x, Tensor) and functorch.is_batchedtensor(x)

    def all_of(self, x: Tensor) -> Tensor:
        """The values of all examples (n, …)."""
        if functorch.maybe_get_level(x) != self.level:
            raise Uncovered(NESTED)
        values: Tensor = functorch.get_unwrapped(x).movedim(functorch.maybe_get_bdim(x), 0)
        return values

    def each(self, x: Tensor, axis: int = 0) -> Tensor:
        """One example's part of the values of all, which lie along an axis."""
        example: Tensor = functorch._add_batch_dim(x, axis, self.level)
        return example

    def expand(self, x: Tensor) -> Tensor:
        """The values of all examples (n, …), also of a tensor that they share."""
        return self.all_of(x) if self.is_example(x) else x.expand(self.tape.examples, *x.shape)

    def merge(self, call: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
        """A function that treats the first axis row by row, of the rows of all examples."""
        stacks = [self.expand(each) for each in (x, *others)]
        with (
            temporarily_pop_interpreter_stack()
        ):  # others have set up what functions do: trials take dropout out
            rows = stacks[0].shape[1]
            out = self.split(call(*(stack.flatten(0, 1) for stack in stacks)), rows)
        return self.each(out)

    def split(self, x: Tensor, rows: int) -> Tensor:
        """(n·rows, …) as (n, rows, …)."""
        return x.view(self.tape.examples, rows, *x.shape[1:])

    def spread(self, func: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call, with one copy for each example of what has a gradient and is shared by them."""
        values = [*args, *options.values()] if options else args
        if len(values) == 1 and isinstance(values[0], Tensor):  # nothing to meet
            return func(*args, **options)
        flat = [x for value in values for x in (value if isinstance(value, list | tuple) else (value,))]
        has_examples = False
        has_shared = False
        for x in flat:
            if isinstance(x, Tensor):
                if functorch.is_batchedtensor(x):
                    has_examples = True
                elif x.requires_grad:
                    has_shared = True
        if not (has_examples and has_shared):
            return func(*args, **options)
        return func(*map(self.copies, args), **{name: self.copies(value) for name, value in options.items()})

    def copies(self, value: Any) -> Any:
        """A copy for each example, where a tensor has a gradient and is shared."""
        if isinstance(value, list | tuple):
            contents = [self.copies(each) for each in value]
            return contents if isinstance(value, list) else tuple(contents)
        if not isinstance(value, Tensor) or functorch.is_batchedtensor(value) or not value.requires_grad:
            return value
        own = self.tape.names.get(id(value))
        names = [own] if own is not None else sources(self.tape, value)
        if not names:
            raise Uncovered("a tensor with a gradient comes from neither parameters nor examples")
        with outside():
            return self.each(taps.tapped(Copies, self.anchor, self.tape, [value], names))

    # ------------------------------------------------------------------------------------------------- layers

    def optional(self, value: Tensor | None) -> Part | None:
        return None if value is None else self.tape.part(value)

    def linear(self, x: Tensor, weight: Part, bias: Part | None) -> Tensor:
        if not (weight.trained or (bias is not None and bias.trained)):
            return F.linear(x, weight.value, None if bias is None else bias.value)
        values = self.expand(x)  # the state that a recurrent layer begins with is that of all examples
        with outside():
            # One position is a matrix, for which there is a shorter way.
            is_single = values.dim() == 3 and values.shape[1] == 1 and self.tape.multiplicity == 1
            rows = values[:, 0] if is_single else values
            out = taps.tapped(taps.Linear, rows, self.anchor, self.tape, weight, bias)
            return self.each(out[:, None] if is_single else out)

    def goes_back(self, x: Tensor) -> bool:
        """Whether there is a way back from x."""
        return self.is_example(x)

    def long_short_term(
        self, gates: Tensor, state: Sequence[Tensor], across: Part, bias: Part | None, backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states of an LSTM over gates (rows, T, 4·h)."""
        stacks = [self.expand(x) for x in (gates, *state)]
        rows = stacks[0].shape[1]
        with outside():
            run: Any = taps.LongShortTerm.apply
            parts = run(*(x.flatten(0, 1) for x in stacks), self.tape, across, bias, backwards)
            out, *end = (self.split(x, rows) for x in parts)
        return self.each(out), tuple(map(self.each, end))


Tap = Callable[..., Any]
Properties: Any = torch.Tensor


def _linear(mode: Mapped, func: Tap, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if not (mode.is_example(input) and _is_tracked(mode, weight, bias)):
        return mode.spread(func, (input, weight, bias), {})
    return mode.linear(input, mode.tape.part(weight), mode.optional(bias))


def _is_tracked(mode: Mapped, *values: Tensor | None) -> bool:
    """Whether there are trained parameters among them, and nothing that is computed from such."""
    are_trained = [value is not None and mode.tape.tracks(value) for value in values]
    return any(are_trained) and all(
        own or value is None or not (mode.is_example(value) or value.requires_grad)
        for own, value in zip(are_trained, values, strict=True)
    )


def _product(mode: Mapped, func: Tap, a: Any, b: Any, **options: Any) -> Any:
    """x @ W with a matrix that is a parameter, or its transpose."""
    if options or not mode.is_example(a) or not isinstance(b, Tensor) or b.dim() != 2:
        return mode.spread(func, (a, b), options)
    if b in mode.turned:
        return mode.linear(a, mode.tape.part(mode.turned[b]), None)
    if not _is_tracked(mode, b):
        return mode.spread(func, (a, b), options)
    values = mode.all_of(a)
    with outside():
        return mode.each(taps.tapped(taps.Product, values, mode.anchor, mode.tape, mode.tape.part(b), None))


def _addmm(mode: Mapped, func: Tap, bias: Tensor, x: Tensor, weight: Tensor, **options: Any) -> Any:
    """bias + x @ W, as GPT-2 has it."""
    if options or bias.dim() != 1 or not mode.is_example(x) or not _is_tracked(mode, weight, bias):
        return mode.spread(func, (bias, x, weight), options)
    parts = mode.tape.part(weight), mode.tape.part(bias)
    return mode.merge(lambda rows: taps.tapped(taps.Product, rows, mode.anchor, mode.tape, *parts), x)


def _turn(mode: Mapped, func: Tap, x: Tensor, *axes: Any, **options: Any) -> Any:
    """The transpose of a matrix."""
    out = func(x, *axes, **options)
    is_turned = isinstance(out, Tensor) and out.dim() == 2 and out.stride() == x.stride()[::-1]
    if mode.tape.tracks(x) and is_turned and out.shape == x.shape[::-1]:
        mode.turned[out] = x
    return out


def _convolution(
    mode: Mapped, func: Tap, input: Tensor, weight: Tensor, bias: Any = None, *rest: Any, **options: Any
) -> Any:
    if not (mode.is_example(input) and _is_tracked(mode, weight, bias)):
        return mode.spread(func, (input, weight, bias, *rest), options)
    if input.dim() != weight.dim():
        raise Uncovered("a convolution's input has no axis of examples")
    return mode.merge(
        lambda x: cover.HANDLERS[func](mode.inner, func, x, weight, bias, *rest, **options), input
    )


def _embedding(
    mode: Mapped, func: Tap, input: Tensor, weight: Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    if max_norm is not None or scale_grad_by_freq:
        raise InvalidParameter(
            "An embedding with max_norm or scale_grad_by_freq lets rows bear on one another; nothing was "
            "trained. "
            "Build it without."
        )
    # Places that all examples share: those along one axis are words of each, others a table by distance.
    is_list = input.dim() < 2 or input.shape[0] == 1
    if not _is_tracked(mode, weight) or not (mode.is_example(input) or is_list):
        return mode.spread(func, (input, weight, padding_idx), {})
    ids = mode.expand(input)
    hole = None if padding_idx is None else padding_idx % weight.shape[0]
    with outside():
        return mode.each(taps.tapped(taps.Table, ids, mode.anchor, mode.tape, mode.tape.part(weight), hole))


def _bag(
    inside: Mapped, func: Tap, input: Tensor, weight: Tensor, offsets: Any = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """Sums and means of rows of a table, written out."""
    if offsets is not None or input.dim() != 2 or mode == "max" or padding_idx is not None:
        raise Uncovered("a bag of words by offsets, by its maximum, or with padding, has no closed form here")
    words = _embedding(inside, F.embedding, input, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        words = words * per_sample_weights[..., None]
    return words.mean(1) if mode == "mean" else words.sum(1)


def _norm(mode: Mapped, func: Tap, input: Tensor, shape: Any, *rest: Any, **options: Any) -> Any:
    """Normalisations of the last axes."""
    weights = [x for x in (*rest, *options.values()) if isinstance(x, Tensor)]
    if not (mode.is_example(input) and weights and _is_tracked(mode, *weights)):
        return mode.spread(func, (input, shape, *rest), options)
    values = mode.all_of(input)
    with outside():
        return mode.each(cover.HANDLERS[func](mode.inner, func, values, shape, *rest, **options))


def _channel_norm(mode: Mapped, func: Tap, input: Tensor, *rest: Any, **options: Any) -> Any:
    """Normalisations whose weights belong to channels."""
    weights = [x for x in (*rest, *options.values()) if isinstance(x, Tensor)]
    if not mode.is_example(input) or any(mode.is_example(x) for x in weights):
        return mode.spread(func, (input, *rest), options)
    if any(x.requires_grad and not mode.tape.tracks(x) for x in weights):
        return mode.spread(func, (input, *rest), options)
    if func is F.instance_norm and _keeps_statistics(*rest, **options):
        raise Uncovered("an instance norm keeps statistics of all rows")
    return mode.merge(lambda x: cover.HANDLERS[func](mode.inner, func, x, *rest, **options), input)


def _keeps_statistics(
    running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, *rest: Any, **options: Any,
) -> bool:  # fmt: skip
    """Whether an instance norm writes to tensors that all rows share."""
    return use_input_stats and not (running_mean is None and running_var is None)


def _attention(
    mode: Mapped, func: Tap, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
    *rest: Any, **options: Any,
) -> Any:  # fmt: skip
    """Attention of each row by itself; a mask has as many axes, or is shared."""
    main = (query, key, value)
    mask = mode.copies(attn_mask) if mode.is_example(query) else attn_mask
    is_alike = all(mode.is_example(x) and x.dim() == 4 for x in main) and (mask is None or mask.dim() <= 4)
    if not is_alike:
        return mode.spread(func, (*main, attn_mask, *rest), options)
    rows = query.shape[0]
    if mask is None:
        return mode.merge(lambda q, k, v: func(q, k, v, None, *rest, **options), *main)
    if mode.is_example(mask):
        mask = (
            mask.expand(rows, *[-1] * 3)
            if mask.dim() == 4
            else mask[(None,) * (4 - mask.dim())].expand(rows, *[-1] * 3)
        )
        return mode.merge(lambda q, k, v, m: func(q, k, v, m, *rest, **options), *main, mask)
    if mask.dim() == 4 and mask.shape[0] != 1:
        return mode.spread(func, (*main, attn_mask, *rest), options)
    return mode.merge(lambda q, k, v: func(q, k, v, mask, *rest, **options), *main)


def _view(mode: Mapped, func: Tap, x: Tensor, *shape: Any, **options: Any) -> Any:
    """A convolution's output has its channels last here; `view` must not notice."""
    try:
        return func(x, *shape, **options)
    except RuntimeError:
        return x.contiguous().view(*shape, **options)


def _sequence(handler: Callable[..., Any]) -> Tap:
    """Layers that are written out in linear maps, which the handler asks for by itself."""

    def run(mode: Mapped, func: Tap, *args: Any, **options: Any) -> Any:
        return handler(mode, func, *args, **options)

    return run


TAPS: dict[Any, Tap] = {
    F.linear: _linear,
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), _convolution),
    F.embedding: _embedding,
    F.embedding_bag: _bag,
    **dict.fromkeys((F.layer_norm, F.rms_norm), _norm),
    **dict.fromkeys((F.group_norm, F.instance_norm, F.batch_norm), _channel_norm),
    F.scaled_dot_product_attention: _attention,
    **dict.fromkeys(
        (torch.matmul, torch.Tensor.matmul, torch.mm, torch.Tensor.mm, torch.Tensor.__matmul__), _product
    ),
    torch.addmm: _addmm,
    **dict.fromkeys(
        (
            torch.t,
            torch.Tensor.t,
            torch.transpose,
            torch.Tensor.transpose,
            Properties.T.__get__,
            Properties.mT.__get__,
        ),
        _turn,
    ),
    torch.Tensor.view: _view,
    **{func: _sequence(handler) for func, handler in sequences.HANDLERS.items()},
}
