"""What a row looks like, as declared, and how a private row is read against it. What
only a row can show never raises.

The rules, each of which looks at one row alone, so that it keeps neighbouring data sets neighbours:

- a row that cannot be read, or is put together otherwise than declared, is left out; of
  a dict what was declared is taken;
- a word has its place among the declared ones (`Words`), and a row with another is left out;
- a row with a NaN or an infinity in one of its parts is left out;
- floating-point parts are converted to the model's precision, others to whole numbers of
  64 bits; a part of the other kind than declared (1.0 for 1) is converted where it is
  the same number, and else its row is left out;
- where a padded shape is declared, shorter parts are filled up and longer ones cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.nests import Structure, take_apart


@dataclass(frozen=True)
class Padded:
    """An example of the padded shape: parts that are shorter are filled up with `fill`, longer ones are cut.

    `fill` is a number for all parts, or put together like the row: {"input_ids": 0,
    "attention_mask": 0, "labels": -100}.
    """

    row: Any
    fill: Any = 0


@dataclass(frozen=True)
class Words:
    """A part of an example that is one of these words: a row has the place of its word, from 0. A row with
    another word is left out.

    >>> form = RowForm.from_row(([0.5, 2.0], Words("cat", "dog")), torch.float32)
    >>> form.read(([1, 2], "dog"), torch.float32)
    [tensor([1., 2.]), tensor(1)]
    """

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", tuple(checks.choices("words", words)))

    def place(self, value: Any) -> int:
        """The place of a word; of an array's word too. Raises for any other value."""
        return self.words.index(value.item() if hasattr(value, "item") else value)


@dataclass(frozen=True)
class RowForm:
    """How a row is put together, an example's parts, what shorter parts are filled up with, if they are, and
    the words of parts that are words."""

    structure: Structure
    example: tuple[Tensor, ...]
    fill: tuple[float, ...] | None = None
    words: tuple[Words | None, ...] = ()

    @classmethod
    def from_row(cls, row: Any, dtype: torch.dtype) -> RowForm:
        """The form of a public row, floating-point parts as `dtype`."""
        structure, parts = take_apart(row.row if isinstance(row, Padded) else row)
        words = tuple(part if isinstance(part, Words) else None for part in parts)
        if any(isinstance(part, str) for part in parts):
            raise InvalidParameter(
                "Expected Words(…), all words that there may be, for a part of the example that is a word. "
                "Nothing was charged."
            )
        try:
            read = tuple(part_of_row(0 if isinstance(part, Words) else part, dtype) for part in parts)
        except Exception as error:  # the example is public or made up, so it may be quoted
            raise InvalidParameter(
                f"Expected an example of tensors, arrays or numbers, one row without a batch axis: {error}. "
                "Nothing was charged."
            ) from None
        if not all(bool(torch.isfinite(part).all()) for part in read):
            raise InvalidParameter("Expected an example of finite numbers. Nothing was charged.")
        fill = _fill(row.fill, structure, read) if isinstance(row, Padded) else None
        return cls(structure, read, fill, words)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(part.shape) for part in self.example)

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        return tuple(part.dtype for part in self.example)

    def repeat(self, size: int) -> Any:
        """The example, so many times."""
        return self.structure.build([part.expand(size, *part.shape).clone() for part in self.example])

    def read(self, row: Any, dtype: torch.dtype) -> list[Tensor] | None:
        """The parts of a private row in their declared types; None if it is to be left out. Never raises."""
        try:
            structure, parts = take_apart(self._select(row))
            if structure != self.structure:
                return None
            parts = [p if own is None else own.place(p) for p, own in zip(parts, self._words, strict=True)]
            read = [
                convert(part_of_row(p, dtype)[None], kind) for p, kind in zip(parts, self.dtypes, strict=True)
            ]
            if not all(bool(good[0]) for _, good in read):
                return None
            return self._fit([values[0] for values, _ in read])
        except (Exception, SystemExit):  # a row that cannot be read is left out
            return None

    @property
    def _words(self) -> tuple[Words | None, ...]:
        return self.words or (None,) * len(self.example)

    def _select(self, row: Any) -> Any:
        """A row that is a dict may have more than was declared."""
        if self.structure.keys is None or not isinstance(row, Mapping):
            return row
        return {key: row[key] for key in self.structure.keys}

    def _fit(self, parts: list[Tensor]) -> list[Tensor]:
        if self.fill is None:
            return parts
        each = zip(parts, self.shapes, self.fill, strict=True)
        return [_fill_part(part, shape, fill) for part, shape, fill in each]


def _fill(fill: Any, structure: Structure, parts: tuple[Tensor, ...]) -> tuple[float, ...]:
    own, values = take_apart(fill)
    if own.inner is None:
        values = values * len(parts)
    elif own != structure:
        raise InvalidParameter(
            f"Expected fill={fill!r} to be a number, or put together like the row. Nothing was charged."
        )
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise InvalidParameter(f"Expected finite numbers in fill={fill!r}. Nothing was charged.")
    fills = [value for value, part in zip(values, parts, strict=True) if not part.is_floating_point()]
    if any(value != int(value) for value in fills):
        raise InvalidParameter(
            f"Expected whole numbers in fill={fill!r} where the example has whole numbers. Nothing was "
            "charged."
        )
    return tuple(values)


def _fill_part(part: Tensor, shape: Sequence[int], fill: float) -> Tensor:
    """A part in the declared shape; one with other axes stays as it is."""
    if part.ndim != len(shape) or tuple(part.shape) == tuple(shape):
        return part
    cut = part[tuple(slice(size) for size in shape)]
    lacking = [size - have for size, have in zip(shape, cut.shape, strict=True)]
    return F.pad(cut, [n for more in reversed(lacking) for n in (0, more)], value=fill)


def part_of_row(value: Any, dtype: torch.dtype) -> Tensor:
    """One part of a row as a plain tensor on the CPU, so that nothing later can fail on what kind it is."""
    read = torch.as_tensor(value).detach()
    if read.is_quantized:
        read = read.dequantize()
    dense = read if read.layout is torch.strided else read.to_dense()
    return numbers(dense.as_subclass(Tensor).cpu(), dtype).clone()


def numbers(values: Tensor, dtype: torch.dtype) -> Tensor:
    """In the precision that the model has; complex numbers lose their imaginary part, as `Tensor.to` has
    it."""
    if values.is_complex():
        values = values.real
    return values.detach().to(dtype if values.is_floating_point() else torch.int64)


def convert(values: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows of numbers in their declared type, and which rows are finite and are the same numbers in it."""
    good = (
        _true_rows(torch.isfinite(values))
        if values.is_floating_point()
        else torch.ones(len(values), dtype=torch.bool)
    )
    if values.dtype is kind:
        return values, good
    conversion = torch.where(good.reshape(-1, *[1] * (values.ndim - 1)), values, 0).to(kind)
    return conversion, good & _true_rows(conversion.to(values.dtype) == values)


def _true_rows(values: Tensor) -> Tensor:
    """Whether all of a row's entries are true."""
    return values.reshape(len(values), math.prod(values.shape[1:])).all(dim=1)
