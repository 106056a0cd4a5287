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
from deniable.learn.nests import take_apart, tensors

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


def made_batch(task: Task, sample: Batch, size: int, seed: int) -> tuple[Batch, Draw]:
    """So many examples of the shapes and types of `sample`, and how they were drawn: the
    first way that the model takes.

    A word is any that every table has, a class any that the last layer tells apart, or 0 or 1. One output
    only: every class but 0 is out of range.
    Where words are no words, or lengths may not be 0, an example's own values are known to be right.
    """
    last: Exception | None = None
    attributes = Attributes.snapshot(task.model)
    for draw in _draws(task, sample):
        batch = draw_batch(task, sample, size, seed, draw)
        try:
            task.losses(batch)
        except DeniableError:
            raise
        except Exception as error:  # generated rows, so no private row steers it
            last = error
            attributes.restore()  # what it left behind would bear on the next rows
        else:
            return batch, draw
    shapes = " and ".join(str((size * sample.multiplicity, *part.shape[1:])) for part in tensors(sample.rows))
    raise InvalidParameter(
        f"The model or the criterion fails on generated rows of the shapes {shapes}: {last}. Nothing was "
        "trained. Check the shapes, types and the batch axis, which must come first; where whole numbers "
        "have a meaning (lengths, positions), give an example whose numbers are right."
    ) from last


def _draws(task: Task, sample: Batch) -> Iterator[Draw]:
    tables = [m.num_embeddings for m in task.model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    words = min(tables, default=2)
    if (classes := _last_width(task.model)) > 2:
        yield Draw(words, classes)
    yield Draw(words, 2)
    yield Draw(words, 1)
    if words > 2:
        yield Draw(2, 2)
        yield Draw(2, 1)
    if sample.public:
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


def draw_batch(
    task: Task, sample: Batch, size: int, seed: int, draw: Draw, deviation: float | None = None
) -> Batch:
    """Inputs in [0, 1], or normal ones of the deviation `deviation`; targets in [0, 1]."""
    random = torch.Generator().manual_seed(seed)
    structure, parts = take_apart(sample.rows)
    targets = task.objective.targets(structure, len(parts))

    def make_part(place: int, part: Tensor) -> Tensor:
        shape = (size * sample.multiplicity, *part.shape[1:])
        if not part.is_floating_point():
            most = draw.classes if place in targets else draw.words
            return _draw_integers(part, shape, most, draw, random).to(part.device, part.dtype)
        spread = None if place in targets else deviation
        if spread is None:
            return torch.rand(shape, generator=random, dtype=part.dtype).to(part.device)
        largest = torch.finfo(part.dtype).max
        numbers = torch.randn(shape, generator=random, dtype=part.dtype).mul_(spread)
        return numbers.nan_to_num_(0.0).clamp_(-largest, largest).to(part.device)

    rows = structure.build([make_part(place, part) for place, part in enumerate(parts)])
    return replace(sample, rows=rows, weights=None)


def _draw_integers(
    part: Tensor, shape: tuple[int, ...], limit: int, draw: Draw, random: torch.Generator
) -> Tensor:
    if not (draw.of_example and part.numel()):
        return torch.randint(0, limit, shape, generator=random)
    values = torch.tensor(sorted(set(part.flatten().cpu().tolist())))
    return values[torch.randint(0, len(values), shape, generator=random)]


def odd_rows(task: Task, base: Batch, draw: Draw) -> Iterator[Batch]:
    """Batches like `base` in which one part of all rows has a value that data may have and drawn numbers have
    not: 0, 1, a mark for what is left out (-100), numbers far from all others; the same value in all rows;
    and several of these in turn. A word that no table has raises, and then says nothing."""
    structure, parts = take_apart(base.rows)
    targets = task.objective.targets(structure, len(parts))
    for place, part in enumerate(parts):
        classes = draw.classes if place in targets else draw.words
        for odd in _odd_parts(base, part, classes):
            yield base.with_rows(structure.build([*parts[:place], odd, *parts[place + 1 :]]))
    yield base.with_rows(structure.build([_repeat_first(base, part) for part in parts]))


def _odd_parts(base: Batch, part: Tensor, classes: int) -> Iterator[Tensor]:
    values = _odd_values(part.dtype, classes)
    yield from (torch.full_like(part, value) for value in values)
    in_turn = torch.tensor(values).to(part.dtype)[torch.arange(len(part)) % len(values)]
    yield in_turn.view(-1, *[1] * (part.dim() - 1)).expand(part.shape).clone().to(part.device)
    yield _repeat_first(base, part)


def _odd_values(kind: torch.dtype, classes: int) -> tuple[float, ...]:
    if kind is torch.bool:
        return (0, 1)
    if kind.is_floating_point:
        return (0, 1, FAR, -FAR) if kind is not torch.float16 else (0, 1)
    is_signed = torch.iinfo(kind).min < 0
    return (0, 1, classes - 1, *((-1, LEFT_OUT) if is_signed else ()))


def _repeat_first(base: Batch, part: Tensor) -> Tensor:
    """The first example in place of all."""
    first = base.split(part)[:1]
    return first.expand(base.examples, *first.shape[1:]).flatten(0, 1).clone()


def with_targets_of(task: Task, base: Batch, company: Batch) -> Batch:
    """The rows of `company` with the targets of `base`."""
    structure, parts = take_apart(base.rows)
    targets = task.objective.targets(structure, len(parts))
    pairs = enumerate(zip(parts, take_apart(company.rows)[1], strict=True))
    return company.with_rows(
        structure.build([here if place in targets else there for place, (here, there) in pairs])
    )


def exchange(base: Batch, company: Batch, picks: list[int]) -> Batch:
    """The rows of `company`, but for the examples `picks`, which are those of `base`."""

    def mix(value: Tensor, guest: Tensor) -> Tensor:
        result = guest.clone()
        for i in picks:
            base.split(result)[i] = base.split(value)[i]
        return result

    structure, parts = take_apart(base.rows)
    pairs = zip(parts, take_apart(company.rows)[1], strict=True)
    return base.with_rows(structure.build([mix(here, there) for here, there in pairs]))
