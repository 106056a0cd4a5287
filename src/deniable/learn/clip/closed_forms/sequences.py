"""Recurrent layers and attention written out in linear maps, so that each use of their weights is covered.

PyTorch runs them as one function that shows nothing of its inside. Written out they compute the same numbers
up to rounding; the probe compares them with PyTorch's own, example by example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from deniable.learn.clip.closed_forms.cover import Cover
from deniable.learn.clip.closed_forms.tape import ParameterKey, Part, Uncovered

State = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensor, State], State]
"""From what the input adds to the gates, what the hidden state adds, and the state, to the next state."""


def lstm_step(x: Tensor, h: Tensor, state: State) -> State:
    i, f, g, o = (x + h).chunk(4, -1)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_step(x: Tensor, h: Tensor, state: State) -> State:
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
    new = (xn + (xr + hr).sigmoid() * hn).tanh()
    keep = (xz + hz).sigmoid()
    return (new + keep * (state[0] - new),)


def tanh_step(x: Tensor, h: Tensor, state: State) -> State:
    return ((x + h).tanh(),)


def relu_step(x: Tensor, h: Tensor, state: State) -> State:
    return ((x + h).relu(),)


def layer(step: Step) -> Callable[..., Any]:
    """A handler for a whole stack of recurrent layers, `nn.LSTM` and the like."""

    def run(cover: Cover, func: Any, input: Tensor, hx: Any, params: Any, *rest: Any) -> Any:
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if not isinstance(params, (tuple, list)):
            raise Uncovered("packed sequences have no axis of examples")
        if not cover.tape.tracks(*params):
            return func(input, hx, params, *rest)
        has_bias, layers, dropout, train, both, batch_first = rest
        ways = 2 if both else 1
        each = 4 if has_bias else 2
        if len(params) != each * layers * ways:
            raise Uncovered("projected recurrent layers have no closed form here")
        x = input if batch_first else input.transpose(0, 1)
        last = []
        for level in range(layers):
            outputs = []
            for way in range(ways):
                index = level * ways + way
                weights = [*params[each * index : each * (index + 1)], None, None][:4]
                out, end = unroll(
                    cover, step, x, tuple(s[index] for s in states), weights, backwards=way == 1
                )
                outputs.append(out)
                last.append(end)
            x = torch.cat(outputs, -1) if both else outputs[0]
            if dropout and level < layers - 1:
                x = F.dropout(x, dropout, train)
        ends = [torch.stack(parts) for parts in zip(*last, strict=True)]
        return x if batch_first else x.transpose(0, 1), *ends

    return run


def unroll(
    cover: Cover, step: Step, x: Tensor, state: State, weights: Sequence[Tensor | None], *, backwards: bool
) -> tuple[Tensor, State]:
    """One layer in one direction over x (n, T, d): all hidden states (n, T, h) and the last state."""
    into, across = _part(cover, weights[0]), _part(cover, weights[1])
    gates = cover.linear(x, into, cover.optional(weights[2]))
    bias = cover.optional(weights[3])
    if step is lstm_step and cover.goes_back(gates):
        return cover.long_short_term(gates, state, across, bias, backwards)
    times = range(x.shape[1])
    outputs: dict[int, Tensor] = {}
    for t in reversed(times) if backwards else times:
        state = step(gates[:, t], cover.linear(state[0], across, bias), state)
        outputs[t] = state[0]
    return torch.stack([outputs[t] for t in times], 1), state


def cell(step: Step) -> Callable[..., Any]:
    """A handler for one step, `nn.LSTMCell` and the like."""

    def run(cover: Cover, func: Any, input: Tensor, hx: Any, *weights: Any) -> Any:
        if not cover.tape.tracks(*weights):
            return func(input, hx, *weights)
        state = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        w, u, b, c = [*weights, None, None][:4]
        gates = cover.linear(input, _part(cover, w), cover.optional(b))
        new = step(gates, cover.linear(state[0], _part(cover, u), cover.optional(c)), state)
        return new if len(new) > 1 else new[0]

    return run


def attention(
    cover: Cover,
    func: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`F.multi_head_attention_forward`, whose tensors are (positions, examples, width)."""
    if (
        bias_k is not None
        or bias_v is not None
        or static_k is not None
        or static_v is not None
        or add_zero_attn
    ):
        raise Uncovered("attention with learned or fixed extra keys has no closed form here")
    if query.dim() != 3 or (is_causal and attn_mask is None):
        raise Uncovered(
            "attention without an axis of examples, or with an implied mask, has no closed form here"
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    inputs = [x.transpose(0, 1) for x in (query, key, value)]
    q, k, v = _project(cover, inputs, query is key is value, in_proj_weight, in_proj_bias, separate)
    q, k, v = (torch.unflatten(x, -1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if attn_mask is not None:
        scores = scores + _additive(attn_mask, scores).view(-1, *_heads(attn_mask, num_heads))
    if key_padding_mask is not None:
        scores = scores + _additive(key_padding_mask, scores)[:, None, None, :]
    shares = F.dropout(scores.softmax(-1), dropout_p, training)
    context = (shares @ v).transpose(1, 2).flatten(2)
    out = cover.linear(context, _part(cover, out_proj_weight), cover.optional(out_proj_bias)).transpose(0, 1)
    if not need_weights:
        return out, None
    return out, shares.mean(1) if average_attn_weights else shares


def _project(
    cover: Cover,
    inputs: Sequence[Tensor],
    is_same: bool,
    weight: Tensor | None,
    bias: Tensor | None,
    separate: Sequence[Tensor | None] | None,
) -> Sequence[Tensor]:
    """Queries, keys and values; one packed matrix is used whole where the three inputs
    are one, else by thirds."""
    if separate is None and is_same:
        return cover.linear(inputs[0], _part(cover, weight), cover.optional(bias)).chunk(3, -1)
    matrices = [_part(cover, w) for w in separate] if separate else _thirds(_part(cover, weight))
    biases = _thirds(cover.tape.part(bias)) if bias is not None else [None] * 3
    return [cover.linear(x, w, b) for x, w, b in zip(inputs, matrices, biases, strict=True)]


def _thirds(part: Part) -> list[Part]:
    size = part.value.shape[0] // 3
    starts = (0, size, 2 * size)
    return [
        Part(part.value[s : s + size], None if part.key is None else ParameterKey(part.key.name, s, s + size))
        for s in starts
    ]


def _additive(mask: Tensor, scores: Tensor) -> Tensor:
    """A mask as numbers to add to the scores; True means: not to be looked at."""
    if mask.dtype != torch.bool:
        return mask.to(scores.dtype)
    return torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(mask, -torch.inf)


def _heads(mask: Tensor, heads: int) -> tuple[int, int, int]:
    """(L, S) holds for all heads; (examples·heads, L, S) for each."""
    return (1 if mask.dim() == 2 else heads, mask.shape[-2], mask.shape[-1])


def _part(cover: Cover, weight: Tensor | None) -> Part:
    assert weight is not None
    return cover.tape.part(weight)


HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.lstm: layer(lstm_step),
    torch.gru: layer(gru_step),
    torch.rnn_tanh: layer(tanh_step),
    torch.rnn_relu: layer(relu_step),
    torch.lstm_cell: cell(lstm_step),
    torch.gru_cell: cell(gru_step),
    torch.rnn_tanh_cell: cell(tanh_step),
    torch.rnn_relu_cell: cell(relu_step),
    F.multi_head_attention_forward: attention,
}
