"""Made-up rows of a declared form, on which a model is tried before it sees any data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from deniable.errors import DeniableError, InvalidParameter
from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.passes import Task
from deniable.learn.nests import taken_apart, tensors

WIDE = (math.inf, 1e4, 30.0, 1.0)
"""The spread about 0 of the numbers that other rows of a batch are replaced by; inf stands for the widest
that are still finite. With these, gradients overflow: code that looks whether all of a batch is finite lets
one row decide for all."""

FAR = 1e6
"""A target, or an input, that is far from all others."""
LEFT_OUT = -100
"""The class that stands for none (`ignore_index`)."""


@dataclass(frozen=True)
class Draw:
    """Whole numbers are drawn below `words` in inputs and below `classes` in targets, or
    from the example's own values."""

    words: int
    classes: int
    of_example: bool = False


def made_batch(task: Task, like: Batch, size: int, seed: int) -> tuple[Batch, Draw]:
    """So many examples of the shapes and types of `like`, and how they were drawn: the
    first way that the model takes.

    A word is any that every table has, a class any that the last layer tells apart, or 0 or 1. One output
    only: every class but 0 is out of range.
    Where words are no words, or lengths may not be 0, an example's own values are known to be right.
    """
    last: Exception | None = None
    attributes = Attributes.of(task.model)
    for draw in _draws(task, like):
        batch = drawn(task, like, size, seed, draw)
        try:
            task.losses(batch)
        except DeniableError:
            raise
        except Exception as error:  # generated rows, so no private row steers it
            last = error
            attributes.restore()  # what it left behind would bear on the next rows
        else:
            return batch, draw
    shapes = " and ".join(str((size * like.multiplicity, *part.shape[1:])) for part in tensors(like.rows))
    raise InvalidParameter(
        f"The model or the criterion fails on generated rows of the shapes {shapes}: {last}. Nothing was "
        "trained. Check the shapes, types and the batch axis, which must come first; where whole numbers "
        "have a meaning (lengths, positions), give an example whose numbers are right."
    ) from last


def _draws(task: Task, like: Batch) -> Iterator[Draw]:
    tables = [m.num_embeddings for m in task.model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    words = min(tables, default=2)
    if (classes := _last_width(task.model)) > 2:
        yield Draw(words, classes)
    yield Draw(words, 2)
    yield Draw(words, 1)
    if words > 2:
        yield Draw(2, 2)
        yield Draw(2, 1)
    if like.public:
        yield Draw(2, 2, of_example=True)


def _last_width(model: nn.Module) -> int:
    """How many numbers the last layer gives: as many classes, where there are classes."""
    width = 0
    for module in model.modules():
        if isinstance(module, nn.Linear):
            width = module.out_features
        elif isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            width = module.out_channels
    return width


def drawn(task: Task, like: Batch, size: int, seed: int, draw: Draw, wide: float | None = None) -> Batch:
    """Inputs in [0, 1], or normal ones of the deviation `wide`; targets in [0, 1]."""
    random = torch.Generator().manual_seed(seed)
    structure, parts = taken_apart(like.rows)
    targets = task.objective.targets(structure, len(parts))

    def made(place: int, part: Tensor) -> Tensor:
        shape = (size * like.multiplicity, *part.shape[1:])
        if not part.is_floating_point():
            most = draw.classes if place in targets else draw.words
            return _whole(part, shape, most, draw, random).to(part.device, part.dtype)
        spread = None if place in targets else wide
        if spread is None:
            return torch.rand(shape, generator=random, dtype=part.dtype).to(part.device)
        largest = torch.finfo(part.dtype).max
        numbers = torch.randn(shape, generator=random, dtype=part.dtype).mul_(spread)
        return numbers.nan_to_num_(0.0).clamp_(-largest, largest).to(part.device)

    rows = structure.built([made(place, part) for place, part in enumerate(parts)])
    return replace(like, rows=rows, weights=None)


def _whole(part: Tensor, shape: tuple[int, ...], most: int, draw: Draw, random: torch.Generator) -> Tensor:
    if not (draw.of_example and part.numel()):
        return torch.randint(0, most, shape, generator=random)
    values = torch.tensor(sorted(set(part.flatten().cpu().tolist())))
    return values[torch.randint(0, len(values), shape, generator=random)]


def odd_rows(task: Task, own: Batch, draw: Draw) -> Iterator[Batch]:
    """Batches like `own` in which one part of all rows has a value that data may have and drawn numbers have
    not: 0, 1, a mark for what is left out (-100), numbers far from all others; the same value in all rows;
    and several of these in turn. A word that no table has raises, and then says nothing."""
    structure, parts = taken_apart(own.rows)
    targets = task.objective.targets(structure, len(parts))
    for place, part in enumerate(parts):
        classes = draw.classes if place in targets else draw.words
        for odd in _odd_parts(own, part, classes):
            yield own.with_rows(structure.built([*parts[:place], odd, *parts[place + 1 :]]))
    yield own.with_rows(structure.built([_repeated(own, part) for part in parts]))


def _odd_parts(own: Batch, part: Tensor, classes: int) -> Iterator[Tensor]:
    values = _odd_values(part.dtype, classes)
    yield from (torch.full_like(part, value) for value in values)
    in_turn = torch.tensor(values).to(part.dtype)[torch.arange(len(part)) % len(values)]
    yield in_turn.view(-1, *[1] * (part.dim() - 1)).expand(part.shape).clone().to(part.device)
    yield _repeated(own, part)


def _odd_values(kind: torch.dtype, classes: int) -> tuple[float, ...]:
    if kind is torch.bool:
        return (0, 1)
    if kind.is_floating_point:
        return (0, 1, FAR, -FAR) if kind is not torch.float16 else (0, 1)
    is_signed = torch.iinfo(kind).min < 0
    return (0, 1, classes - 1, *((-1, LEFT_OUT) if is_signed else ()))


def _repeated(own: Batch, part: Tensor) -> Tensor:
    """The first example in place of all."""
    first = own.split(part)[:1]
    return first.expand(own.examples, *first.shape[1:]).flatten(0, 1).clone()


def with_targets_of(task: Task, own: Batch, others: Batch) -> Batch:
    """The rows of `others` with the targets of `own`."""
    structure, parts = taken_apart(own.rows)
    targets = task.objective.targets(structure, len(parts))
    pairs = enumerate(zip(parts, taken_apart(others.rows)[1], strict=True))
    return others.with_rows(
        structure.built([here if place in targets else there for place, (here, there) in pairs])
    )


def exchanged(own: Batch, others: Batch, picks: list[int]) -> Batch:
    """The rows of `others`, but for the examples `picks`, which are those of `own`."""

    def mixed(here: Tensor, there: Tensor) -> Tensor:
        result = there.clone()
        for i in picks:
            own.split(result)[i] = own.split(here)[i]
        return result

    structure, parts = taken_apart(own.rows)
    pairs = zip(parts, taken_apart(others.rows)[1], strict=True)
    return own.with_rows(structure.built([mixed(here, there) for here, there in pairs]))
