"""A network as a recorded program: the operations that it applies to one input, in their order, and no code.

The network runs once on a fake tensor that stands for one input and holds no numbers (`make_fx`). Whatever
its Python code does, it cannot see another input, and it cannot decide by numbers: such code raises, and the
network has no program. What is recorded are operations of PyTorch itself, each applied to the input, to
earlier results, or to constants. `torch.func.vmap` turns them, once for each size of batch, into operations
on all inputs of a batch, and these are recorded in turn. The network's code is not run again, so it cannot
reach around vmap, count its calls, or read a clock: a program is one fixed function of one input.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.fx
from torch import nn
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx

OWN = ("aten", "prims")
"""Operations of PyTorch itself, whose rules for vmap are PyTorch's."""
SHAPES = 8
"""Shapes of batches for which the operations of all rows are kept."""
Scores = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Program:
    """Operations on one input, run for all inputs of a batch."""

    row_graph: torch.fx.GraphModule
    batch_graphs: dict[torch.Size, torch.fx.GraphModule] = field(default_factory=dict)
    """The same for whole batches, by their shape."""

    @torch.inference_mode()
    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        graph = self.batch_graphs.get(batch.shape) or self._stack(batch)
        scores: torch.Tensor = graph.forward(batch)
        return scores

    def _stack(self, batch: torch.Tensor) -> torch.fx.GraphModule:
        """The operations of all rows: vmap's rules are applied to fake tensors, without a number."""
        all_rows = torch.func.vmap(self.row_graph.forward, randomness="error")
        graph = _trace(lambda rows: all_rows(rows), batch)
        if len(self.batch_graphs) >= SHAPES:
            self.batch_graphs.clear()
        self.batch_graphs[batch.shape] = graph
        return graph


def record(answer: Scores, batch: torch.Tensor) -> Program | None:
    """The program of `answer`, a function of batches, or None if it cannot be recorded or run.

    It is recorded on a batch of one row or, for networks that want more, of two equal ones.
    """
    for copies in (1, 2):
        try:
            with _without_words():
                program = Program(_record_row(answer, batch[0].clone(), copies))
                program.scores(batch.clone())
        except Exception:  # a network's own code may raise anything on a fake input; then it has no program
            continue
        return program
    return None


@contextmanager
def _without_words() -> Iterator[None]:
    """PyTorch logs what fails on fake tensors, with its whole stack; here a failure is an answer."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.addFilter(_drop)
    try:
        yield
    finally:
        log.removeFilter(_drop)


def _drop(entry: logging.LogRecord) -> bool:
    return False


def _record_row(answer: Scores, row: torch.Tensor, copies: int) -> torch.fx.GraphModule:
    def run_row(row: torch.Tensor) -> torch.Tensor:
        return answer(row.expand(copies, *row.shape))[0]

    return _trace(run_row, row, whole_operations=True)


@torch.inference_mode(False)
@torch.no_grad()
def _trace(answer: Scores, sample: torch.Tensor, *, whole_operations: bool = False) -> torch.fx.GraphModule:
    """The operations that `answer` applies to a tensor like `sample`; it raises if others than PyTorch's own
    are among them, or if they write to constants, which would be a memory."""
    fake = torch.empty_like(sample, requires_grad=False)
    tracer = make_fx(answer, tracing_mode="fake", pre_dispatch=whole_operations, _allow_non_fake_inputs=True)
    graph = tracer(fake)
    for node in list(graph.graph.nodes):
        if node.target is torch._C._set_grad_enabled:  # gradients are off throughout
            graph.graph.erase_node(node)
        elif node.op == "call_function" and not _is_own(node.target):
            raise NotImplementedError(f"{node.target} may have a rule of its own for vmap.")
    for constant in _constants(graph):
        if type(constant) not in (torch.Tensor, nn.Parameter):
            raise NotImplementedError(f"{type(constant).__name__} may compute in a way of its own.")
    if writes := _writes_to_constants(graph):
        raise NotImplementedError(f"{writes} writes to a constant.")
    graph.recompile()
    return graph


def _is_own(target: object) -> bool:
    if isinstance(target, OpOverload):
        return target.namespace in OWN
    return target is operator.getitem


def _constants(graph: torch.fx.GraphModule) -> Iterator[torch.Tensor]:
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            yield operator.attrgetter(node.target)(graph)


def _writes_to_constants(graph: torch.fx.GraphModule) -> str | None:
    """An operation that writes to a constant or to a view of one, if there is any."""
    lenders: set[torch.fx.Node] = set()  # constants, and what may share their memory
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            lenders.add(node)
        elif node.op == "call_function" and any(source in lenders for source in node.all_input_nodes):
            if not isinstance(node.target, OpOverload):
                lenders.add(node)
                continue
            schema = node.target._schema
            values = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
            values |= node.kwargs
            for argument in schema.arguments:
                if argument.alias_info is not None and _is_among(values.get(argument.name), lenders):
                    if argument.alias_info.is_write:
                        return str(node.target)
                    lenders.add(node)
    return None


def _is_among(value: object, nodes: set[torch.fx.Node]) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_among(part, nodes) for part in value)
    return isinstance(value, torch.fx.Node) and value in nodes
